// The parts of the server that know the files which objects are exported to.
//
// Open files have no name that we could know one by, so a file that something is exported to gets a
// mark: an RM client of ours, which only calls made on that very file can use and which lives as
// long as the file.
#include <algorithm>
#include <iterator>
#include <set>

#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"
#include "rm/nv_status.h"
#include "shim/server.h"

namespace cgpu::shim {

// 0: the file has none of ours.
std::uint32_t Server::FindMark(int file) {
  std::set<std::uint32_t> marks;
  {
    const std::lock_guard lock(state_mutex_);
    marks = exports_;
  }
  // No tenant makes a client with a mark's handle (Boundary::DecideClient), so one at most.
  std::erase_if(marks, [&](std::uint32_t mark) { return !Driver::HasMark(file, mark); });
  return marks.size() == 1 ? *marks.begin() : 0;
}

// Before an export the file is marked; for an import and for a question about what was exported
// its mark is looked for. False: the driver has no room for a mark.
bool Server::MarkTransfer(Pending& pending) {
  boundary::Call& call = pending.call;
  if (!pending.argument.valid() || call.fd->file->kind != boundary::FileKind::kControl) {
    return true;
  }
  const int file = pending.argument.get();
  switch (call.command) {
    case rm::NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECT_TO_FD: {
      {
        const std::lock_guard lock(state_mutex_);
        if (exports_.size() >= kMaxExports) {
          return true;  // without a mark it is refused
        }
      }
      const auto mark = Driver::MarkFile(file);
      if (mark.ok()) {
        call.fd->mark = *mark;
      }
      return mark.ok();
    }
    case rm::NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECTS_TO_FD:
      return MarkTable(pending);
    case rm::NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECT_FROM_FD:
    case rm::NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECTS_FROM_FD:
    case rm::NV0000_CTRL_CMD_OS_UNIX_GET_EXPORT_OBJECT_INFO:
      call.fd->mark = FindMark(file);
      return true;
    default:
      return true;
  }
}

// A table of several objects is filled by several calls, of whoever has the file. Ours is one that
// we have set up, which works once and for nobody after us: so no other container's objects are
// ever in it, and none of its own get there unseen.
bool Server::MarkTable(Pending& pending) {
  using Params = rm::NV0000_CTRL_OS_UNIX_EXPORT_OBJECTS_TO_FD_PARAMS;
  boundary::Call& call = pending.call;
  const int file = pending.argument.get();
  const std::lock_guard table_lock(table_mutex_);
  call.fd->mark = FindMark(file);
  if (call.fd->mark != 0 || call.nested.empty() || call.nested[0].bytes.size() != sizeof(Params)) {
    return true;
  }
  {
    const std::lock_guard lock(state_mutex_);
    if (exports_.size() >= kMaxExports || !ledger_.Owns(call.client)) {
      return true;
    }
  }
  const auto mark = Driver::MarkFile(file);
  if (!mark.ok()) {
    return false;
  }
  const auto request = boundary::Load<Params>(call.nested[0].bytes);
  rm::NV0000_CTRL_OS_UNIX_CREATE_EXPORT_OBJECT_FD_PARAMS table{};
  table.hDevice = request.hDevice;
  table.maxObjects = request.maxObjects;
  std::copy(std::begin(request.metadata), std::end(request.metadata), std::begin(table.metadata));
  table.fd = file;
  if (!Driver::SetUpTable(pending.file.get(), call.client, table)) {
    Driver::Free(file, *mark, *mark);
    return true;
  }
  call.fd->mark = *mark;
  const std::lock_guard lock(state_mutex_);
  exports_.insert(*mark);
  return true;
}

void Server::SettleMark(const Pending& pending, bool exported) {
  if (pending.call.command != rm::NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECT_TO_FD || !pending.call.fd ||
      pending.call.fd->mark == 0) {
    return;
  }
  const auto mark = static_cast<std::uint32_t>(pending.call.fd->mark);
  if (!exported) {
    Driver::Free(pending.argument.get(), mark, mark);
    return;
  }
  const std::lock_guard lock(state_mutex_);
  exports_.insert(mark);
}

}  // namespace cgpu::shim
