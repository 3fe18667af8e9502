// Carries out the standing orders (governor/order.h) on the container's channels: sets time slices
// of its channel groups, takes its channels off a GPU and puts them back by the clock.
//
// It touches only channels for the graphics and compute engine; copy and video engines have
// runlists of their own. A container's time slice is divided among its groups there, so that a
// container with many groups gets no more than one with few. Where it cannot be divided among all
// (governor::MostGroups), some groups are off the GPU in turn, if the order allows that; otherwise
// no further group is scheduled. Groups of a container of high priority run between every two of
// the others', where the GPU supports that; then their time slices are shorter, since they run more
// often.
//
// A channel that cannot be given its time slice does not run while there is an order: a lone one,
// whose group the driver keeps to itself, and one of a group that its owner lets nobody duplicate.
// The scheduler tries again after a second and then less and less often, since the driver may have
// had another reason.
//
// Nothing depends on the giver of an order staying there. While the scheduler is paused, and when
// it ends in order, every channel is on its GPU. If the shim dies, the container is ended and its
// channels with it.
//
// Thread-safe. It has one lock of its own, held while the driver is asked; under it no other lock
// is taken but those in `controls` and the one in `Channels`. The clock has a thread, from when it
// is first needed.
#ifndef CGPU_SHIM_SCHEDULER_H_
#define CGPU_SHIM_SCHEDULER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "governor/order.h"
#include "ledger/ledger.h"
#include "shim/duty.h"

namespace cgpu::shim {

// Returns the time, in microseconds of CLOCK_MONOTONIC.
[[nodiscard]] std::uint64_t NowUs();

// Requests to a GPU, made through the shim's own client. Any thread may call them.
class GpuControls {
 public:
  virtual ~GpuControls() = default;
  // Sets the time slice, in microseconds, of a channel group of a client of the container's.
  // Returns the one before.
  virtual Result<std::uint64_t> SetSlice(std::size_t gpu, ledger::Handle client,
                                         ledger::Handle group, std::uint64_t us) = 0;
  // Returns when none of them runs on the GPU any more, or when all may again. Skips channels that
  // are gone.
  virtual void Switch(std::size_t gpu, const std::vector<ledger::ChannelInfo>& channels,
                      bool on) = 0;
  // Sets whether the group runs between every two of lower interleave level on its runlist, or
  // once. kUnsupported: the GPU has no interleave levels.
  virtual Result<> SetInterleave(std::size_t gpu, ledger::Handle client, ledger::Handle group,
                                 bool high) = 0;
  // Makes time slices take effect that were set: those of the channel's group, or of all where the
  // GPU's list of groups is restarted. The channel is scheduled. `trigger` is not kNone.
  virtual Result<> Pull(std::size_t gpu, const ledger::ChannelInfo& channel,
                        governor::Trigger trigger) = 0;
};

struct OrderState {
  governor::Order order;
  std::uint64_t standard_us = 0;
  std::uint64_t throttled_us = 0;
  // Channels that are scheduled, by ChannelInfo::id. An earlier version does not know them.
  bool knows_scheduled = false;
  std::vector<std::uint64_t> scheduled;
};

class Scheduler {
 public:
  // The container's channels on a GPU, and a number that changes whenever they do.
  struct Channels {
    std::vector<ledger::ChannelInfo> all;
    std::uint64_t changes = 0;
  };
  // A channel by client and handle.
  using ChannelName = std::pair<ledger::Handle, ledger::Handle>;
  // Returns nothing if the number is still `seen`: listing the channels reads everything that the
  // container holds.
  using ListChannels = std::function<std::optional<Channels>(std::size_t gpu, std::uint64_t seen)>;
  // `controls` outlives the scheduler; null: it carries nothing out.
  Scheduler(std::size_t gpus, GpuControls* controls, ListChannels list);

  // Replaces the order of the GPU.
  void SetOrder(std::size_t gpu, const governor::Order& order);
  // Returns true if any group has an interleave level of its own, or is to have one, or if a GPU's
  // list is to be restarted.
  [[nodiscard]] bool NeedsHelper() const;

  // Returns for how long, since the start, a duty cycle's clock has kept channels of the container
  // off the GPU, in microseconds.
  [[nodiscard]] std::uint64_t Throttled(std::size_t gpu);

  // Hand-over to a later scheduler, while paused; by GPU.
  [[nodiscard]] std::vector<OrderState> Save() const;
  void Load(const std::vector<OrderState>& state);

  // Call it when `object`, a channel or a group by ChannelInfo's id or group, is about to be
  // scheduled or taken off its list. A group gets its time slice before it first runs. Returns
  // false if a channel cannot be given its time slice, or there is one too many: then nothing more
  // may be scheduled. Otherwise call AfterSchedule() when that is done.
  //
  // May wait. The GPU engine gets its list of groups again each time, which ends the time slice of
  // the group that runs. So a container does that at most a few times a second, after some at once
  // (NVIDIA/open-gpu-doc manuals/ampere/ga100/dev_ram.ref.txt: a submission expires slices). Under
  // a duty cycle it waits for a window: no group is scheduled while channels of it are off.
  [[nodiscard]] bool BeforeSchedule(std::size_t gpu, std::uint64_t object);
  // kFailed: the driver has refused it.
  enum class Scheduled : std::uint8_t { kFailed, kOn, kOff };
  void AfterSchedule(std::size_t gpu, std::uint64_t object, Scheduled result);
  // Call it when channels may be gone: the remaining groups then have the whole time slice.
  void AfterFree();

  // Takes channels off the GPU, or puts them back, for their owner (FIFO_DISABLE_CHANNELS). `ask`
  // gets places in `channels`, asks the driver for these and returns whether that succeeded. It is
  // not called where channels are named and none is left. Channels that an order keeps off stay
  // off, and are put back when it is their time; those that their owner has taken off are not. A
  // successor (Load()) does not know which those are. May wait, as BeforeSchedule().
  void SwitchByOwner(std::size_t gpu, const std::vector<ChannelName>& channels, bool on,
                     const std::function<bool(const std::vector<std::size_t>& places)>& ask);

  // Makes BeforeSchedule() wait for nothing that may take long, until Resume().
  void LetThrough();
  // Puts every channel back and stops the clock until Resume(), which carries out all orders.
  void Pause();
  void Resume();

 private:
  // Time that groups which alternate rest: taking them off the GPU (0.3 ms) is little of it.
  static constexpr std::uint64_t kRestUs = 50'000;
  // First backoff between two tries to give a group its time slice or its interleave level.
  static constexpr std::uint64_t kLeastBackoffUs = 1'000'000;

  struct Gpu {
    governor::Order order;
    std::uint64_t standard_us = 0;  // time slice of a group that was given none; 0: not known yet
    DutyCycle duty;                 // of the order
    std::array<std::uint64_t, 2> overran_us{};  // by how much, at the last taking off and the one
                                                // before
    bool off = false;
    std::uint64_t throttled_us = 0;  // see Throttled(); up to the time below
    std::uint64_t noted_us = 0;      // when NoteThrottled() was called last
    bool ran = false;                // since `duty` was asked last
    bool served = false;             // the groups that are on ran, since it is their turn
    std::uint64_t seen = 0;          // `changes` of the channels below
    bool undivided = false;          // the channels changed since time slices were given
    std::vector<ledger::ChannelInfo> channels;      // for the engine that is shared
    std::vector<ledger::ChannelInfo> unruly;        // channels without a time slice, which are off
    bool unleveled = false;                         // a group lacks its level
    std::uint64_t again_us = 0;                     // when giving them these is tried again
    std::uint64_t backoff_us = 0;                   // and the backoff after that, doubled
    std::vector<ledger::ChannelInfo> others;        // for other engines
    bool crowded = false;                           // there are too many groups
    std::vector<std::uint64_t> resting;             // groups that are off, the next first
    std::uint64_t first = 0;                        // the first of the groups that are on
    std::uint64_t turn_us = 0;                      // when other groups rest
    std::uint64_t paid_us = 0;                      // until when its submissions would last
    std::map<std::uint64_t, std::uint64_t> slices;  // given to groups
    std::set<std::uint64_t> raised;                 // groups that run between the others'
    std::set<std::uint64_t> scheduled;              // channels that the driver has scheduled
    std::set<std::uint64_t> taken;                  // channels that are off by order
    // Those between BeforeSchedule() and AfterSchedule(), but for other engines.
    std::multiset<std::uint64_t> scheduling;
    bool all_scheduled = false;  // all that there are have been scheduled, at the next look
    std::set<std::uint64_t> untriggered;  // groups with a new time slice that waits for a trigger
    bool levels = true;                   // the GPU has interleave levels, as far as was seen
    std::set<ChannelName> off_by_owner;
  };

  void Refresh(std::size_t index, Gpu& gpu) CGPU_REQUIRES(mutex_);
  void ApplyLevels(std::size_t index, Gpu& gpu) CGPU_REQUIRES(mutex_);
  void ApplySlices(std::size_t index, Gpu& gpu) CGPU_REQUIRES(mutex_);
  void GiveSlice(std::size_t index, Gpu& gpu, const ledger::ChannelInfo& channel,
                 std::uint64_t each, std::set<std::uint64_t>& without) CGPU_REQUIRES(mutex_);
  void TriggerIfNeeded(std::size_t index, Gpu& gpu) CGPU_REQUIRES(mutex_);
  void ChooseResting(Gpu& gpu, const std::set<std::uint64_t>& groups, std::uint64_t now_us)
      CGPU_REQUIRES(mutex_);
  void TakeTurns(std::size_t index, Gpu& gpu, std::uint64_t now_us) CGPU_REQUIRES(mutex_);
  void TryAgain(std::size_t index, Gpu& gpu, std::uint64_t now_us) CGPU_REQUIRES(mutex_);
  void StartClock() CGPU_REQUIRES(mutex_);
  void AwaitSubmission(Gpu& gpu) CGPU_REQUIRES(mutex_);
  [[nodiscard]] static bool MayPutBack(const Gpu& gpu, const ChannelName& name);
  [[nodiscard]] static bool IsHeld(const Gpu& gpu, const ledger::ChannelInfo& channel);
  void SwitchOff(std::size_t index, Gpu& gpu, std::vector<ledger::ChannelInfo> channels)
      CGPU_REQUIRES(mutex_);
  void SwitchOn(std::size_t index, Gpu& gpu, std::vector<ledger::ChannelInfo> channels)
      CGPU_REQUIRES(mutex_);
  void TakeOffHeld(std::size_t index, Gpu& gpu) CGPU_REQUIRES(mutex_);
  void PutBack(std::size_t index, Gpu& gpu) CGPU_REQUIRES(mutex_);
  void MakeWhole(std::size_t index, Gpu& gpu, std::uint64_t object) CGPU_REQUIRES(mutex_);
  void TakeOff(std::size_t index, Gpu& gpu) CGPU_REQUIRES(mutex_);
  void NoteThrottled(Gpu& gpu) CGPU_REQUIRES(mutex_);
  void ApplyDuty(std::size_t index, Gpu& gpu) CGPU_REQUIRES(mutex_);
  [[nodiscard]] std::uint64_t NextEdge() const CGPU_REQUIRES(mutex_);
  void CarryOut(std::size_t gpu) CGPU_REQUIRES(mutex_);
  void Clock();

  GpuControls* const controls_;
  const ListChannels list_;

  mutable Mutex mutex_;  // guards the rest
  CondVar changed_;      // for the clock alone
  CondVar passes_;       // time passes, or LetThrough() was called
  std::vector<Gpu> gpus_ CGPU_GUARDED_BY(mutex_);
  bool paused_ CGPU_GUARDED_BY(mutex_) = true;
  bool let_through_ CGPU_GUARDED_BY(mutex_) = false;
  bool clock_ CGPU_GUARDED_BY(mutex_) = false;  // the clock's thread runs
};

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_SCHEDULER_H_
