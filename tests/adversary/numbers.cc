// Every ioctl number that some supported driver accepts, in every dress, and every mmap that
// nvidia-uvm could accept: on an ordinary file, where the kernel's own answer differs from a
// filter's.
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>

#include "common.h"
#include "rm/escape_table.h"
#include "rm/nv_escape.h"
#include "rm/uvm_table.h"
#include "sandbox/filter.h"

namespace cgpu::adversary {
namespace {

constexpr std::uint32_t kSizes = 1U << 14;
constexpr std::size_t kMostSizes = 64;  // tried of one escape

struct Count {
  std::uint64_t stopped = 0;
  std::uint64_t passed = 0;

  void Add(bool was_stopped) { ++(was_stopped ? stopped : passed); }
};

// The sizes of an escape that a driver takes: all, or as many spread over them. Without a size,
// only those of kInAnySize: with NV_ESC_CARD_INFO, which any size is good for, the driver then has
// no memory to look at or to answer in (kernel-open/nvidia/nv.c, nvidia_read_card_info).
std::vector<std::uint32_t> SizesOf(std::uint32_t nr) {
  constexpr std::uint32_t kType = 'F' << 8;
  std::vector<std::uint32_t> sizes;
  const auto& in_any_size = sandbox::kInAnySize;
  const bool any = std::find(in_any_size.begin(), in_any_size.end(), nr) != in_any_size.end();
  for (std::uint32_t size = any ? 0 : 1; size < kSizes; ++size) {
    if (rm::AnyDriverAccepts(size << 16 | kType | nr)) {
      sizes.push_back(size);
    }
  }
  std::vector<std::uint32_t> some;
  const std::size_t step = sizes.size() / kMostSizes + 1;
  for (std::size_t i = 0; i < sizes.size(); i += step) {
    some.push_back(sizes[i]);
  }
  if (!sizes.empty() && some.back() != sizes.back()) {
    some.push_back(sizes.back());
  }
  return some;
}

// Numbers as a driver knows them, without type and direction.
std::set<std::uint32_t> Escapes(bool of_others) {
  std::set<std::uint32_t> all;
  for (const rm::EscapeRow& row : rm::EscapeRows()) {
    for (const std::uint32_t size : SizesOf(row.nr)) {
      if (!of_others || !PassesInOthers(row.nr, size)) {
        all.insert(size << 16 | row.nr);
      }
    }
  }
  return all;
}

// `errno_of`: what a stopped call fails with; /dev/null knows no ioctl and cannot be mapped.
Count TryNumbers(int file, int errno_of, bool of_others) {
  Count count;
  const auto attempt = [&](std::uint64_t request) {
    const int error = RawIoctl(file, request, nullptr);
    count.Add(error == errno_of);
    if (error != errno_of && count.passed < 10) {
      Say("passed 0x%lx errno %d", request, error);
    }
  };
  for (const std::uint32_t escape : Escapes(of_others)) {
    for (std::uint32_t dress = 0; dress < 1024; ++dress) {
      const std::uint64_t request = (dress >> 8) << 30 | escape | (dress & 0xff) << 8;
      attempt(request);
      attempt(request | 0xdead0000'00000000U);
    }
  }
  for (const rm::UvmRow& row : rm::UvmRows()) {
    attempt(row.request);
    attempt(row.request | 0x1'00000000U);
  }
  return count;
}

Count TryMappings(int file, int errno_of) {
  Count count;
  for (unsigned prot = 0; prot < 8; ++prot) {
    for (unsigned flags = 0; flags < 1U << 21; flags = (flags | 0x3ffc0) + 1) {
      for (const std::uint64_t offset : {0UL, 4096UL, 1UL << 40, 1UL << 62}) {
        if (!sandbox::IsTrappedMmap(prot, flags, offset)) {
          continue;
        }
        void* got = mmap(nullptr, 4096, static_cast<int>(prot), static_cast<int>(flags), file,
                         static_cast<off_t>(offset));
        count.Add(got == MAP_FAILED && errno == errno_of);
      }
    }
  }
  return count;
}

// ERRNO ["others"]: what is not stopped with this error passes.
int Numbers(const std::vector<std::string>& args) {
  const int errno_of = static_cast<int>(Number(args, 0, ENOSYS));
  const bool of_others = args.size() > 1 && args[1] == "others";
  const int file = open("/dev/null", O_RDWR | O_CLOEXEC);
  std::string line;
  Say("ready");
  (void)Line(&line);
  const Count numbers = TryNumbers(file, errno_of, of_others);
  Say("numbers: %lu stopped, %lu passed", numbers.stopped, numbers.passed);
  if (!of_others) {
    const Count mappings = TryMappings(file, errno_of);
    Say("mappings: %lu stopped, %lu passed", mappings.stopped, mappings.passed);
  }
  // TCGETS, TIOCGWINSZ, SIOCATMARK, FIONBIO: nobody's business.
  int stopped = 0;
  for (const std::uint32_t request : {0x5401U, 0x5413U, 0x8905U, 0x5421U}) {
    stopped += RawIoctl(file, request, nullptr) == errno_of ? 1 : 0;
  }
  Say("others: %d stopped", stopped);
  Say("holding");
  (void)Line(&line);
  return 0;
}

}  // namespace

std::vector<Entry> NumberAttacks() {
  return {{"numbers", Numbers, "ERRNO [others]: every number that a driver accepts"}};
}

}  // namespace cgpu::adversary
