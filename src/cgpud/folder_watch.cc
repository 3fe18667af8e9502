#include "cgpud/folder_watch.h"

#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

namespace cgpu {

FolderWatch::FolderWatch(std::string folder, Time now) : folder_(std::move(folder)) {
  Watch(now);
}

void FolderWatch::Watch(Time now) {
  constexpr std::chrono::seconds kAgain{1};
  inotify_.reset(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (inotify_add_watch(inotify_.get(), folder_.c_str(), IN_MOVED_TO | IN_DELETE) < 0) {
    inotify_.reset();
    next_ = now + kAgain;
  } else {
    next_.reset();
  }
}

std::int64_t FolderWatch::Modified() const {
  struct stat info{};
  (void)stat(folder_.c_str(), &info);
  return std::int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec;
}

bool FolderWatch::Changed(Time now) {
  if (next_) {
    if (now < *next_) {
      return false;
    }
    Watch(now);
    const std::int64_t modified = Modified();
    const bool told = modified == seen_ && seen_ == before_;
    before_ = std::exchange(seen_, modified);
    return !told;
  }
  alignas(inotify_event) char buffer[4096];
  bool changed = false;
  while (read(inotify_.get(), buffer, sizeof(buffer)) > 0) {
    changed = true;
  }
  return changed;
}

}  // namespace cgpu
