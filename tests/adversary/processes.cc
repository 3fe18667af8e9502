// Attacks with processes, filters and signals.
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <thread>

#include "common.h"
#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"

namespace cgpu::adversary {
namespace {

// Every ioctl gets `action`; returns what seccomp(2) returned, or -errno.
int InstallFilter(std::uint32_t action, unsigned flags) {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, action),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog filter{4, program};
  (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  const long result = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &filter);
  return result < 0 ? -errno : static_cast<int>(result);
}

int GrabAndHold(std::uint64_t mib) {
  Client client = MakeClient();
  Say("got %llu MiB", static_cast<unsigned long long>(Grab(client, mib)));
  Hold();
  return 0;
}

// Traces a child whose filter asks the tracer about every ioctl, and lets each of them through.
int Traced(std::uint64_t mib) {
  const pid_t child = fork();
  if (child == 0) {
    (void)ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    (void)raise(SIGSTOP);
    if (InstallFilter(SECCOMP_RET_TRACE, 0) < 0) {
      Die("failed: no filter");
    }
    _exit(GrabAndHold(mib));
  }
  int status = 0;
  waitpid(child, &status, 0);
  (void)ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESECCOMP | PTRACE_O_EXITKILL);
  std::uint64_t stops = 0;
  while (!WIFEXITED(status) && !WIFSIGNALED(status)) {
    const bool seccomp = status >> 8 == (SIGTRAP | (PTRACE_EVENT_SECCOMP << 8));
    stops += seccomp ? 1 : 0;
    const int signal = WSTOPSIG(status);
    const long deliver = signal == SIGTRAP || signal == SIGSTOP ? 0 : signal;
    if (ptrace(PTRACE_CONT, child, nullptr, deliver) != 0 || waitpid(child, &status, 0) < 0) {
      break;
    }
  }
  Say("tracer asked %llu times", static_cast<unsigned long long>(stops));
  return 0;
}

int OwnFilter(const std::vector<std::string>& args) {
  const std::string kind = args.empty() ? "allow" : args[0];
  const std::uint64_t mib = Number(args, 1, 2048);
  if (kind == "trace") {
    return Traced(mib);
  }
  if (kind == "listener") {
    const int listener = InstallFilter(SECCOMP_RET_ALLOW, SECCOMP_FILTER_FLAG_NEW_LISTENER);
    Say("listener %s", listener >= 0 ? "installed" : std::strerror(-listener));
  } else {
    const std::uint32_t action = kind == "errno" ? SECCOMP_RET_ERRNO  // "success", nothing done
                                                 : SECCOMP_RET_ALLOW;
    const int result = InstallFilter(action, 0);
    Say("filter %s", result >= 0 ? "installed" : std::strerror(-result));
  }
  if (kind == "errno") {
    Client client;
    client.ctl = OpenControl();
    client.gpu = OpenGpu();
    Say("got %llu MiB", static_cast<unsigned long long>(Grab(client, mib)));
    Hold();
    return 0;
  }
  return GrabAndHold(mib);
}

// Executes itself `depth` times in a new process each, with an empty environment; the last one
// allocates.
int Chain(const std::vector<std::string>& args) {
  const std::uint64_t depth = Number(args, 0, 8);
  const std::uint64_t mib = Number(args, 1, 2048);
  if (depth == 0) {
    Say("environment %s", environ == nullptr || environ[0] == nullptr ? "empty" : environ[0]);
    return GrabAndHold(mib);
  }
  const pid_t child = fork();
  if (child == 0) {
    std::string name = "adversary";
    std::string command = "chain";
    std::string rest = std::to_string(depth - 1);
    std::string size = std::to_string(mib);
    char* argv[] = {name.data(), command.data(), rest.data(), size.data(), nullptr};
    char* envp[] = {nullptr};
    execve("/proc/self/exe", argv, envp);
    Die("failed: exec: %s", std::strerror(errno));
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

// Leaves session and parent behind and allocates there.
int Daemon(const std::vector<std::string>& args) {
  if (fork() == 0) {
    (void)setsid();
    if (fork() == 0) {
      return GrabAndHold(Number(args, 0, 2048));
    }
    _exit(0);
  }
  std::string line;
  while (Line(&line)) {
  }
  return 0;
}

constexpr std::uint64_t kCallsPerSignal = 16;  // at most
std::atomic<std::uint64_t> g_signals{0};

// Allocates `count` objects under a storm of handled signals, then frees every second one. Each
// call must have its effect exactly once.
int Storm(const std::vector<std::string>& args) {
  const std::uint64_t count = Number(args, 0, 20'000);
  Client client = MakeClient();
  struct sigaction action{};
  action.sa_handler = [](int) { ++g_signals; };
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR1, &action, nullptr);
  std::atomic<bool> stop{false};
  const pid_t process = getpid();
  const auto thread = static_cast<pid_t>(syscall(SYS_gettid));
  std::thread sender([&] {
    while (!stop.load(std::memory_order_relaxed)) {
      (void)syscall(SYS_tgkill, process, thread, SIGUSR1);
      sched_yield();
    }
  });
  std::uint64_t made = 0;
  std::uint64_t freed = 0;
  std::uint64_t twice = 0;
  std::uint64_t failed = 0;
  const std::uint32_t first = client.next;
  for (std::uint64_t i = 0; i < count; ++i) {
    // On a busy machine, the sender may not run by itself.
    while (g_signals.load() < i / kCallsPerSignal) {
      sched_yield();
    }
    auto memory = MemoryParams(4096);
    const std::uint32_t status = client.Alloc(Client::kDevice, client.next++,
                                              rm::NV01_MEMORY_LOCAL_USER, &memory, sizeof(memory));
    made += status == rm::NV_OK ? 1 : 0;
    twice += status == rm::NV_ERR_INSERT_DUPLICATE_NAME ? 1 : 0;
    if (status != rm::NV_OK && status != rm::NV_ERR_INSERT_DUPLICATE_NAME && failed++ == 0) {
      Say("first failure: 0x%x, errno %d", status, errno);
    }
  }
  for (std::uint64_t i = 0; i < count; i += 2) {
    const std::uint32_t status = client.Free(first + static_cast<std::uint32_t>(i));
    freed += status == rm::NV_OK ? 1 : 0;
    failed += status != rm::NV_OK ? 1 : 0;
  }
  stop = true;
  sender.join();
  Say("made %llu freed %llu twice %llu failed %llu signals %llu",
      static_cast<unsigned long long>(made), static_cast<unsigned long long>(freed),
      static_cast<unsigned long long>(twice), static_cast<unsigned long long>(failed),
      static_cast<unsigned long long>(g_signals.load()));
  Hold();
  return 0;
}

// The same handle allocated and freed again and again by the same instructions with the same
// parameters: every call is a new one, whatever it looks like. Ends with the object allocated.
int Again(const std::vector<std::string>& args) {
  Client client = MakeClient();
  std::uint64_t wrong = 0;
  const std::uint32_t handle = client.next++;
  for (std::uint64_t i = 0; i < Number(args, 0, 101); ++i) {
    auto memory = MemoryParams(64 * kMiB);
    const bool alloc = i % 2 == 0;
    const std::uint32_t status =
        alloc ? client.Alloc(Client::kDevice, handle, rm::NV01_MEMORY_LOCAL_USER, &memory,
                             sizeof(memory))
              : client.Free(handle);
    wrong += status == rm::NV_OK ? 0 : 1;
  }
  Say("wrong %llu", static_cast<unsigned long long>(wrong));
  Hold();
  return 0;
}

// `threads` threads in one call each, which the test makes the driver hold; one more client goes
// on.
int Blocked(const std::vector<std::string>& args) {
  const std::uint64_t count = Number(args, 0, 300);
  const std::string kind = args.size() > 1 ? args[1] : "alloc";
  Client busy = MakeClient();
  Client going = MakeClient();
  if (Grab(going, 256) != 256) {
    Die("failed: no memory");
  }
  Say("ready");
  std::string line;
  (void)Line(&line);  // the test has armed the driver
  std::atomic<std::uint64_t> back{0};
  std::vector<std::thread> threads;
  threads.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      if (kind == "client") {
        rm::NV0000_CTRL_GPU_GET_ATTACHED_IDS_PARAMS ids{};
        (void)busy.Control(busy.root, rm::NV0000_CTRL_CMD_GPU_GET_ATTACHED_IDS, &ids, sizeof(ids));
      } else if (kind == "control") {
        rm::NV2080_CTRL_GPU_GET_NAME_STRING_PARAMS name{};
        (void)busy.Control(Client::kSubdevice, rm::NV2080_CTRL_CMD_GPU_GET_NAME_STRING, &name,
                           sizeof(name));
      } else {
        Client mine = busy;
        mine.next = 0xce000000 + static_cast<std::uint32_t>(i);
        (void)mine.AllocMemory(1);
      }
      ++back;
    });
  }
  Say("started");
  (void)Line(&line);  // the test has seen that they are held
  std::uint64_t freed = 0;
  for (std::uint32_t handle = 0xcaf10000; handle < 0xcaf10004; ++handle) {
    freed += going.Free(handle) == rm::NV_OK ? 1 : 0;
  }
  Say("freed %llu while %llu of %llu came back", static_cast<unsigned long long>(freed),
      static_cast<unsigned long long>(back.load()), static_cast<unsigned long long>(count));
  (void)Line(&line);  // the test has released the driver
  for (std::thread& thread : threads) {
    thread.join();
  }
  Say("all back %llu", static_cast<unsigned long long>(back.load()));
  Hold();
  return 0;
}

constexpr std::size_t kCanary = 1 << 16;

// A child is killed inside a call that the test makes the driver hold; then, whenever the test says
// "fork", another process is made with the same memory layout, until one has the child's number.
// When the call has ended, not one byte of it may have changed.
int PidReuse(const std::vector<std::string>&) {
  Client client = MakeClient();
  auto* canary = static_cast<unsigned char*>(
      mmap(nullptr, kCanary, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  std::memset(canary, 0x5a, kCanary);
  Say("ready");
  std::string line;
  (void)Line(&line);
  const pid_t victim = fork();
  if (victim == 0) {
    // Parameters inside the canary: what is written back lands there.
    std::memset(canary, 0, kCanary);
    (void)client.Control(Client::kSubdevice, rm::NV2080_CTRL_CMD_GPU_GET_NAME_STRING, canary,
                         sizeof(rm::NV2080_CTRL_GPU_GET_NAME_STRING_PARAMS));
    _exit(0);
  }
  Say("calling %d", victim);
  (void)Line(&line);  // the test has seen the call held
  kill(victim, SIGKILL);
  waitpid(victim, nullptr, 0);
  Say("killed");
  pid_t heir = -1;
  while (Line(&line) && line == "fork") {
    if (heir > 0) {
      kill(heir, SIGKILL);
      waitpid(heir, nullptr, 0);
    }
    int pair[2];
    if (pipe(pair) != 0) {
      Die("failed: no pipe");
    }
    heir = fork();
    if (heir == 0) {
      close(pair[1]);
      char c = 0;
      const bool asked = read(pair[0], &c, 1) == 0;  // the parent closes it when all is over
      std::size_t changed = 0;
      for (std::size_t i = 0; i < kCanary; ++i) {
        changed += canary[i] == 0x5a ? 0 : 1;
      }
      Say("changed %zu", asked ? changed : kCanary);
      _exit(0);
    }
    close(pair[0]);
    Say("forked %d", heir);
    if (!Line(&line)) {
      break;
    }
    if (line == "check") {
      close(pair[1]);
      waitpid(heir, nullptr, 0);
      break;
    }
    close(pair[1]);
    kill(heir, SIGKILL);
    waitpid(heir, nullptr, 0);
    heir = -1;
    Say("discarded");
  }
  Hold();
  return 0;
}

// A process made by vfork makes a call while its memory is its parent's, and executes another
// program, whose calls have their parameters where the parent has a canary.
int Vfork(const std::vector<std::string>& args) {
  void* const place = reinterpret_cast<void*>(std::uintptr_t{0x6a0000000000});
  void* const mapped = mmap(place, kCanary, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (mapped != place) {
    Die("failed: no memory at the address");
  }
  if (!args.empty()) {  // the other program
    auto* client = new (place) Client(MakeClient());
    auto* params = reinterpret_cast<rm::NV2080_CTRL_GPU_GET_NAME_STRING_PARAMS*>(client + 1);
    const std::uint32_t status = client->Control(
        Client::kSubdevice, rm::NV2080_CTRL_CMD_GPU_GET_NAME_STRING, params, sizeof(*params));
    std::size_t named = 0;
    for (std::size_t i = 0; i < sizeof(*params); ++i) {
      named += reinterpret_cast<const char*>(params)[i] != 0 ? 1 : 0;
    }
    Say("status 0x%x named %zu", status, named);
    return 0;
  }
  std::memset(place, 0x5a, kCanary);
  Client client = MakeClient();
  char program[] = "/proc/self/exe";
  char attack[] = "vfork";
  char other[] = "other";
  char* const argv[] = {program, attack, other, nullptr};
  rm::NV2080_CTRL_GPU_GET_NAME_STRING_PARAMS params{};
  const pid_t child = vfork();
  if (child == 0) {
    (void)client.Control(Client::kSubdevice, rm::NV2080_CTRL_CMD_GPU_GET_NAME_STRING, &params,
                         sizeof(params));
    execv(program, argv);
    _exit(1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  std::size_t changed = 0;
  for (std::size_t i = 0; i < kCanary; ++i) {
    changed += static_cast<unsigned char*>(place)[i] == 0x5a ? 0 : 1;
  }
  Say("exited %d changed %zu", status, changed);
  Hold();
  return 0;
}

// Allocates, copies, exports and frees without end, in several processes. Killed from outside.
int Churn(const std::vector<std::string>& args) {
  for (std::uint64_t i = 1; i < Number(args, 0, 3); ++i) {
    if (fork() == 0) {
      break;
    }
  }
  Say("churning");
  while (true) {
    Client client = MakeClient();
    const int file = OpenControl();
    for (int i = 0; i < 20; ++i) {
      std::uint32_t object = 0;
      if (client.AllocMemory(32, &object) != rm::NV_OK) {
        continue;
      }
      (void)client.Dup(client.root, object, client.next++);
      if (i == 10) {
        (void)client.Export(object, file);
      }
      if (i % 3 == 0) {
        (void)client.Free(object);
      }
    }
    close(file);
    close(client.ctl);
    close(client.gpu);
  }
}

// Calls without pause from several threads of two processes: half of them take up to `kept`
// MiB and keep it, the others take and give back. They end when calls fail instead of being
// answered.
int Hammer(const std::vector<std::string>& args) {
  const std::uint64_t count = Number(args, 0, 4);
  const std::uint64_t kept = Number(args, 1, 256);
  const bool child = fork() == 0;
  std::atomic<std::uint64_t> held{0};
  std::atomic<std::uint64_t> running{0};
  const auto work = [&](std::uint64_t number) {
    Client client = MakeClient();
    ++running;
    std::uint64_t failed = 0;
    while (failed < 1000) {
      std::uint32_t object = 0;
      const std::uint32_t status = client.AllocMemory(32, &object);
      failed += status == kNoAnswer ? 1 : 0;
      if (failed > 0 && status == rm::NV_OK) {
        Say("answered after a failure");
      }
      if (status != rm::NV_OK) {
        continue;
      }
      if (number % 2 == 0 && held.load() < kept) {
        held += 32;
        continue;
      }
      (void)client.Dup(client.root, object, client.next++);
      (void)client.Free(object);
      (void)client.Free(client.next - 1);
    }
  };
  std::vector<std::thread> threads;
  for (std::uint64_t i = 0; i < count; ++i) {
    threads.emplace_back(work, i);
  }
  while (running.load() < count) {
    sched_yield();
  }
  Say("hammering %s", child ? "too" : "first");
  for (std::thread& thread : threads) {
    thread.join();
  }
  Say("failed %s", child ? "too" : "first");
  Hold();
  return 0;
}

// Holds GPU memory, then takes more and more of the machine's, until it is ended.
int Hog(const std::vector<std::string>& args) {
  constexpr std::size_t kStep = kMiB;
  Client client = MakeClient();
  Say("got %llu MiB", static_cast<unsigned long long>(Grab(client, Number(args, 0, 64))));
  std::string line;
  (void)Line(&line);  // the test has seen it in the accounting
  for (std::uint64_t eaten = 1; true; ++eaten) {
    void* const memory = mmap(nullptr, kStep, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED) {
      Die("failed: no memory at %llu MiB", static_cast<unsigned long long>(eaten));
    }
    std::memset(memory, 1, kStep);
    Say("ate %llu MiB", static_cast<unsigned long long>(eaten));
    if (eaten == Number(args, 1, 1024)) {
      Die("failed: nobody ends it");
    }
  }
}

}  // namespace

std::vector<Entry> ProcessAttacks() {
  return {
      {"filter", OwnFilter, "allow|trace|errno|listener [MIB]: a seccomp filter of one's own"},
      {"chain", Chain, "[DEPTH [MIB]]: fork and exec with an empty environment"},
      {"daemon", Daemon, "[MIB]: out of session and parentage"},
      {"storm", Storm, "[COUNT]: allocations under a storm of signals"},
      {"again", Again, "[COUNT]: the same calls again and again"},
      {"blocked", Blocked, "[THREADS [alloc|control|client]]: calls that the driver holds"},
      {"pid-reuse", PidReuse, ": another process with the number of a killed caller"},
      {"vfork", Vfork, ": a program executed by a process that shared its parent's memory"},
      {"hammer", Hammer, "[THREADS [MIB]]: calls of two processes until they fail"},
      {"churn", Churn, "[PROCESSES]: until killed"},
      {"hog", Hog, "[MIB [MIB]]: GPU memory, then the machine's, until it is ended"},
  };
}

}  // namespace cgpu::adversary
