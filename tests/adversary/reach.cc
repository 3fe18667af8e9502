// Attacks on the shim's time: what it looks after so often, or for so long, that it has none for
// others, be it root or a neighbour.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <csignal>

#include "common.h"
#include "rm/uvm_table.h"
#include "uvm_client.h"

namespace cgpu::adversary {
namespace {

void RaiseFileLimit() {
  rlimit files{};
  (void)getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &files);
}

// Open files of nvidia-uvm, initialised, in a process of their own that does nothing else. How many
// were to be had.
std::uint64_t HideSpaces(std::uint64_t count) {
  std::vector<int> files;
  std::uint64_t made = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const int file = open("/dev/nvidia-uvm", O_RDWR | O_CLOEXEC);
    if (file < 0) {
      break;
    }
    rm::UVM_INITIALIZE_PARAMS params{};
    const int error = RawIoctl(file, rm::UVM_INITIALIZE, &params);
    files.push_back(file);
    made += error == 0 && params.rmStatus == rm::NV_OK ? 1 : 0;
  }
  if (fork() == 0) {
    while (true) {
      pause();
    }
  }
  for (const int file : files) {
    close(file);
  }
  return made;
}

void CloseWithoutPause() {
  while (true) {
    close(OpenControl());
  }
}

// [SPACES PROCESSES FILES]: files that have to be looked for among those of many processes, and a
// close after the other, which makes it worth a look.
int Hoard(const std::vector<std::string>& args) {
  const std::uint64_t spaces = Number(args, 0, 100);
  const std::uint64_t processes = Number(args, 1, 300);
  const std::uint64_t files = Number(args, 2, 900);
  RaiseFileLimit();
  Client client = MakeClient();
  if (client.AllocMemory(64) != rm::NV_OK) {
    Die("failed: no memory");
  }
  int ready[2];
  if (pipe(ready) != 0) {
    Die("failed: no pipe");
  }
  for (std::uint64_t i = 0; i < processes; ++i) {
    if (fork() == 0) {
      const int file = open("/dev/null", O_RDONLY);
      for (std::uint64_t j = 1; j < files; ++j) {
        (void)!dup(file);
      }
      (void)!write(ready[1], "", 1);
      while (true) {
        pause();
      }
    }
  }
  char byte = 0;
  for (std::uint64_t i = 0; i < processes; ++i) {
    (void)!read(ready[0], &byte, 1);
  }
  Say("spaces %llu", static_cast<unsigned long long>(HideSpaces(spaces)));
  if (fork() == 0) {
    CloseWithoutPause();
  }
  Hold();
  kill(0, SIGKILL);
  return 0;
}

// [CLIENTS]: not an attack: one that holds as many clients, and does nothing.
int Quiet(const std::vector<std::string>& args) {
  const std::uint64_t clients = Number(args, 0, 100);
  const int file = OpenControl();
  for (std::uint64_t i = 0; i < clients; ++i) {
    rm::NVOS21_PARAMETERS alloc{};
    alloc.hClass = rm::NV01_ROOT_CLIENT;
    if (Plainly(file, rm::NV_ESC_RM_ALLOC, &alloc, sizeof(alloc)) != 0 || alloc.status != 0) {
      Die("failed: no client");
    }
  }
  Hold();
  return 0;
}

// A line of the test's with a number: opens and closes a file of the driver's as often.
int Closes(const std::vector<std::string>& /*args*/) {
  Say("ready");
  std::string line;
  while (Line(&line)) {
    const std::uint64_t count = std::strtoull(line.c_str(), nullptr, 10);
    for (std::uint64_t i = 0; i < count; ++i) {
      close(OpenControl());
    }
    Say("closed %llu", static_cast<unsigned long long>(count));
  }
  return 0;
}

// [AT ONCE]: processes that make a client and end, until stdin is closed.
int ExitStorm(const std::vector<std::string>& args) {
  const std::uint64_t at_once = Number(args, 0, 8);
  for (std::uint64_t i = 0; i < at_once; ++i) {
    if (fork() == 0) {
      while (true) {
        const pid_t child = fork();
        if (child == 0) {
          (void)MakeRoot(Plainly, /*quiet=*/true);
          _exit(0);
        }
        (void)waitpid(child, nullptr, 0);
      }
    }
  }
  Hold();
  kill(0, SIGKILL);
  return 0;
}

// Closes without pause, until stdin is closed.
int CloseFlood(const std::vector<std::string>& /*args*/) {
  Client client = MakeClient();
  if (fork() == 0) {
    CloseWithoutPause();
  }
  Hold();
  kill(0, SIGKILL);
  return 0;
}

// [COUNT]: as many address spaces as there are to be had.
int Spaces(const std::vector<std::string>& args) {
  RaiseFileLimit();
  const std::uint64_t made = HideSpaces(Number(args, 0, 1'500));
  Say("spaces %llu", static_cast<unsigned long long>(made));
  Hold();
  kill(0, SIGKILL);
  return 0;
}

// [PROCESSES PIECES]: processes whose managed memory lies in as many pieces each, which all have to
// be counted whenever one is looked for; and one that maps and unmaps without pause.
int Pieces(const std::vector<std::string>& args) {
  const std::uint64_t processes = Number(args, 0, 32);
  const std::uint64_t pieces = Number(args, 1, 1'000);
  constexpr std::uint64_t kBase = 0x200000000000;
  constexpr std::uint64_t kPage = 4096;
  int ready[2];
  if (pipe(ready) != 0) {
    Die("failed: no pipe");
  }
  for (std::uint64_t i = 0; i <= processes; ++i) {
    if (fork() != 0) {
      continue;
    }
    UvmClient client;
    client.uvm = open("/dev/nvidia-uvm", O_RDWR | O_CLOEXEC);
    if (client.Initialise() != rm::NV_OK) {
      Die("failed: no space");
    }
    const auto unmap = [](std::uint64_t at) { (void)munmap(std::bit_cast<void*>(at), kPage); };
    if (i < processes && !MapManaged(client.uvm, kBase, 2 * pieces * kPage)) {
      Die("failed: no managed memory");
    }
    for (std::uint64_t j = 0; i < processes && j < pieces; ++j) {
      unmap(kBase + (2 * j + 1) * kPage);
    }
    (void)!write(ready[1], "", 1);
    while (true) {
      if (i < processes) {
        pause();
      } else if (MapManaged(client.uvm, kBase, kPage)) {
        unmap(kBase);
      }
    }
  }
  char byte = 0;
  for (std::uint64_t i = 0; i <= processes; ++i) {
    (void)!read(ready[0], &byte, 1);
  }
  Hold();
  kill(0, SIGKILL);
  return 0;
}

}  // namespace

std::vector<Entry> ReachAttacks() {
  return {{"hoard", Hoard, "[SPACES PROCESSES FILES]: files that are hard to find"},
          {"quiet", Quiet, "[CLIENTS]: holds clients"},
          {"closes", Closes, "opens and closes files, as often as each line says"},
          {"exit-storm", ExitStorm, "[AT ONCE]: processes that make a client and end"},
          {"close-flood", CloseFlood, "closes without pause"},
          {"pieces", Pieces, "[PROCESSES PIECES]: managed memory in pieces"},
          {"hide-spaces", Spaces, "[COUNT]: address spaces in a process that does nothing"}};
}

}  // namespace cgpu::adversary
