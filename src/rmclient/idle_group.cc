#include "rmclient/idle_group.h"

#include <array>

#include "rm/nv_classes.h"

namespace cgpu::rmclient {
namespace {

// Layout of the area: USERD, the semaphore, the methods of each entry, the ring.
struct Area {
  static constexpr std::size_t kUserd = 0;
  static constexpr std::size_t kSemaphore = 0x1000;
  static constexpr std::size_t kMethods = 0x2000;
  static constexpr std::size_t kMethodBytes = 32;
  static constexpr std::uint32_t kEntries = 64;
  static constexpr std::size_t kRing = 0x4000;
  static constexpr std::size_t kBytes = 0x8000;
};

constexpr rm::NvU32 kComputeClasses[] = {
    rm::BLACKWELL_COMPUTE_B, rm::BLACKWELL_COMPUTE_A, rm::HOPPER_COMPUTE_A, rm::ADA_COMPUTE_A,
    rm::AMPERE_COMPUTE_B,    rm::AMPERE_COMPUTE_A,    rm::TURING_COMPUTE_A, rm::VOLTA_COMPUTE_A};

constexpr std::uint32_t kCompute = 1;  // the subchannel of the compute object
constexpr std::uint32_t kComputeSetObject = 0;
constexpr std::uint32_t kSemAddrLo = 0x5c;
// SEM_EXECUTE: OPERATION_ACQ_CIRC_GEQ, ACQUIRE_SWITCH_TSG_DIS, PAYLOAD_SIZE_32BIT.
constexpr std::uint32_t kAcquire = 3;

// Returns the header of incrementing methods.
constexpr std::uint32_t Header(std::uint32_t subchannel, std::uint32_t method,
                               std::uint32_t count) {
  return 1U << 29 | count << 16 | subchannel << 13 | method >> 2;
}

}  // namespace

Result<IdleGroup> IdleGroup::Make(Client& client, const Gpu& gpu) {
  CGPU_ASSIGN_OR_RETURN(const auto classes, ClassesOf(client, gpu));
  const rm::NvU32 compute_class = FirstOf(kComputeClasses, classes);
  if (compute_class == 0) {
    return Error{Code::kUnsupported, 0,
                 "GPU " + gpu.bdf + " has no compute class that is known here",
                 "GPUs from Volta to Blackwell are known"};
  }
  CGPU_ASSIGN_OR_RETURN(
      auto channel,
      UserChannel::Make(client, gpu, {Area::kBytes, Area::kUserd, Area::kRing, Area::kEntries}));
  rm::NvHandle compute = 0;
  CGPU_TRY(Checked(client.Alloc(channel.channel(), &compute, compute_class, nullptr, 0),
                   "making a compute object on GPU " + gpu.bdf));
  channel.Store(Area::kSemaphore, 0);
  return IdleGroup(std::move(channel), compute_class);
}

void IdleGroup::Hold() {
  if (std::exchange(holds_, true)) {
    return;
  }
  const std::uint32_t entry = count_++ % Area::kEntries;
  const std::uint64_t semaphore = channel_.address() + Area::kSemaphore;
  const std::array<std::uint32_t, 8> words{Header(kCompute, kComputeSetObject, 1),
                                           compute_class_,
                                           Header(0, kSemAddrLo, 5),
                                           static_cast<std::uint32_t>(semaphore),
                                           static_cast<std::uint32_t>(semaphore >> 32),
                                           count_,
                                           0,
                                           kAcquire};
  const std::size_t at = Area::kMethods + entry * Area::kMethodBytes;
  for (std::size_t i = 0; i < words.size(); ++i) {
    channel_.Store(at + i * sizeof(words[0]), words[i]);
  }
  channel_.SetEntry(entry, at, words.size());
  channel_.Submit((entry + 1) % Area::kEntries);
}

void IdleGroup::Release() {
  if (std::exchange(holds_, false)) {
    channel_.Store(Area::kSemaphore, count_);
  }
}

}  // namespace cgpu::rmclient
