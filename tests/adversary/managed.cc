// Attacks through nvidia-uvm: memory that no RM object shows.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <optional>
#include <thread>

#include "common.h"
#include "uvm_client.h"

namespace cgpu::adversary {
namespace {

constexpr std::uint64_t kBase = 0x100000000000;  // free in any process of ours
constexpr int kReadWrite = PROT_READ | PROT_WRITE;

void* At(std::uint64_t address) {
  return std::bit_cast<void*>(address);
}

std::uint64_t AddressOf(const void* pointer) {
  return std::bit_cast<std::uint64_t>(pointer);
}

// Memory that is mapped, freed and kept by UVM, `mib` at a time.
int Kept(const std::vector<std::string>& args) {
  const std::uint64_t wanted = Number(args, 0, 4096);
  constexpr std::uint64_t kStep = 64;
  UvmClient uvm = MakeUvmClient();
  std::uint64_t held = 0;
  for (std::uint64_t base = kBase; held < wanted; base += 2 * kStep * kMiB) {
    std::uint32_t memory = 0;
    if (uvm.client.AllocMemory(kStep, &memory) != rm::NV_OK) {
      break;
    }
    if (uvm.CreateRange(base, kStep * kMiB) != rm::NV_OK ||
        uvm.Map(base, kStep * kMiB, memory) != rm::NV_OK) {
      Say("cannot map");
      break;
    }
    if (uvm.client.Free(memory) != rm::NV_OK) {
      Die("cannot free");
    }
    held += kStep;
  }
  Say("got %llu MiB", static_cast<unsigned long long>(held));
  std::string line;
  (void)Line(&line);
  // Half of it unmapped, half of it freed with its range: all can be had again.
  std::uint64_t base = kBase;
  for (std::uint64_t i = 0; i < held / kStep; ++i, base += 2 * kStep * kMiB) {
    const std::uint32_t status =
        i % 2 == 0 ? uvm.Unmap(base, kStep * kMiB) : uvm.FreeRange(base, kStep * kMiB);
    if (status != rm::NV_OK) {
      Die("cannot unmap: 0x%x", status);
    }
  }
  Say("again %llu MiB", static_cast<unsigned long long>(Grab(uvm.client, held)));
  Hold();
  return 0;
}

// The same, and the file with the mappings is then only in a message that nobody has received.
int Hidden(const std::vector<std::string>& args) {
  const std::uint64_t wanted = Number(args, 0, 4096);
  constexpr std::uint64_t kStep = 256;
  UvmClient uvm = MakeUvmClient();
  std::uint64_t held = 0;
  while (held < wanted) {
    std::uint32_t memory = 0;
    if (uvm.client.AllocMemory(kStep, &memory) != rm::NV_OK) {
      break;
    }
    if (uvm.CreateRange(kBase, kStep * kMiB) != rm::NV_OK ||
        uvm.Map(kBase, kStep * kMiB, memory) != rm::NV_OK) {
      break;
    }
    (void)uvm.client.Free(memory);
    held += kStep;
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
      Die("socketpair");
    }
    SendFd(pair[0], uvm.uvm);
    close(uvm.uvm);
    StartUvm(uvm);
    rm::UVM_REGISTER_GPU_VASPACE_PARAMS vaspace{uvm.uuid, uvm.client.ctl, uvm.client.root,
                                                UvmClient::kVaSpace + 1, 0};
    rm::NV_VASPACE_ALLOCATION_PARAMETERS_V535 space{};
    space.flags = 1U << 3;
    vaspace.hVaSpace = uvm.client.next++;
    if (uvm.client.Alloc(Client::kDevice, vaspace.hVaSpace, rm::FERMI_VASPACE_A, &space) !=
            rm::NV_OK ||
        uvm.Ask(rm::UVM_REGISTER_GPU_VASPACE, &vaspace) != rm::NV_OK) {
      Say("no further address space");
      break;
    }
  }
  Say("got %llu MiB", static_cast<unsigned long long>(held));
  Hold();
  return 0;
}

// One small object at every second MiB: a page table each time.
int Tables(const std::vector<std::string>& args) {
  const std::uint64_t wanted = Number(args, 0, 4096) * kMiB / 4096;
  constexpr std::uint64_t kStride = 2 * kMiB;
  constexpr std::uint64_t kSize = 4096;  // pages of 4 KiB need the largest tables
  UvmClient uvm = MakeUvmClient();
  rm::NV_MEMORY_ALLOCATION_PARAMS params = MemoryParams(kSize);
  params.attr = rm::NVOS32_ATTR_PAGE_SIZE.Set(params.attr, rm::NVOS32_ATTR_PAGE_SIZE_4KB);
  const std::uint32_t memory = uvm.client.next++;
  if (uvm.client.Alloc(Client::kDevice, memory, rm::NV01_MEMORY_LOCAL_USER, &params) != rm::NV_OK) {
    Die("no memory at all");
  }
  // One range for all: only the mappings are many.
  if (uvm.CreateRange(kBase, wanted * kStride) != rm::NV_OK) {
    Die("cannot make the range");
  }
  std::uint64_t tables = 0;
  while (tables < wanted && uvm.Map(kBase + tables * kStride, kSize, memory) == rm::NV_OK) {
    ++tables;
  }
  Say("mapped %llu", static_cast<unsigned long long>(tables));
  Hold();
  return 0;
}

// Takes all addresses but [from, to), so that the kernel can place nothing elsewhere. Small gaps
// remain.
void FillAllBut(std::uint64_t from, std::uint64_t to) {
  for (std::uint64_t size = std::uint64_t{1} << 46; size >= 4 * kMiB; size >>= 1) {
    while (true) {
      void* taken =
          mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (taken == MAP_FAILED) {
        break;
      }
      const std::uint64_t start = AddressOf(taken);
      if (start < to && from < start + size) {
        munmap(At(from), to - from);
        break;
      }
    }
  }
  munmap(At(from), to - from);
}

// A descriptor that another thread turns into nvidia-uvm's and back.
class Swapped {
 public:
  Swapped(int uvm, int other) : uvm_(uvm), other_(other), number_(dup(other)) {
    thread_ = std::thread([this] {
      while (!stop_.load(std::memory_order_relaxed)) {
        (void)dup2(uvm_, number_);
        (void)dup2(other_, number_);
      }
    });
  }
  Swapped(const Swapped&) = delete;
  Swapped& operator=(const Swapped&) = delete;
  ~Swapped() {
    stop_ = true;
    thread_.join();
  }
  [[nodiscard]] int number() const { return number_; }

 private:
  int uvm_;
  int other_;
  int number_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

int OrdinaryFile() {
  const int file = memfd_create("ordinary", MFD_CLOEXEC);
  if (file < 0) {
    Die("memfd_create");
  }
  return file;
}

// Managed memory by one form of mmap: FORM SIZE-of-each-in-MiB TOTAL-in-MiB, and of a form that
// wins only sometimes after how many TRIES it gives up.
int Managed(const std::vector<std::string>& args) {
  const std::string form = args.at(0);
  const std::uint64_t step = Number(args, 1, 64) * kMiB;
  const std::uint64_t wanted = Number(args, 2, 4096) * kMiB;
  const std::uint64_t most_tries = Number(args, 3, 20000);
  const UvmClient uvm = MakeUvmClient();
  std::uint64_t held = 0;
  const int other = OrdinaryFile();
  // Before the addresses are taken: its thread needs a stack.
  std::optional<Swapped> swapped;
  if (form == "swapped" || form == "null-swapped") {
    swapped.emplace(uvm.uvm, other);
  }
  if (form == "null" || form == "null-swapped") {
    // All of it at once: the one place that is left.
    FillAllBut(kBase, kBase + wanted);
  }
  std::uint64_t tries = 0;
  const auto map = [&](int file, std::uint64_t at, std::uint64_t size) {
    const auto offset = static_cast<off_t>(at);
    if (form == "fixed" || form == "swapped") {
      return mmap(At(at), size, kReadWrite, MAP_SHARED | MAP_FIXED, file, offset);
    }
    if (form == "noreplace") {
      return mmap(At(at), size, kReadWrite, MAP_SHARED | MAP_FIXED_NOREPLACE, file, offset);
    }
    if (form == "validate") {
      return mmap(At(at), size, kReadWrite, MAP_SHARED_VALIDATE | MAP_FIXED, file, offset);
    }
    if (form == "hint") {
      return mmap(At(at), size, kReadWrite, MAP_SHARED, file, offset);
    }
    if (form == "misaligned") {
      return mmap(At(at + 1), size, kReadWrite, MAP_SHARED, file, offset);
    }
    return mmap(nullptr, size, kReadWrite, MAP_SHARED, file, offset);
  };
  // Whether it is UVM's: an ordinary file of no size faults at a touch, so ask the mappings.
  const auto is_managed = [&](std::uint64_t at, std::uint64_t size) {
    rm::UVM_UNMAP_EXTERNAL_PARAMS params{at, size, {}, 0, 0};
    return uvm.Ask(rm::UVM_VALIDATE_VA_RANGE, &params) == rm::NV_OK;
  };
  if (swapped) {
    const std::uint64_t size = form == "swapped" ? step : wanted;
    for (std::uint64_t at = kBase; held < wanted && tries < most_tries; ++tries) {
      void* got = map(swapped->number(), at, size);
      if (got == MAP_FAILED) {
        continue;
      }
      if (AddressOf(got) == at && is_managed(at, size)) {
        held += size;
        at += 2 * size;
      } else {
        munmap(got, size);
      }
    }
  } else {
    const std::uint64_t size = form == "null" ? wanted : step;
    for (std::uint64_t at = kBase; held < wanted; at += size) {
      void* got = map(uvm.uvm, at, size);
      if (got == MAP_FAILED || AddressOf(got) != at) {
        break;
      }
      held += size;
    }
  }
  Say("tries %llu", static_cast<unsigned long long>(tries));
  Say("got %llu MiB", static_cast<unsigned long long>(held / kMiB));
  Hold();
  return 0;
}

// Managed memory that is there, moved by remap_file_pages to addresses that nobody saw.
int Remapped(const std::vector<std::string>&) {
  const int file = OrdinaryFile();
  if (ftruncate(file, 16 * 4096) != 0) {
    Die("ftruncate");
  }
  void* at = mmap(nullptr, 16 * 4096, kReadWrite, MAP_SHARED, file, 0);
  if (at == MAP_FAILED) {
    Die("mmap");
  }
  const long result = syscall(SYS_remap_file_pages, at, 4096, 0, 5, 0);
  Say("remapped %d", result == 0 ? 0 : errno);
  Hold();
  return 0;
}

// Children map managed memory in a space that outlives them: with the sharing mode it stays.
int Zombies(const std::vector<std::string>& args) {
  const std::uint64_t wanted = Number(args, 0, 4096);
  constexpr std::uint64_t kStep = 256;
  const UvmClient uvm = MakeUvmClient();
  std::uint64_t held = 0;
  for (std::uint64_t at = kBase; held < wanted; held += kStep, at += kStep * kMiB) {
    const pid_t child = fork();
    if (child == 0) {
      void* got = mmap(At(at), kStep * kMiB, kReadWrite, MAP_SHARED | MAP_FIXED, uvm.uvm,
                       static_cast<off_t>(at));
      // A request tells the driver that the mapping is there.
      rm::UVM_UNMAP_EXTERNAL_PARAMS params{at, kStep * kMiB, {}, 0, 0};
      (void)uvm.Ask(rm::UVM_VALIDATE_VA_RANGE, &params);
      _exit(got == MAP_FAILED ? 1 : 0);
    }
    int status = 0;
    if (waitpid(child, &status, 0) != child || status != 0) {
      break;
    }
  }
  Say("got %llu MiB", static_cast<unsigned long long>(held));
  Hold();
  return 0;
}

// Asks the tools' interface, by the ordinary file, for other processes' memory and every GPU.
int Tools(const std::vector<std::string>&) {
  const UvmClient uvm = MakeUvmClient();
  std::vector<char> params(4096);
  for (const rm::UvmRow& row : rm::UvmRows()) {
    if (row.name.starts_with("UVM_TOOLS") && row.size.At(kBranch) != 0) {
      params.assign(4096, 0);
      Say("%s 0x%x", row.name.data(), uvm.Ask(row.request, params.data()));
    }
  }
  Hold();
  return 0;
}

// A GPU by its uuid, granted or not.
int ForeignUuid(const std::vector<std::string>& args) {
  UvmClient uvm = MakeUvmClient();
  const std::string& digits = args.at(0);
  for (std::size_t i = 0; i < sizeof(uvm.uuid.uuid); ++i) {
    uvm.uuid.uuid[i] = static_cast<rm::NvU8>(std::stoul(digits.substr(2 * i, 2), nullptr, 16));
  }
  (void)OpenGpu(static_cast<int>(Number(args, 1, 1)));
  rm::UVM_REGISTER_GPU_PARAMS gpu{};
  gpu.gpu_uuid = uvm.uuid;
  gpu.rmCtrlFd = -1;
  Say("registered 0x%x", uvm.Ask(rm::UVM_REGISTER_GPU, &gpu));
  Hold();
  return 0;
}

}  // namespace

std::vector<Entry> ManagedAttacks() {
  return {{"uvm-kept", Kept, "MIB"},     {"uvm-hidden", Hidden, "MIB"},
          {"uvm-tables", Tables, "MIB"}, {"managed", Managed, "FORM STEP MIB"},
          {"remapped", Remapped, ""},    {"zombies", Zombies, "MIB"},
          {"uvm-tools", Tools, ""},      {"uvm-uuid", ForeignUuid, "HEX MINOR"}};
}

}  // namespace cgpu::adversary
