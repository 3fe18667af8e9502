// A GPU with memory of its own, and programs that use it as a driver's user does: rings, USERD,
// pushbuffers, kernels, semaphores.
#ifndef CGPU_SIM_ENGINE_TESTS_WORLD_H_
#define CGPU_SIM_ENGINE_TESTS_WORLD_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <vector>

#include "sim/engine/gpu.h"
#include "sim/engine/timed_kernel.h"

namespace cgpu::sim::engine::testing {

// Each space is one stretch of memory from kBase on; each block has a page.
class FlatMemory : public GpuMemory {
 public:
  static constexpr std::uint64_t kBase = 0x1'0000'0000;
  static constexpr std::size_t kSize = std::size_t{1} << 20U;

  bool Read(SpaceId space, std::uint64_t address, std::span<std::byte> to) override {
    const std::byte* at = At(space, address, to.size());
    return at != nullptr && std::memcpy(to.data(), at, to.size()) != nullptr;
  }
  bool Write(SpaceId space, std::uint64_t address, std::span<const std::byte> from) override {
    std::byte* at = At(space, address, from.size());
    return at != nullptr && std::memcpy(at, from.data(), from.size()) != nullptr;
  }
  bool ReadBlock(BlockId block, std::uint64_t offset, std::span<std::byte> to) override {
    return std::memcpy(to.data(), &Block(block)[offset], to.size()) != nullptr;
  }
  bool WriteBlock(BlockId block, std::uint64_t offset, std::span<const std::byte> from) override {
    return std::memcpy(&Block(block)[offset], from.data(), from.size()) != nullptr;
  }

  template <typename T>
  T Get(SpaceId space, std::uint64_t address) {
    T value{};
    std::memcpy(&value, At(space, address, sizeof(T)), sizeof(T));
    return value;
  }
  template <typename T>
  void Put(SpaceId space, std::uint64_t address, const T& value) {
    std::memcpy(At(space, address, sizeof(T)), &value, sizeof(T));
  }
  void PutPut(BlockId block, std::uint32_t put) { std::memcpy(&Block(block)[0x8c], &put, 4); }
  // Nothing that begins here is mapped.
  std::uint64_t unmapped = 0;

  std::uint32_t GetGet(BlockId block) {
    std::uint32_t get = 0;
    std::memcpy(&get, &Block(block)[0x88], 4);
    return get;
  }

 private:
  std::byte* At(SpaceId space, std::uint64_t address, std::size_t size) {
    std::vector<std::byte>& memory = spaces_[space];
    memory.resize(kSize);
    const bool in =
        address >= kBase && address - kBase <= kSize && size <= kSize - (address - kBase);
    return in && address != unmapped ? &memory[address - kBase] : nullptr;
  }
  std::vector<std::byte>& Block(BlockId block) {
    std::vector<std::byte>& memory = blocks_[block];
    memory.resize(4096);
    return memory;
  }

  std::map<SpaceId, std::vector<std::byte>> spaces_;
  std::map<BlockId, std::vector<std::byte>> blocks_;
};

struct SeenFault {
  GroupKey group = 0;
  ChannelKey channel = 0;
  Fault fault = Fault::kGraphics;
  std::uint64_t address = 0;
  Time at = 0;
  friend bool operator==(const SeenFault&, const SeenFault&) = default;
};

class SeenEvents : public GpuEvents {
 public:
  void OnFault(GroupKey group, ChannelKey channel, Fault fault, std::uint64_t address,
               Time at) override {
    faults.push_back({group, channel, fault, address, at});
  }
  void OnInterrupt(RunlistId /*runlist*/, ChannelKey channel, Time /*at*/) override {
    interrupts.push_back(channel);
  }
  std::vector<SeenFault> faults;
  std::vector<ChannelKey> interrupts;
};

inline constexpr RunlistId kGraphics = 1;
inline constexpr RunlistId kCopyEngine = 9;
inline constexpr Duration kMicrosecond = 1000;
inline constexpr Duration kMillisecond = 1'000'000;
inline constexpr Duration kSecond = 1'000'000'000;

struct World {
  explicit World(const Costs& costs = {}) : gpu(costs, memory, events, 0) {}
  void Run(Duration time) {
    while (!gpu.Advance(gpu.Now() + time)) {
    }
  }

  FlatMemory memory;
  SeenEvents events;
  Gpu gpu;
};

// Methods of host, compute and copy, as far as the tests use them.
using Words = std::vector<std::uint32_t>;
inline constexpr std::uint32_t kCompute = 1;  // subchannels
inline constexpr std::uint32_t kCopy = 4;

inline void Method(Words& to, std::uint32_t subchannel, std::uint32_t method, const Words& data,
                   std::uint32_t type = 1) {
  to.push_back((type << 29U) | (static_cast<std::uint32_t>(data.size()) << 16U) |
               (subchannel << 13U) | (method >> 2U));
  to.insert(to.end(), data.begin(), data.end());
}
inline std::uint32_t Low(std::uint64_t value) {
  return static_cast<std::uint32_t>(value);
}
inline std::uint32_t High(std::uint64_t value) {
  return static_cast<std::uint32_t>(value >> 32U);
}

// SEM_EXECUTE
inline constexpr std::uint32_t kSwitch = 1U << 12U;  // ACQUIRE_SWITCH_TSG_EN
inline constexpr std::uint32_t kHoldEqual = 0;
inline constexpr std::uint32_t kAcquireEqual = kSwitch;
inline constexpr std::uint32_t kRelease = 1;
inline constexpr std::uint32_t kAcquireCircular = 3U | kSwitch;
inline constexpr std::uint32_t kAcquireAnd = 4U | kSwitch;
inline constexpr std::uint32_t kAcquireNor = 5U | kSwitch;
inline constexpr std::uint32_t kReduce = 6;
inline constexpr std::uint32_t kWide = 1U << 24U;
inline constexpr std::uint32_t kTimestamp = 1U << 25U;

inline void Semaphore(Words& to, std::uint64_t address, std::uint64_t payload,
                      std::uint32_t execute) {
  Method(to, 0, 0x5c, {Low(address), High(address), Low(payload), High(payload), execute});
}

// One process: a group with a channel, in a space of its own. All keys are its number.
class Client {
 public:
  static constexpr std::uint32_t kEntries = 256;
  static constexpr std::uint64_t kRing = FlatMemory::kBase;
  static constexpr std::uint64_t kSemaphore = FlatMemory::kBase + 0x1000;
  static constexpr std::uint64_t kData = FlatMemory::kBase + 0x80000;

  Client(World& world, std::uint64_t number, RunlistId runlist = kGraphics)
      : Client(world, number, number, number) {
    world.gpu.AddGroup(number, runlist);
    world.gpu.AddChannel(number, number, Place());
    static_cast<void>(world.gpu.Schedule(number, true));
  }
  // A channel more in the group and space of another.
  Client(World& world, const Client& beside, std::uint64_t number)
      : Client(world, number, beside.group_, beside.space_) {
    ring_ = kRing + 0x40000 + (number * 0x1000);
    next_ = FlatMemory::kBase + 0x60000 + (number * 0x2000);
    world.gpu.AddChannel(number, group_, Place());
    static_cast<void>(world.gpu.ScheduleChannel(number, true));
  }

  // A group of its own in the space of another, whose programs it uses.
  Client(World& world, const Client& beside, std::uint64_t number, RunlistId runlist)
      : Client(world, number, number, beside.space_) {
    ring_ = kRing + 0x40000 + (number * 0x1000);
    next_ = FlatMemory::kBase + 0x60000 + (number * 0x2000);
    world.gpu.AddGroup(number, runlist);
    world.gpu.AddChannel(number, number, Place());
    static_cast<void>(world.gpu.Schedule(number, true));
  }

  // Puts words into memory and an entry that names them into the ring.
  void Push(const Words& words) {
    const std::uint64_t address = Store(words);
    PutEntry(Entry(address, static_cast<std::uint32_t>(words.size())));
  }
  void PutEntry(std::uint64_t entry) {
    world_->memory.Put(space_, ring_ + (std::uint64_t{put_} * 8), entry);
    put_ = (put_ + 1) % kEntries;
  }
  void PutEntryIfRoom(std::uint64_t entry) {
    if ((put_ + 1) % kEntries != world_->gpu.Channel(number_)->gp_get) {
      PutEntry(entry);
    }
  }
  void Ring() {
    world_->memory.PutPut(number_, put_);
    static_cast<void>(world_->gpu.Ring(number_));
  }
  void Submit(const Words& words) {
    Push(words);
    Ring();
  }
  // A kernel that runs so long; its QMD may be changed before it is submitted.
  std::uint64_t MakeKernel(const TimedKernel& kernel, std::uint64_t release = 0,
                           std::uint64_t payload = 0) {
    const std::uint64_t program = Store(kernel);
    return MakeQmd(program, release, payload);
  }
  std::uint64_t MakeQmd(std::uint64_t program, std::uint64_t release = 0,
                        std::uint64_t payload = 0) {
    next_ = (next_ + 255) & ~std::uint64_t{255};
    Words qmd(64);
    qmd[48] = Low(program);
    qmd[49] = High(program);
    if (release != 0) {
      qmd[24] = Low(release);
      qmd[25] = High(release) | (1U << 23U);  // RELEASE0_ENABLE, four words
      qmd[26] = Low(payload);
      qmd[27] = High(payload);
    }
    return Store(qmd);
  }
  static Words LaunchQmd(std::uint64_t qmd) {
    Words words;
    Method(words, kCompute, 0, {0xc6c0});
    Method(words, kCompute, 0x2b4, {Low(qmd >> 8U)});
    Method(words, kCompute, 0x2c0, {9});
    return words;
  }
  Words Launch(Duration duration, std::uint32_t flags = 0) {
    TimedKernel kernel;
    kernel.duration_ns = duration;
    kernel.flags = flags;
    return LaunchQmd(MakeKernel(kernel));
  }

  // A ring that never gets empty: every entry launches the same kernel. Fill() tops it up.
  void Saturate(Duration kernel, std::uint32_t flags = 0) {
    const Words words = Launch(kernel, flags);
    const std::uint64_t entry = Entry(Store(words), static_cast<std::uint32_t>(words.size()));
    for (std::uint32_t i = 0; i < kEntries; ++i) {
      PutEntry(entry);
    }
    Fill();
  }
  void Fill() {
    put_ = (world_->gpu.Channel(number_)->gp_get + kEntries - 1) % kEntries;
    Ring();
  }
  // Launch, wait, launch: the next one a while after the last is seen to be over.
  static constexpr Duration kReaction = 5 * kMicrosecond;
  void Alternate(Duration kernel) {
    Words words = Launch(kernel);
    Semaphore(words, kSemaphore, 1, kRelease);
    entry_ = Entry(Store(words), static_cast<std::uint32_t>(words.size()));
    world_->memory.Put<std::uint32_t>(space_, kSemaphore, 1);
  }
  // When it will submit; kNever while its kernel is there.
  Time React() {
    const Time now = world_->gpu.Now();
    if (world_->memory.Get<std::uint32_t>(space_, kSemaphore) == 0) {
      return kNever;
    }
    reacts_ = std::min(reacts_, now + kReaction);
    if (reacts_ > now) {
      return reacts_;
    }
    reacts_ = kNever;
    world_->memory.Put<std::uint32_t>(space_, kSemaphore, 0);
    PutEntry(entry_);
    Ring();
    return kNever;
  }

  static std::uint64_t Entry(std::uint64_t address, std::uint32_t words) {
    return address | (std::uint64_t{words} << 42U) | (std::uint64_t{1} << 41U);
  }
  template <typename T>
  T Get(std::uint64_t address) {
    return world_->memory.Get<T>(space_, address);
  }
  template <typename T>
  void Put(std::uint64_t address, const T& value) {
    world_->memory.Put<T>(space_, address, value);
  }
  [[nodiscard]] GroupAccounting Accounting() const { return *world_->gpu.Group(group_); }
  [[nodiscard]] ChannelAccounting ChannelAccountingNow() const {
    return *world_->gpu.Channel(number_);
  }
  [[nodiscard]] std::uint64_t Key() const { return number_; }
  // Puts something into memory that nothing else uses; in turns, when it is full.
  std::uint64_t Store(const Words& words) { return StoreBytes(std::as_bytes(std::span(words))); }
  std::uint64_t Store(const TimedKernel& kernel) {
    return StoreBytes(std::as_bytes(std::span(&kernel, 1)));
  }

 private:
  Client(World& world, std::uint64_t number, std::uint64_t group, std::uint64_t space)
      : world_(&world), number_(number), group_(group), space_(space) {}
  [[nodiscard]] ChannelPlace Place() const { return {space_, ring_, kEntries, number_, 0}; }
  std::uint64_t StoreBytes(std::span<const std::byte> bytes) {
    const std::uint64_t at = next_;
    static_cast<void>(world_->memory.Write(space_, at, bytes));
    next_ += (bytes.size() + 31) & ~std::size_t{31};
    return at;
  }

  World* world_;
  std::uint64_t number_;
  std::uint64_t group_;
  SpaceId space_;
  std::uint64_t ring_ = kRing;
  std::uint64_t next_ = FlatMemory::kBase + 0x2000;
  std::uint32_t put_ = 0;
  std::uint64_t entry_ = 0;  // of Alternate()
  Time reacts_ = kNever;
};

// Runs for a time, with clients that keep their queue full and clients that react.
inline void RunAll(World& world, std::span<Client* const> saturating,
                   std::span<Client* const> alternating, Duration time) {
  const Time end = world.gpu.Now() + time;
  Time fill = world.gpu.Now();
  while (world.gpu.Now() < end) {
    Time next = std::min(fill, end);
    for (Client* client : alternating) {
      next = std::min(next, client->React());
    }
    next = std::min(next, world.gpu.NextEvent().value_or(end));
    while (!world.gpu.Advance(next)) {
    }
    if (world.gpu.Now() >= fill) {
      for (Client* client : saturating) {
        client->Fill();
      }
      fill += kMillisecond;
    }
  }
}

}  // namespace cgpu::sim::engine::testing

#endif  // CGPU_SIM_ENGINE_TESTS_WORLD_H_
