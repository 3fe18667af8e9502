// Attacks on what the filter and the decoder look at: the request number, the wrapping, the fields
// that say where memory comes from, and the ways into the kernel.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "common.h"

namespace cgpu::adversary {
namespace {

int Grabbed(std::uint64_t mib) {
  Say("got %llu MiB", static_cast<unsigned long long>(mib));
  Hold();
  return 0;
}

int Raw(const std::vector<std::string>& args) {
  Client client = MakeClient();
  return Grabbed(Grab(client, Number(args, 0, 2048)));
}

int Xfer(const std::vector<std::string>& args) {
  Client client = MakeClient(Wrapped);
  return Grabbed(Grab(client, Number(args, 0, 2048)));
}

// Every type byte with every pair of direction bits: 1,024 requests that are all RM_ALLOC to the
// driver, each for 4 MiB.
int Types(const std::vector<std::string>&) {
  Client client = MakeClient();
  int done = 0;
  for (std::uint32_t type = 0; type < 256; ++type) {
    for (std::uint32_t direction = 0; direction < 4; ++direction) {
      client.issue = [&](int fd, std::uint8_t nr, void* params, std::uint32_t size) {
        return RawIoctl(fd, (direction << 30) | (size << 16) | (type << 8) | nr, params);
      };
      done += client.AllocMemory(4) == rm::NV_OK ? 1 : 0;
    }
  }
  Say("allocations %d", done);
  return Grabbed(static_cast<std::uint64_t>(done) * 4);
}

// The kernel reads the low halves of the descriptor and of the request.
int UpperBits(const std::vector<std::string>&) {
  Client client = MakeClient();
  int done = 0;
  for (int bit = 32; bit <= 64; ++bit) {
    for (int where = 1; where < 4; ++where) {
      const std::uint64_t junk = bit == 64 ? 0xffffffff00000000U : std::uint64_t{1} << bit;
      client.issue = [&](int fd, std::uint8_t nr, void* params, std::uint32_t size) {
        const std::uint64_t request = rm::EscapeRequest(nr, size);
        const auto file = static_cast<std::uint64_t>(fd);
        return syscall(16 /* ioctl */, (where & 1) != 0 ? file | junk : file,
                       (where & 2) != 0 ? request | junk : request, params) < 0
                   ? errno
                   : 0;
      };
      done += client.AllocMemory(32) == rm::NV_OK ? 1 : 0;
    }
  }
  Say("allocations %d", done);
  return Grabbed(static_cast<std::uint64_t>(done) * 32);
}

// Every other door to GPU memory: `door` is heap (VID_HEAP_CONTROL), heap-any and heap-pci (with
// these locations), system (class NV01_MEMORY_SYSTEM asked for GPU memory), range and tiled (other
// functions), long (NVOS64), small and aligned (OddAlloc), groups (channel groups and the context
// buffers they take). Of the last three the argument is a number of objects.
std::uint32_t HeapAlloc(const Client& client, std::uint32_t function, std::uint32_t location,
                        std::uint64_t bytes) {
  rm::NVOS32_PARAMETERS heap{};
  heap.hRoot = client.root;
  heap.hObjectParent = Client::kDevice;
  heap.function = function;
  heap.data.AllocSize.owner = client.root;
  heap.data.AllocSize.size = bytes;
  heap.data.AllocSize.attr = rm::NVOS32_ATTR_LOCATION.Set(0, location);
  const int error = client.issue(client.ctl, rm::NV_ESC_RM_VID_HEAP_CONTROL, &heap, sizeof(heap));
  return error != 0 ? kNoAnswer : heap.status;
}

std::uint32_t SystemAlloc(Client& client, std::uint64_t bytes) {
  auto memory = MemoryParams(bytes);
  memory.attr = rm::NVOS32_ATTR_LOCATION.Set(memory.attr, rm::NVOS32_ATTR_LOCATION_VIDMEM);
  return client.Alloc(Client::kDevice, client.next++, rm::NV01_MEMORY_SYSTEM, &memory,
                      sizeof(memory));
}

std::uint32_t LongAlloc(Client& client, std::uint64_t bytes) {
  auto memory = MemoryParams(bytes);
  rm::NVOS64_PARAMETERS alloc{};
  alloc.hRoot = client.root;
  alloc.hObjectParent = Client::kDevice;
  alloc.hObjectNew = client.next++;
  alloc.hClass = rm::NV01_MEMORY_LOCAL_USER;
  alloc.pAllocParms = std::bit_cast<std::uint64_t>(&memory);
  const int error = client.issue(client.ctl, rm::NV_ESC_RM_ALLOC, &alloc, sizeof(alloc));
  return error != 0 ? kNoAnswer : alloc.status;
}

// Sizes whose cost is not what the driver writes back: 4 KiB pages take 64 KiB each, and a fixed
// address takes all of the alignment asked for.
std::uint32_t OddAlloc(Client& client, bool aligned) {
  auto memory = MemoryParams(4096);
  memory.attr = rm::NVOS32_ATTR_PAGE_SIZE.Set(memory.attr, rm::NVOS32_ATTR_PAGE_SIZE_4KB);
  if (aligned) {
    memory.flags =
        rm::NVOS32_ALLOC_FLAGS_FIXED_ADDRESS_ALLOCATE | rm::NVOS32_ALLOC_FLAGS_ALIGNMENT_FORCE;
    memory.alignment = 64 * kMiB;
    memory.offset = client.next * memory.alignment % (8192 * kMiB);
  }
  return client.Alloc(Client::kDevice, client.next++, rm::NV01_MEMORY_LOCAL_USER, &memory,
                      sizeof(memory));
}

std::uint32_t GroupAlloc(Client& client) {
  rm::NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS group{};
  group.engineType = rm::NV2080_ENGINE_TYPE_GRAPHICS;
  return client.Alloc(Client::kDevice, client.next++, rm::KEPLER_CHANNEL_GROUP_A, &group,
                      sizeof(group));
}

int Doors(const std::vector<std::string>& args) {
  const std::string door = args.empty() ? "heap" : args[0];
  const std::uint64_t mib = Number(args, 1, 2048);
  Client client = MakeClient();
  std::uint64_t done = 0;
  const bool single = door == "groups" || door == "small" || door == "aligned";
  const std::uint64_t step = single ? 1 : 64;
  std::uint32_t status = rm::NV_OK;
  while (status == rm::NV_OK && done * step < mib) {
    if (door == "system") {
      status = SystemAlloc(client, step * kMiB);
    } else if (door == "long") {
      status = LongAlloc(client, step * kMiB);
    } else if (door == "groups") {
      status = GroupAlloc(client);
    } else if (single) {
      status = OddAlloc(client, door == "aligned");
    } else {
      const std::uint32_t function = door == "range" ? rm::NVOS32_FUNCTION_ALLOC_SIZE_RANGE
                                     : door == "tiled"
                                         ? rm::NVOS32_FUNCTION_ALLOC_TILED_PITCH_HEIGHT
                                         : rm::NVOS32_FUNCTION_ALLOC_SIZE;
      const std::uint32_t location = door == "heap-any"   ? rm::NVOS32_ATTR_LOCATION_ANY
                                     : door == "heap-pci" ? rm::NVOS32_ATTR_LOCATION_PCI
                                                          : rm::NVOS32_ATTR_LOCATION_VIDMEM;
      status = HeapAlloc(client, function, location, step * kMiB);
    }
    done += status == rm::NV_OK ? 1 : 0;
  }
  Say("allocations %llu", static_cast<unsigned long long>(done));
  Say("status 0x%x", status);
  Hold();
  return 0;
}

// Memory with flags that contradict each other: virtual memory on the GPU, GPU memory in the
// system's, and so on.
struct Mix {
  std::uint32_t cls;  // 0: by VID_HEAP_CONTROL
  std::uint32_t flags;
  std::uint32_t attr;
  std::uint32_t attr2;
};

std::vector<Mix> AllMixes() {
  std::vector<Mix> mixes;
  for (const std::uint32_t cls : {0U, rm::NV01_MEMORY_LOCAL_USER, rm::NV01_MEMORY_SYSTEM,
                                  rm::NV01_MEMORY_VIRTUAL, rm::NV50_MEMORY_VIRTUAL}) {
    for (const std::uint32_t flags :
         {0U, rm::NVOS32_ALLOC_FLAGS_MAP_NOT_REQUIRED, rm::NVOS32_ALLOC_FLAGS_PERSISTENT_VIDMEM,
          rm::NVOS32_ALLOC_FLAGS_USE_BEGIN_END}) {
      for (std::uint32_t bits = 0; bits < 16; ++bits) {
        mixes.push_back({cls, flags | (bits & 1) * rm::NVOS32_ALLOC_FLAGS_VIRTUAL,
                         rm::NVOS32_ATTR_LOCATION.Set(0, bits >> 2),
                         rm::NVOS32_ATTR2_USE_EGM.Set(0, bits >> 1 & 1)});
      }
    }
  }
  return mixes;
}

bool MixedAlloc(Client& client, const Mix& mix, std::uint64_t bytes) {
  if (mix.cls == 0) {
    rm::NVOS32_PARAMETERS heap{};
    heap.hRoot = client.root;
    heap.hObjectParent = Client::kDevice;
    heap.function = rm::NVOS32_FUNCTION_ALLOC_SIZE;
    heap.data.AllocSize.size = bytes;
    heap.data.AllocSize.flags = mix.flags;
    heap.data.AllocSize.attr = mix.attr;
    heap.data.AllocSize.attr2 = mix.attr2;
    return Plainly(client.ctl, rm::NV_ESC_RM_VID_HEAP_CONTROL, &heap, sizeof(heap)) == 0 &&
           heap.status == rm::NV_OK;
  }
  auto memory = MemoryParams(bytes);
  memory.flags = mix.flags;
  memory.attr = mix.attr;
  memory.attr2 = mix.attr2;
  return client.Alloc(Client::kDevice, client.next++, mix.cls, &memory, sizeof(memory)) ==
         rm::NV_OK;
}

// One of each, small, so that it can be seen what counts; then of each as much as would fill a
// GPU.
int Mixed(const std::vector<std::string>&) {
  Client client = MakeClient();
  const std::vector<Mix> mixes = AllMixes();
  int done = 0;
  int intervals = 0;  // of addresses
  const auto make = [&](const Mix& mix, std::uint64_t bytes) {
    if (MixedAlloc(client, mix, bytes)) {
      ++done;
      intervals += (mix.flags & rm::NVOS32_ALLOC_FLAGS_VIRTUAL) != 0 ? 1 : 0;
    }
  };
  for (const Mix& mix : mixes) {
    make(mix, kMiB);
  }
  Say("one of each %d intervals %d", done, intervals);
  std::string line;
  (void)Line(&line);
  for (const Mix& mix : mixes) {
    for (int i = 0; i < 20; ++i) {
      make(mix, 64 * kMiB);
    }
  }
  Say("in all %d intervals %d", done, intervals);
  Hold();
  return 0;
}

// NV_ESC_WAIT_OPEN_COMPLETE, for whose answer of 8 bytes the driver of branch 550 does not ask
// whether there is room: in every size, plain, without direction bits and wrapped.
int OpenComplete(const std::vector<std::string>&) {
  const int files[] = {OpenControl(), OpenGpu()};
  for (const int file : files) {
    for (const std::uint32_t size : {0U, 1U, 4U, 7U, 8U, 9U}) {
      const auto issue = [&](const char* how, auto call) {
        unsigned char buffer[16] = {};
        const int error = call(buffer);
        const bool ours = size == sizeof(rm::nv_ioctl_wait_open_complete_t);
        Say("%s %s %u %s errno %d", file == files[0] ? "control" : "card", how, size,
            ours ? "whole" : "odd", error);
      };
      const std::uint32_t number = rm::NV_ESC_WAIT_OPEN_COMPLETE;
      issue("plain", [&](void* buffer) {
        return RawIoctl(file, rm::EscapeRequest(rm::NV_ESC_WAIT_OPEN_COMPLETE, size), buffer);
      });
      issue("bare", [&](void* buffer) { return RawIoctl(file, size << 16 | number, buffer); });
      issue("typed",
            [&](void* buffer) { return RawIoctl(file, size << 16 | 'F' << 8 | number, buffer); });
      issue("wrapped", [&](void* buffer) {
        return Wrapped(file, rm::NV_ESC_WAIT_OPEN_COMPLETE, buffer, size);
      });
    }
  }
  Hold();
  return 0;
}

// --- Other ways into the kernel. A signal there ends a child of ours, so that we can tell of it.

long Int80(long nr, long a, long b, long c) {
  long result = nr;
  asm volatile("int $0x80"
               : "+a"(result)
               : "b"(a), "c"(b), "d"(c)
               : "memory", "r8", "r9", "r10", "r11");
  return static_cast<int>(result);
}

constexpr long kI386Ioctl = 54;
constexpr long kI386Getpid = 20;
constexpr long kX32Bit = 0x40000000;
constexpr long kX32Ioctl = 514;

// Runs `body` in a child; what it returns, or minus the signal that killed it.
template <class Body>
int InChild(Body body) {
  const pid_t pid = fork();
  if (pid == 0) {
    _exit(body());
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

struct Low {  // lies below 4 GiB
  rm::NVOS21_PARAMETERS alloc;
  rm::NV_MEMORY_ALLOCATION_PARAMS memory;
};

// Allocates 2048 MiB on `client` by `call(fd, request, params)`; the driver's status or 255.
template <class Call>
int AllocBy(const Client& client, Low* low, Call call) {
  low->memory = MemoryParams(2048 * kMiB);
  low->alloc = {};
  low->alloc.hRoot = client.root;
  low->alloc.hObjectParent = Client::kDevice;
  low->alloc.hObjectNew = 0xcafe0001;
  low->alloc.hClass = rm::NV01_MEMORY_LOCAL_USER;
  low->alloc.pAllocParms = std::bit_cast<std::uint64_t>(&low->memory);
  const auto request =
      static_cast<long>(rm::EscapeRequest(rm::NV_ESC_RM_ALLOC, sizeof(rm::NVOS21_PARAMETERS)));
  const long error = call(client.ctl, request, std::bit_cast<long>(&low->alloc));
  return error != 0 ? 255 : static_cast<int>(low->alloc.status & 0x7f);
}

int Entries(const std::vector<std::string>& args) {
  const bool x32 = !args.empty() && args[0] == "x32";
  const Client client = MakeClient();
  void* page =
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
  if (page == MAP_FAILED) {
    Die("failed: no memory below 4 GiB");
  }
  auto* low = static_cast<Low*>(page);
  // Is there such an entry at all? Where not, the kernel says ENOSYS or kills.
  const int probe = InChild([&] {
    return x32 ? (syscall(kX32Bit + 39 /* getpid */) == getpid() ? 0 : 1)
               : (Int80(kI386Getpid, 0, 0, 0) == getpid() ? 0 : 1);
  });
  if (probe == 0) {
    Say("entry works");
  } else if (probe == -SIGSYS) {
    Say("entry kills");
  } else {
    Say("entry missing");
  }
  const auto enter = [&](long nr) {
    const int result = InChild([&] {
      return AllocBy(client, low, [&](long fd, long request, long params) {
        return x32 ? syscall(kX32Bit + nr, fd, request, params) : Int80(nr, fd, request, params);
      });
    });
    if (result < 0) {
      Say("killed by %d", -result);
    } else {
      Say("status %d", result);
    }
  };
  enter(x32 ? kX32Ioctl : kI386Ioctl);
  if (x32) {
    enter(16);  // the number of the 64-bit call with the x32 bit
  }
  Hold();
  return 0;
}

}  // namespace

std::vector<Entry> CallAttacks() {
  return {
      {"raw", Raw, "[MIB]: allocations by bare ioctls"},
      {"xfer", Xfer, "[MIB]: the same, each wrapped in NV_ESC_IOCTL_XFER_CMD"},
      {"types", Types, ": all type bytes and direction bits"},
      {"upper", UpperBits, ": junk above the 32 bits the kernel reads"},
      {"door", Doors, "heap|heap-any|heap-pci|range|tiled|system|long|small|aligned|groups [MIB]"},
      {"mixed", Mixed, ": memory with flags that contradict each other"},
      {"open-complete", OpenComplete, ": an escape whose answer is larger than its buffer"},
      {"entry", Entries, "i386|x32: the kernel's other system call entries"},
  };
}

}  // namespace cgpu::adversary
