#include "kernel/open_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "base/fd.h"

namespace cgpu::kernel {
namespace {

struct CloseDir {
  void operator()(DIR* dir) const { closedir(dir); }
};
using Dir = std::unique_ptr<DIR, CloseDir>;

Dir OpenDirAt(int at, const std::string& path) {
  UniqueFd fd(openat(at, path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return Dir(fd.valid() ? fdopendir(fd.release()) : nullptr);
}

std::string ReadSmall(int at, const std::string& path) {
  const UniqueFd fd(openat(at, path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  char buffer[4096];
  ssize_t n = 0;
  while (fd.valid() && text.size() < (1U << 20) &&
         (n = read(fd.get(), buffer, sizeof(buffer))) > 0) {
    text.append(buffer, static_cast<std::size_t>(n));
  }
  return text;
}

template <class Visit>
void ForEachNumber(int at, const std::string& path, Visit visit) {
  const Dir dir = OpenDirAt(at, path);
  // readdir is safe on a stream that no other thread uses.
  while (const dirent* entry =
             dir ? readdir(dir.get()) : nullptr) {  // NOLINT(concurrency-mt-unsafe)
    if (std::isdigit(static_cast<unsigned char>(entry->d_name[0])) != 0) {
      visit(path + "/" + entry->d_name);
    }
  }
}

struct Search {
  int proc;
  std::uint64_t dev;
  std::set<std::uint64_t> left;
  bool in_flight = false;

  void Fd(const std::string& thread, const std::string& fd_path) {
    struct statx info{};
    if (statx(proc, fd_path.c_str(), AT_STATX_DONT_SYNC, STATX_TYPE | STATX_INO, &info) != 0) {
      return;
    }
    if (makedev(info.stx_dev_major, info.stx_dev_minor) == dev) {
      left.erase(info.stx_ino);
    }
    if (S_ISSOCK(info.stx_mode)) {
      const std::string number = fd_path.substr(fd_path.rfind('/'));
      const std::string text = ReadSmall(proc, thread + "/fdinfo" + number);
      const std::size_t at = text.find("scm_fds:");
      in_flight = in_flight || (at != std::string::npos && std::atoi(text.c_str() + at + 8) != 0);
    }
  }

  void Mappings(const std::string& process) {
    const std::string maps = ReadSmall(proc, process + "/maps");
    for (std::size_t at = 0; at < maps.size();) {
      const std::size_t end = maps.find('\n', at);
      unsigned major = 0;
      unsigned minor = 0;
      unsigned long long inode = 0;
      if (std::sscanf(maps.c_str() + at, "%*s %*s %*s %x:%x %llu", &major, &minor, &inode) == 3 &&
          makedev(major, minor) == dev) {
        left.erase(inode);
      }
      at = end == std::string::npos ? maps.size() : end + 1;
    }
  }
};

}  // namespace

std::set<std::uint64_t> ClosedInodes(int proc, std::uint64_t dev,
                                     const std::set<std::uint64_t>& wanted) {
  Search search{proc, dev, wanted};
  ForEachNumber(proc, ".", [&](const std::string& process) {
    ForEachNumber(proc, process + "/task", [&](const std::string& thread) {
      ForEachNumber(proc, thread + "/fd", [&](const std::string& fd) { search.Fd(thread, fd); });
    });
    search.Mappings(process);
  });
  return search.in_flight ? std::set<std::uint64_t>{} : search.left;
}

}  // namespace cgpu::kernel
