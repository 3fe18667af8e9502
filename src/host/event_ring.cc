#include "host/event_ring.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include "base/file.h"

namespace cgpu {
namespace {

constexpr char kNewer[] = "events";
constexpr char kOlder[] = "events.1";

std::string In(const std::string& folder, const char* name) {
  return folder + "/" + name;
}

Error NoFolder(const Error& error) {
  if (error.code == Code::kNotFound) {
    return {Code::kNotFound, 0, "no events are kept on this host", "cgpud keeps them: start it"};
  }
  if (error.code == Code::kPermission) {
    return {Code::kPermission, 0, "only root and members of cgpu's group may see events",
            "run it with sudo"};
  }
  return error;
}

// Returns whether the file ends in the middle of a line.
bool IsTorn(int fd, off_t size) {
  char last = '\n';
  return size > 0 && pread(fd, &last, 1, size - 1) == 1 && last != '\n';
}

}  // namespace

Result<> EventRing::Make(std::optional<unsigned> group) const {
  CGPU_TRY(MakeDirectories(folder_.substr(0, folder_.rfind('/'))));
  CGPU_TRY(MakeDirectories(folder_, 0700));
  CGPU_ASSIGN_OR_RETURN(const auto folder, OpenFile(folder_, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  // New files get the folder's group (S_ISGID).
  if (fchown(folder.get(), 0, group.value_or(0)) != 0 || fchmod(folder.get(), 02750) != 0) {
    return ErrnoError(Code::kUnavailable, errno, "cannot give " + folder_ + " to its readers");
  }
  return {};
}

Result<> EventRing::Append(const std::vector<Event>& events) const {
  std::string lines;
  for (const Event& event : events) {
    lines += EncodeEvent(event);
    if (lines.size() > max_file_ / 2) {
      CGPU_TRY(Write(std::exchange(lines, {})));
    }
  }
  return lines.empty() ? Result<>() : Write(lines);
}

Result<> EventRing::Write(std::string_view lines) const {
  CGPU_ASSIGN_OR_RETURN(const auto lock, OpenFile(In(folder_, "lock"), O_RDWR | O_CREAT, 0600));
  if (TEMP_FAILURE_RETRY(flock(lock.get(), LOCK_EX)) != 0) {
    return ErrnoError(Code::kUnavailable, errno, "cannot lock " + folder_);
  }
  constexpr int kFlags = O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW;
  const std::string path = In(folder_, kNewer);
  CGPU_ASSIGN_OR_RETURN(auto file, OpenFile(path, kFlags, 0640));
  struct stat info{};
  (void)fstat(file.get(), &info);
  if (info.st_size > 0 && static_cast<std::size_t>(info.st_size) + lines.size() + 1 > max_file_) {
    if (rename(path.c_str(), In(folder_, kOlder).c_str()) != 0) {
      return ErrnoError(Code::kUnavailable, errno, "cannot rename " + path);
    }
    CGPU_ASSIGN_OR_RETURN(file, OpenFile(path, kFlags, 0640));
    info.st_size = 0;
  }
  if (info.st_size == 0) {
    (void)fchmod(file.get(), 0640);  // whatever the umask
  }
  if (IsTorn(file.get(), info.st_size)) {
    CGPU_TRY(WriteAll(file.get(), "\n"));
  }
  return WriteAll(file.get(), lines);
}

std::uint64_t NowMs() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                        std::chrono::system_clock::now().time_since_epoch())
                                        .count());
}

void NoteEvent(const std::string& kind, EventFields fields) {
  if (geteuid() == 0) {
    (void)EventRing().Append({{NowMs(), kind, std::move(fields)}});
  }
}

Result<EventReader> EventReader::Open(const std::string& folder) {
  const auto opened = OpenFile(folder, O_RDONLY | O_DIRECTORY);
  if (!opened.ok()) {
    return NoFolder(opened.error());
  }
  return EventReader(folder);
}

Result<> EventReader::Watch() {
  UniqueFd changes(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!changes.valid() ||
      inotify_add_watch(changes.get(), folder_.c_str(), IN_MODIFY | IN_CREATE | IN_MOVED_TO) < 0) {
    return ErrnoError(Code::kUnavailable, errno, "cannot watch " + folder_);
  }
  changes_ = std::move(changes);
  return {};
}

Result<EventReader::File> EventReader::OpenPart(const char* name) const {
  auto opened = OpenFile(In(folder_, name), O_RDONLY | O_NOFOLLOW);
  if (!opened.ok()) {
    return opened.error().code == Code::kNotFound ? File() : Result<File>(NoFolder(opened.error()));
  }
  struct stat info{};
  (void)fstat(opened->get(), &info);
  return File{std::move(*opened), info.st_ino};
}

void EventReader::Take(const File& file, std::vector<Event>& events) {
  char buffer[16 * 1024];
  ssize_t n = 0;
  while ((n = TEMP_FAILURE_RETRY(read(file.fd.get(), buffer, sizeof(buffer)))) > 0) {
    text_.append(buffer, static_cast<std::size_t>(n));
    std::size_t begin = 0;
    for (std::size_t end = 0; (end = text_.find('\n', begin)) != std::string::npos;
         begin = end + 1) {
      if (auto event = DecodeEvent(std::string_view(text_).substr(begin, end - begin))) {
        events.push_back(std::move(*event));
      }
    }
    text_.erase(0, begin);
    if (text_.size() > kMaxEventLine) {
      text_.resize(kMaxEventLine);  // too long for an event, whatever comes
      text_.push_back(' ');
    }
  }
}

// Goes on in the file that is the newer one now, after the older one if that is yet unread.
Result<> EventReader::Turn(std::vector<Event>& events) {
  constexpr int kTries = 100;  // writers that turn the ring meanwhile
  for (int i = 0; i < kTries; ++i) {
    CGPU_ASSIGN_OR_RETURN(auto older, OpenPart(kOlder));
    CGPU_ASSIGN_OR_RETURN(auto newer, OpenPart(kNewer));
    CGPU_ASSIGN_OR_RETURN(const auto again, OpenPart(kOlder));
    if (older.inode != again.inode) {
      continue;
    }
    if (newer.inode == 0) {  // a writer has renamed it, and not yet made the next one
      newer = std::exchange(older, {});
    }
    if (newer.inode == newer_.inode) {
      return {};
    }
    Take(newer_, events);  // what was added before it was renamed
    text_.clear();
    if (older.inode != 0 && older.inode != newer_.inode) {
      Take(older, events);
      text_.clear();
    }
    newer_ = std::move(newer);
    Take(newer_, events);
    return {};
  }
  return Error{Code::kUnavailable, 0, "events come too fast to be read", "try again"};
}

Result<std::vector<Event>> EventReader::More() {
  std::vector<Event> events;
  Take(newer_, events);
  CGPU_TRY(Turn(events));
  return events;
}

void EventReader::Wait() const {
  pollfd change{changes_.get(), POLLIN, 0};
  (void)poll(&change, 1, -1);
  alignas(inotify_event) char buffer[4096];
  while (read(changes_.get(), buffer, sizeof(buffer)) > 0) {
  }
}

}  // namespace cgpu
