#include "shim/export_tags.h"

#include <algorithm>
#include <iterator>

#include "rm/nv_ctrl.h"

namespace cgpu::shim {

std::set<std::uint32_t> ExportTags::All() {
  const MutexLock lock(accounting_.mutex);
  return tags_;
}

bool ExportTags::Empty() {
  const MutexLock lock(accounting_.mutex);
  return tags_.empty();
}

bool ExportTags::Full() {
  const MutexLock lock(accounting_.mutex);
  return tags_.size() >= kMax;
}

void ExportTags::Add(std::uint32_t tag) {
  const MutexLock lock(accounting_.mutex);
  tags_.insert(tag);
}

// Returns 0 if the file has no tag of ours.
std::uint32_t ExportTags::Find(int file) {
  std::set<std::uint32_t> tags = All();
  // No tenant makes a client with a tag's handle (boundary/calls/alloc.cc, DecideClient()), so at
  // most one is left.
  std::erase_if(tags, [&](std::uint32_t tag) { return !driver_->HasTag(file, tag); });
  return tags.size() == 1 ? *tags.begin() : 0;
}

bool ExportTags::Prepare(Pending& pending) {
  boundary::Call& call = pending.call;
  if (!pending.argument.valid() || call.fd->file->kind != boundary::FileKind::kControl) {
    return true;
  }
  switch (call.fd->tag_step) {
    case boundary::TagStep::kNew:
      return PrepareNew(pending);
    case boundary::TagStep::kTable:
      return PrepareTable(pending);
    case boundary::TagStep::kFind:
      call.fd->tag = Find(pending.argument.get());
      return true;
    case boundary::TagStep::kNone:
      return true;
  }
  return true;
}

bool ExportTags::PrepareNew(Pending& pending) {
  if (Full()) {
    return true;
  }
  const auto tag = driver_->TagFile(pending.argument.get());
  if (tag.ok()) {
    pending.call.fd->tag = *tag;
  }
  return tag.ok();
}

// Sets up a table of several objects. Several calls fill a table, of any process that has the file.
// The shim's own is one that it has set up, which works once and for nobody afterwards. So no other
// container's objects are ever in it, and none of this container's get there unseen.
bool ExportTags::PrepareTable(Pending& pending) {
  using Params = rm::NV0000_CTRL_OS_UNIX_EXPORT_OBJECTS_TO_FD_PARAMS;
  boundary::Call& call = pending.call;
  const int file = pending.argument.get();
  const MutexLock table_lock(table_mutex_);
  call.fd->tag = Find(file);
  if (call.fd->tag != 0 || call.nested.empty() || call.nested[0].bytes.size() != sizeof(Params)) {
    return true;
  }
  {
    const MutexLock lock(accounting_.mutex);
    if (tags_.size() >= kMax || !accounting_.ledger.Owns(call.client)) {
      return true;
    }
  }
  const auto tag = driver_->TagFile(file);
  if (!tag.ok()) {
    return false;
  }
  const auto request = boundary::Load<Params>(call.nested[0].bytes);
  rm::NV0000_CTRL_OS_UNIX_CREATE_EXPORT_OBJECT_FD_PARAMS table{};
  table.hDevice = request.hDevice;
  table.maxObjects = request.maxObjects;
  std::ranges::copy(request.metadata, std::begin(table.metadata));
  table.fd = file;
  if (!driver_->SetUpTable(pending.file.get(), call.client, table)) {
    driver_->Free(file, *tag, *tag);
    return true;
  }
  call.fd->tag = *tag;
  Add(*tag);
  return true;
}

void ExportTags::Settle(const Pending& pending, bool exported) {
  if (!pending.call.fd || pending.call.fd->tag_step != boundary::TagStep::kNew ||
      pending.call.fd->tag == 0) {
    return;
  }
  const auto tag = static_cast<std::uint32_t>(pending.call.fd->tag);
  if (!exported) {
    driver_->Free(pending.argument.get(), tag, tag);
    return;
  }
  Add(tag);
}

// Exported objects live until their file's last close. With the file, the driver frees first what
// was exported to it and then the clients on it, our tag among them
// (src/nvidia/arch/nvalloc/unix/src/osapi.c, rm_cleanup_file_private).
bool ExportTags::Reconcile(bool at_leisure) {
  std::set<std::uint32_t> gone = All();
  std::erase_if(gone, [&](std::uint32_t tag) {
    return hurry_.CutsShort(at_leisure) || driver_->ClientExists(tag);
  });
  const MutexLock lock(accounting_.mutex);
  for (const std::uint32_t tag : gone) {
    if (tags_.erase(tag) != 0) {
      accounting_.ledger.CloseFile(tag);
    }
  }
  return !gone.empty();
}

void ExportTags::Save(ServerState& state) {
  state.exports = All();
}

void ExportTags::Load(const ServerState& state) {
  const MutexLock lock(accounting_.mutex);
  tags_ = state.exports;
}

}  // namespace cgpu::shim
