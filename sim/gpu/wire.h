// Messages between the driver's process and the engines' process: one structure a message of a
// SOCK_SEQPACKET socket, some with a descriptor. Both are the same program, so there are no
// versions.
#ifndef CGPU_SIM_GPU_WIRE_H_
#define CGPU_SIM_GPU_WIRE_H_

#include <atomic>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <type_traits>

namespace cgpu::sim::wire {

enum class Kind : std::uint32_t {
  // To the engines:
  kAddGroup,
  kRemoveGroup,
  kSetTimeslice,
  kSetInterleave,
  kAddChannel,
  kRemoveChannel,
  kOrder,       // answered by kDone
  kInvalidate,  // what is known of an address space
  kBlock,       // with its file
  kDropBlock,
  kMapped,  // a block is mapped by a processor, through the file that comes along
  kUnmapped,
  kEventBuffer,
  kRemoveEventBuffer,
  kPlace,          // the answer to kTranslate and kFindBlock
  kAskAccounting,  // answered by k...Accounting, kStarts and kAccountingEnd
  // From the engines:
  kDone,
  kTranslate,
  kFindBlock,
  kFault,
  kSample,
  kGroupAccounting,
  kChannelAccounting,
  kRunlistAccounting,
  kStarts,
  kAccountingEnd,
};

struct AddGroup {
  static constexpr Kind kKind = Kind::kAddGroup;
  Kind kind = kKind;
  std::uint32_t gpu = 0;
  std::uint64_t key = 0;
  std::uint32_t runlist = 0;
  std::uint32_t interleave = 0;
  std::uint64_t timeslice_us = 0;  // 0: the default
  std::uint32_t pid = 0;           // whose it is
  std::uint32_t user = 0;
};

// Names a group or a channel by key, or a space, a block or an inode by number.
template <Kind K>
struct Named {
  static constexpr Kind kKind = K;
  Kind kind = kKind;
  std::uint32_t reserved = 0;
  std::uint64_t key = 0;
};
using RemoveGroup = Named<Kind::kRemoveGroup>;
using RemoveChannel = Named<Kind::kRemoveChannel>;
using RemoveEventBuffer = Named<Kind::kRemoveEventBuffer>;
using Invalidate = Named<Kind::kInvalidate>;
using DropBlock = Named<Kind::kDropBlock>;
using Unmapped = Named<Kind::kUnmapped>;
using FindBlock = Named<Kind::kFindBlock>;
using AccountingEnd = Named<Kind::kAccountingEnd>;
using Done = Named<Kind::kDone>;

template <Kind K>
struct Setting {
  static constexpr Kind kKind = K;
  Kind kind = kKind;
  std::uint32_t reserved = 0;
  std::uint64_t key = 0;
  std::uint64_t value = 0;
};
using SetTimeslice = Setting<Kind::kSetTimeslice>;
using SetInterleave = Setting<Kind::kSetInterleave>;
using AskAccounting = Setting<Kind::kAskAccounting>;  // a ticket, the first start that is wanted
using Translate = Setting<Kind::kTranslate>;          // space, address

struct AddChannel {
  static constexpr Kind kKind = Kind::kAddChannel;
  Kind kind = kKind;
  std::uint32_t entries = 0;
  std::uint64_t key = 0;
  std::uint64_t group = 0;
  std::uint64_t space = 0;
  std::uint64_t gpfifo = 0;
  std::uint64_t userd = 0;  // a block
  std::uint64_t userd_offset = 0;
  std::uint64_t errors = 0;  // a block, 0: none
  std::uint64_t id = 0;
};

// An NV_EVENT_BUFFER as it is now: what it is bound to, and what was set.
struct EventBuffer {
  static constexpr Kind kKind = Kind::kEventBuffer;
  Kind kind = kKind;
  std::uint32_t bound = 0;  // to the switches of `gpu`
  std::uint64_t key = 0;
  std::uint64_t header = 0;   // a block
  std::uint64_t records = 0;  // a block
  std::uint32_t record_bytes = 0;
  std::uint32_t record_count = 0;
  std::uint32_t gpu = 0;
  std::uint32_t enabled = 0;
  std::uint32_t keep_newest = 0;
  std::uint32_t get = 0;
  std::uint32_t all_users = 0;
  std::uint32_t admin = 0;
  std::uint32_t user = 0;  // of whoever bound it
  std::uint32_t reserved = 0;
};

struct Order {
  enum class What : std::uint32_t {
    kSchedule,
    kUnschedule,
    kDisable,
    kEnable,
    kPreempt,
    kStop,
    kRestart
  };
  static constexpr std::uint32_t kMost = 64;
  static constexpr Kind kKind = Kind::kOrder;
  Kind kind = kKind;
  What what = What::kSchedule;
  std::uint64_t ticket = 0;
  std::uint32_t only_scheduling = 0;
  std::uint32_t count = 0;
  std::uint64_t keys[kMost] = {};  // channels; for kPreempt a group
};

struct Block {
  static constexpr Kind kKind = Kind::kBlock;
  Kind kind = kKind;
  std::uint32_t reserved = 0;
  std::uint64_t block = 0;
  std::uint64_t length = 0;
  std::uint64_t base = 0;  // where it begins in the file
};

struct Mapped {
  static constexpr Kind kKind = Kind::kMapped;
  Kind kind = kKind;
  std::uint32_t reserved = 0;
  std::uint64_t block = 0;
  std::uint64_t ino = 0;
  std::uint64_t offset = 0;  // in the block, of the file's first byte
  std::uint64_t length = 0;
};

struct Place {
  static constexpr Kind kKind = Kind::kPlace;
  Kind kind = kKind;
  std::uint32_t found = 0;
  std::uint64_t start = 0;
  std::uint64_t length = 0;
  std::uint64_t block = 0;
  std::uint64_t offset = 0;
};

struct Fault {
  static constexpr Kind kKind = Kind::kFault;
  Kind kind = kKind;
  std::uint32_t code = 0;
  std::uint64_t group = 0;
  std::uint64_t channel = 0;
  std::uint64_t address = 0;
};

struct Sample {
  static constexpr Kind kKind = Kind::kSample;
  Kind kind = kKind;
  std::uint32_t gpu = 0;
  std::uint64_t end_ns = 0;
  std::uint64_t length_ns = 0;
  std::uint64_t group = 0;
  std::uint64_t busy_ns = 0;
  std::uint64_t active = 0;  // on its engine at the end
};

struct GroupAccounting {
  static constexpr Kind kKind = Kind::kGroupAccounting;
  Kind kind = kKind;
  std::uint32_t running = 0;
  std::uint64_t key = 0;
  std::uint64_t gpu_time_ns = 0;
  std::uint64_t switches = 0;
  std::uint64_t kernels = 0;
  std::uint64_t copied_bytes = 0;
  std::uint64_t slice_ns = 0;
};

struct ChannelAccounting {
  static constexpr Kind kKind = Kind::kChannelAccounting;
  Kind kind = kKind;
  std::uint32_t waiting = 0;
  std::uint64_t key = 0;
  std::uint32_t gp_get = 0;
  std::uint32_t gp_put = 0;
  std::uint64_t kernels = 0;
  std::uint64_t copied_bytes = 0;
  std::uint64_t ignored_methods = 0;
};

struct RunlistAccounting {
  static constexpr Kind kKind = Kind::kRunlistAccounting;
  Kind kind = kKind;
  std::uint32_t gpu = 0;
  std::uint32_t runlist = 0;
  std::uint32_t reserved = 0;
  std::uint64_t busy_ns = 0;
  std::uint64_t switching_ns = 0;
  std::uint64_t idle_ns = 0;
  std::uint64_t switches = 0;
  std::uint64_t restarts = 0;
};

struct Start {
  std::uint64_t number = 0;
  std::uint64_t group = 0;
  std::uint64_t visible_ns = 0;
  std::uint64_t start_ns = 0;
  std::uint64_t switched = 0;
};
struct Starts {
  static constexpr std::uint32_t kMost = 256;
  static constexpr Kind kKind = Kind::kStarts;
  Kind kind = kKind;
  std::uint32_t gpu = 0;
  std::uint64_t count = 0;
  Start starts[kMost] = {};
};

// Memory that both processes share: how many messages the engines were sent. Before the engines
// act on a GP_PUT that they see, they must have taken all that were counted by then: a call that
// was answered before the GP_PUT was written may have told something.
struct Shared {
  std::atomic<std::uint64_t> sent{0};
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
// The engines' descriptors: the socket, and the file with Shared.
inline constexpr int kSocketFd = 3;
inline constexpr int kSharedFd = 4;

template <class T>
[[nodiscard]] std::string_view Bytes(const T& message) {
  static_assert(std::is_trivially_copyable_v<T>);
  return {reinterpret_cast<const char*>(&message), sizeof(T)};
}

[[nodiscard]] inline std::optional<Kind> KindOf(std::string_view bytes) {
  Kind kind{};
  if (bytes.size() < sizeof(kind)) {
    return std::nullopt;
  }
  std::memcpy(&kind, bytes.data(), sizeof(kind));
  return kind;
}

// Returns the message, if it is one of this kind.
template <class T>
[[nodiscard]] std::optional<T> As(std::string_view bytes) {
  T message;
  if (bytes.size() != sizeof(T) || KindOf(bytes) != T::kKind) {
    return std::nullopt;
  }
  std::memcpy(static_cast<void*>(&message), bytes.data(), sizeof(T));
  return message;
}

}  // namespace cgpu::sim::wire

#endif  // CGPU_SIM_GPU_WIRE_H_
