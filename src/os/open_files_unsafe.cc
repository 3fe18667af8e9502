#include <dirent.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "os/open_files.h"

namespace cgpu::os {
namespace {

// Returns 0: the same, 1: less, 2: greater; anything else: there is no such descriptor.
long Order(pid_t one_pid, int one, pid_t other_pid, int other) {
  return syscall(SYS_kcmp, one_pid, other_pid, KCMP_FILE, one, other);
}

// Returns true if the last call failed for want of descriptors or memory of this machine's.
bool NoRoom() {
  return errno == EMFILE || errno == ENFILE || errno == ENOMEM;
}

// Returns the entries of the folder `path` below `proc` that are numbers. Sets `no_room` if there
// is none to look.
std::vector<int> NumbersIn(int proc, const std::string& path, bool* no_room = nullptr) {
  std::vector<int> numbers;
  UniqueFd folder(openat(proc, path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid() && no_room != nullptr) {
    *no_room = *no_room || NoRoom();
  }
  DIR* entries = folder.valid() ? fdopendir(folder.get()) : nullptr;
  if (entries == nullptr) {
    return numbers;
  }
  (void)folder.release();  // the stream owns it now
  // NOLINTNEXTLINE(concurrency-mt-unsafe): a stream of this thread's own
  while (const dirent* entry = readdir(entries)) {
    int number = 0;
    const char* end = entry->d_name + std::strlen(entry->d_name);
    if (std::from_chars(entry->d_name, end, number).ptr == end) {
      numbers.push_back(number);
    }
  }
  closedir(entries);
  return numbers;
}

// Sets `no_room` if there is none to read the file.
std::string ReadWhole(int proc, const std::string& path, bool* no_room = nullptr) {
  const UniqueFd file(openat(proc, path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid() && no_room != nullptr) {
    *no_room = *no_room || NoRoom();
  }
  std::string text;
  char chunk[4096];
  ssize_t n = 0;
  while (file.valid() && (n = read(file.get(), chunk, sizeof(chunk))) > 0) {
    text.append(chunk, static_cast<std::size_t>(n));
  }
  return text;
}

void AddChildren(int proc, pid_t pid, std::vector<pid_t>& list) {
  for (const pid_t thread : Threads(proc, pid)) {
    const std::string path = std::to_string(pid) + "/task/" + std::to_string(thread) + "/children";
    const std::string text = ReadWhole(proc, path);
    const char* at = text.c_str();
    char* end = nullptr;
    for (long child = std::strtol(at, &end, 10); end != at; child = std::strtol(at, &end, 10)) {
      list.push_back(static_cast<pid_t>(child));
      at = end;
    }
  }
}

}  // namespace

UniqueFd Duplicate(int fd) {
  return UniqueFd(fcntl(fd, F_DUPFD_CLOEXEC, 0));
}

int Compare(int one, int other) {
  const pid_t self = getpid();
  const long order = Order(self, one, self, other);
  return order == 1 ? -1 : static_cast<int>(order);
}

bool HasFileAt(const Process& process, int number, int file) {
  return Order(process.tgid, number, getpid(), file) == 0 && !HasExited(process);
}

std::vector<pid_t> Threads(int proc, pid_t pid) {
  return NumbersIn(proc, std::to_string(pid) + "/task");
}

std::vector<pid_t> Processes(int proc) {
  return NumbersIn(proc, ".");
}

std::vector<int> Descriptors(int proc, pid_t thread) {
  return NumbersIn(proc, std::to_string(thread) + "/fd");
}

namespace {

// The files to find.
class Wanted {
 public:
  explicit Wanted(const std::vector<int>& files) : held_(files.size()) {
    for (std::size_t i = 0; i < files.size(); ++i) {
      if (const auto identity = Identify(files[i]); identity.ok()) {
        inodes_.insert({identity->dev, identity->ino});
      }
      sorted_.emplace_back(files[i], i);
    }
    std::ranges::sort(sorted_, [](const auto& one, const auto& other) {
      return Compare(one.first, other.first) < 0;
    });
  }

  void Look(int proc, pid_t thread, int number) {
    const auto identity = IdentifyOf(proc, thread, number);
    if (identity.ok() ? !inodes_.contains({identity->dev, identity->ino})
                      : identity.error().sys_errno == ENOENT) {
      return;
    }
    std::size_t from = 0;
    std::size_t to = sorted_.size();
    while (from < to) {
      const std::size_t middle = (from + to) / 2;
      const long order = Order(thread, number, getpid(), sorted_[middle].first);
      if (order == 0) {
        Holder& holder = held_[sorted_[middle].second];
        missing_ -= holder.thread != 0 ? 0 : 1;
        holder = {thread, number};
        return;
      }
      if (order != 1 && order != 2) {
        return;  // the descriptor is closed
      }
      (order == 1 ? to : from) = order == 1 ? middle : middle + 1;
    }
  }

  [[nodiscard]] bool AllFound() const { return missing_ == 0; }
  [[nodiscard]] std::vector<Holder> Take() { return std::move(held_); }

 private:
  std::set<std::pair<std::uint64_t, std::uint64_t>> inodes_;
  std::vector<std::pair<int, std::size_t>> sorted_;  // and their places
  std::vector<Holder> held_;
  std::size_t missing_ = held_.size();
};

// Calls visit(thread, number) for each descriptor of the processes until it returns true. Returns
// true if it did, or if there is no room for the look.
template <class Visit>
bool AnyDescriptor(int proc, const std::vector<pid_t>& pids, const Visit& visit) {
  bool no_room = false;
  for (const pid_t pid : pids) {
    pid_t seen = 0;
    for (const pid_t thread : NumbersIn(proc, std::to_string(pid) + "/task", &no_room)) {
      if (seen != 0 && syscall(SYS_kcmp, seen, thread, KCMP_FILES, 0, 0) == 0) {
        continue;
      }
      seen = thread;
      for (const int number : NumbersIn(proc, std::to_string(thread) + "/fd", &no_room)) {
        if (visit(thread, number)) {
          return true;
        }
      }
    }
  }
  return no_room;
}

}  // namespace

std::optional<std::vector<Holder>> FindHeld(int proc, const std::vector<pid_t>& pids,
                                            const std::vector<int>& files,
                                            const std::function<bool()>& enough) {
  Wanted wanted(files);
  const bool stopped = AnyDescriptor(proc, pids, [&](pid_t thread, int number) {
    if (wanted.AllFound() || enough()) {
      return true;
    }
    wanted.Look(proc, thread, number);
    return false;
  });
  return stopped && !wanted.AllFound() ? std::nullopt : std::optional(wanted.Take());
}

bool HasFilesInFlight(int proc, const std::vector<pid_t>& pids,
                      const std::function<bool()>& enough) {
  return AnyDescriptor(proc, pids, [&](pid_t thread, int number) {
    if (enough()) {
      return true;
    }
    // The name of a file in a file system begins with a slash. Nobody is asked for the name of a
    // link in /proc, as for what it leads to.
    constexpr std::string_view kSocket = "socket:";
    char name[kSocket.size()] = {};
    const std::string path = std::to_string(thread) + "/fd/" + std::to_string(number);
    const ssize_t size = readlinkat(proc, path.c_str(), name, sizeof(name));
    if (size < 0 || std::string_view(name, static_cast<std::size_t>(size)) != kSocket) {
      return false;
    }
    constexpr std::string_view kKey = "\nscm_fds:";
    bool no_room = false;
    const std::string info =
        ReadWhole(proc, std::to_string(thread) + "/fdinfo/" + std::to_string(number), &no_room);
    const std::size_t at = info.find(kKey);
    return no_room || (at != std::string::npos &&
                       std::strtol(info.c_str() + at + kKey.size(), nullptr, 10) > 0);
  });
}

std::vector<pid_t> Descendants(int proc, pid_t pid) {
  std::vector<pid_t> list;
  if (pid == 0) {
    return list;
  }
  list.push_back(pid);
  for (std::size_t i = 0; i < list.size(); ++i) {
    AddChildren(proc, list[i], list);
  }
  return list;
}

}  // namespace cgpu::os
