// Attacks between check and use: memory, descriptors and descriptor tables that change meanwhile.
#include <fcntl.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <thread>

#include "common.h"

namespace cgpu::adversary {
namespace {

// Parameters that the second thread changes without pause while the first one allocates.
struct Flipped {
  rm::NVOS21_PARAMETERS alloc{};
  rm::NV_MEMORY_ALLOCATION_PARAMS memory{};
  rm::NV_MEMORY_ALLOCATION_PARAMS other{};
  rm::nv_ioctl_xfer_t xfer{};
  rm::NVOS21_PARAMETERS other_alloc{};
  rm::NVOS32_PARAMETERS heap{};
};

template <class T>
void Put(T& field, T value) {
  std::atomic_ref<T>(field).store(value, std::memory_order_relaxed);
}

enum class What { kSize, kPointer, kClass, kXfer, kLocation };

// One side of the flip: what the check is to see, or what is wanted.
void Flip(Flipped& f, What what, bool wanted, std::uint64_t small, std::uint64_t huge) {
  switch (what) {
    case What::kSize:
      Put(f.memory.size, wanted ? huge : small);
      break;
    case What::kPointer:
      Put(f.alloc.pAllocParms, std::bit_cast<std::uint64_t>(wanted ? &f.other : &f.memory));
      break;
    case What::kClass:
      Put(f.alloc.hClass, wanted ? rm::NV01_MEMORY_LOCAL_USER : rm::NV01_MEMORY_SYSTEM);
      break;
    case What::kXfer:
      Put(f.xfer.ptr, std::bit_cast<std::uint64_t>(wanted ? &f.other_alloc : &f.alloc));
      break;
    case What::kLocation:
      Put(f.heap.data.AllocSize.attr,
          rm::NVOS32_ATTR_LOCATION.Set(
              0, wanted ? rm::NVOS32_ATTR_LOCATION_VIDMEM : rm::NVOS32_ATTR_LOCATION_PCI));
      break;
  }
}

void Prepare(Flipped& f, const Client& client, What what, std::uint32_t handle, std::uint64_t small,
             std::uint64_t huge) {
  const bool by_class = what == What::kClass;
  f.memory = MemoryParams(by_class ? huge : small);
  f.other = MemoryParams(huge);
  f.alloc = {};
  f.alloc.hRoot = client.root;
  f.alloc.hObjectParent = Client::kDevice;
  f.alloc.hObjectNew = handle;
  f.alloc.hClass = rm::NV01_MEMORY_LOCAL_USER;
  f.alloc.status = kNoAnswer;
  f.alloc.pAllocParms = std::bit_cast<std::uint64_t>(&f.memory);
  f.other_alloc = f.alloc;
  f.other_alloc.pAllocParms = std::bit_cast<std::uint64_t>(&f.other);
  f.xfer.cmd = rm::NV_ESC_RM_ALLOC;
  f.xfer.size = sizeof(f.alloc);
  f.xfer.ptr = std::bit_cast<std::uint64_t>(&f.alloc);
  f.heap = {};
  f.heap.hRoot = client.root;
  f.heap.hObjectParent = Client::kDevice;
  f.heap.function = rm::NVOS32_FUNCTION_ALLOC_SIZE;
  f.heap.data.AllocSize.owner = client.root;
  f.heap.data.AllocSize.hMemory = handle;
  f.heap.data.AllocSize.size = huge;
}

// True if the driver says it allocated.
bool Try(const Client& client, Flipped& f, What what) {
  switch (what) {
    case What::kXfer:
      return Plainly(client.ctl, rm::NV_ESC_IOCTL_XFER_CMD, &f.xfer, sizeof(f.xfer)) == 0 &&
             (f.alloc.status == rm::NV_OK || f.other_alloc.status == rm::NV_OK);
    case What::kLocation:
      f.heap.status = 1;
      return Plainly(client.ctl, rm::NV_ESC_RM_VID_HEAP_CONTROL, &f.heap, sizeof(f.heap)) == 0 &&
             f.heap.status == rm::NV_OK;
    default:
      return Plainly(client.ctl, rm::NV_ESC_RM_ALLOC, &f.alloc, sizeof(f.alloc)) == 0 &&
             f.alloc.status == rm::NV_OK;
  }
}

What WhatOf(const std::string& name) {
  return name == "pointer" ? What::kPointer
         : name == "class" ? What::kClass
         : name == "xfer"  ? What::kXfer
         : name == "attr"  ? What::kLocation
                           : What::kSize;
}

// Tries in rounds. Within a round nothing is freed, so whatever was won stands in the accounting
// when the test looks at it. The test answers each "round" with a line.
int FlipMemory(const std::vector<std::string>& args) {
  const What what = WhatOf(args.empty() ? "size" : args[0]);
  const std::uint64_t tries = Number(args, 1, 1'000'000);
  const std::uint64_t small = Number(args, 2, 1) * kMiB;
  const std::uint64_t huge = Number(args, 3, 2048) * kMiB;
  const std::uint64_t per_round = Number(args, 4, 4000);
  Client client = MakeClient();
  static Flipped f;
  std::atomic<bool> stop{false};
  std::thread flipper([&] {
    for (bool wanted = false; !stop.load(std::memory_order_relaxed); wanted = !wanted) {
      Flip(f, what, wanted, small, huge);
    }
  });
  std::uint64_t tried = 0;
  bool more = true;
  std::string line;
  while (tried < tries && more) {
    int succeeded = 0;
    int refused = 0;
    for (std::uint64_t i = 0; i < per_round && tried < tries; ++i, ++tried) {
      Prepare(f, client, what, client.next++, small, huge);
      const bool got = Try(client, f, what);
      succeeded += got ? 1 : 0;
      refused += got ? 0 : 1;
    }
    Say("round %llu tries %d succeeded %d refused", static_cast<unsigned long long>(tried),
        succeeded, refused);
    more = Line(&line);
    if (more && tried < tries) {
      (void)client.Free(Client::kDevice);
      if (client.AllocDevice() != rm::NV_OK) {
        Die("failed: no second device");
      }
    }
  }
  stop = true;
  flipper.join();
  Hold();
  return 0;
}

// Another file and the control file take turns under one number. `other`: null or file.
int FlipFiles(const std::vector<std::string>& args) {
  // Many more than it takes: where the other thread has no core, most of them see one file only.
  const std::uint64_t tries = Number(args, 1, 5'000'000);
  const std::uint64_t enough_refusals = Number(args, 2, 1000);
  Client client = MakeClient();
  const int other = !args.empty() && args[0] == "file"
                        ? open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)
                        : open("/dev/null", O_RDWR | O_CLOEXEC);
  const int number = fcntl(other, F_DUPFD_CLOEXEC, 100);
  std::atomic<bool> stop{false};
  std::thread flipper([&] {
    while (!stop.load(std::memory_order_relaxed)) {
      (void)dup2(client.ctl, number);
      (void)dup2(other, number);
    }
  });
  const int control = client.ctl;
  client.issue = [&](int, std::uint8_t nr, void* params, std::uint32_t size) {
    return Plainly(number, nr, params, size);
  };
  std::uint64_t done = 0;
  std::uint64_t not_tty = 0;
  std::uint64_t refused = 0;
  std::uint64_t tried = 0;
  for (; tried < tries && done < 100 && refused < enough_refusals; ++tried) {
    const std::uint32_t status = client.AllocMemory(32);
    done += status == rm::NV_OK ? 1 : 0;
    refused += status == rm::NV_ERR_NO_MEMORY ? 1 : 0;
    not_tty += status == kNoAnswer ? 1 : 0;
  }
  stop = true;
  flipper.join();
  (void)control;
  Say("tries %llu, allocations %llu, refused %llu, on the other file %llu",
      static_cast<unsigned long long>(tried), static_cast<unsigned long long>(done),
      static_cast<unsigned long long>(refused), static_cast<unsigned long long>(not_tty));
  Hold();
  return 0;
}

// A thread with a descriptor table of its own, in which the leader's number is another file.
int OwnTable(const std::vector<std::string>&) {
  Client leader = MakeClient();
  Client other = MakeClient();
  const int number = fcntl(leader.ctl, F_DUPFD_CLOEXEC, 100);
  std::uint32_t foreign = 0;
  std::uint32_t own = 0;
  std::uint64_t held = 0;
  std::thread thread([&] {
    if (unshare(CLONE_FILES) != 0 || dup2(other.ctl, number) != number) {
      Die("failed: no table of its own: %s", std::strerror(errno));
    }
    // Under this number this thread has the other client's file: the leader's client is not valid
    // there, the other one is.
    Client mixed = leader;
    mixed.ctl = number;
    mixed.next = 0xcb000000;
    foreign = mixed.AllocMemory(1);
    Client right = other;
    right.ctl = number;
    right.next = 0xcb100000;
    own = right.AllocMemory(1);
    held = Grab(right, 2048);
  });
  thread.join();
  Say("leader's client 0x%x", foreign);
  Say("own client 0x%x", own);
  Say("got %llu MiB", static_cast<unsigned long long>(held));
  Hold();
  return 0;
}

// In the leader's table the number is no GPU file at all, so a check there sees nothing to trap.
int HiddenTable(const std::vector<std::string>&) {
  Client client = MakeClient();
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  const int number = fcntl(null, F_DUPFD_CLOEXEC, 100);
  std::uint64_t held = 0;
  std::thread thread([&] {
    if (unshare(CLONE_FILES) != 0 || dup2(client.ctl, number) != number) {
      Die("failed: no table of its own: %s", std::strerror(errno));
    }
    Client hidden = client;
    hidden.ctl = number;
    held = Grab(hidden, 2048);
  });
  thread.join();
  Say("got %llu MiB", static_cast<unsigned long long>(held));
  Hold();
  return 0;
}

}  // namespace

std::vector<Entry> RaceAttacks() {
  return {
      {"flip", FlipMemory, "size|pointer|class|xfer|attr [TRIES [SMALL HUGE [PER_ROUND]]]"},
      {"dup2", FlipFiles, "null|file [TRIES [REFUSALS]]"},
      {"own-table", OwnTable, ": unshare(CLONE_FILES), another file under the same number"},
      {"hidden-table", HiddenTable, ": unshare(CLONE_FILES), no GPU file in the leader's table"},
  };
}

}  // namespace cgpu::adversary
