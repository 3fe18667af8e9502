#define FUSE_USE_VERSION 314
#include "sim/fuse/pollers.h"

#include <fuse_lowlevel.h>

namespace cgpu::sim {

Pollers::~Pollers() {
  const MutexLock lock(mutex_);
  for (const auto& [file, handle] : handles_) {
    fuse_pollhandle_destroy(handle);
  }
}

void Pollers::Keep(FileId file, fuse_pollhandle* handle) {
  if (handle == nullptr) {
    return;
  }
  const MutexLock lock(mutex_);
  fuse_pollhandle*& kept = handles_[file];
  if (kept != nullptr) {
    fuse_pollhandle_destroy(kept);
  }
  kept = handle;
}

void Pollers::Forget(FileId file) {
  const MutexLock lock(mutex_);
  if (const auto found = handles_.find(file); found != handles_.end()) {
    fuse_pollhandle_destroy(found->second);
    handles_.erase(found);
  }
}

void Pollers::Wake(const std::set<FileId>& files) {
  const MutexLock lock(mutex_);
  for (const FileId file : files) {
    if (const auto found = handles_.find(file); found != handles_.end()) {
      (void)fuse_lowlevel_notify_poll(found->second);
    }
  }
}

void Pollers::WakeAll() {
  const MutexLock lock(mutex_);
  for (const auto& [file, handle] : handles_) {
    (void)fuse_lowlevel_notify_poll(handle);
  }
}

}  // namespace cgpu::sim
