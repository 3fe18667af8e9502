#include "governor/plan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numeric>

namespace cgpu::governor {
namespace {

// Mean time slice: the switch to it takes 2.4 % of the time of both. Small shares get shorter time
// slices than the mean; longer rounds are for those that would come out too short to be divided
// among some channel groups.
constexpr double kMeanSliceUs = 40 * kSwitchUs;
constexpr double kLeastSliceUs = 10 * kSwitchUs;
constexpr double kMostRoundUs = 100'000;
// Time slice while a container of high priority may come at any time. Nothing tells of a launch, so
// that container waits for the end of a time slice: 1.35 ms with the switch. Shorter ones would
// cost the others more than the ninth that the switches between them take now.
constexpr double kShortSliceUs = 8 * kSwitchUs;
constexpr double kLeastShortSliceUs = kSwitchUs;
// Shortest window: 20 switches. The shim takes a channel off the GPU in about 0.5 ms (H200).
constexpr double kLeastWindowUs = 20 * kSwitchUs;
constexpr std::array<std::uint32_t, 4> kPeriodsUs = {20'000, 25'000, 50'000, 100'000};

std::uint32_t Whole(double us) {
  return static_cast<std::uint32_t>(std::max(1.0, std::floor(us)));
}

std::size_t OfHighPriority(const std::vector<Member>& members) {
  return static_cast<std::size_t>(std::ranges::count_if(
      members, [](const Member& member) { return member.request.high_priority; }));
}

double PercentageOf(const std::vector<Member>& members, const ComputeRequest& request) {
  if (request.percent) {
    return static_cast<double>(*request.percent);
  }
  double promised = 0;
  std::size_t others = 0;  // that asked for none either
  for (const Member& member : members) {
    if (!member.request.high_priority) {
      promised += static_cast<double>(member.request.percent.value_or(0));
      others += member.request.percent ? 0 : 1;
    }
  }
  return std::max(1.0, (100.0 - promised) / static_cast<double>(others));
}

// Returns its weight among those of normal priority.
double WeightOf(const Rules& rules, const std::vector<Member>& members, const Member& member) {
  switch (rules.policy) {
    case Policy::kWeight:
      return static_cast<double>(member.request.weight.value_or(1));
    case Policy::kFixed:
    case Policy::kSoft:
      return PercentageOf(members, member.request);
    case Policy::kFair:
    case Policy::kPreempt:
    case Policy::kNative:
      break;
  }
  return 1;
}

double WeightOfHigh(const Rules& rules, const Member& member) {
  if (rules.policy == Policy::kWeight) {
    return static_cast<double>(member.request.weight.value_or(1));
  }
  return 1;
}

// Returns the weight of each among those of its own priority; the sum of either kind is 1.
std::vector<double> Parts(const Rules& rules, const std::vector<Member>& members) {
  std::vector<double> parts(members.size());
  std::array<double, 2> sums = {0, 0};
  for (std::size_t i = 0; i < members.size(); ++i) {
    const bool high = members[i].request.high_priority;
    parts[i] = high ? WeightOfHigh(rules, members[i]) : WeightOf(rules, members, members[i]);
    sums[high ? 1 : 0] += parts[i];
  }
  for (std::size_t i = 0; i < members.size(); ++i) {
    parts[i] /= sums[members[i].request.high_priority ? 1 : 0];
  }
  return parts;
}

bool HasWindows(const Rules& rules) {
  return rules.capping == Capping::kDutyCycle;
}

bool IsCapped(const Rules& rules) {
  return rules.policy == Policy::kFair || rules.policy == Policy::kFixed;
}

// Returns the places of a GPU under kFair: `max_inst`, or the number of members where that is more.
unsigned PlacesOf(const Rules& rules, const std::vector<Member>& members) {
  return std::max(rules.max_inst, static_cast<unsigned>(members.size()));
}

// Returns the fraction of the GPU that a member of a capped policy may take: 0 to 1, together 1 at
// the most.
double CapOf(const Rules& rules, const std::vector<Member>& members, const Member& member) {
  if (rules.policy == Policy::kFair) {
    return 1.0 / PlacesOf(rules, members);
  }
  double sum = 0;
  for (const Member& other : members) {
    sum += other.request.high_priority ? 0 : PercentageOf(members, other.request);
  }
  return PercentageOf(members, member.request) / std::max(100.0, sum);
}

// Takes from each what is over its cap and gives it to the others, in proportion, until nobody has
// too much.
void PourOver(const std::vector<double>& caps, std::vector<double>& shares) {
  for (std::size_t round = 0; round < shares.size(); ++round) {
    double over = 0;
    double open = 0;
    for (std::size_t i = 0; i < shares.size(); ++i) {
      if (shares[i] >= caps[i]) {
        over += shares[i] - caps[i];
        shares[i] = caps[i];
      } else {
        open += shares[i];
      }
    }
    if (over <= 0 || open <= 0) {
      return;
    }
    for (std::size_t i = 0; i < shares.size(); ++i) {
      shares[i] += shares[i] < caps[i] ? over * shares[i] / open : 0;
    }
  }
}

// Returns the most that a member may have, 0 to 1; 1: it has no cap.
double MostOf(const Rules& rules, const std::vector<Member>& members, const Member& member) {
  if (member.request.high_priority) {
    return 1;
  }
  if (IsCapped(rules)) {
    return CapOf(rules, members, member);
  }
  return rules.policy == Policy::kSoft
             ? static_cast<double>(member.request.max_percent.value_or(100)) / 100
             : 1;
}

// Returns the parts of a round of those of normal priority, where an idle group has the rest of it:
// a container whose cap is below its share of what all want has its cap.
std::vector<double> PartsBesideIdle(const Rules& rules, const std::vector<Member>& members,
                                    const std::vector<double>& parts) {
  std::vector<double> beside(members.size(), 0);
  std::vector<double> caps(members.size(), 1);
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (!members[i].request.high_priority) {
      caps[i] = MostOf(rules, members, members[i]);
      beside[i] = IsCapped(rules) ? caps[i] : parts[i];
    }
  }
  PourOver(caps, beside);
  for (std::size_t i = 0; i < members.size(); ++i) {
    beside[i] = members[i].request.high_priority ? parts[i] : beside[i];
  }
  return beside;
}

// Sets time slices in proportion to `parts`. What these lack of 1 is the idle group's, which has a
// time slice of its own in each round.
void Slices(const Rules& rules, const std::vector<Member>& members,
            const std::vector<double>& parts, std::vector<Order>& orders) {
  std::size_t normal = 0;
  double least = 1;
  double most = 0;
  double idle = 1;
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (!members[i].request.high_priority) {
      ++normal;
      least = std::min(least, parts[i]);
      most = std::max(most, parts[i]);
      idle -= parts[i];
    }
  }
  constexpr double kSome = 1e-6;
  const bool idles = normal != 0 && idle > kSome;
  const auto count = static_cast<double>(std::max<std::size_t>(normal, 1)) + (idles ? 1 : 0);
  most = idles ? std::max(most, idle) : most;
  const bool with_high = normal < members.size();
  const double round =
      std::max(count * kMeanSliceUs, std::min(kLeastSliceUs / least, kMostRoundUs));
  double sum = 0;
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (!members[i].request.high_priority) {
      const double slice = with_high ? std::max(kLeastShortSliceUs, kShortSliceUs * parts[i] / most)
                                     : round * parts[i];
      orders[i].slice_us = Whole(slice);
      sum += slice;
    }
  }
  // Each has one time slice in a round, or one for each of the others where it goes between every
  // two of them.
  sum += idles ? kShortSliceUs * idle / most : 0;
  const double ratio = rules.prio_ratio / 100.0;
  const double high = normal == 0 ? kMeanSliceUs : sum * ratio / (1 - ratio);
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (members[i].request.high_priority) {
      orders[i].slice_us = Whole(high * parts[i]);
      orders[i].high = true;
      orders[i].turns =
          static_cast<std::uint32_t>(std::max<std::size_t>(normal, 1) + (idles ? 1 : 0));
    }
    orders[i].may_rest = HasWindows(rules);
  }
}

// Returns the fraction of a window that its owner gets. In a window there are its owner and those
// of high priority, which have all their time slices in it. With this fraction, the owners together
// have what those of high priority leave.
double PartOfWindow(const Rules& rules, const std::vector<Member>& members) {
  constexpr double kMost = 0.5;  // for one of high priority with many groups, too
  double windows = 0;
  for (const Member& member : members) {
    windows += member.request.high_priority ? 0 : CapOf(rules, members, member);
  }
  return std::min((100 - rules.prio_ratio) / 100.0 / windows, kMost);
}

// Sets time slices that are so short that the owner has one in each window.
void SlicesInWindows(const Rules& rules, const std::vector<Member>& members,
                     const std::vector<double>& parts, std::vector<Order>& orders) {
  const double part = PartOfWindow(rules, members);
  double slice = kShortSliceUs;
  for (const Order& order : orders) {
    if (order.duty.period_us != 0) {
      slice = std::min(slice, order.duty.on_us * part);
    }
  }
  slice = std::max(slice, kLeastShortSliceUs);
  for (std::size_t i = 0; i < members.size(); ++i) {
    orders[i].slice_us =
        Whole(members[i].request.high_priority ? slice * (1 - part) / part * parts[i] : slice);
  }
}

// Returns the shortest period in which no window is too short, or the longest there is.
std::uint32_t PeriodFor(double least_share) {
  for (const std::uint32_t period : kPeriodsUs) {
    if (period * least_share >= kLeastWindowUs) {
      return period;
    }
  }
  return kPeriodsUs.back();
}

// Sets a window of each, and leaves room between them for the switches to their owners, as far as
// there is any.
void Windows(const Rules& rules, const std::vector<Member>& members, std::vector<Order>& orders) {
  double least = 1;
  for (const Member& member : members) {
    if (!member.request.high_priority) {
      least = std::min(least, CapOf(rules, members, member));
    }
  }
  const std::uint32_t period = PeriodFor(least);
  struct Window {  // microseconds
    double from = 0;
    double length = 0;
    std::size_t member = 0;
  };
  std::vector<Window> windows;
  double from = 0;
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (!members[i].request.high_priority) {
      const double length = CapOf(rules, members, members[i]) * period;
      from = rules.policy == Policy::kFair ? members[i].place % PlacesOf(rules, members) * length
                                           : from;
      windows.push_back({from, length, i});
      from += length;
    }
  }
  std::ranges::sort(windows, {}, &Window::from);
  const double free =
      windows.empty() ? 0 : std::max(0.0, period - windows.back().from - windows.back().length);
  const double room =
      std::min<double>(rules.switch_us, free / static_cast<double>(windows.size() + 1));
  for (std::size_t k = 0; k < windows.size(); ++k) {
    const Window& window = windows[k];
    const double begin = window.from + static_cast<double>(k) * room;
    const double next = k + 1 < windows.size()
                            ? windows[k + 1].from + static_cast<double>(k + 1) * room
                            : begin + window.length + room;
    const double more = std::clamp<double>(next - begin - window.length, 0, rules.switch_us);
    const auto phase = static_cast<std::uint32_t>(std::floor(begin));
    const std::uint32_t end = std::min(Whole(begin + window.length + more), period);
    if (phase != 0 || end != period) {
      orders[window.member].duty = Duty{period, end - phase, phase};
    }
  }
}

// Sets the windows under kSoft: a member that has a maximum is off for the rest of a period. Every
// second one is on at the period's end, so that they overlap as little as can be.
void Maxima(const Rules& rules, const std::vector<Member>& members, std::vector<Order>& orders) {
  bool late = false;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const ComputeRequest& request = members[i].request;
    const auto most = static_cast<std::uint32_t>(request.max_percent.value_or(100));
    if (request.high_priority || most >= 100) {
      continue;
    }
    const std::uint32_t period = PeriodFor(most / 100.0);
    const std::uint32_t least = period / 100 * most;
    const std::uint32_t on = least + std::min(rules.switch_us, (period - least) / 2);
    orders[i].duty = Duty{period, on, late ? period - on : 0};
    late = !late;
  }
}

// Returns what each gets where all have work: the GPU's time is divided by weight among those that
// are on.
std::vector<double> Divided(const std::vector<double>& weights, const std::vector<Order>& orders) {
  constexpr std::uint32_t kWholeUs = 100'000;  // a multiple of every period
  std::vector<std::uint32_t> edges = {0, kWholeUs};
  for (const Order& order : orders) {
    const Duty& duty = order.duty;
    for (std::uint32_t at = 0; duty.period_us != 0 && at < kWholeUs; at += duty.period_us) {
      edges.push_back(at + duty.phase_us);
      edges.push_back(at + duty.phase_us + duty.on_us);
    }
  }
  std::ranges::sort(edges);
  std::vector<double> shares(weights.size(), 0);
  for (std::size_t e = 1; e < edges.size(); ++e) {
    const auto is_on = [&](const Duty& duty) {
      const std::uint32_t at = duty.period_us == 0 ? 0 : edges[e - 1] % duty.period_us;
      return duty.period_us == 0 || (at >= duty.phase_us && at < duty.phase_us + duty.on_us);
    };
    double sum = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      sum += is_on(orders[i].duty) ? weights[i] : 0;
    }
    const double length = static_cast<double>(edges[e] - edges[e - 1]) / kWholeUs;
    for (std::size_t i = 0; sum > 0 && i < weights.size(); ++i) {
      shares[i] += is_on(orders[i].duty) ? length * weights[i] / sum : 0;
    }
  }
  return shares;
}

// Returns weights by which each gets what is wanted although some are off at times: a member has
// more while it is on. Works step by step; each step corrects what a member lacks.
std::vector<double> Compensated(const std::vector<double>& wanted,
                                const std::vector<Order>& orders) {
  constexpr int kSteps = 100;
  constexpr double kLeast = 0.002;  // fraction of the largest
  std::vector<double> weights = wanted;
  for (int step = 0; step < kSteps; ++step) {
    const std::vector<double> shares = Divided(weights, orders);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      weights[i] *= shares[i] > 0 ? wanted[i] / shares[i] : 1;
    }
    const double most = *std::ranges::max_element(weights);
    for (double& weight : weights) {
      weight = std::max(weight / most, kLeast);
    }
  }
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (double& weight : weights) {
    weight /= sum;
  }
  return weights;
}

}  // namespace

std::vector<Order> Plan(const Rules& rules, const std::vector<Member>& members) {
  std::vector<Order> orders(members.size());
  if (rules.policy == Policy::kNative) {
    return orders;
  }
  std::vector<double> parts = Parts(rules, members);
  const std::size_t high = OfHighPriority(members);
  if (rules.policy == Policy::kSoft && HasWindows(rules) && !members.empty()) {
    Maxima(rules, members, orders);
    parts = high != 0 ? parts : Compensated(Shares(rules, members), orders);
  }
  if (rules.capping == Capping::kIdleGroup) {
    parts = PartsBesideIdle(rules, members, parts);
  }
  Slices(rules, members, parts, orders);
  if (IsCapped(rules) && HasWindows(rules)) {
    Windows(rules, members, orders);
    if (high != 0 && high != orders.size()) {
      SlicesInWindows(rules, members, parts, orders);
    }
  }
  return orders;
}

std::vector<double> Caps(const Rules& rules, const std::vector<Member>& members) {
  if (rules.capping != Capping::kIdleGroup) {
    return {};
  }
  std::vector<double> caps;
  caps.reserve(members.size());
  for (const Member& member : members) {
    caps.push_back(MostOf(rules, members, member));
  }
  const bool any = std::ranges::any_of(caps, [](double cap) { return cap < 1; });
  return any ? caps : std::vector<double>();
}

std::vector<double> Shares(const Rules& rules, const std::vector<Member>& members) {
  if (rules.policy == Policy::kNative) {  // knows no priorities
    return std::vector<double>(members.size(), 1.0 / static_cast<double>(members.size()));
  }
  std::vector<double> shares = Parts(rules, members);
  std::vector<double> caps(members.size(), 1);
  const std::size_t high = OfHighPriority(members);
  const bool both = high != 0 && high != members.size();
  const bool windows = IsCapped(rules) && HasWindows(rules);
  const double part = both && windows ? PartOfWindow(rules, members) : 1;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const ComputeRequest& request = members[i].request;
    const bool in_window = !request.high_priority && IsCapped(rules);
    caps[i] = MostOf(rules, members, members[i]) * (in_window ? part : 1);
    if (both) {
      shares[i] *= (request.high_priority ? rules.prio_ratio : 100 - rules.prio_ratio) / 100.0;
    }
  }
  PourOver(caps, shares);
  return shares;
}

}  // namespace cgpu::governor
