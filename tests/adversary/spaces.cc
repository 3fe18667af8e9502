// Attacks on who managed memory is charged to: it lives in an address space, whatever becomes of
// the process or thread that mapped it.
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <string>
#include <thread>
#include <vector>

#include "common.h"
#include "uvm_client.h"

namespace cgpu::adversary {
namespace {

constexpr std::uint64_t kBase = 0x100000000000;  // free in any process of ours
constexpr std::uint64_t kStep = 256 * kMiB;

bool MapStep(int uvm, std::uint64_t at) {
  return MapManaged(uvm, at, kStep);
}

int SleepForEver(void* with_parent) {
  if (with_parent != nullptr) {
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  }
  while (true) {
    pause();
  }
}

// A process that has our address space and does nothing. It outlives our process,
// or only the program that it is.
pid_t Sleeper(bool with_process = false) {
  static std::array<char, 64 * 1024> stack;
  static bool yes = true;
  return clone(SleepForEver, stack.data() + stack.size(), CLONE_VM | SIGCHLD,
               with_process ? &yes : nullptr);
}

[[noreturn]] void ExecuteAnew() {
  char program[] = "/proc/self/exe";
  char attack[] = "idle";
  char* const argv[] = {program, attack, nullptr};
  execv(program, argv);
  _exit(1);
}

// A child that maps a step, leaves the address space to a sleeper and goes: WAY. It writes the
// sleeper's number first, and closes the pipe by what it does last.
[[noreturn]] void MapAndGo(const std::string& way, int uvm, std::uint64_t at, int pipe) {
  if (!MapStep(uvm, at)) {
    _exit(1);
  }
  const pid_t sleeper = Sleeper();
  if (sleeper < 0 || write(pipe, &sleeper, sizeof(sleeper)) != sizeof(sleeper)) {
    _exit(1);
  }
  if (way == "exit") {
    _exit(0);
  }
  if (way == "thread-exec") {
    std::thread([] { ExecuteAnew(); }).join();
  }
  ExecuteAnew();
}

class Family {
 public:
  Family() { (void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); }

  // False: the mapping was refused.
  bool Add(const std::string& way, int uvm, std::uint64_t at) {
    int pipe[2];
    if (pipe2(pipe, O_CLOEXEC) != 0) {
      Die("pipe2");
    }
    const pid_t child = fork();
    if (child == 0) {
      close(pipe[0]);
      MapAndGo(way, uvm, at, pipe[1]);
    }
    close(pipe[1]);
    members_.push_back(child);
    pid_t sleeper = 0;
    const bool made = read(pipe[0], &sleeper, sizeof(sleeper)) == sizeof(sleeper);
    if (made) {
      members_.push_back(sleeper);
      if (way == "exit") {
        (void)waitpid(child, nullptr, 0);
      } else {
        // The sleeper has the pipe as well. Another program's name says that it was executed.
        const std::string name = "/proc/" + std::to_string(child) + "/cmdline";
        std::string line;
        while (line.find("idle") == std::string::npos) {
          line = FirstBytes(name);
          (void)sched_yield();
        }
      }
    }
    close(pipe[0]);
    return made;
  }

  void Adopt(pid_t child) { members_.push_back(child); }

  void End() {
    for (const pid_t member : members_) {
      (void)kill(member, SIGKILL);
    }
    while (waitpid(-1, nullptr, 0) > 0 || errno == EINTR) {
    }
    members_.clear();
  }

 private:
  static std::string FirstBytes(const std::string& path) {
    std::array<char, 256> text{};
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    const ssize_t n = file < 0 ? 0 : read(file, text.data(), text.size());
    close(file);
    return {text.data(), n > 0 ? static_cast<std::size_t>(n) : 0};
  }

  std::vector<pid_t> members_;
};

// Takes again what is free again.
void SayAgain(const UvmClient& uvm, std::uint64_t wanted) {
  std::uint64_t again = 0;
  for (std::uint64_t at = kBase; again < wanted && MapStep(uvm.uvm, at); at += kStep) {
    again += kStep;
  }
  Say("again %llu MiB", static_cast<unsigned long long>(again / kMiB));
}

// WAY MIB: children map, share their address space and go.
int Left(const std::vector<std::string>& args) {
  const std::string& way = args.at(0);
  const std::uint64_t wanted = Number(args, 1, 6144) * kMiB;
  const UvmClient uvm = MakeUvmClient();
  Family family;
  std::uint64_t held = 0;
  for (std::uint64_t at = kBase; held < wanted && family.Add(way, uvm.uvm, at); at += kStep) {
    held += kStep;
  }
  Say("got %llu MiB", static_cast<unsigned long long>(held / kMiB));
  std::string line;
  (void)Line(&line);
  family.End();
  SayAgain(uvm, held);
  Hold();
  return 0;
}

struct Step {
  int uvm;
  std::uint64_t at;
};

// A child in our address space, which waits for its end, maps into it.
bool MapByChild(const Step& step) {
  static std::array<char, 64 * 1024> stack;
  const auto map = [](void* what) {
    const auto* one = static_cast<const Step*>(what);
    return MapStep(one->uvm, one->at) ? 0 : 1;
  };
  Step copy = step;
  const pid_t child =
      clone(map, stack.data() + stack.size(), CLONE_VM | CLONE_VFORK | SIGCHLD, &copy);
  int status = 1;
  return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

// Maps by `map_step`, a step at a time, until `wanted` bytes are held or no more are given.
template <class MapOne>
std::uint64_t MapMost(std::uint64_t wanted, const MapOne& map_step) {
  std::uint64_t held = 0;
  constexpr int kTries = 20;  // what was mapped may have been given back meanwhile
  for (int tries = 0; held < wanted && tries < kTries; ++tries) {
    while (held < wanted && map_step(kBase + held)) {
      held += kStep;
    }
    usleep(50000);
  }
  Say("got %llu MiB", static_cast<unsigned long long>(held / kMiB));
  return held;
}

// MIB: children made as vfork makes them map into this process's memory and end.
int Vforked(const std::vector<std::string>& args) {
  const std::uint64_t wanted = Number(args, 0, 6144) * kMiB;
  const UvmClient uvm = MakeUvmClient();
  const std::uint64_t held =
      MapMost(wanted, [&](std::uint64_t at) { return MapByChild({uvm.uvm, at}); });
  std::string line;
  (void)Line(&line);
  (void)munmap(std::bit_cast<void*>(kBase), held);
  SayAgain(uvm, held);
  Hold();
  return 0;
}

// MIB: children map and end, and the kernel is kept from unmapping what they had.
int Unmapped(const std::vector<std::string>& args) {
  const std::uint64_t wanted = Number(args, 0, 6144) * kMiB;
  const UvmClient uvm = MakeUvmClient();
  std::string line;
  (void)Line(&line);
  const std::uint64_t held = MapMost(wanted, [&](std::uint64_t at) {
    const pid_t child = fork();
    if (child == 0) {
      const bool mapped = MapStep(uvm.uvm, at);
      // The simulated driver sees mappings when it is asked for memory, and not as they are made.
      (void)uvm.client.FreeKib();
      _exit(mapped ? 0 : 1);
    }
    int status = 1;
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
  });
  (void)Line(&line);
  SayAgain(uvm, held);
  Hold();
  return 0;
}

// The file for the next address space; another program keeps it.
int NextFile(UvmClient& client) {
  StartUvm(client);
  const int kept = dup(client.uvm);
  if (kept < 0) {
    Die("dup");
  }
  return kept;
}

// Twins: this process maps, leaves its address space to a sleeper, executes this program and maps
// the same addresses by another file. COUNT times, or the FILEs that are left; it makes no call but
// mmap, for whoever serves it may take the sleeper's memory for its own.
int Twins(const std::vector<std::string>& args) {
  std::vector<std::string> files(args.begin() + 1, args.end());
  if (files.empty()) {
    UvmClient uvm = MakeUvmClient();
    for (std::uint64_t left = Number(args, 0, 24); left > 0; --left) {
      files.push_back(std::to_string(NextFile(uvm)));
    }
    // A process that has the client keeps the GPU registered.
    if (dup(uvm.client.ctl) < 0 || dup(uvm.client.gpu) < 0) {
      Die("dup");
    }
  }
  if (files.front() == "none" || !MapStep(std::stoi(files.front()), kBase)) {
    Say("left %zu", files.front() == "none" ? 0 : files.size());
    Hold();
    return 0;
  }
  if (Sleeper(true) < 0) {
    Die("clone");
  }
  files.erase(files.begin());
  if (files.empty()) {
    files.emplace_back("none");
  }
  std::string program = "/proc/self/exe";
  std::string attack = "twins";
  std::string count = args.at(0);
  std::vector<char*> words = {program.data(), attack.data(), count.data()};
  for (std::string& file : files) {
    words.push_back(file.data());
  }
  words.push_back(nullptr);
  execv(program.c_str(), words.data());
  Die("execv");
}

// A thread's call makes its number known; the test sees to it that a child gets that number, which
// then maps. MIB.
int Reused(const std::vector<std::string>& args) {
  const std::uint64_t wanted = Number(args, 0, 6144) * kMiB;
  const UvmClient uvm = MakeUvmClient();
  Family family;
  std::uint64_t held = 0;
  std::string line;
  for (std::uint64_t at = kBase; held < wanted; at += kStep) {
    std::thread([&] {
      // Any request that is trapped.
      (void)uvm.FreeRange(kBase / 2, 4096);
      Say("number %d", static_cast<int>(gettid()));
      (void)Line(&line);
    }).join();
    Say("ended");
    bool mapped = false;
    while (!mapped) {
      (void)Line(&line);  // "fork"
      int go[2];
      int done[2];
      if (pipe2(go, O_CLOEXEC) != 0 || pipe2(done, O_CLOEXEC) != 0) {
        Die("pipe2");
      }
      const pid_t child = fork();
      if (child == 0) {
        char word = 0;
        if (read(go[0], &word, 1) != 1 || word != 'm') {
          _exit(1);
        }
        word = MapStep(uvm.uvm, at) ? 'm' : 'r';
        (void)!write(done[1], &word, 1);
        (void)SleepForEver(nullptr);
      }
      Say("number %d", static_cast<int>(child));
      (void)Line(&line);  // "map" or "drop"
      char word = line.at(0);
      (void)!write(go[1], &word, 1);
      if (word == 'm') {
        (void)!read(done[0], &word, 1);
        Say("child %s", word == 'm' ? "mapped" : "refused");
        mapped = true;
        held += kStep;
        family.Adopt(child);
      } else {
        (void)waitpid(child, nullptr, 0);
      }
      for (const int end : {go[0], go[1], done[0], done[1]}) {
        close(end);
      }
      if (word == 'r') {
        held = wanted;
      }
    }
  }
  Hold();
  family.End();
  return 0;
}

int Idle(const std::vector<std::string>& /*args*/) {
  return SleepForEver(nullptr);
}

}  // namespace

std::vector<Entry> SpaceAttacks() {
  return {{"left", Left, "exit|exec|thread-exec MIB"},
          {"vforked", Vforked, "MIB"},
          {"unmapped", Unmapped, "MIB"},
          {"twins", Twins, "COUNT [FILE...]"},
          {"reused", Reused, "MIB"},
          {"idle", Idle, ": sleeps"}};
}

}  // namespace cgpu::adversary
