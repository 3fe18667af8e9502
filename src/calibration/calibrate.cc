#include "calibration/calibrate.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <thread>

#include "calibration/slice_orders.h"
#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"
#include "rmclient/copy_queue.h"
#include "rmclient/idle_group.h"
#include "rmclient/switches.h"

namespace cgpu {
namespace {

using governor::Effect;
using rmclient::CopyQueue;
using rmclient::Outcome;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr double kItemUs = 100;  // length of an item that is aimed at
// Time slices that are set: four fifths of the time for the first group.
constexpr std::uint64_t kLongUs = 8'000;
constexpr std::uint64_t kShortUs = 2'000;
// The first group's part of what both get, beyond which they took effect.
constexpr double kTookEffect = 0.65;
// A queue of copies has a fifth of the time beside an idle group whose time slice is four times as
// long. The idle group holds the GPU if they have less than kHeld. It gives the GPU up at the end
// of its time slice if they have more than kShared, and altogether if they have more than kFree
// then.
constexpr double kHeld = 0.35;
constexpr double kShared = 0.1;
constexpr double kFree = 0.9;
// Time in which an order takes effect, on the GPU's clock.
constexpr milliseconds kSettle{50};
constexpr milliseconds kMeasured{200};
constexpr milliseconds kLook{5};
constexpr milliseconds kDrain{5'000};
constexpr std::chrono::seconds kInterrupting{30};
// Interruptions between two looks at what was copied.
constexpr std::uint64_t kBatch = 500;

double MicrosecondsSince(steady_clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(steady_clock::now() - begin).count();
}

double Median(std::vector<double> values) {
  if (values.empty()) {
    return 0;
  }
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

// Returns the times from the end of one queue's last item to when the other's first one began,
// where the queues take turns.
std::vector<double> Gaps(std::span<const std::uint64_t> a, std::span<const std::uint64_t> b,
                         double item_us) {
  std::vector<std::pair<std::uint64_t, bool>> all;
  for (const std::uint64_t end : a) {
    all.emplace_back(end, false);
  }
  for (const std::uint64_t end : b) {
    all.emplace_back(end, true);
  }
  std::ranges::sort(all);
  std::vector<double> gaps;
  for (std::size_t i = 1; i < all.size(); ++i) {
    const double between = static_cast<double>(all[i].first - all[i - 1].first) / 1000;
    if (all[i].second != all[i - 1].second) {
      gaps.push_back(between - item_us);
    }
  }
  return gaps;
}

class Calibrator {
 public:
  Calibrator(rmclient::Session& session, const CalibrationOptions& options)
      : client_(session.client), gpu_(session.gpu), options_(options) {}

  Result<Calibration> Run() {
    CGPU_TRY(MakeQueues());
    CGPU_TRY(AskSpeed());
    CGPU_TRY(AskSlices());
    CGPU_TRY(AskStart());
    CGPU_TRY(AskSwitch());
    CGPU_TRY(AskHold());
    AskOff();
    AskLevels();
    return std::move(result_);
  }

 private:
  using Pair = std::pair<std::size_t, std::size_t>;

  void Say(const std::string& line) const { options_.progress(line); }
  void Note(const std::string& name, double value) { result_.figures.emplace_back(name, value); }
  [[nodiscard]] Result<> Asked(const Outcome& outcome, const std::string& what) const {
    return rmclient::Checked(outcome, what + " on GPU " + gpu_.bdf);
  }

  Result<> MakeQueues() {
    Say("making work");
    for (int i = 0; i < 4; ++i) {
      CGPU_ASSIGN_OR_RETURN(auto queue, CopyQueue::Make(client_, gpu_));
      queues_.push_back(std::move(queue));
    }
    return {};
  }
  Result<> Schedule(std::size_t queue) {
    return Asked(rmclient::ScheduleGroup(client_, queues_[queue].group()), "scheduling a channel");
  }
  // Waits until the queue is empty.
  Result<> Drain(std::size_t queue) {
    const auto until = steady_clock::now() + kDrain;
    while (queues_[queue].Pending() != 0) {
      (void)queues_[queue].TakeEnds();
      if (steady_clock::now() > until || queues_[queue].Fault() != 0) {
        return Error{
            Code::kUnavailable,
            0,
            "copies on GPU " + gpu_.bdf + " do not end" +
                (queues_[queue].Fault() == 0 ? ""
                                             : ": error " + std::to_string(queues_[queue].Fault())),
            {}};
      }
      std::this_thread::sleep_for(milliseconds(1));
    }
    return {};
  }

  // Chooses how many copies an item has.
  Result<> AskSpeed() {
    Say("measuring the GPU's copies");
    CGPU_TRY(Schedule(0));
    CGPU_TRY(Schedule(1));
    std::uint32_t copies = 1;
    for (int i = 0; i < 3; ++i) {
      CopyQueue& queue = queues_[0];
      queue.SetCopies(copies);
      queue.Fill(64);
      std::vector<double> lengths;
      std::uint64_t last = 0;
      const auto until = steady_clock::now() + kDrain;
      while (queue.Pending() != 0 && steady_clock::now() < until) {
        for (const std::uint64_t end : queue.TakeEnds()) {
          if (last != 0) {
            lengths.push_back(static_cast<double>(end - last) / 1000);
          }
          last = end;
        }
      }
      CGPU_TRY(Drain(0));
      item_us_ = Median(std::move(lengths));
      const double wanted = copies * kItemUs / std::max(item_us_, 0.1);
      copies = std::clamp(static_cast<std::uint32_t>(wanted), 1U, CopyQueue::kMostCopies);
    }
    for (CopyQueue& queue : queues_) {
      queue.SetCopies(copies);
    }
    Note("copies of 256 KiB in an item", copies);
    Note("length of an item, us", item_us_);
    return {};
  }

  struct Ran {
    std::vector<std::uint64_t> a;
    std::vector<std::uint64_t> b;
    [[nodiscard]] double Share() const {
      const auto all = static_cast<double>(a.size() + b.size());
      return all == 0 ? 0 : static_cast<double>(a.size()) / all;
    }
  };
  // Keeps both queues full, and returns when their items ended in a stretch of the GPU's time. It
  // begins when what was ordered before has had time to take effect.
  Ran RunBoth(const Pair& pair, milliseconds time) {
    const auto length = static_cast<std::uint64_t>(std::chrono::nanoseconds(time).count());
    const auto settle = static_cast<std::uint64_t>(std::chrono::nanoseconds(kSettle).count());
    (void)queues_[pair.first].TakeEnds();  // from before this call
    (void)queues_[pair.second].TakeEnds();
    Ran ran;
    std::optional<std::uint64_t> from;
    std::uint64_t newest = 0;
    const auto until = steady_clock::now() + kDrain;
    while ((!from || newest < *from + length) && steady_clock::now() < until) {
      for (const auto& [queue, ends] : {std::pair(pair.first, &ran.a), {pair.second, &ran.b}}) {
        for (const std::uint64_t end : queues_[queue].TakeEnds()) {
          from = from.value_or(end + settle);
          newest = std::max(newest, end);
          if (end >= *from && end < *from + length) {
            ends->push_back(end);
          }
        }
        queues_[queue].Fill();
      }
      std::this_thread::sleep_for(kLook);
    }
    return ran;
  }
  Result<> DrainBoth(const Pair& pair) {
    CGPU_TRY(Drain(pair.first));
    return Drain(pair.second);
  }

  Result<> SetSlice(rm::NvHandle group, std::uint64_t us) {
    return Asked(cgpu::SetSlice(client_, group, us), "setting a time slice");
  }
  // Does what makes an order on this queue take effect.
  Outcome Trigger(Effect effect, std::size_t queue) {
    return Pull(client_, governor::TriggerOf(effect), queues_[queue].group(),
                queues_[queue].channel());
  }
  Result<> SetSlices(const Pair& pair, std::uint64_t a_us, std::uint64_t b_us) {
    CGPU_TRY(SetSlice(queues_[pair.first].group(), a_us));
    return SetSlice(queues_[pair.second].group(), b_us);
  }

  // Tries one way after another on time slices that stay set: the first one after which they hold
  // is the way.
  Result<> AskSlices() {
    Say("asking when time slices take effect");
    const Pair pair{0, 1};
    Note("first group's share, time slices as the driver has them, %",
         100 * RunBoth(pair, kMeasured).Share());
    CGPU_TRY(SetSlices(pair, kLongUs, kShortUs));
    constexpr std::pair<Effect, const char*> kWays[] = {{Effect::kAtOnce, "set"},
                                                        {Effect::kSchedule, "scheduled again"},
                                                        {Effect::kPreempt, "preempted"},
                                                        {Effect::kRestart, "restarted"}};
    result_.card.slices = Effect::kNone;
    for (const auto& [way, name] : kWays) {
      const Outcome first = Trigger(way, pair.first);
      const Outcome second = Trigger(way, pair.second);
      const double share = RunBoth(pair, kMeasured).Share();
      Note("first group's share, 8 ms to 2 ms " + std::string(name) + ", %", 100 * share);
      if (!first.ok() || !second.ok()) {
        Note("status of that", first.ok() ? second.status : first.status);
      } else if (share > kTookEffect) {
        result_.card.slices = way;
        break;
      }
    }
    return DrainBoth(pair);
  }

  Result<> AskStart() {
    Say("asking whether time slices hold from the start");
    const Pair pair{2, 3};
    CGPU_TRY(SetSlices(pair, kLongUs, kShortUs));
    CGPU_TRY(Schedule(pair.first));
    CGPU_TRY(Schedule(pair.second));
    const double share = RunBoth(pair, kMeasured).Share();
    Note("first group's share, 8 ms to 2 ms before it was scheduled, %", 100 * share);
    result_.card.slices_at_start = share > kTookEffect;
    return DrainBoth(pair);
  }

  Result<> AskSwitch() {
    Say("measuring a switch");
    const Pair pair{0, 1};
    CGPU_TRY(SetSlices(pair, kShortUs, kShortUs));
    (void)Trigger(result_.card.slices, pair.first);
    (void)Trigger(result_.card.slices, pair.second);
    auto log = rmclient::SwitchLog::Make(client_, gpu_);
    const Ran ran = RunBoth(pair, kMeasured);
    CGPU_TRY(DrainBoth(pair));
    const double gap = Median(Gaps(ran.a, ran.b, item_us_));
    result_.card.copy_switch_us = static_cast<std::uint32_t>(std::max(gap, 0.0));
    Note("from one group to the other, us", gap);
    Note("first group's share, 2 ms each, %", 100 * ran.Share());
    if (log.ok()) {
      std::this_thread::sleep_for(milliseconds(100));  // the driver writes each 33 ms
      result_.card.switches = !log->Read().switches.empty();
    }
    return {};
  }

  // Returns what part of the GPU's time a queue of copies has that nobody else wants.
  double RunAlone(std::size_t queue) {
    const Ran ran = RunBoth({queue, queue}, kMeasured);
    const double length = std::chrono::duration<double, std::micro>(kMeasured).count();
    return static_cast<double>(ran.a.size() + ran.b.size()) * item_us_ / length;
  }

  // Asks whether an idle group keeps copies off the GPU for its time slices, and not beyond them.
  Result<> AskHold() {
    Say("asking whether an idle group holds the GPU");
    auto made = rmclient::IdleGroup::Make(client_, gpu_);
    if (!made.ok()) {  // the other answers hold without it
      Say("no idle group: " + made.error().what);
      return {};
    }
    rmclient::IdleGroup& idle = *made;
    CGPU_TRY(SetSlice(idle.group(), kLongUs));
    CGPU_TRY(
        Asked(rmclient::ScheduleGroup(client_, idle.group()), "scheduling an idle channel group"));
    CGPU_TRY(SetSlice(queues_[0].group(), kShortUs));
    (void)Trigger(result_.card.slices, 0);
    (void)Pull(client_, governor::TriggerOf(result_.card.slices), idle.group(), idle.channel());
    idle.Hold();
    const double held = RunAlone(0);
    idle.Release();
    const double free = RunAlone(0);
    CGPU_TRY(Drain(0));
    Note("copies beside an idle group, 2 ms to 8 ms, %", 100 * held);
    Note("copies when it wants nothing any more, %", 100 * free);
    result_.card.holds = idle.Fault() == 0 && held > kShared && held < kHeld && free > kFree;
    return {};
  }

  Outcome Switch(std::size_t queue, bool on) {
    rm::NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS params{};
    params.bDisable = on ? 0 : 1;
    params.numChannels = 1;
    params.hClientList[0] = client_.handle();
    params.hChannelList[0] = queues_[queue].channel();
    return client_.Control(gpu_.subdevice, rm::NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS, &params,
                           sizeof(params));
  }
  // Takes the queue off or brings it back, and does what makes that take effect.
  [[nodiscard]] Outcome SwitchBy(Effect way, std::size_t queue, bool on) {
    const Outcome switched = Switch(queue, on);
    return switched.ok() && way == Effect::kRestart ? Trigger(way, queue) : switched;
  }
  [[nodiscard]] bool Runs(const Pair& pair) { return !RunBoth(pair, milliseconds(50)).a.empty(); }

  void AskOff() {
    Say("asking whether channels go off and come back");
    const Pair pair{0, 1};
    queues_[0].Fill();
    queues_[1].Fill();
    result_.card.off = Effect::kNone;
    for (const Effect way : {Effect::kAtOnce, Effect::kRestart}) {
      if (!SwitchBy(way, pair.first, false).ok()) {
        break;
      }
      const bool off = !Runs(pair);
      const bool back = SwitchBy(way, pair.first, true).ok() && Runs(pair);
      if (off && back) {
        result_.card.off = way;
        break;
      }
    }
    // Where channels do not come back, the other answers hold all the same.
    if (!DrainBoth(pair).ok() || (result_.card.off != Effect::kNone && !MeasureOff(pair.first))) {
      result_.card.off = Effect::kNone;
    }
    if (result_.card.off != Effect::kNone) {
      Interrupt(pair);
    }
  }

  // Measures how long it takes to take off what runs, and to bring it back. Returns false if it
  // does not come back.
  [[nodiscard]] bool MeasureOff(std::size_t queue) {
    std::vector<double> off_us;
    std::vector<double> on_us;
    for (int i = 0; i < 21; ++i) {
      queues_[queue].Fill();
      std::this_thread::sleep_for(milliseconds(1));
      auto begin = steady_clock::now();
      (void)SwitchBy(result_.card.off, queue, false);
      off_us.push_back(MicrosecondsSince(begin));
      begin = steady_clock::now();
      (void)SwitchBy(result_.card.off, queue, true);
      on_us.push_back(MicrosecondsSince(begin));
    }
    Note("taking off what runs, us", Median(std::move(off_us)));
    Note("bringing it back, us", Median(std::move(on_us)));
    return Drain(queue).ok();
  }

  // Takes work off and brings it back, again and again. What was copied must be whole.
  void Interrupt(const Pair& pair) {
    Say("taking work off and bringing it back " + std::to_string(options_.interruptions) +
        " times");
    const Effect way = result_.card.off;
    const auto end = steady_clock::now() + kInterrupting;
    std::uint64_t done = 0;
    while (done < options_.interruptions && steady_clock::now() < end) {
      queues_[0].Spoil();
      queues_[0].Fill();
      queues_[1].Fill();
      const std::uint64_t until = std::min(kBatch, options_.interruptions - done);
      for (std::uint64_t i = 0; i < until; ++i) {
        const bool went = SwitchBy(way, pair.first, false).ok();
        const bool came = SwitchBy(way, pair.first, true).ok();
        if (!went || !came) {
          result_.card.off = Effect::kNone;
        }
      }
      done += until;
      const bool drained = DrainBoth(pair).ok();
      if (!drained || !queues_[0].Intact()) {
        Note("interruptions until work was lost", static_cast<double>(done));
        result_.card.off = Effect::kNone;
        return;
      }
    }
    Note("interruptions", static_cast<double>(done));
  }

  void AskLevels() {
    Say("asking for interleave levels");
    rm::NVA06C_CTRL_INTERLEAVE_LEVEL_PARAMS level{rm::NVA06C_CTRL_INTERLEAVE_LEVEL_HIGH};
    const Outcome set = client_.Control(
        queues_[0].group(), rm::NVA06C_CTRL_CMD_SET_INTERLEAVE_LEVEL, &level, sizeof(level));
    result_.card.levels = set.ok();
  }

  rmclient::Client& client_;
  const rmclient::Gpu& gpu_;
  const CalibrationOptions& options_;
  std::vector<CopyQueue> queues_;
  double item_us_ = 0;
  Calibration result_;
};

}  // namespace

Result<Calibration> Calibrate(rmclient::Session& session, const CalibrationOptions& options) {
  return Calibrator(session, options).Run();
}

}  // namespace cgpu
