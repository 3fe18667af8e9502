// The part of the server that knows the files which objects are exported to.
//
// Open files have no name that we could know one by. So a file that something is exported to gets a
// tag: an RM client of ours, which only calls made on that very file can use and which lives as
// long as the file.
#include <algorithm>
#include <iterator>
#include <set>

#include "rm/nv_ctrl.h"
#include "shim/server.h"

namespace cgpu::shim {

// Returns 0 if the file has no tag of ours.
std::uint32_t Server::FindTag(int file) {
  std::set<std::uint32_t> marks;
  {
    const MutexLock lock(state_mutex_);
    marks = exports_;
  }
  // No tenant makes a client with a tag's handle (boundary/calls/alloc.cc, DecideClient()), so at
  // most one is left.
  std::erase_if(marks, [&](std::uint32_t mark) { return !driver_->HasMark(file, mark); });
  return marks.size() == 1 ? *marks.begin() : 0;
}

// Tags the file before an export. For an import, and for a question about an export, finds its tag.
// Returns false if the driver has no room for a tag.
bool Server::TagTransfer(Pending& pending) {
  boundary::Call& call = pending.call;
  if (!pending.argument.valid() || call.fd->file->kind != boundary::FileKind::kControl) {
    return true;
  }
  const int file = pending.argument.get();
  switch (call.fd->tag) {
    case boundary::FileTag::kNew: {
      {
        const MutexLock lock(state_mutex_);
        if (exports_.size() >= kMaxExports) {
          return true;  // without a tag the boundary refuses it
        }
      }
      const auto tag = driver_->MarkFile(file);
      if (tag.ok()) {
        call.fd->mark = *tag;
      }
      return tag.ok();
    }
    case boundary::FileTag::kTable:
      return TagTable(pending);
    case boundary::FileTag::kFind:
      call.fd->mark = FindTag(file);
      return true;
    case boundary::FileTag::kNone:
      return true;
  }
  return true;
}

// Sets up a table of several objects. Several calls fill a table, of any process that has the file.
// The shim's own is one that it has set up, which works once and for nobody afterwards. So no other
// container's objects are ever in it, and none of this container's get there unseen.
bool Server::TagTable(Pending& pending) {
  using Params = rm::NV0000_CTRL_OS_UNIX_EXPORT_OBJECTS_TO_FD_PARAMS;
  boundary::Call& call = pending.call;
  const int file = pending.argument.get();
  const MutexLock table_lock(table_mutex_);
  call.fd->mark = FindTag(file);
  if (call.fd->mark != 0 || call.nested.empty() || call.nested[0].bytes.size() != sizeof(Params)) {
    return true;
  }
  {
    const MutexLock lock(state_mutex_);
    if (exports_.size() >= kMaxExports || !ledger_.Owns(call.client)) {
      return true;
    }
  }
  const auto mark = driver_->MarkFile(file);
  if (!mark.ok()) {
    return false;
  }
  const auto request = boundary::Load<Params>(call.nested[0].bytes);
  rm::NV0000_CTRL_OS_UNIX_CREATE_EXPORT_OBJECT_FD_PARAMS table{};
  table.hDevice = request.hDevice;
  table.maxObjects = request.maxObjects;
  std::copy(std::begin(request.metadata), std::end(request.metadata), std::begin(table.metadata));
  table.fd = file;
  if (!driver_->SetUpTable(pending.file.get(), call.client, table)) {
    driver_->Free(file, *mark, *mark);
    return true;
  }
  call.fd->mark = *mark;
  const MutexLock lock(state_mutex_);
  exports_.insert(*mark);
  return true;
}

void Server::SettleTag(const Pending& pending, bool exported) {
  if (!pending.call.fd || pending.call.fd->tag != boundary::FileTag::kNew ||
      pending.call.fd->mark == 0) {
    return;
  }
  const auto mark = static_cast<std::uint32_t>(pending.call.fd->mark);
  if (!exported) {
    driver_->Free(pending.argument.get(), mark, mark);
    return;
  }
  const MutexLock lock(state_mutex_);
  exports_.insert(mark);
}

}  // namespace cgpu::shim
