#include <dirent.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string>

#include "kernel/open_files.h"

namespace cgpu::kernel {
namespace {

bool SameFile(pid_t one_pid, int one, pid_t other_pid, int other) {
  return syscall(SYS_kcmp, one_pid, other_pid, KCMP_FILE, one, other) == 0;
}

// The numbers that the folder `path` below `proc` is made of.
std::vector<int> NumbersIn(int proc, const std::string& path) {
  std::vector<int> numbers;
  UniqueFd folder(openat(proc, path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  DIR* entries = folder.valid() ? fdopendir(folder.get()) : nullptr;
  if (entries == nullptr) {
    return numbers;
  }
  (void)folder.release();  // the stream's now
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

void AddChildren(int proc, pid_t pid, std::vector<pid_t>& list) {
  for (const pid_t thread : Threads(proc, pid)) {
    const std::string path = std::to_string(pid) + "/task/" + std::to_string(thread) + "/children";
    const UniqueFd file(openat(proc, path.c_str(), O_RDONLY | O_CLOEXEC));
    std::string text;
    char chunk[4096];
    ssize_t n = 0;
    while (file.valid() && (n = read(file.get(), chunk, sizeof(chunk))) > 0) {
      text.append(chunk, static_cast<std::size_t>(n));
    }
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

bool SameOpenFile(int one, int other) {
  const pid_t self = getpid();
  return SameFile(self, one, self, other);
}

bool HasFileAt(const Process& process, int number, int file) {
  return SameFile(process.tgid, number, getpid(), file) && !HasExited(process);
}

std::vector<pid_t> Threads(int proc, pid_t pid) {
  return NumbersIn(proc, std::to_string(pid) + "/task");
}

bool HasFile(int proc, pid_t pid, int file) {
  pid_t seen = 0;
  for (const pid_t thread : Threads(proc, pid)) {
    if (seen != 0 && syscall(SYS_kcmp, seen, thread, KCMP_FILES, 0, 0) == 0) {
      continue;
    }
    seen = thread;
    for (const int number : NumbersIn(proc, std::to_string(thread) + "/fd")) {
      if (SameFile(thread, number, getpid(), file)) {
        return true;
      }
    }
  }
  return false;
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

}  // namespace cgpu::kernel
