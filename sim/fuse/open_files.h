// The open files of each inode of the mount, so that a descriptor number in a caller's table can be
// turned into the open file it stands for.
#ifndef CGPU_SIM_FUSE_OPEN_FILES_H_
#define CGPU_SIM_FUSE_OPEN_FILES_H_

#include <algorithm>
#include <map>
#include <vector>

#include "base/mutex.h"
#include "sim/fuse/tree.h"
#include "sim/model/object.h"

namespace cgpu::sim {

// Thread-safe.
class OpenFiles {
 public:
  void Add(Ino ino, FileId file) {
    const MutexLock lock(mutex_);
    by_ino_[ino].push_back(file);
  }
  void Remove(Ino ino, FileId file) {
    const MutexLock lock(mutex_);
    const auto found = by_ino_.find(ino);
    if (found == by_ino_.end()) {
      return;
    }
    std::erase(found->second, file);
    if (found->second.empty()) {
      by_ino_.erase(found);
    }
  }
  // Returns 0 when none is open. An inode has more than one open file only when somebody opened
  // /proc/PID/fd/N, which makes no look-up; then it is the newest.
  [[nodiscard]] FileId Find(Ino ino) const {
    const MutexLock lock(mutex_);
    const auto found = by_ino_.find(ino);
    return found == by_ino_.end() ? 0 : found->second.back();
  }
  // Returns whether a file of nvidia-uvm is open. One that is mapped is: it is released when it is
  // mapped no more.
  [[nodiscard]] bool HasUvm() const {
    const MutexLock lock(mutex_);
    return std::any_of(by_ino_.begin(), by_ino_.end(), [](const auto& file) {
      const auto device = DecodeDeviceIno(file.first);
      return device && device->kind == FileKind::kUvm;
    });
  }

 private:
  mutable Mutex mutex_;
  std::map<Ino, std::vector<FileId>> by_ino_ CGPU_GUARDED_BY(mutex_);
};

}  // namespace cgpu::sim

#endif  // CGPU_SIM_FUSE_OPEN_FILES_H_
