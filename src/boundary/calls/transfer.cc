// Controls that export objects to a file, and import them from one.
#include <cstddef>
#include <iterator>
#include <optional>
#include <utility>

#include "boundary/calls/control_handler.h"
#include "boundary/calls/handler.h"
#include "boundary/names.h"
#include "boundary/objects.h"
#include "boundary/policy.h"
#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"
#include "rm/nv_status.h"

namespace cgpu::boundary {
namespace {

using ExportParams = rm::NV0000_CTRL_OS_UNIX_EXPORT_OBJECTS_TO_FD_PARAMS;
using ImportParams = rm::NV0000_CTRL_OS_UNIX_IMPORT_OBJECTS_FROM_FD_PARAMS;

constexpr const char* kUnknown = "export or import the ledger does not know";

// Decides an export to places of a file. The file's table of objects is the container's own: the
// shim has set it up before, which works once (ExportTags::Prepare()). So a place where the ledger
// has nothing is empty.
Decision DecideExportMany(Container& container, Call& call, Decision decision) {
  const auto request = Load<ExportParams>(call.nested[0].bytes);
  if (request.numObjects > std::size(request.objects)) {
    return container.Answer(call, rm::NV_ERR_INVALID_PARAMETER, Reason::kInvalid,
                            ControlName(call.command) + " (count)");
  }
  for (std::uint32_t i = 0; i < request.numObjects; ++i) {
    Transfer transfer;
    transfer.place = request.index + i;
    if (request.objects[i] != 0) {
      const auto object = container.ledger.Find(decision.client, request.objects[i]);
      if (!object || IsSharedMemory(object->cls)) {
        return container.Answer(call, rm::NV_ERR_OBJECT_NOT_FOUND, Reason::kInvalid,
                                "export of an unknown object");
      }
      auto reservation = container.ledger.ReserveExport(decision.client, object->ref);
      if (!reservation.ok()) {
        return container.Answer(call, rm::NV_ERR_INSUFFICIENT_RESOURCES, Reason::kQuota, kUnknown);
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
Decision DecideImportMany(Container& container, Call& call, Decision decision) {
  auto request = Load<ImportParams>(call.nested[0].bytes);
  if (call.fd->tag == 0) {
    return container.Answer(call, rm::NV_ERR_INVALID_PARAMETER, Reason::kInvalid, kUnknown);
  }
  if (request.numObjects > std::size(request.objects)) {
    return container.Answer(call, rm::NV_ERR_INVALID_PARAMETER, Reason::kInvalid,
                            ControlName(call.command) + " (count)");
  }
  const auto parent = container.ledger.Find(decision.client, request.hParent);
  if (!parent) {
    return container.Answer(call, rm::NV_ERR_OBJECT_NOT_FOUND, Reason::kInvalid,
                            "import below an unknown object");
  }
  decision.object = parent->ref;
  for (std::uint32_t i = 0; i < request.numObjects; ++i) {
    Transfer transfer;
    transfer.place = i;
    auto reservation = container.ledger.ReserveImport(call.fd->tag, request.index + i);
    if (reservation.ok()) {
      transfer.reservation = std::move(*reservation);
    } else if (reservation.error().code == Code::kNotFound) {
      transfer.empty_handle = std::exchange(request.objects[i], 0);
    } else {
      return container.Answer(call, rm::NV_ERR_INSUFFICIENT_RESOURCES, Reason::kQuota, kUnknown);
    }
    decision.transfers.push_back(std::move(transfer));
  }
  Store(call.nested[0].bytes, request);
  return decision;
}

}  // namespace

// Notes the descriptor of the file, and what the shim does with the file's tag.
void DecodeTransfer(Call& call) {
  const auto take = [&](std::size_t at, TagStep step) {
    TakeFdArgument(call, at, /*holder=*/0);
    call.fd->tag_step = step;
  };
  switch (call.command) {
    case rm::NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECT_TO_FD:
      take(offsetof(rm::NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TO_FD_PARAMS, fd), TagStep::kNew);
      break;
    case rm::NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECT_FROM_FD:
      take(offsetof(rm::NV0000_CTRL_OS_UNIX_IMPORT_OBJECT_FROM_FD_PARAMS, fd), TagStep::kFind);
      break;
    case rm::NV0000_CTRL_CMD_OS_UNIX_GET_EXPORT_OBJECT_INFO:
      take(offsetof(rm::NV0000_CTRL_OS_UNIX_GET_EXPORT_OBJECT_INFO_PARAMS_V535, fd),
           TagStep::kFind);
      break;
    case rm::NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECTS_TO_FD:
      take(offsetof(rm::NV0000_CTRL_OS_UNIX_EXPORT_OBJECTS_TO_FD_PARAMS, fd), TagStep::kTable);
      break;
    case rm::NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECTS_FROM_FD:
      take(offsetof(rm::NV0000_CTRL_OS_UNIX_IMPORT_OBJECTS_FROM_FD_PARAMS, fd), TagStep::kFind);
      break;
    default:
      break;
  }
}

Decision DecideTransfer(Container& container, Call& call, Decision decision,
                        const ControlRule& rule) {
  const bool exports =
      rule.effect == ControlEffect::kExport || rule.effect == ControlEffect::kExportMany;
  if (!call.fd || !call.fd->file || call.fd->file->kind != FileKind::kControl ||
      (exports && call.fd->tag == 0)) {
    return container.Answer(call, rm::NV_ERR_INVALID_PARAMETER, Reason::kInvalid,
                            "export or import through a foreign file");
  }
  if (rule.effect == ControlEffect::kExportMany) {
    return DecideExportMany(container, call, std::move(decision));
  }
  if (rule.effect == ControlEffect::kImportMany) {
    return DecideImportMany(container, call, std::move(decision));
  }
  const Bytes& params = call.nested[0].bytes;
  const ledger::FileKey file = call.fd->tag;
  ledger::ReserveResult reservation = ledger::Reservation();
  if (exports) {
    const auto request = Load<rm::NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TO_FD_PARAMS>(params);
    const auto object =
        container.ledger.Find(decision.client, request.object.data.rmObject.hObject);
    if (request.object.type != rm::NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TYPE_RM ||
        (request.flags & rm::NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TO_FD_FLAGS_EMPTY_FD) != 0) {
      return container.Answer(call, rm::NV_ERR_INVALID_PARAMETER, Reason::kInvalid,
                              "export of no object");
    }
    if (!object || IsSharedMemory(object->cls)) {
      return container.Answer(call, rm::NV_ERR_OBJECT_NOT_FOUND, Reason::kInvalid,
                              "export of an unknown object");
    }
    reservation = container.ledger.ReserveExport(decision.client, object->ref);
  } else if (rule.effect == ControlEffect::kImport) {
    const auto request = Load<rm::NV0000_CTRL_OS_UNIX_IMPORT_OBJECT_FROM_FD_PARAMS>(params);
    const auto parent =
        container.ledger.Find(decision.client, request.object.data.rmObject.hParent);
    reservation = container.ledger.ReserveImport(file);
    if (reservation.ok() && !parent) {
      container.ledger.Cancel(*reservation);
      return container.Answer(call, rm::NV_ERR_OBJECT_NOT_FOUND, Reason::kInvalid,
                              "import below an unknown object");
    }
    decision.object = parent ? parent->ref : ledger::ObjectRef();
  } else if (file != 0) {
    return decision;
  } else {
    return container.Answer(call, rm::NV_ERR_INVALID_PARAMETER, Reason::kInvalid,
                            "a question about a foreign export");
  }
  if (!reservation.ok()) {
    return container.Answer(call, rm::NV_ERR_INVALID_PARAMETER, Reason::kInvalid, kUnknown);
  }
  decision.reservation = std::move(*reservation);
  return decision;
}

std::optional<Undo> AccountExport(Container& container, Call& call, Decision& decision) {
  // Fails only if the source is gone, and then the export is gone too.
  if (!container.ledger.Export(decision.reservation, call.fd->tag).ok()) {
    container.ledger.Cancel(decision.reservation);
  }
  return std::nullopt;
}

std::optional<Undo> AccountImport(Container& container, Call& call, Decision& decision) {
  const auto request =
      Load<rm::NV0000_CTRL_OS_UNIX_IMPORT_OBJECT_FROM_FD_PARAMS>(call.nested[0].bytes);
  return AddCopy(container, decision, decision.reservation, request.object.data.rmObject.hObject);
}

std::optional<Undo> AccountExportMany(Container& container, Call& call, Decision& decision) {
  for (Transfer& transfer : decision.transfers) {
    if (transfer.reservation.empty()) {
      container.ledger.Unexport(call.fd->tag, transfer.place);
    } else if (!container.ledger.Export(transfer.reservation, call.fd->tag, transfer.place).ok()) {
      container.ledger.Cancel(transfer.reservation);
    }
  }
  return std::nullopt;
}

// Restores the handles of empty places.
void SettleImportMany(Container& /*container*/, Call& call, const Decision& decision,
                      const Outcome& /*outcome*/) {
  for (const Transfer& transfer : decision.transfers) {
    if (transfer.empty_handle != 0) {
      Store(call.nested[0].bytes, transfer.empty_handle,
            offsetof(ImportParams, objects) + transfer.place * sizeof(std::uint32_t));
    }
  }
}

std::optional<Undo> AccountImportMany(Container& container, Call& call, Decision& decision) {
  const auto made = Load<ImportParams>(call.nested[0].bytes);
  std::optional<Undo> undo;
  for (Transfer& transfer : decision.transfers) {
    if (!transfer.reservation.empty()) {
      // Fails only if the parent is gone, and then the import is gone too.
      const auto failed =
          AddCopy(container, decision, transfer.reservation, made.objects[transfer.place]);
      undo = failed ? failed : undo;
    }
  }
  return undo;
}

}  // namespace cgpu::boundary
