// Carries out the standing orders (governor/order.h) on the container's channels: time slices of
// its channel groups, and taking its channels off a card and putting them back by the clock.
//
// Only channels for the graphics and compute engine are touched; copy and video engines have
// runlists of their own. A container's slice is divided among its groups there, so that one with
// many gets no more than one with few. Where it cannot be divided among all (governor::MostGroups),
// some are off the card in turn, if the order lets them; otherwise none is scheduled any more.
// Groups of a container of high priority go between every two of the others', where the card does
// that; then their slices are shorter, since their turns come more often.
//
// A channel that cannot be given its slice does not run while there is an order: a lone one, whose
// group the driver keeps to itself, and one of a group that its owner lets nobody duplicate. It is
// tried again, after a second and then less and less often, since the driver may have had another
// reason.
//
// Nothing depends on whoever gave an order being there. While this is paused, and when it ends in
// order, every channel is on its card; if the shim dies, the container is ended and its channels
// with it.
//
// Thread-safe. One lock of its own, held while the driver is asked; no other lock is taken under it
// but the one in `Channels`. The clock has a thread, from when it is needed first.
#ifndef CGPU_SHIM_SCHEDULER_H_
#define CGPU_SHIM_SCHEDULER_H_

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/result.h"
#include "governor/order.h"
#include "ledger/ledger.h"
#include "shim/duty.h"

namespace cgpu::shim {

// What a card is asked, by way of the shim's own client. From any thread.
class CardControls {
 public:
  virtual ~CardControls() = default;
  // The time slice, in microseconds, of a channel group of a client of the container's. Returns
  // what it was.
  virtual Result<std::uint64_t> SetSlice(std::size_t card, ledger::Handle client,
                                         ledger::Handle group, std::uint64_t us) = 0;
  // Returns when none of them runs on the card any more, or when all may again. Channels that are
  // gone are passed over.
  virtual void Switch(std::size_t card, const std::vector<ledger::ChannelInfo>& channels,
                      bool on) = 0;
  // Whether the group stands between every two of lower level on its runlist, or once.
  // kUnsupported: the card knows no levels.
  virtual Result<> SetInterleave(std::size_t card, ledger::Handle client, ledger::Handle group,
                                 bool high) = 0;
};

struct OrderState {
  governor::Order order;
  std::uint64_t standard_us = 0;
};

class Scheduler {
 public:
  // The container's channels on a card, and a number that is another whenever they are.
  struct Channels {
    std::vector<ledger::ChannelInfo> all;
    std::uint64_t changes = 0;
  };
  // By client and handle.
  using ChannelName = std::pair<ledger::Handle, ledger::Handle>;
  // None where the number is `seen` still: listing them takes a look at all that it holds.
  using ListChannels = std::function<std::optional<Channels>(std::size_t card, std::uint64_t seen)>;
  // `controls` outlives the scheduler; null: it carries nothing out.
  Scheduler(std::size_t cards, CardControls* controls, ListChannels list);

  // Holds from now on, in place of the one before.
  void SetOrder(std::size_t card, const governor::Order& order);
  // Whether any group is to have a level of its own, or has.
  [[nodiscard]] bool NeedsLevels() const;

  // From one to a later one, while paused; by card.
  [[nodiscard]] std::vector<OrderState> Save() const;
  void Load(const std::vector<OrderState>& state);

  // `object`, a channel or a group of `client`'s, is about to be scheduled or taken off, or was. A
  // group gets its slice before it first runs, and is taken off the card at once if it is not its
  // time. False: there is one that cannot be given its slice, or one too many, and nothing more
  // shall be scheduled.
  //
  // May wait: the engine's list of groups is given to it anew each time, which ends the turn of
  // whoever is running, so a container does that a few times a second at the most, after some at
  // once (NVIDIA/open-gpu-doc manuals/ampere/ga100/dev_ram.ref.txt: a submission expires slices).
  [[nodiscard]] bool BeforeSchedule(std::size_t card, ledger::Handle client, ledger::Handle object);
  void AfterSchedule(std::size_t card);
  // Channels may be gone: the groups that are left have the whole slice.
  void AfterFree();

  // Their owner takes channels off the card, or puts them back (FIFO_DISABLE_CHANNELS). `ask` asks
  // the driver for those of `channels` that it is given, by their places, and says whether that
  // succeeded; it is not called where some are named and none is left. Channels that are off by
  // order stay off, and are put back when it is their time; those that their owner has taken off
  // are not. A successor (Load()) does not know which those are. May wait, as BeforeSchedule().
  void SwitchByOwner(std::size_t card, const std::vector<ChannelName>& channels, bool on,
                     const std::function<bool(const std::vector<std::size_t>& places)>& ask);

  // Until Resume(), BeforeSchedule() waits for nothing that may take long.
  void LetThrough();
  // Puts every channel back and stops the clock until Resume(), which carries out all orders.
  void Pause();
  void Resume();

 private:
  struct Card {
    governor::Order order;
    std::uint64_t standard_us = 0;  // slice of a group that was given none; 0: not known yet
    DutyCycle duty;                 // as of the order
    std::array<std::uint64_t, 2> overran_us{};  // when it was taken off last, and before
    bool off = false;
    bool ran = false;                               // since `duty` was asked last
    bool served = false;                            // those that are on ran, since it is their turn
    std::uint64_t seen = 0;                         // changes of the channels below
    bool undivided = false;                         // they are others since slices were given
    std::vector<ledger::ChannelInfo> channels;      // for the engine that is shared
    std::vector<ledger::ChannelInfo> unruly;        // those of them that have no slice, and are off
    std::uint64_t again_us = 0;                     // when it is tried to give them theirs
    std::uint64_t patience_us = 0;                  // and how long after that, doubled
    std::vector<ledger::ChannelInfo> others;        // for other engines
    bool crowded = false;                           // there are too many groups
    std::vector<std::uint64_t> resting;             // groups that are off, the next first
    std::uint64_t first = 0;                        // of the groups that are on
    std::uint64_t turn_us = 0;                      // when others rest
    std::uint64_t paid_us = 0;                      // until when its submissions would last
    std::map<std::uint64_t, std::uint64_t> slices;  // that groups were given
    std::set<std::uint64_t> raised;                 // groups that stand between the others'
    bool levels = true;                             // the card knows some, as far as was seen
    std::set<ChannelName> off_by_owner;
  };

  void Refresh(std::size_t index, Card& card);
  void ApplyLevels(std::size_t index, Card& card);
  void ApplySlices(std::size_t index, Card& card);
  void GiveSlice(std::size_t index, Card& card, const ledger::ChannelInfo& channel,
                 std::uint64_t each, std::set<std::uint64_t>& without);
  void ChooseResting(Card& card, const std::set<std::uint64_t>& groups, std::uint64_t now_us);
  void TakeTurns(std::size_t index, Card& card, std::uint64_t now_us);
  void TryAgain(std::size_t index, Card& card, std::uint64_t now_us);
  void StartClock();
  void AwaitSubmission(std::unique_lock<std::mutex>& lock, Card& card);
  [[nodiscard]] static bool MayPutBack(const Card& card, const ChannelName& name);
  [[nodiscard]] static bool IsHeld(const Card& card, const ledger::ChannelInfo& channel);
  void TakeOffHeld(std::size_t index, const Card& card);
  void PutBack(std::size_t index, const Card& card);
  void TakeOff(std::size_t index, Card& card);
  void ApplyDuty(std::size_t index, Card& card);
  [[nodiscard]] std::uint64_t NextEdge() const;
  void CarryOut(std::size_t card);
  void Clock();

  CardControls* const controls_;
  const ListChannels list_;

  mutable std::mutex mutex_;         // guards the rest
  std::condition_variable changed_;  // for the clock alone
  std::condition_variable passes_;   // time does, or LetThrough() says so
  std::vector<Card> cards_;
  bool paused_ = true;
  bool let_through_ = false;
  bool clock_ = false;  // there is one
};

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_SCHEDULER_H_
