// RM_USER_SHARED_DATA: the page in which the driver shows a GPU's sizes to every client. Laid
// out as class/cl00de.h of the release has it; what is not written here is 0.
#include "sim/driver/bytes.h"
#include "sim/driver/driver.h"

namespace cgpu::sim {
namespace {

constexpr std::size_t kPage = 4096;

// The places of the sizes that the branches have.
struct Places {
  std::size_t bar1_size;  // KiB, 32 bits; what is free follows
  std::size_t total;      // bytes, 64 bits; what is free follows. 0: the release has none
  bool timestamps;        // before both groups
};

Places PlacesOf(rm::Branch branch) {
  if (branch < rm::Branch::k550) {
    return {4, 0, false};
  }
  return branch < rm::Branch::k570 ? Places{8, 16, false} : Places{8, 24, true};
}

}  // namespace

// gpu_user_shared_data.c
std::vector<std::byte> Driver::SharedData(int gpu) {
  const MutexLock lock(mutex_);
  const GpuMemory& memory = model_.Memory(gpu);
  const GpuMemory& bar1 = model_.Bar1(gpu);
  const Places places = PlacesOf(abi_.branch);
  std::vector<std::byte> page(kPage);
  const std::span<std::byte> bytes(page);
  Store(bytes.subspan(places.bar1_size), static_cast<rm::NvU32>(bar1.Total() / kKiB));
  Store(bytes.subspan(places.bar1_size + 4), static_cast<rm::NvU32>(bar1.Free() / kKiB));
  if (places.total != 0) {
    Store(bytes.subspan(places.total), memory.Total());
    Store(bytes.subspan(places.total + 8), memory.Free());
  }
  if (places.timestamps) {
    // Any time but 0, which means that nothing was ever written.
    Store(bytes.subspan(places.bar1_size - 8), rm::NvU64{1});
    Store(bytes.subspan(places.total - 8), rm::NvU64{1});
  }
  return page;
}

std::uint64_t Driver::SharedDataVersion() {
  const MutexLock lock(mutex_);
  std::uint64_t sum = 0;
  for (const Gpu& gpu : model_.Gpus()) {
    const auto index = static_cast<int>(gpu.index);
    sum = sum * 31 + model_.Memory(index).Used() + model_.Bar1(index).Used();
  }
  return sum;
}

}  // namespace cgpu::sim
