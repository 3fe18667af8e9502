// Hears of files that are renamed into a folder or removed from it.
//
// The kernel counts inotify instances for a uid, and root in a container without a user namespace
// may take all of the host's root. While there is none, it looks at the folder's time each second.
#ifndef CGPU_CGPUD_FOLDER_WATCH_H_
#define CGPU_CGPUD_FOLDER_WATCH_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "base/fd.h"

namespace cgpu {

class FolderWatch {
 public:
  using Time = std::chrono::steady_clock::time_point;

  FolderWatch(std::string folder, Time now);

  // Returns a descriptor that is readable after a change; -1: there is none now.
  [[nodiscard]] int fd() const { return inotify_.get(); }
  // Returns when to call Changed() although nothing is readable.
  [[nodiscard]] std::optional<Time> next() const { return next_; }

  // Returns whether there may have been a change since the last call.
  [[nodiscard]] bool Changed(Time now);

 private:
  void Watch(Time now);
  [[nodiscard]] std::int64_t Modified() const;

  const std::string folder_;
  UniqueFd inotify_;
  std::optional<Time> next_;  // without inotify
  // Times of the folder at the last two looks. More may have changed in the moment of a look, so
  // each change is told twice.
  std::int64_t seen_ = 0;
  std::int64_t before_ = 0;
};

}  // namespace cgpu

#endif  // CGPU_CGPUD_FOLDER_WATCH_H_
