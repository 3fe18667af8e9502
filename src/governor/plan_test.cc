#include "governor/plan.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace cgpu::governor {
namespace {

constexpr auto kSwitch = static_cast<double>(kSwitchUs);

Member WithPercent(std::uint64_t percent) {
  Member member;
  member.request.percent = percent;
  return member;
}

Member WithWeight(std::uint64_t weight) {
  Member member;
  member.request.weight = weight;
  return member;
}

Member High() {
  Member member;
  member.request.high_priority = true;
  return member;
}

std::vector<std::uint32_t> SlicesOf(const std::vector<Order>& orders) {
  std::vector<std::uint32_t> slices;
  for (const Order& order : orders) {
    slices.push_back(order.slice_us);
  }
  return slices;
}

// Returns what each gets of a GPU that runs them in turn, all with more work than they get.
std::vector<double> InTurn(const std::vector<Order>& orders) {
  const auto slices = SlicesOf(orders);
  double round = 0;
  std::vector<double> shares;
  for (const std::uint32_t slice : slices) {
    round += slice + (slices.size() > 1 ? kSwitch : 0);
  }
  for (const std::uint32_t slice : slices) {
    shares.push_back(slice / round);
  }
  return shares;
}

TEST(Division, ManyGroupsTakeNoMoreThanOne) {
  for (const std::uint64_t slice : {100U, 400U, 3'000U, 60'000U}) {
    const std::size_t most = MostGroups(slice);
    for (std::size_t groups = 1; groups <= most; ++groups) {
      const std::uint64_t each = TurnOf(slice, groups);
      EXPECT_LE(groups * (each + kSwitchUs), slice + kSwitchUs);
      EXPECT_GT(groups * (each + 1 + kSwitchUs), slice + kSwitchUs);
      EXPECT_TRUE(each >= kLeastTurnUs || groups == 1) << slice << " among " << groups;
    }
    EXPECT_LT(TurnOf(slice, most + 1), kLeastTurnUs);
    EXPECT_GE(TurnOf(slice, 1'000'000), 1);
  }
  EXPECT_EQ(TurnOf(3'000, 1), 3'000);
  EXPECT_EQ(MostGroups(6'000), 20);
  EXPECT_EQ(MostGroups(0), 1);
}

TEST(Plan, GroupsMayRestWhereChannelsMayBeTakenOff) {
  Rules rules;
  EXPECT_FALSE(Plan(rules, {WithWeight(1), High()})[1].may_rest);
  rules.capping = Capping::kDutyCycle;
  for (const Order& order : Plan(rules, {WithWeight(1), High()})) {
    EXPECT_TRUE(order.may_rest && IsSound(order));
  }
}

TEST(Plan, NativeOrdersNothing) {
  Rules rules;
  rules.policy = Policy::kNative;
  EXPECT_EQ(Plan(rules, {WithWeight(1), High()}), std::vector<Order>(2));
}

TEST(Plan, EqualPartsAndWeights) {
  Rules rules;
  EXPECT_EQ(SlicesOf(Plan(rules, std::vector<Member>(2))),
            (std::vector<std::uint32_t>{6'000, 6'000}));
  rules.policy = Policy::kWeight;
  EXPECT_EQ(SlicesOf(Plan(rules, {WithWeight(3), WithWeight(7)})),
            (std::vector<std::uint32_t>{3'600, 8'400}));
  // A small share makes the round longer, up to a limit.
  EXPECT_EQ(SlicesOf(Plan(rules, {WithWeight(1), WithWeight(99)})),
            (std::vector<std::uint32_t>{1'000, 99'000}));
}

TEST(Plan, FixedHasWindowsOfItsOwnWhereChannelsCanBeSuspended) {
  Rules rules;
  rules.policy = Policy::kFixed;
  EXPECT_EQ(Plan(rules, {WithPercent(30), WithPercent(50)})[0].duty, Duty{});
  rules.capping = Capping::kDutyCycle;
  const auto orders = Plan(rules, {WithPercent(30), WithPercent(50)});
  EXPECT_EQ(orders[0].duty, (Duty{20'000, 6'000, 0}));
  EXPECT_EQ(orders[1].duty, (Duty{20'000, 10'000, 6'000}));
  EXPECT_EQ(Plan(rules, {WithPercent(100)})[0].duty, Duty{});
  EXPECT_EQ(Plan(rules, {WithPercent(1)})[0].duty, (Duty{100'000, 1'000, 0}));
}

// A window is longer by the switch to its owner, and no window of another is in that time.
TEST(Plan, WindowsHaveRoomForTheSwitchWhereThereIsAny) {
  Rules rules;
  rules.policy = Policy::kFixed;
  rules.capping = Capping::kDutyCycle;
  rules.switch_us = 100;
  auto orders = Plan(rules, {WithPercent(30), WithPercent(50)});
  EXPECT_EQ(orders[0].duty, (Duty{20'000, 6'100, 0}));
  EXPECT_EQ(orders[1].duty, (Duty{20'000, 10'100, 6'100}));
  orders = Plan(rules, {WithPercent(30), WithPercent(70)});
  EXPECT_EQ(orders[0].duty, (Duty{20'000, 6'000, 0})) << "there is none";
  EXPECT_EQ(orders[1].duty, (Duty{20'000, 14'000, 6'000}));
  rules.policy = Policy::kFair;
  rules.max_inst = 4;
  Member last;
  last.place = 2;
  orders = Plan(rules, {last, Member{}});
  EXPECT_EQ(orders[0].duty, (Duty{20'000, 5'100, 10'100}));
  EXPECT_EQ(orders[1].duty, (Duty{20'000, 5'100, 0}));
  last.place = 3;
  orders = Plan(rules, {last, Member{}});
  EXPECT_EQ(orders[0].duty, (Duty{20'000, 5'000, 15'000})) << "the last place";
  EXPECT_EQ(orders[1].duty, (Duty{20'000, 5'100, 0}));
  rules.policy = Policy::kSoft;
  Member capped = WithPercent(30);
  capped.request.max_percent = 60;
  EXPECT_EQ(Plan(rules, {capped})[0].duty, (Duty{20'000, 12'100, 0}));
  // Never the whole period: there would be no switch and no cap.
  rules.switch_us = 1'000;
  capped.request.max_percent = 98;
  EXPECT_EQ(Plan(rules, {capped})[0].duty, (Duty{20'000, 19'800, 0}));
  rules.policy = Policy::kFixed;
  EXPECT_EQ(Plan(rules, {WithPercent(99)})[0].duty, (Duty{20'000, 19'900, 0}));
}

TEST(Plan, FairKeepsThePlaceOfEach) {
  Rules rules;
  rules.policy = Policy::kFair;
  rules.capping = Capping::kDutyCycle;
  Member second;
  second.place = 1;
  Member last;
  last.place = 19;
  const auto orders = Plan(rules, {last, second});
  EXPECT_EQ(orders[0].duty, (Duty{100'000, 5'000, 95'000}));
  EXPECT_EQ(orders[1].duty, (Duty{100'000, 5'000, 5'000}));
}

TEST(Plan, NobodyWaitsLongForHighPriority) {
  Rules rules;
  const auto orders = Plan(rules, {Member{}, High(), Member{}});
  EXPECT_EQ(orders[0].slice_us, 1'200);
  EXPECT_EQ(orders[2].slice_us, 1'200);
  EXPECT_TRUE(orders[1].high);
  EXPECT_FALSE(orders[0].high);
  // 90 of 100, in a time slice before each of the others.
  EXPECT_NEAR(orders[1].slice_us, 21'600, 1);
  EXPECT_EQ(orders[1].turns, 2);
}

TEST(Plan, HighPriorityCanBeCarriedOutHoweverManyOthersThereAre) {
  Rules rules;
  rules.prio_ratio = kMostPrioRatio;
  std::vector<Member> members(kMostMaxInst - 1);
  members.push_back(High());
  const Order order = Plan(rules, members).back();
  EXPECT_NEAR(order.slice_us, 63 * 1'200 * 99, 1);
  EXPECT_TRUE(IsSound(order)) << order.slice_us;
}

// In a window there are its owner and those of high priority, which have all their time slices in
// it.
TEST(Plan, HighPriorityHasItsPartOfEachWindow) {
  Rules rules;
  rules.policy = Policy::kFixed;
  rules.capping = Capping::kDutyCycle;
  for (const std::size_t count : {1U, 2U, 4U}) {
    std::vector<Member> members(count, WithPercent(100 / count));
    members.push_back(High());
    const auto orders = Plan(rules, members);
    EXPECT_EQ(orders.front().slice_us, count == 4   ? 500
                                       : count == 2 ? 1'000
                                                    : 1'200)
        << "a turn in each window";
    EXPECT_NEAR(orders.back().slice_us, 9 * orders.front().slice_us, 1) << "beside " << count;
    EXPECT_EQ(orders.back().turns, count);
  }
  // The others may have 30 % at the most; a third of that is the 10 % that is left to them.
  const auto orders = Plan(rules, {WithPercent(30), High()});
  EXPECT_NEAR(orders[1].slice_us, 2'400, 1);
}

TEST(Plan, FairIsForAllThatAreThere) {
  Rules rules;  // `max_inst` was more when they came
  rules.policy = Policy::kFair;
  rules.capping = Capping::kDutyCycle;
  rules.max_inst = 2;
  std::vector<Member> members(4);
  for (unsigned place = 0; place < members.size(); ++place) {
    members[place].place = place;
  }
  const auto orders = Plan(rules, members);
  for (unsigned i = 0; i < members.size(); ++i) {
    EXPECT_EQ(orders[i].duty, (Duty{20'000, 5'000, i * 5'000}));
    EXPECT_NEAR(Shares(rules, members)[i], 0.25, 1e-9);
  }
}

TEST(Plan, AMaximumHoldsAndTheGuaranteeToo) {
  Rules rules;
  rules.policy = Policy::kSoft;
  rules.capping = Capping::kDutyCycle;
  Member capped = WithPercent(30);
  capped.request.max_percent = 60;
  // Off for 40 % of the time; while both are on they are equals: 30 and 30 of 60.
  const auto orders = Plan(rules, {capped, WithPercent(70)});
  EXPECT_EQ(orders[0].duty, (Duty{20'000, 12'000, 0}));
  EXPECT_EQ(orders[1].duty, Duty{});
  EXPECT_NEAR(orders[0].slice_us, orders[1].slice_us, 60);
  rules.capping = Capping::kNone;
  EXPECT_EQ(Plan(rules, {capped, WithPercent(70)})[0].duty, Duty{});
}

TEST(Plan, AnIdleGroupTakesWhatNobodyMayHave) {
  Rules rules;
  rules.policy = Policy::kFixed;
  rules.capping = Capping::kIdleGroup;
  const auto orders = Plan(rules, {WithPercent(30), WithPercent(20)});
  EXPECT_EQ(SlicesOf(orders), (std::vector<std::uint32_t>{5'400, 3'600})) << "of a round of 18 ms";
  EXPECT_EQ(orders[0].duty, Duty{});
  EXPECT_FALSE(orders[0].may_rest);
  EXPECT_EQ(Caps(rules, {WithPercent(30), WithPercent(20)}), (std::vector<double>{0.3, 0.2}));
  EXPECT_EQ(Caps(rules, {WithPercent(30), High()}), (std::vector<double>{0.3, 1}));
  EXPECT_TRUE(Caps(rules, {High()}).empty());
  EXPECT_EQ(SlicesOf(Plan(rules, {WithPercent(2)})), (std::vector<std::uint32_t>{1'500}));
  // The idle group's time slice is the longest, and no longer than that of others.
  EXPECT_EQ(Plan(rules, {WithPercent(30), High()})[0].slice_us, 514);
  rules.capping = Capping::kNone;
  EXPECT_TRUE(Caps(rules, {WithPercent(30)}).empty());
}

TEST(Plan, AnIdleGroupHoldsMaxima) {
  Rules rules;
  rules.policy = Policy::kSoft;
  rules.capping = Capping::kIdleGroup;
  Member capped = WithPercent(30);
  capped.request.max_percent = 40;
  const auto orders = Plan(rules, {capped, WithPercent(30)});
  EXPECT_NEAR(1.5 * orders[0].slice_us, orders[1].slice_us, 2) << "40 to 60";
  EXPECT_EQ(Caps(rules, {capped, WithPercent(30)}), (std::vector<double>{0.4, 1}));
  EXPECT_TRUE(Caps(rules, {WithPercent(30), WithPercent(30)}).empty());
  rules.policy = Policy::kWeight;
  EXPECT_TRUE(Caps(rules, {capped}).empty());
}

TEST(Card, TheMeansOfCapping) {
  Card card;
  EXPECT_EQ(CappingBy(card, true), Capping::kDutyCycle);
  EXPECT_EQ(CappingBy(card, false), Capping::kNone) << "nobody has asked";
  card.slices = Effect::kAtOnce;
  card.off = Effect::kAtOnce;
  card.holds = card.switches = true;
  EXPECT_EQ(CappingBy(card, true), Capping::kDutyCycle);
  EXPECT_EQ(CappingBy(card, false), Capping::kIdleGroup);
  card.off = Effect::kRestart;
  EXPECT_EQ(CappingBy(card, true), Capping::kIdleGroup);
  card.slices = Effect::kRestart;
  EXPECT_EQ(CappingBy(card, true), Capping::kIdleGroup);
  card.slices = Effect::kPreempt;
  EXPECT_EQ(CappingBy(card, true), Capping::kIdleGroup);
  card.slices = Effect::kNone;
  EXPECT_EQ(CappingBy(card, true), Capping::kNone);
  card.slices = Effect::kAtOnce;
  card.holds = false;
  EXPECT_EQ(CappingBy(card, false), Capping::kNone);
}

TEST(Shares, WhatIsPromised) {
  Rules rules;
  rules.policy = Policy::kSoft;
  Member capped = WithPercent(30);
  capped.request.max_percent = 40;
  // 30 and 30 come to half each; what is over the cap goes to the other.
  const auto soft = Shares(rules, {capped, WithPercent(30)});
  EXPECT_NEAR(soft[0], 0.4, 1e-9);
  EXPECT_NEAR(soft[1], 0.6, 1e-9);
  rules.policy = Policy::kFixed;
  const auto fixed = Shares(rules, {WithPercent(30), WithPercent(30)});
  EXPECT_NEAR(fixed[0], 0.3, 1e-9);
  EXPECT_NEAR(fixed[1], 0.3, 1e-9);
  const auto high = Shares(rules, {WithPercent(30), High()});
  EXPECT_NEAR(high[1], 0.9, 1e-9);
  EXPECT_NEAR(high[0], 0.1, 1e-9);
  // The owner has half of a small window.
  rules.policy = Policy::kFair;
  rules.capping = Capping::kDutyCycle;
  const auto fair = Shares(rules, {Member{}, High()});
  EXPECT_NEAR(fair[0], 0.025, 1e-9);
  EXPECT_NEAR(fair[1], 0.975, 1e-9);
}

Member AnyMember(unsigned place) {
  Member member;
  member.place = place;
  if (*rc::gen::arbitrary<bool>()) {
    member.request.percent = *rc::gen::inRange<std::uint64_t>(1, 101);
    if (*rc::gen::arbitrary<bool>()) {
      member.request.max_percent = *rc::gen::inRange<std::uint64_t>(*member.request.percent, 101);
    }
  }
  if (*rc::gen::arbitrary<bool>()) {
    member.request.weight = *rc::gen::inRange<std::uint64_t>(1, kMaxWeight + 1);
  }
  member.request.high_priority = *rc::gen::inRange(0, 4) == 0;
  return member;
}

struct Case {
  Rules rules;
  std::vector<Member> members;
};

// Returns any case, also one that CanHonour() would have refused: a policy may change under its
// containers.
Case AnyCase() {
  Case any;
  any.rules.policy = *rc::gen::elementOf(kPolicies);
  any.rules.max_inst = *rc::gen::inRange(1U, kMostMaxInst + 1);
  any.rules.prio_ratio = *rc::gen::inRange(kLeastPrioRatio, kMostPrioRatio + 1);
  any.rules.capping = *rc::gen::element(Capping::kNone, Capping::kDutyCycle, Capping::kIdleGroup);
  any.rules.switch_us = *rc::gen::inRange(0U, 1'000U);
  const unsigned count = *rc::gen::inRange(0U, any.rules.max_inst + 4);  // it may become less
  for (unsigned place = 0; place < count; ++place) {
    any.members.push_back(AnyMember(place));
  }
  return any;
}

TEST(PlanProperty, OrdersAreOnesThatCanBeCarriedOut) {
  EXPECT_TRUE(rc::check([] {
    const Case any = AnyCase();
    const auto orders = Plan(any.rules, any.members);
    RC_ASSERT(orders.size() == any.members.size());
    for (std::size_t i = 0; i < orders.size(); ++i) {
      RC_ASSERT((orders[i].slice_us == 0) == (any.rules.policy == Policy::kNative));
      RC_ASSERT(IsSound(orders[i]));
      const Duty& duty = orders[i].duty;
      if (duty.period_us != 0) {
        RC_ASSERT(any.rules.capping == Capping::kDutyCycle);
        RC_ASSERT(!any.members[i].request.high_priority);
        RC_ASSERT(duty.on_us > 0 && duty.phase_us + duty.on_us <= duty.period_us);
      } else {
        RC_ASSERT(duty == Duty{});
      }
    }
  }));
}

TEST(PlanProperty, WindowsDoNotOverlap) {
  EXPECT_TRUE(rc::check([] {
    Case any = AnyCase();
    any.rules.policy = *rc::gen::element(Policy::kFair, Policy::kFixed);
    any.rules.capping = Capping::kDutyCycle;
    auto orders = Plan(any.rules, any.members);
    std::erase_if(orders, [](const Order& order) { return order.duty.period_us == 0; });
    std::sort(orders.begin(), orders.end(),
              [](const Order& a, const Order& b) { return a.duty.phase_us < b.duty.phase_us; });
    for (std::size_t i = 1; i < orders.size(); ++i) {
      RC_ASSERT(orders[i].duty.period_us == orders[0].duty.period_us);
      // A window that would be empty is 1 us, whichever containers are there already.
      RC_ASSERT(orders[i - 1].duty.phase_us + orders[i - 1].duty.on_us <=
                orders[i].duty.phase_us + 1);
    }
  }));
}

TEST(PlanProperty, SlicesGiveTheShares) {
  EXPECT_TRUE(rc::check([] {
    Case any = AnyCase();
    any.rules.policy = *rc::gen::element(Policy::kPreempt, Policy::kWeight, Policy::kSoft);
    for (Member& member : any.members) {
      member.request.high_priority = false;
      member.request.max_percent.reset();
    }
    RC_PRE(!any.members.empty());
    const auto shares = Shares(any.rules, any.members);
    RC_ASSERT(std::abs(std::accumulate(shares.begin(), shares.end(), 0.0) - 1) < 1e-9);
    const auto given = InTurn(Plan(any.rules, any.members));
    const double total = std::accumulate(given.begin(), given.end(), 0.0);
    RC_ASSERT(total > 0.975);
    for (std::size_t i = 0; i < shares.size(); ++i) {
      RC_ASSERT(std::abs(given[i] - shares[i] * total) < 0.002);
    }
  }));
}

TEST(PlanProperty, SharesAreNoMoreThanTheGpu) {
  EXPECT_TRUE(rc::check([] {
    const Case any = AnyCase();
    const auto shares = Shares(any.rules, any.members);
    RC_ASSERT(std::accumulate(shares.begin(), shares.end(), 0.0) < 1 + 1e-9);
    RC_ASSERT(std::all_of(shares.begin(), shares.end(), [](double share) { return share > 0; }));
  }));
}

}  // namespace
}  // namespace cgpu::governor
