// Random histories of a GPU: what must hold whatever is done to it, and that it does not matter
// how often, and with what budget, time is advanced.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "sim/engine/tests/world.h"

namespace cgpu::sim::engine::testing {
namespace {

struct Step {
  std::uint8_t what = 0;
  std::array<std::uint8_t, 2> pick{};
  std::uint16_t amount = 0;
};

constexpr std::uint64_t kGroups = 4;
constexpr std::array<RunlistId, 2> kRunlists{kGraphics, kCopyEngine};

// A group with two channels. Its programs lie ready, so that a history never runs out of memory.
class Tenant {
 public:
  Tenant(World& world, std::uint64_t number, RunlistId runlist)
      : first_(world, number, runlist), second_(world, first_, number + 100) {
    for (const Duration duration : {Duration{700}, 30 * kMicrosecond, 5 * kMillisecond}) {
      for (const std::uint32_t flags : {0U, TimedKernel::kNotPreemptible}) {
        Add(first_.Launch(duration, flags));
      }
    }
    for (const std::uint32_t payload : {0U, 1U}) {
      Words words;
      Semaphore(words, Client::kSemaphore, payload, kAcquireEqual);
      Add(words);
      words.clear();
      Semaphore(words, Client::kSemaphore, payload, kHoldEqual);
      Add(words);
      words.clear();
      Semaphore(words, Client::kSemaphore, payload, kRelease);
      Add(words);
    }
    Words words;
    Method(words, kCopy, 0, {0xc6b5});
    Method(words, kCopy, 0x400, {1, 0x10000, 1, 0x90000});
    Method(words, kCopy, 0x418, {0x50000});
    Method(words, kCopy, 0x300, {2U | (3U << 7U)});
    Add(words);
    Add(Words{(1U << 29U) | (1U << 16U) | (0x80U >> 2U), 3});  // YIELD
    Add(first_.Launch(1000, TimedKernel::kTraps));
  }
  // Entries of one program; faults are rare. Left out where the ring is full.
  void Submit(bool second, std::uint8_t program, std::uint8_t count) {
    const bool faults = program % 64 == 63;
    const std::uint64_t entry =
        faults ? entries_.back() : entries_[program % (entries_.size() - 1)];
    Client& client = second ? second_ : first_;
    for (std::uint8_t i = 0; i < 1 + (count % 4); ++i) {
      client.PutEntryIfRoom(entry);
    }
    client.Ring();
  }
  Client& First() { return first_; }
  [[nodiscard]] std::array<ChannelKey, 2> Channels() const { return {first_.Key(), second_.Key()}; }

 private:
  void Add(const Words& words) {
    entries_.push_back(
        Client::Entry(first_.Store(words), static_cast<std::uint32_t>(words.size())));
  }

  Client first_;
  Client second_;
  std::vector<std::uint64_t> entries_;
};

class Player {
 public:
  // `piece` and `budget`: how time is advanced.
  Player(Duration piece, std::uint64_t budget) : piece_(piece), budget_(budget) {
    Costs costs;
    costs.context_switch_timeout_ns = 4 * kMillisecond;
    world_ = std::make_unique<World>(costs);
    for (const RunlistId runlist : kRunlists) {  // so that both count from the beginning
      world_->gpu.AddGroup(1'000'000 + runlist, runlist);
    }
    for (std::uint64_t i = 0; i < kGroups; ++i) {
      Renew(i);
    }
  }

  void Play(const Step& step) {
    using Move = void (Player::*)(const Step&);
    // More work and time than orders, so that histories get somewhere.
    constexpr std::array<Move, 20> kMoves{
        &Player::Submit,     &Player::Submit,   &Player::Submit,  &Player::Submit,
        &Player::Submit,     &Player::Wait,     &Player::Wait,    &Player::Wait,
        &Player::Wait,       &Player::Wait,     &Player::Write,   &Player::SetSlice,
        &Player::Interleave, &Player::Preempt,  &Player::Disable, &Player::Disable,
        &Player::Schedule,   &Player::Schedule, &Player::Stop,    &Player::Remove};
    (this->*kMoves[step.what % kMoves.size()])(step);
    Check();
  }

  // All that it can be asked.
  [[nodiscard]] std::string Accounting() const {
    std::string text;
    const auto add = [&](auto... numbers) { ((text += std::to_string(numbers) + ' '), ...); };
    for (const RunlistId runlist : kRunlists) {
      const RunlistAccounting accounting = world_->gpu.Runlist(runlist);
      add(accounting.busy_ns, accounting.switching_ns, accounting.idle_ns, accounting.switches);
    }
    for (const auto& [i, number] : numbers_) {
      const GroupAccounting accounting = *world_->gpu.Group(number);
      add(number, accounting.gpu_time_ns, accounting.switches, accounting.kernels,
          accounting.copied_bytes, accounting.running ? 1 : 0,
          accounting.fault ? static_cast<int>(*accounting.fault) : 0);
      for (const ChannelKey key : tenants_.at(i)->Channels()) {
        const ChannelAccounting channel = *world_->gpu.Channel(key);
        add(channel.gp_get, channel.kernels, channel.waiting ? 1 : 0);
      }
    }
    for (const Start& start : world_->gpu.Starts(0)) {
      add(start.group, start.visible_ns, start.start_ns, start.switched ? 1 : 0);
    }
    for (const SeenFault& fault : world_->events.faults) {
      add(fault.group, fault.channel, static_cast<int>(fault.fault), fault.at);
    }
    return text;
  }

 private:
  std::uint64_t Number(const Step& step) { return numbers_.at(step.pick[0] % kGroups); }
  Tenant& Who(const Step& step) { return *tenants_.at(step.pick[0] % kGroups); }

  void Renew(std::uint64_t i) {
    numbers_[i] = next_++;
    tenants_[i] = std::make_unique<Tenant>(*world_, numbers_[i], kRunlists[i == 3 ? 1 : 0]);
  }
  void Advance(Duration time) {
    const Time end = world_->gpu.Now() + time;
    while (world_->gpu.Now() < end) {
      const Time next = std::min(end, world_->gpu.Now() + piece_);
      while (!world_->gpu.Advance(next, budget_)) {
      }
    }
  }

  void Submit(const Step& step) {
    Who(step).Submit(step.pick[1] % 2 == 1, static_cast<std::uint8_t>(step.amount),
                     static_cast<std::uint8_t>(step.amount >> 8U));
  }
  void Wait(const Step& step) { Advance(std::uint64_t{step.amount} * 47); }
  void Write(const Step& step) {
    Who(step).First().Put<std::uint32_t>(Client::kSemaphore, step.amount % 2);
    world_->gpu.Poll();
  }
  void SetSlice(const Step& step) { world_->gpu.SetTimeslice(Number(step), step.amount % 3000); }
  void Interleave(const Step& step) {
    world_->gpu.SetInterleave(Number(step), static_cast<engine::Interleave>(step.amount % 3));
  }
  void Preempt(const Step& step) { CheckOff(step, world_->gpu.Preempt(Number(step)), false); }
  void Disable(const Step& step) {
    const std::array<ChannelKey, 2> channels = Who(step).Channels();
    const bool off = step.amount % 2 == 0;
    const bool both = step.pick[1] % 4 != 0;
    const bool only = step.pick[1] % 8 == 1;
    const Time done = world_->gpu.Disable(std::span(channels).first(both ? 2 : 1), off, only);
    CheckOff(step, done, off && both && !only);
  }
  void Schedule(const Step& step) {
    const bool on = step.amount % 2 == 0;
    CheckOff(step, world_->gpu.Schedule(Number(step), on), !on);
  }
  void Stop(const Step& step) {
    if (step.amount % 8 == 0) {
      CheckOff(step, world_->gpu.Stop(Who(step).Channels()[step.pick[1] % 2]), false);
    }
  }
  void Remove(const Step& step) {
    if (step.amount % 4 != 0) {
      return;
    }
    const std::uint64_t number = Number(step);
    const GroupAccounting accounting = *world_->gpu.Group(number);
    gone_[accounting.runlist] += accounting.gpu_time_ns;
    if (step.pick[1] % 2 == 1) {
      world_->gpu.RemoveChannel(number);
    }
    world_->gpu.RemoveGroup(number);
    Renew(step.pick[0] % kGroups);
  }
  // An order that is done at a time; from then on the group is off the engine for as long as it
  // `stays` so.
  void CheckOff(const Step& step, Time done, bool stays) {
    RC_ASSERT(done >= world_->gpu.Now());
    if (!stays) {
      return;
    }
    Advance(done - world_->gpu.Now());
    const Duration ran = world_->gpu.Group(Number(step))->gpu_time_ns;
    Advance(3 * kMillisecond);
    RC_ASSERT(world_->gpu.Group(Number(step))->gpu_time_ns == ran);
  }

  void Check() {
    std::map<RunlistId, Duration> sum = gone_;
    std::map<RunlistId, bool> runs;
    std::map<RunlistId, bool> could;
    for (const auto& [i, number] : numbers_) {
      const GroupAccounting accounting = *world_->gpu.Group(number);
      sum[accounting.runlist] += accounting.gpu_time_ns;
      runs[accounting.runlist] = runs[accounting.runlist] || accounting.running;
      bool allowed = accounting.scheduled && accounting.has_work && !accounting.fault;
      for (const ChannelKey key : tenants_.at(i)->Channels()) {
        const std::optional<ChannelAccounting> channel = world_->gpu.Channel(key);
        allowed = allowed && channel && !channel->disabled && !channel->stopped;
      }
      could[accounting.runlist] = could[accounting.runlist] || allowed;
    }
    for (const RunlistId runlist : kRunlists) {
      const RunlistAccounting accounting = world_->gpu.Runlist(runlist);
      // Time adds up, and what was worked was worked by somebody.
      RC_ASSERT(accounting.busy_ns + accounting.switching_ns + accounting.idle_ns ==
                world_->gpu.Now());
      RC_ASSERT(sum[runlist] == accounting.busy_ns);
      // Nobody idles while there is work.
      RC_ASSERT(runs[runlist] || !could[runlist]);
    }
  }

  Duration piece_;
  std::uint64_t budget_;
  std::unique_ptr<World> world_;
  std::map<std::uint64_t, std::uint64_t> numbers_;
  std::map<std::uint64_t, std::unique_ptr<Tenant>> tenants_;
  std::map<RunlistId, Duration> gone_;
  std::uint64_t next_ = 1;
};

// For a history that fails.
std::ostream& operator<<(std::ostream& out, const Step& step) {
  return out << static_cast<int>(step.what % 20) << '(' << static_cast<int>(step.pick[0]) << ','
             << static_cast<int>(step.pick[1]) << ',' << step.amount << ')';
}

}  // namespace
}  // namespace cgpu::sim::engine::testing

namespace rc {

using cgpu::sim::engine::testing::Step;

template <>
struct Arbitrary<Step> {
  static Gen<Step> arbitrary() {
    // The full range at any size: small numbers here are no simpler than large ones.
    const auto byte = gen::inRange<std::uint8_t>(0, 255);
    return gen::build<Step>(
        gen::set(&Step::what, byte),
        gen::set(&Step::pick, gen::container<std::array<std::uint8_t, 2>>(byte)),
        gen::set(&Step::amount, gen::inRange<std::uint16_t>(0, 65535)));
  }
};

}  // namespace rc

namespace cgpu::sim::engine::testing {
namespace {

TEST(GpuPropertyTest, HoldsInEveryHistoryHoweverTimeIsAdvanced) {
  const bool held = rc::check("late == frequent", [] {
    const auto steps = *rc::gen::scale(3.0, rc::gen::arbitrary<std::vector<Step>>());
    Player late(kNever / 4, 1'000'000);
    Player frequent(7919, 3);
    for (const Step& step : steps) {
      late.Play(step);
      frequent.Play(step);
      RC_ASSERT(late.Accounting() == frequent.Accounting());
    }
  });
  EXPECT_TRUE(held);
}

// Methods as a hostile program might send them: real ones, with data that is nearly right.
rc::Gen<Words> AnyMethods() {
  const auto method = rc::gen::elementOf(std::vector<std::uint32_t>{
      0x0,   0x4,   0x10,  0x14,  0x18,  0x1c,  0x20,  0x5c,   0x60,   0x64,   0x68,  0x6c,
      0x80,  0x180, 0x184, 0x188, 0x18c, 0x190, 0x1b0, 0x1b4,  0x1dc,  0x1e0,  0x1e4, 0x240,
      0x244, 0x248, 0x2b4, 0x2bc, 0x2c0, 0x300, 0x304, 0x400,  0x404,  0x408,  0x40c, 0x410,
      0x414, 0x418, 0x41c, 0x700, 0x704, 0x708, 0x800, 0x1b00, 0x1b04, 0x1b08, 0x1b0c});
  const auto data = rc::gen::oneOf(
      rc::gen::arbitrary<std::uint32_t>(), rc::gen::inRange<std::uint32_t>(0, 64),
      rc::gen::inRange<std::uint32_t>(0x10'0000, 0x10'2000),  // as QMD: what lies in the space
      rc::gen::elementOf(Words{0xc6c0, 0xcec0, 0xc6b5, 0xc9b0, 1, 1U << 9U | 0x182U, 0x582}));
  return rc::gen::exec([=]() -> Words {
    const auto header = *rc::gen::inRange<std::uint32_t>(0, 40);
    if (header == 0) {
      return {*rc::gen::arbitrary<std::uint32_t>()};
    }
    Words words;
    const auto type = *rc::gen::elementOf(Words{1, 1, 1, 3, 5});
    const auto count = *rc::gen::inRange<std::size_t>(1, 6);
    Method(words, *rc::gen::inRange<std::uint32_t>(0, 3), *method,
           *rc::gen::container<Words>(count, data), type);
    return words;
  });
}

TEST(GpuPropertyTest, AnyPushbufferEndsOrCostsTimeAndHarmsNobodyElse) {
  const bool held = rc::check("any pushbuffer", [] {
    World world;
    Client good(world, 1);
    Client hostile(world, 2);
    good.Saturate(100 * kMicrosecond);
    hostile.Submit([] {  // objects on the subchannels, so that methods find somebody
      Words words;
      for (const std::uint32_t subchannel : {0U, 1U, 2U}) {
        Method(words, subchannel, 0, {std::array{0xc6c0U, 0xc6b5U, 0xcec0U}[subchannel]});
      }
      return words;
    }());
    const auto parts = *rc::gen::scale(2.0, rc::gen::container<std::vector<Words>>(AnyMethods()));
    for (const Words& part : parts) {
      hostile.Submit(part);
    }
    const Time end = 40 * kMillisecond;
    for (int calls = 0; world.gpu.Now() < end; ++calls) {
      RC_ASSERT(calls < 10'000);
      static_cast<void>(world.gpu.Advance(std::min(end, world.gpu.Now() + kMillisecond), 100'000));
      good.Fill();
    }
    const RunlistAccounting accounting = world.gpu.Runlist(kGraphics);
    RC_ASSERT(accounting.busy_ns + accounting.switching_ns + accounting.idle_ns == end);
    RC_ASSERT(good.Accounting().gpu_time_ns + hostile.Accounting().gpu_time_ns ==
              accounting.busy_ns);
    RC_ASSERT(good.Accounting().gpu_time_ns > end * 4 / 10);
    RC_ASSERT(!good.Accounting().fault.has_value());
    RC_CLASSIFY(hostile.Accounting().fault.has_value(), "faults");
  });
  EXPECT_TRUE(held);
}

}  // namespace
}  // namespace cgpu::sim::engine::testing
