// Attacks with numbers that are chosen, more processes than anybody has, and sandboxes within.
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <thread>

#include "common.h"
#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"
#include "uvm_client.h"

namespace cgpu::adversary {
namespace {

constexpr std::uint64_t kBase = 0x100000000000;  // free in any process of ours
constexpr std::uint64_t kStep = 64;              // MiB

[[noreturn]] void SleepForEver() {
  while (true) {
    pause();
  }
}

void WriteText(const char* path, const std::string& text) {
  const int file = open(path, O_WRONLY | O_CLOEXEC);
  (void)!write(file, text.data(), text.size());
  close(file);
}

// A user namespace of one's own, in which one is root, and others as `flags` say.
void Unshare(int flags) {
  const std::string uid = std::to_string(getuid());
  const std::string gid = std::to_string(getgid());
  if (unshare(CLONE_NEWUSER | flags) != 0) {
    Die("unsupported: no user namespace: %s", std::strerror(errno));
  }
  WriteText("/proc/self/setgroups", "deny");
  WriteText("/proc/self/uid_map", "0 " + uid + " 1");
  WriteText("/proc/self/gid_map", "0 " + gid + " 1");
}

// --- Numbers

// A child with the number `number`, or -1 with errno.
pid_t ForkAs(pid_t number) {
  pid_t wanted[] = {number};
  clone_args args{};
  args.exit_signal = SIGCHLD;
  args.set_tid = std::bit_cast<std::uint64_t>(&wanted);
  args.set_tid_size = 1;
  return static_cast<pid_t>(syscall(SYS_clone3, &args, sizeof(args)));
}

// As soon as whoever has the number now has let go of it.
pid_t ForkSoonAs(pid_t number) {
  pid_t child = -1;
  while ((child = ForkAs(number)) < 0 && errno == EEXIST) {
    sched_yield();
  }
  return child;
}

// A thread makes a call and ends; a child with its number maps a step and allocates one. What both
// came to, in MiB.
std::uint64_t HaveHeir(UvmClient& uvm, std::uint64_t at) {
  pid_t number = 0;
  std::thread([&] {
    (void)uvm.FreeRange(kBase / 2, 4096);
    (void)uvm.client.FreeKib();
    number = gettid();
  }).join();
  struct Result {
    std::atomic<std::uint64_t> mib{0};
    std::atomic<bool> done{false};
  };
  auto* const result = Shared<Result>();
  uvm.client.next += 0x100;
  const pid_t child = ForkSoonAs(number);
  if (child == 0) {
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    result->mib += MapManaged(uvm.uvm, at, kStep * kMiB) ? kStep : 0;
    result->mib += uvm.client.AllocMemory(kStep) == rm::NV_OK ? kStep : 0;
    result->done = true;
    SleepForEver();
  }
  if (child != number) {
    Die("failed: no child with the number %d: %s", number, std::strerror(errno));
  }
  while (!result->done) {
    sched_yield();
  }
  return result->mib;
}

int TakeNumbers(std::uint64_t wanted) {
  UvmClient uvm = MakeUvmClient();
  std::uint64_t held = 0;
  std::uint64_t heirs = 0;
  for (std::uint64_t at = kBase; held < wanted; at += kStep * kMiB) {
    const std::uint64_t got = HaveHeir(uvm, at);
    held += got;
    if (got == 0) {
      break;
    }
    ++heirs;
  }
  Say("heirs %llu got %llu MiB", static_cast<unsigned long long>(heirs),
      static_cast<unsigned long long>(held));
  Hold();
  return 0;
}

// set-tid here|within MIB: in the namespace that one is in, or in one of one's own.
int SetTid(const std::vector<std::string>& args) {
  const std::uint64_t wanted = Number(args, 1, 6144);
  if (args.at(0) == "within") {
    Unshare(CLONE_NEWPID);
    const pid_t first = fork();
    if (first == 0) {
      // The first process of its namespace; else none is left for others.
      const pid_t second = fork();
      if (second == 0) {
        return TakeNumbers(wanted);
      }
      (void)waitpid(second, nullptr, 0);
      _exit(0);
    }
    (void)waitpid(first, nullptr, 0);
    return 0;
  }
  pid_t child = -1;
  pid_t some = 30'000;
  while ((child = ForkAs(some)) < 0 && errno == EEXIST) {
    ++some;
  }
  if (child == 0) {
    _exit(0);
  }
  if (child < 0) {
    Say("refused %s", std::strerror(errno));
    Hold();
    return 0;
  }
  (void)waitpid(child, nullptr, 0);
  return TakeNumbers(wanted);
}

// heir MIB OTHER: a thread makes a call and says its number; the test sees to it that a child has
// that number, which allocates MIB from where its parent says OTHER.
int Heir(const std::vector<std::string>& args) {
  Client client = MakeClient();
  static rm::NV_MEMORY_ALLOCATION_PARAMS params;
  params = MemoryParams(Number(args, 1, 300) * kMiB);
  std::string line;
  std::thread([&] {
    (void)client.FreeKib();
    Say("number %d", static_cast<int>(gettid()));
    (void)Line(&line);
  }).join();
  Say("ended");
  int go[2];
  while (Line(&line) && line == "fork" && pipe2(go, O_CLOEXEC) == 0) {
    const pid_t child = fork();
    if (child == 0) {
      close(go[1]);
      char word = 0;
      if (read(go[0], &word, 1) != 1 || word != 'c') {
        _exit(1);
      }
      params = MemoryParams(Number(args, 0, 3) * kMiB);
      Say("status 0x%x", client.Alloc(Client::kDevice, client.next, rm::NV01_MEMORY_LOCAL_USER,
                                      &params, sizeof(params)));
      _exit(0);
    }
    Say("number %d", static_cast<int>(child));
    (void)Line(&line);  // "call" or "drop"
    (void)!write(go[1], line.data(), 1);
    (void)waitpid(child, nullptr, 0);
    close(go[0]);
    close(go[1]);
    Say("over");
  }
  Hold();
  return 0;
}

// --- Processes

struct Counts {
  std::atomic<std::uint64_t> answered{0};
  std::atomic<std::uint64_t> failed{0};
};

// crowd PROCESSES: as many, each of which makes a call and stays.
int Crowd(const std::vector<std::string>& args) {
  const std::uint64_t wanted = Number(args, 0, 20'000);
  Client client = MakeClient();
  if (client.AllocMemory(64) != rm::NV_OK) {
    Die("failed: no memory");
  }
  auto* const counts = Shared<Counts>();
  std::uint64_t alive = 0;
  for (; alive < wanted; ++alive) {
    const pid_t child = fork();
    if (child < 0) {
      break;
    }
    if (child == 0) {
      rm::NV0000_CTRL_GPU_GET_ATTACHED_IDS_PARAMS ids{};
      const bool answered = client.Control(client.root, rm::NV0000_CTRL_CMD_GPU_GET_ATTACHED_IDS,
                                           &ids, sizeof(ids)) == rm::NV_OK;
      ++(answered ? counts->answered : counts->failed);
      SleepForEver();
    }
  }
  while (counts->answered + counts->failed < alive) {
    sched_yield();
  }
  Say("alive %llu answered %llu failed %llu", static_cast<unsigned long long>(alive),
      static_cast<unsigned long long>(counts->answered.load()),
      static_cast<unsigned long long>(counts->failed.load()));
  Say("afterwards %llu MiB", static_cast<unsigned long long>(Grab(client, 64)));
  Hold();
  return 0;
}

// --- Sandboxes within

// Installs a filter that answers `system_call` with `action`. Returns what seccomp(2) returned, or
// -errno.
int InstallFilter(long system_call, std::uint32_t action, unsigned flags) {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(system_call), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, action),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog filter{4, program};
  (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  const long result = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &filter);
  return result < 0 ? -errno : static_cast<int>(result);
}

// Lets every call go on, as an engine's own supervisor would, until nobody is left under it.
[[noreturn]] void LetAllGoOn(int listener) {
  while (true) {
    seccomp_notif call{};
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call) == 0) {
      seccomp_notif_resp answer{};
      answer.id = call.id;
      answer.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
      (void)ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
    } else if (errno != EINTR) {
      _exit(0);
    }
  }
}

int AskAsPpid(int fd, std::uint8_t nr, void* params, std::uint32_t size) {
  return syscall(SYS_getppid, static_cast<long>(fd), rm::EscapeRequest(nr, size), params) < 0
             ? errno
             : 0;
}

// Traces the child whose filter asks about getppid, and makes an ioctl of each of those.
void MakeIoctls(pid_t child) {
  int status = 0;
  (void)waitpid(child, &status, 0);
  (void)ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESECCOMP | PTRACE_O_EXITKILL);
  std::uint64_t changed = 0;
  while (!WIFEXITED(status) && !WIFSIGNALED(status)) {
    const int signal = WSTOPSIG(status);
    if (status >> 8 == (SIGTRAP | (PTRACE_EVENT_SECCOMP << 8))) {
      user_regs_struct registers{};
      (void)ptrace(PTRACE_GETREGS, child, nullptr, &registers);
      registers.orig_rax = SYS_ioctl;
      (void)ptrace(PTRACE_SETREGS, child, nullptr, &registers);
      ++changed;
    }
    const long deliver = signal == SIGTRAP || signal == SIGSTOP ? 0 : signal;
    if (ptrace(PTRACE_CONT, child, nullptr, deliver) != 0 || waitpid(child, &status, 0) < 0) {
      break;
    }
  }
  Say("changed %llu", static_cast<unsigned long long>(changed));
}

// A filter with a listener, which goes to a supervisor outside of it. False: there is none.
bool GiveListener(int supervisor) {
  const int listener =
      InstallFilter(SYS_ioctl, SECCOMP_RET_USER_NOTIF, SECCOMP_FILTER_FLAG_NEW_LISTENER);
  Say("listener %s", listener >= 0 ? "installed" : std::strerror(-listener));
  SendFd(supervisor, listener >= 0 ? listener : STDIN_FILENO);
  return listener >= 0;
}

// A call under a filter that answers it, or ends who makes it.
[[noreturn]] void CallOnce(std::uint32_t action) {
  (void)InstallFilter(SYS_ioctl, action, 0);
  rm::NVOS21_PARAMETERS alloc{};
  alloc.hClass = rm::NV01_ROOT_CLIENT;
  Say("errno %d", Plainly(OpenControl(), rm::NV_ESC_RM_ALLOC, &alloc, sizeof(alloc)));
  _exit(1);
}

// Does what a sandbox's program does under the sandbox's filter. Returns having held what it got.
void RunUnder(const std::string& kind, std::uint64_t mib, int supervisor) {
  Issue issue = Plainly;
  if (kind == "listener") {
    if (GiveListener(supervisor)) {
      close(supervisor);
    }
  } else if (kind == "rewrite") {
    (void)ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    (void)raise(SIGSTOP);
    (void)InstallFilter(SYS_getppid, SECCOMP_RET_TRACE, 0);
    issue = AskAsPpid;
  } else if (kind == "log") {
    (void)InstallFilter(SYS_ioctl, SECCOMP_RET_LOG, 0);
  } else {
    CallOnce(kind == "orphan" ? SECCOMP_RET_USER_NOTIF : SECCOMP_RET_KILL_PROCESS);
  }
  Client client = MakeClient(issue);
  Say("got %llu MiB", static_cast<unsigned long long>(Grab(client, mib)));
  Hold();
}

// The sandbox's first process.
int Supervise(const std::string& kind, std::uint64_t mib) {
  (void)mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
  (void)mount("none", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, nullptr);
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
    Die("failed: no sockets");
  }
  const pid_t program = fork();
  if (program == 0) {
    RunUnder(kind, mib, pair[1]);
    _exit(0);
  }
  if (kind == "listener") {
    const int listener = ReceiveFd(pair[0]);
    if (fork() == 0) {
      LetAllGoOn(listener);
    }
  } else if (kind == "rewrite") {
    MakeIoctls(program);
  }
  int status = 0;
  if (waitpid(program, &status, 0) == program && status != 0) {
    Say("ended %d", WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
    Client client = MakeClient();
    Say("afterwards %llu MiB", static_cast<unsigned long long>(Grab(client, 64)));
    Hold();
  }
  return 0;
}

// nest log|listener|rewrite|orphan|kill MIB: a sandbox of one's own, with namespaces and a
// filter of its own.
int Nest(const std::vector<std::string>& args) {
  Unshare(CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS);
  const pid_t first = fork();
  if (first == 0) {
    _exit(Supervise(args.at(0), Number(args, 1, 4096)));
  }
  int status = 0;
  (void)waitpid(first, &status, 0);
  return WEXITSTATUS(status);
}

}  // namespace

std::vector<Entry> TrickAttacks() {
  return {{"set-tid", SetTid, "here|within [MIB]: children with the numbers of dead threads"},
          {"heir", Heir, "[MIB [MIB]]: a child with the number of a thread that made a call"},
          {"crowd", Crowd, "[PROCESSES]: each makes a call and stays"},
          {"nest", Nest, "log|listener|rewrite|orphan|kill [MIB]: a sandbox of one's own"}};
}

}  // namespace cgpu::adversary
