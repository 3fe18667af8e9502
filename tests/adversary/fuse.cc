// A file system of the tenant's own that answers until its file is open and then never again.
// A process that waits for it waits for ever.
#include "fuse.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "common.h"
#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"

namespace cgpu::adversary {

void Reply(int dev, std::uint64_t unique, const void* body, std::size_t size, int error) {
  std::vector<char> message(sizeof(fuse_out_header) + size);
  fuse_out_header header{};
  header.len = static_cast<std::uint32_t>(message.size());
  header.error = -error;
  header.unique = unique;
  std::memcpy(message.data(), &header, sizeof(header));
  if (size > 0) {
    std::memcpy(message.data() + sizeof(header), body, size);
  }
  (void)!write(dev, message.data(), message.size());
}

namespace {

constexpr std::uint64_t kFileNode = 2;

fuse_attr Attributes(std::uint64_t node) {
  fuse_attr attr{};
  attr.ino = node;
  attr.size = node == kFileNode ? kFuseFileBytes : 0;
  attr.mode = node == kFileNode ? S_IFREG | 0666U : S_IFDIR | 0755U;
  attr.nlink = 1;
  return attr;
}

}  // namespace

void Answer(int dev, const fuse_in_header& in, const char* body) {
  switch (in.opcode) {
    case FUSE_INIT: {
      fuse_init_in init{};
      std::memcpy(&init, body, 16);
      fuse_init_out out{};
      out.major = FUSE_KERNEL_VERSION;
      out.minor = std::min<std::uint32_t>(init.minor, FUSE_KERNEL_MINOR_VERSION);
      out.max_write = 4096;
      Reply(dev, in.unique, &out, sizeof(out));
      break;
    }
    case FUSE_LOOKUP: {
      fuse_entry_out out{};
      out.nodeid = kFileNode;
      out.attr = Attributes(kFileNode);
      Reply(dev, in.unique, &out, sizeof(out));
      break;
    }
    case FUSE_GETATTR: {
      fuse_attr_out out{};
      out.attr = Attributes(in.nodeid);
      Reply(dev, in.unique, &out, sizeof(out));
      break;
    }
    case FUSE_OPEN:
    case FUSE_OPENDIR: {
      const fuse_open_out out{};
      Reply(dev, in.unique, &out, sizeof(out));
      break;
    }
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
    case FUSE_INTERRUPT:
      break;
    default:
      Reply(dev, in.unique, nullptr, 0, ENOSYS);
      break;
  }
}

namespace {

// Returns when the file is open: from then on nobody is answered.
void ServeUntilOpen(int dev) {
  std::vector<char> buffer(64 * 1024);
  while (true) {
    const ssize_t size = read(dev, buffer.data(), buffer.size());
    if (size < static_cast<ssize_t>(sizeof(fuse_in_header))) {
      if (size < 0 && (errno == EINTR || errno == ENOENT)) {
        continue;
      }
      return;
    }
    fuse_in_header in{};
    std::memcpy(&in, buffer.data(), sizeof(in));
    Answer(dev, in, buffer.data() + sizeof(in));
    if (in.opcode == FUSE_OPEN) {
      return;
    }
  }
}

void WriteFile(const char* path, const std::string& text) {
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd >= 0) {
    (void)!write(fd, text.data(), text.size());
    close(fd);
  }
}

struct Hanging {
  int file = -1;
  // A process of its own, without the file: a server that closes its own hanging file at its end
  // waits for itself, and nothing but an abort of the connection ends it.
  pid_t server = -1;
};

// Takes what is asked and does not answer: then not even a signal ends the waiting.
[[noreturn]] void TakeAll(int dev) {
  std::vector<char> buffer(64 * 1024);
  while (true) {
    (void)!read(dev, buffer.data(), buffer.size());
  }
}

// Maps all users, from outside, if the caller may be any user outside.
void UnshareWithAllIds() {
  int unshared[2];
  if (pipe2(unshared, O_CLOEXEC) != 0) {
    Die("failed: no pipe");
  }
  const std::string folder = "/proc/" + std::to_string(getpid());
  const pid_t mapper = fork();
  if (mapper == 0) {
    char byte = 0;
    (void)!read(unshared[0], &byte, 1);
    WriteFile((folder + "/uid_map").c_str(), "0 0 4294967295");
    WriteFile((folder + "/gid_map").c_str(), "0 0 4294967295");
    _exit(0);
  }
  if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) {
    Die("unsupported: no user namespace: %s", std::strerror(errno));
  }
  (void)!write(unshared[1], "", 1);
  (void)waitpid(mapper, nullptr, 0);
}

}  // namespace

FuseMount MountFuse(bool all_ids) {
  const uid_t uid = getuid();
  const gid_t gid = getgid();
  if (all_ids) {
    UnshareWithAllIds();
  } else if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) {
    Die("unsupported: no user namespace: %s", std::strerror(errno));
  } else {
    WriteFile("/proc/self/setgroups", "deny");
    WriteFile("/proc/self/uid_map", std::to_string(uid) + " " + std::to_string(uid) + " 1");
    WriteFile("/proc/self/gid_map", std::to_string(gid) + " " + std::to_string(gid) + " 1");
  }
  const int dev = open("/dev/fuse", O_RDWR | O_CLOEXEC);
  if (dev < 0) {
    Die("unsupported: no /dev/fuse: %s", std::strerror(errno));
  }
  std::string folder = "/tmp/adversary-fuse-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) {
    Die("failed: no folder: %s", std::strerror(errno));
  }
  const std::string options = "fd=" + std::to_string(dev) +
                              ",rootmode=40000,user_id=" + std::to_string(uid) +
                              ",group_id=" + std::to_string(gid);
  if (mount("hanging", folder.c_str(), "fuse", MS_NOSUID | MS_NODEV, options.c_str()) != 0) {
    Die("unsupported: no FUSE mount: %s", std::strerror(errno));
  }
  return {dev, folder + "/file"};
}

namespace {

// Says why and ends where there cannot be such a file. `takes`: see TakeAll().
Hanging OpenHanging(bool takes = false) {
  const auto [dev, name] = MountFuse();
  Hanging hanging;
  hanging.server = fork();
  if (hanging.server == 0) {
    ServeUntilOpen(dev);
    if (takes) {
      TakeAll(dev);
    }
    while (true) {
      pause();
    }
  }
  close(dev);
  hanging.file = open(name.c_str(), O_RDWR | O_CLOEXEC);
  if (hanging.file < 0) {
    Die("failed: cannot open the file: %s", std::strerror(errno));
  }
  return hanging;
}

// The hanging file as the target of `count` GPU ioctls, and as a descriptor inside their
// parameters.
int AttackByFuse(const std::vector<std::string>& args) {
  const std::uint64_t count = Number(args, 0, 300);
  Client client = MakeClient();
  std::uint32_t object = 0;
  if (client.AllocMemory(64, &object) != rm::NV_OK) {
    Die("failed: no memory");
  }
  const auto [file, server] = OpenHanging();
  Say("hanging file open");
  std::string line;
  (void)Line(&line);
  std::uint64_t not_tty = 0;
  std::uint64_t other = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    rm::NVOS21_PARAMETERS alloc{};
    alloc.hClass = rm::NV01_ROOT_CLIENT;
    const int error = Plainly(file, rm::NV_ESC_RM_ALLOC, &alloc, sizeof(alloc));
    (error == ENOTTY ? not_tty : other) += 1;
  }
  Say("as target: ENOTTY %llu other %llu", static_cast<unsigned long long>(not_tty),
      static_cast<unsigned long long>(other));
  std::uint64_t refused = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    rm::nv_ioctl_nvos33_parameters_with_fd map{};
    map.params.hClient = client.root;
    map.params.hDevice = Client::kDevice;
    map.params.hMemory = object;
    map.params.length = 4096;
    map.fd = file;
    const int error = Plainly(client.ctl, rm::NV_ESC_RM_MAP_MEMORY, &map, sizeof(map));
    refused += error != 0 || map.params.status != rm::NV_OK ? 1 : 0;
    refused += client.Export(object, file) != rm::NV_OK ? 1 : 0;
    refused += client.Import(file, client.next++) != rm::NV_OK ? 1 : 0;
  }
  Say("as argument: refused %llu", static_cast<unsigned long long>(refused));
  Say("afterwards %llu MiB", static_cast<unsigned long long>(Grab(client, 128)));
  Hold();
  kill(server, SIGKILL);  // which ends the file system, and with it all waiting
  return 0;
}

// A request to the node's daemon, with the hanging file; several times.
int SendHanging(const std::vector<std::string>& args) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  args.at(0).copy(address.sun_path, sizeof(address.sun_path) - 1);
  const auto [file, server] = OpenHanging(/*takes=*/true);
  for (std::uint64_t i = 0; i < Number(args, 1, 1); ++i) {
    const int daemon = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (connect(daemon, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
      Die("failed: cannot connect: %s", std::strerror(errno));
    }
    SendFd(daemon, file);
    Say("sent");  // whose answer, if there is one, nobody waits for
  }
  Hold();
  kill(server, SIGKILL);
  return 0;
}

// [COUNT]: as many calls on the file, which is all.
int FillByFuse(const std::vector<std::string>& args) {
  const std::uint64_t count = Number(args, 0, 4'000);
  Client client = MakeClient();
  if (client.AllocMemory(64) != rm::NV_OK) {
    Die("failed: no memory");
  }
  const auto [file, server] = OpenHanging();
  std::uint64_t not_tty = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    rm::NVOS21_PARAMETERS alloc{};
    alloc.hClass = rm::NV01_ROOT_CLIENT;
    not_tty += Plainly(file, rm::NV_ESC_RM_ALLOC, &alloc, sizeof(alloc)) == ENOTTY ? 1 : 0;
  }
  Say("ENOTTY %llu", static_cast<unsigned long long>(not_tty));
  Hold();
  kill(server, SIGKILL);
  return 0;
}

// [COUNT]: the file under numbers that led to a GPU's file for the call before.
int SwapByFuse(const std::vector<std::string>& args) {
  const std::uint64_t count = Number(args, 0, 100);
  Client client = MakeClient();
  const auto [file, server] = OpenHanging();
  std::uint64_t not_tty = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const int number = fcntl(client.ctl, F_DUPFD_CLOEXEC, 0);
    rm::NVOS21_PARAMETERS alloc{};
    alloc.hClass = rm::NV01_ROOT_CLIENT;
    if (Plainly(number, rm::NV_ESC_RM_ALLOC, &alloc, sizeof(alloc)) != 0 || alloc.status != 0) {
      Die("failed: no client");
    }
    (void)!dup2(file, number);  // never closed again: that would hang us
    not_tty += Plainly(number, rm::NV_ESC_RM_ALLOC, &alloc, sizeof(alloc)) == ENOTTY ? 1 : 0;
  }
  Say("ENOTTY %llu", static_cast<unsigned long long>(not_tty));
  Hold();
  kill(server, SIGKILL);
  return 0;
}

}  // namespace

std::vector<Entry> FuseAttacks() {
  return {{"send-hanging", SendHanging,
           "SOCKET [COUNT]: requests to cgpud with a file that never answers"},
          {"fuse", AttackByFuse, "[COUNT]: a file that never answers, as target and as argument"},
          {"fuse-fill", FillByFuse, "[COUNT]: such a file as target of many calls"},
          {"fuse-swap", SwapByFuse, "[COUNT]: such a file in the place of a GPU's"}};
}

void ServeFuse(int dev, const std::function<void(std::uint64_t, std::uint64_t)>& read_file) {
  std::vector<char> buffer(64 * 1024);
  while (true) {
    const ssize_t size = read(dev, buffer.data(), buffer.size());
    if (size < 0 && errno == ENODEV) {
      _exit(0);
    }
    if (size < static_cast<ssize_t>(sizeof(fuse_in_header))) {
      continue;
    }
    fuse_in_header in{};
    std::memcpy(&in, buffer.data(), sizeof(in));
    if (in.opcode == FUSE_READ) {
      fuse_read_in asked{};
      std::memcpy(&asked, buffer.data() + sizeof(in), sizeof(asked));
      read_file(in.unique, asked.offset);
    } else if (in.opcode == FUSE_FLUSH) {
      Reply(dev, in.unique, nullptr, 0);
    } else {
      Answer(dev, in, buffer.data() + sizeof(in));
    }
  }
}

}  // namespace cgpu::adversary
