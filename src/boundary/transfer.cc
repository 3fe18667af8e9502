// Exports objects to a file, and imports them from one.
#include <algorithm>
#include <optional>
#include <utility>

#include "boundary/boundary.h"
#include "boundary/names.h"
#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"
#include "rm/nv_status.h"
#include "rm/nv_structs.h"

namespace cgpu::boundary {
namespace {

using ExportParams = rm::NV0000_CTRL_OS_UNIX_EXPORT_OBJECTS_TO_FD_PARAMS;
using ImportParams = rm::NV0000_CTRL_OS_UNIX_IMPORT_OBJECTS_FROM_FD_PARAMS;

constexpr const char* kUnknown = "export or import the ledger does not know";

}  // namespace

Decision Boundary::DecideTransfer(Call& call, Decision decision, const ControlRule& rule) {
  const bool exports =
      rule.effect == ControlEffect::kExport || rule.effect == ControlEffect::kExportMany;
  if (!call.fd || !call.fd->file || call.fd->file->kind != FileKind::kControl ||
      (exports && call.fd->mark == 0)) {
    return Answer(call, rm::NV_ERR_INVALID_PARAMETER, "export or import through a foreign file");
  }
  if (rule.effect == ControlEffect::kExportMany) {
    return DecideExportMany(call, std::move(decision));
  }
  if (rule.effect == ControlEffect::kImportMany) {
    return DecideImportMany(call, std::move(decision));
  }
  const Bytes& params = call.nested[0].bytes;
  const ledger::FileKey file = call.fd->mark;
  Result<ledger::Reservation> reservation = ledger::Reservation();
  if (exports) {
    const auto request = Load<rm::NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TO_FD_PARAMS>(params);
    const auto object = ledger_.Find(decision.client, request.object.data.rmObject.hObject);
    if (request.object.type != rm::NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TYPE_RM ||
        (request.flags & rm::NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TO_FD_FLAGS_EMPTY_FD) != 0) {
      return Answer(call, rm::NV_ERR_INVALID_PARAMETER, "export of no object");
    }
    if (!object) {
      return Answer(call, rm::NV_ERR_OBJECT_NOT_FOUND, "export of an unknown object");
    }
    reservation = ledger_.ReserveExport(decision.client, object->ref);
  } else if (rule.effect == ControlEffect::kImport) {
    const auto request = Load<rm::NV0000_CTRL_OS_UNIX_IMPORT_OBJECT_FROM_FD_PARAMS>(params);
    const auto parent = ledger_.Find(decision.client, request.object.data.rmObject.hParent);
    reservation = ledger_.ReserveImport(file);
    if (reservation.ok() && !parent) {
      ledger_.Cancel(*reservation);
      return Answer(call, rm::NV_ERR_OBJECT_NOT_FOUND, "import below an unknown object");
    }
    decision.object = parent ? parent->ref : ledger::ObjectRef();
  } else if (file != 0) {
    return decision;
  } else {
    return Answer(call, rm::NV_ERR_INVALID_PARAMETER, "a question about a foreign export");
  }
  if (!reservation.ok()) {
    return Answer(call, rm::NV_ERR_INVALID_PARAMETER, kUnknown);
  }
  decision.reservation = std::move(*reservation);
  return decision;
}

// Decides an export to places of a file. The file's table of objects is the container's own: the
// shim has set it up before, which works once (Server::MarkTransfer()). So a place where the ledger
// has nothing is empty.
Decision Boundary::DecideExportMany(Call& call, Decision decision) {
  const auto request = Load<ExportParams>(call.nested[0].bytes);
  if (request.numObjects > std::size(request.objects)) {
    return Answer(call, rm::NV_ERR_INVALID_PARAMETER, ControlName(call.command) + " (count)");
  }
  for (std::uint32_t i = 0; i < request.numObjects; ++i) {
    Transfer transfer;
    transfer.place = request.index + i;
    if (request.objects[i] != 0) {
      const auto object = ledger_.Find(decision.client, request.objects[i]);
      if (!object) {
        return Answer(call, rm::NV_ERR_OBJECT_NOT_FOUND, "export of an unknown object");
      }
      auto reservation = ledger_.ReserveExport(decision.client, object->ref);
      if (!reservation.ok()) {
        return Answer(call, rm::NV_ERR_INSUFFICIENT_RESOURCES, kUnknown);
      }
      transfer.reservation = std::move(*reservation);
    }
    decision.transfers.push_back(std::move(transfer));
  }
  return decision;
}

// Decides an import from places of a file. When it fails on the way, the driver frees all handles
// named for the places before, also those of empty ones (os.c
// cliresCtrlCmdOsUnixImportObjectsFromFd()): so the driver is not given those.
Decision Boundary::DecideImportMany(Call& call, Decision decision) {
  auto request = Load<ImportParams>(call.nested[0].bytes);
  if (call.fd->mark == 0) {
    return Answer(call, rm::NV_ERR_INVALID_PARAMETER, kUnknown);
  }
  if (request.numObjects > std::size(request.objects)) {
    return Answer(call, rm::NV_ERR_INVALID_PARAMETER, ControlName(call.command) + " (count)");
  }
  const auto parent = ledger_.Find(decision.client, request.hParent);
  if (!parent) {
    return Answer(call, rm::NV_ERR_OBJECT_NOT_FOUND, "import below an unknown object");
  }
  decision.object = parent->ref;
  for (std::uint32_t i = 0; i < request.numObjects; ++i) {
    Transfer transfer;
    transfer.place = i;
    auto reservation = ledger_.ReserveImport(call.fd->mark, request.index + i);
    if (reservation.ok()) {
      transfer.reservation = std::move(*reservation);
    } else if (reservation.error().code == Code::kNotFound) {
      transfer.empty_handle = std::exchange(request.objects[i], 0);
    } else {
      return Answer(call, rm::NV_ERR_INSUFFICIENT_RESOURCES, kUnknown);
    }
    decision.transfers.push_back(std::move(transfer));
  }
  Store(call.nested[0].bytes, request);
  return decision;
}

void Boundary::RestoreEmptyImports(Call& call, const Decision& decision) {
  if (call.command != rm::NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECTS_FROM_FD) {
    return;
  }
  for (const Transfer& transfer : decision.transfers) {
    if (transfer.empty_handle != 0) {
      Store(call.nested[0].bytes, transfer.empty_handle,
            offsetof(ImportParams, objects) + transfer.place * sizeof(std::uint32_t));
    }
  }
}

std::optional<Undo> Boundary::AccountTransfer(Call& call, Decision& decision,
                                              ControlEffect effect) {
  switch (effect) {
    case ControlEffect::kExport:
      // Fails only if the source is gone, and then the export is gone too.
      if (!ledger_.Export(decision.reservation, call.fd->mark).ok()) {
        ledger_.Cancel(decision.reservation);
      }
      return std::nullopt;
    case ControlEffect::kImport: {
      const auto request =
          Load<rm::NV0000_CTRL_OS_UNIX_IMPORT_OBJECT_FROM_FD_PARAMS>(call.nested[0].bytes);
      return AccountCopy(decision, decision.reservation, request.object.data.rmObject.hObject);
    }
    case ControlEffect::kExportMany:
      for (Transfer& transfer : decision.transfers) {
        if (transfer.reservation.empty()) {
          ledger_.Unexport(call.fd->mark, transfer.place);
        } else if (!ledger_.Export(transfer.reservation, call.fd->mark, transfer.place).ok()) {
          ledger_.Cancel(transfer.reservation);
        }
      }
      return std::nullopt;
    default: {
      const auto made = Load<ImportParams>(call.nested[0].bytes);
      std::optional<Undo> undo;
      for (Transfer& transfer : decision.transfers) {
        if (!transfer.reservation.empty()) {
          // Fails only if the parent is gone, and then the import is gone too.
          const auto failed =
              AccountCopy(decision, transfer.reservation, made.objects[transfer.place]);
          undo = failed ? failed : undo;
        }
      }
      RestoreEmptyImports(call, decision);
      return undo;
    }
  }
}

}  // namespace cgpu::boundary
