// thief PID MIB: goes for GPU memory with the GPU files of another process that it may trace, as
// one of a container whose namespaces are shared: with descriptors that it takes (pidfd_getfd),
// with the files behind them that it opens again, and with those of the other's root. Talks as an
// attack of tests/adversary does.
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "common.h"

namespace cgpu::adversary {
namespace {

constexpr int kMost = 64;  // descriptors that are looked at

struct Files {
  int ctl = -1;
  int gpu = -1;
};

bool NamesGpu(const std::string& path) {
  const std::size_t at = path.rfind("/nvidia");
  return at != std::string::npos && path.find_first_not_of("0123456789", at + 7) == path.npos &&
         at + 7 < path.size();
}

void Keep(const std::string& path, int file, Files& files) {
  if (path.ends_with("/nvidiactl") && files.ctl < 0) {
    files.ctl = file;
  } else if (NamesGpu(path) && files.gpu < 0) {
    files.gpu = file;
  }
}

std::string TargetOf(const std::string& link) {
  std::array<char, 256> target{};
  const ssize_t size = readlink(link.c_str(), target.data(), target.size());
  return size < 0 ? std::string() : std::string(target.data(), static_cast<std::size_t>(size));
}

// By clients of one's own on these files; what was got is kept.
std::uint64_t Use(const Files& files, std::uint64_t mib, const Issue& issue) {
  Client client;
  client.ctl = files.ctl;
  client.gpu = files.gpu;
  client.issue = issue;
  rm::NVOS21_PARAMETERS alloc{};
  alloc.hClass = rm::NV01_ROOT_CLIENT;
  if (issue(files.ctl, rm::NV_ESC_RM_ALLOC, &alloc, sizeof(alloc)) != 0 ||
      alloc.status != rm::NV_OK) {
    return 0;
  }
  client.root = alloc.hObjectNew;
  return client.AllocDevice(0) == rm::NV_OK ? Grab(client, mib, 16) : 0;
}

void Try(const char* how, const Files& files, std::uint64_t mib) {
  std::uint64_t got = 0;
  for (const Issue& issue : {Issue(Plainly), Issue(Wrapped)}) {
    got += files.ctl >= 0 ? Use(files, mib, issue) : 0;
  }
  Say("%s: files %d, got %lu MiB", how, (files.ctl >= 0 ? 1 : 0) + (files.gpu >= 0 ? 1 : 0), got);
}

int Steal(const std::string& pid, std::uint64_t mib) {
  const std::string folder = "/proc/" + pid;
  const auto process = static_cast<int>(
      syscall(SYS_pidfd_open, static_cast<pid_t>(std::strtol(pid.c_str(), nullptr, 10)), 0));
  if (process < 0) {
    Die("failed: there is no process %s: %s", pid.c_str(), std::strerror(errno));
  }
  Files taken;
  Files reopened;
  for (int number = 0; number < kMost; ++number) {
    const std::string link = folder + "/fd/" + std::to_string(number);
    const std::string target = TargetOf(link);
    if (!target.ends_with("/nvidiactl") && !NamesGpu(target)) {
      continue;
    }
    Keep(target, static_cast<int>(syscall(SYS_pidfd_getfd, process, number, 0)), taken);
    Keep(target, open(link.c_str(), O_RDWR | O_CLOEXEC), reopened);
  }
  Files opened;
  const std::string root = folder + "/root";
  for (const char* name : {"/nvidiactl", "/nvidia0"}) {
    Keep(name, open((root + "/dev" + name).c_str(), O_RDWR | O_CLOEXEC), opened);
  }
  Try("taken", taken, mib);
  Try("reopened", reopened, mib);
  Try("root", opened, mib);
  Hold();
  return 0;
}

}  // namespace
}  // namespace cgpu::adversary

int main(int argc, char** argv) {
  if (argc != 3) {
    cgpu::adversary::Die("usage: thief PID MIB");
  }
  return cgpu::adversary::Steal(argv[1], std::strtoull(argv[2], nullptr, 10));
}
