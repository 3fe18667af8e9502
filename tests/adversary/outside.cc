// Attempts to reach what lies outside of the slice: other GPUs' files, other processes, sockets.
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <set>

#include "common.h"

namespace cgpu::adversary {
namespace {

std::vector<std::string> List(const std::string& folder) {
  std::vector<std::string> names;
  DIR* dir = opendir(folder.c_str());
  while (const dirent* entry = dir != nullptr ? readdir(dir) : nullptr) {
    if (std::strcmp(entry->d_name, ".") != 0 && std::strcmp(entry->d_name, "..") != 0) {
      names.emplace_back(entry->d_name);
    }
  }
  if (dir != nullptr) {
    closedir(dir);
  }
  return names;
}

// Tries to hold GPU memory with `gpu`, a file found somewhere: on any GPU whose device the
// driver lets us have because of it.
void TryGpu(const std::string& found, std::uint64_t mib) {
  const int gpu = open(found.c_str(), O_RDWR | O_CLOEXEC);
  if (gpu < 0) {
    return;
  }
  Say("opened %s", found.c_str());
  static std::set<std::uint32_t> taken;
  for (std::uint32_t instance = 0; instance < 4; ++instance) {
    Client client = MakeRoot(Plainly, /*quiet=*/true);
    if (client.root == 0 || taken.contains(instance)) {
      continue;
    }
    if (client.AllocDevice(instance) == rm::NV_OK && Grab(client, mib) > 0) {
      taken.insert(instance);  // stays open: the memory is held until the end
      Say("memory on device %u by %s", instance, found.c_str());
    } else {
      close(client.ctl);
      close(client.gpu);
    }
  }
}

void FindGpus(const std::string& folder, int depth, std::vector<std::string>* found) {
  for (const std::string& name : List(folder)) {
    const std::string path = folder + "/" + name;
    struct stat info{};
    if (lstat(path.c_str(), &info) != 0 || name == "proc" || name == "sys") {
      continue;
    }
    if (S_ISDIR(info.st_mode) && depth > 0) {
      FindGpus(path, depth - 1, found);
    } else if (name.starts_with("nvidia") && name != "nvidiactl" && name != "nvidia-uvm") {
      found->push_back(path);
    }
  }
}

// Goes for GPU `minor`'s file in every way there is. `folder`: where the node lives outside.
int Nodes(const std::vector<std::string>& args) {
  const std::string minor = args.empty() ? "1" : args[0];
  const std::string folder = args.size() > 1 ? args[1] : "/run/cgpu-sim";
  const std::uint64_t mib = Number(args, 2, 256);
  std::vector<std::string> paths = {"/dev/nvidia" + minor,
                                    "/dev/.nvidia/gpu" + minor + "/nvidia" + minor};
  FindGpus(folder, 5, &paths);
  for (const std::string& pid : List("/proc")) {
    if (std::strtol(pid.c_str(), nullptr, 10) > 0) {
      for (const char* place : {"root", "cwd"}) {
        const std::string root = "/proc/" + pid + "/" + place;
        paths.push_back(root + "/dev/nvidia" + minor);
        FindGpus(root + folder, 5, &paths);
      }
      FindGpus("/proc/" + pid + "/fd", 0, &paths);
    }
  }
  // A device node of one's own, and one on a file system of one's own.
  const std::string made = "/tmp/adversary-node-" + std::to_string(getpid());
  if (mknod(made.c_str(), S_IFCHR | 0666,
            makedev(195, static_cast<unsigned>(std::strtoul(minor.c_str(), nullptr, 10)))) == 0) {
    Say("made a device node");
    paths.push_back(made);
  }
  for (const std::string& path : paths) {
    TryGpu(path, mib);
  }
  unlink(made.c_str());
  // With capabilities in a user namespace of one's own: uncover what the slice's mounts cover.
  const pid_t child = fork();
  if (child == 0) {
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 || unshare(CLONE_NEWNS) == 0) {
      Say("own mount namespace");
      for (const std::string& under :
           std::vector<std::string>{"/dev/.nvidia/gpu0", "/dev/.nvidia", "/dev", "/run/cgpu-sim",
                                    "/run/cgpu", folder, "/proc/driver/nvidia"}) {
        if (umount2(under.c_str(), MNT_DETACH) == 0) {
          Say("uncovered %s", under.c_str());
        }
      }
      std::vector<std::string> more;
      FindGpus("/dev", 3, &more);
      FindGpus(folder, 5, &more);
      for (const std::string& path : more) {
        TryGpu(path, mib);
      }
    }
    Say("looked everywhere");
    Hold();
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  return 0;
}

bool Reaches(pid_t pid, std::uint64_t address, std::uint64_t secret) {
  bool reached = false;
  const auto say = [&](const char* how, bool yes) {
    if (yes) {
      Say("%s %d", how, pid);
      reached = true;
    }
  };
  std::uint64_t value = 0;
  iovec local{&value, sizeof(value)};
  iovec remote{std::bit_cast<void*>(address), sizeof(value)};
  say("read by process_vm_readv",
      process_vm_readv(pid, &local, 1, &remote, 1, 0) == sizeof(value) && value == secret);
  const std::string path = "/proc/" + std::to_string(pid) + "/mem";
  const int mem = open(path.c_str(), O_RDWR | O_CLOEXEC);
  value = 0;
  say("opened the memory of",
      mem >= 0 && (address == 0 || (pread(mem, &value, sizeof(value),
                                          static_cast<off_t>(address)) == sizeof(value) &&
                                    value == secret)));
  const auto pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (pidfd >= 0) {
    for (int fd = 3; fd < 32; ++fd) {
      const auto stolen = static_cast<int>(syscall(SYS_pidfd_getfd, pidfd, fd, 0));
      if (stolen >= 0) {
        say("took a descriptor of", true);
        close(stolen);
        break;
      }
    }
    say("may signal", syscall(SYS_pidfd_send_signal, pidfd, 0, nullptr, 0) == 0);
  }
  say("may kill", kill(pid, 0) == 0);
  if (ptrace(PTRACE_SEIZE, pid, nullptr, nullptr) == 0) {
    say("attached to", true);
    (void)ptrace(PTRACE_DETACH, pid, nullptr, nullptr);
  }
  return reached;
}

// Tries each PID:ADDRESS:SECRET given, then every process that /proc shows and that is not ours.
int Attach(const std::vector<std::string>& args) {
  int reached = 0;
  int seen = 0;
  for (const std::string& target : args) {
    char* end = nullptr;
    const auto pid = static_cast<pid_t>(std::strtol(target.c_str(), &end, 10));
    const std::uint64_t address = *end == ':' ? std::strtoull(end + 1, &end, 0) : 0;
    const std::uint64_t secret = *end == ':' ? std::strtoull(end + 1, &end, 0) : 0;
    const bool own_init = pid == 1 && getppid() == 1;  // a slice's own first process
    if (pid != getpid() && !own_init) {
      reached += Reaches(pid, address, secret) ? 1 : 0;
    }
  }
  for (const std::string& name : List("/proc")) {
    const auto pid = static_cast<pid_t>(std::strtol(name.c_str(), nullptr, 10));
    if (pid <= 0) {
      continue;
    }
    ++seen;
    char link[64];
    std::snprintf(link, sizeof(link), "/proc/%d/exe", pid);
    char target[256] = {};
    if (readlink(link, target, sizeof(target) - 1) > 0 &&
        std::strstr(target, "cgpu-shim") != nullptr) {
      Say("sees the shim as %d", pid);
      reached += Reaches(pid, 0, 0) ? 1 : 0;
    }
  }
  Say("processes seen %d", seen);
  Say("reached %d", reached);
  Hold();
  return 0;
}

bool Connects(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return false;
  }
  std::memcpy(address.sun_path, path.c_str(), path.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool connected = connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  close(fd);
  return connected;
}

// Connects to every socket in the folders given, by name and by way of every visible process.
int Sockets(const std::vector<std::string>& args) {
  int connected = 0;
  int seen = 0;
  std::vector<std::string> folders = args;
  for (const std::string& pid : List("/proc")) {
    if (std::strtol(pid.c_str(), nullptr, 10) > 0) {
      for (const std::string& folder : args) {
        folders.push_back("/proc/" + pid + "/root" + folder);
      }
    }
  }
  const auto attempt = [&](const std::string& path) {
    if (Connects(path)) {
      Say("connected to %s", path.c_str());
      ++connected;
    }
  };
  for (const std::string& folder : folders) {
    for (const std::string& name : List(folder)) {
      ++seen;
      attempt(folder + "/" + name);
    }
  }
  // The network namespace may tell names that the mount namespace does not show.
  if (FILE* unix_sockets = std::fopen("/proc/net/unix", "re")) {
    char line[512];
    while (std::fgets(line, sizeof(line), unix_sockets) != nullptr) {
      const char* path = std::strchr(line, '/');
      if (path == nullptr) {
        continue;
      }
      std::string name(path);
      name.erase(name.find_last_not_of('\n') + 1);
      for (const std::string& folder : args) {
        if (name.starts_with(folder + "/")) {
          Say("knows %s", name.c_str());
          attempt(name);
        }
      }
    }
    (void)std::fclose(unix_sockets);
  }
  Say("names seen %d", seen);
  Say("connected %d", connected);
  Hold();
  return 0;
}

}  // namespace

std::vector<Entry> OutsideAttacks() {
  return {
      {"nodes", Nodes, "[MINOR [FOLDER [MIB]]]: another GPU's file, wherever it may be"},
      {"attach", Attach, "PID[:ADDRESS:SECRET]...: other processes' memory and files"},
      {"sockets", Sockets, "FOLDER...: sockets of others"},
  };
}

}  // namespace cgpu::adversary
