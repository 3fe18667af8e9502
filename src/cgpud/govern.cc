#include "cgpud/govern.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <iterator>

#include "calibration/record.h"
#include "host/node.h"
#include "host/shim_process.h"
#include "protocol/text.h"

namespace cgpu {
namespace {

constexpr std::chrono::seconds kLeastOrderBackoff{1};
constexpr std::chrono::seconds kMostOrderBackoff{60};
// Time between two tries to hold a GPU's containers by an idle group.
constexpr std::chrono::seconds kIdleBackoff{30};
// Time for the answer of a shim that was sent an order.
constexpr std::chrono::seconds kAnswerTime{5};
// Time without switches, beside that of some rounds, after which a GPU has been quiet.
constexpr std::chrono::milliseconds kStill{300};
// Time between two looks at a full GPU whose containers have caps.
constexpr std::chrono::milliseconds kLook{100};

// Returns whether an order is worth a message. Many small corrections are not; a plan is, and so is
// a correction that leads back to it.
bool IsWorthSending(const governor::Order& sent, const governor::Order& wanted,
                    const governor::Order& planned) {
  constexpr double kLeast = 0.05;
  const double difference = std::abs(static_cast<double>(wanted.slice_us) - sent.slice_us);
  return difference > (wanted == planned ? 0 : kLeast * sent.slice_us);
}

}  // namespace

// Returns the shortest time worth measuring. Less says little: some time slices are cut off at its
// ends.
std::uint64_t Governing::LeastMeasuredNs(const Gpu& gpu) {
  constexpr std::uint64_t kRounds = 16;
  constexpr std::uint64_t kMostUs = 1'000'000;
  std::uint64_t round_us = gpu.idles ? gpu.idle.slice_us() : 0;
  for (const PlannedMember& member : gpu.members) {
    round_us += member.order.slice_us;
  }
  return std::min(kRounds * round_us, kMostUs) * 1'000;
}

Governing::Governing(const Registry& registry, const std::string& node, unsigned max_inst)
    : registry_(registry),
      max_inst_(max_inst),
      node_name_(node),
      changes_(registry.folder(), std::chrono::steady_clock::now()),
      measuring_(node, Measuring::What::kSwitches),
      backoff_(kLeastOrderBackoff) {}

// Finds the node and what its GPUs showed. Both may have changed: the daemon may be older than the
// node, and a GPU may be calibrated at any time.
void Governing::FindMeans() {
  if (auto found = FindNode(node_name_); found.ok()) {
    node_ = std::move(*found);
  }  // else it stays as it was: without it nobody is held to anything
  means_ = node_ ? MeansOfGpus(*node_) : Means();
}

// Returns whether time slices that are set while programs run take effect, at once or by what the
// shim does then, as far as the GPU has shown. Those of simulated GPUs do that nobody
// has asked, unless they are to stand for real ones.
bool Governing::MayCorrect(const std::string& uuid, const CardMeans& means,
                           std::vector<std::string>& log) {
  const governor::Effect slices = means.card.slices;
  if (governor::TakesSlices(slices) ||
      (slices == governor::Effect::kUnknown && means.capping == governor::Capping::kDutyCycle)) {
    staid_.erase(uuid);
    return true;
  }
  if (staid_.insert(uuid).second) {
    log.push_back("time slices on GPU " + uuid +
                  " stay as planned, whatever its containers get of it: " +
                  (slices == governor::Effect::kUnknown
                       ? "nobody has asked it how it takes orders; `cgpu calibrate` does"
                       : "those that are set while programs run take effect " +
                             std::string(Describe(slices))));
  }
  return false;
}

// Says that nothing holds the containers of a GPU to their caps, once until it is held again.
void Governing::GiveUpIdle(const std::string& uuid, Gpu& gpu, const Error& why,
                           std::vector<std::string>& log) {
  gpu.idles = false;
  holders_.erase(uuid);
  hold_again_ = std::chrono::steady_clock::now() + kIdleBackoff;
  if (unheld_.insert(uuid).second) {
    log.push_back("percentages on GPU " + uuid + " are shares, and no caps: " + why.what);
  }
}

// Lets the idle group of a GPU hold those containers that are of normal priority.
void Governing::PlanIdle(const std::string& uuid, Gpu& gpu, std::vector<std::string>& log) {
  std::vector<governor::IdleControl::Member> members;
  bool high = false;
  for (const PlannedMember& member : gpu.members) {
    if (member.order.high) {
      high = true;
    } else {
      members.push_back({member.id, member.cap, member.order.slice_us});
    }
  }
  gpu.idle.SetPlan(std::move(members), high);
  const auto there = holders_.find(uuid);
  if (there != holders_.end()) {
    if (const auto set = there->second.Set(gpu.idle.slice_us()); !set.ok()) {
      GiveUpIdle(uuid, gpu, set.error(), log);
    }
    return;
  }
  const auto listed = std::ranges::find(node_->gpus, uuid, &cgpu::Gpu::uuid);
  auto made = IdleHolder::Make(
      *node_, *listed, governor::TriggerOf(MeansIn(means_, uuid).card.slices), gpu.idle.slice_us());
  if (made.ok()) {
    holders_.emplace(uuid, std::move(*made));
  } else {
    GiveUpIdle(uuid, gpu, made.error(), log);
  }
}

std::map<Governing::Place, Governing::Target> Governing::Wanted() const {
  std::map<Place, Target> wanted;
  for (const auto& [uuid, gpu] : gpus_) {
    for (const PlannedMember& member : gpu.members) {
      Target& target = wanted[{member.id, uuid}] = {
          member.order, member.order, member.shim_uid,
          member.order.high || member.order.trigger == governor::Trigger::kRestart ||
              high_.contains({member.id, uuid})};
      if (gpu.corrects) {
        target.order.slice_us = gpu.feedback.SliceOf(member.id, target.order.slice_us);
      }
      if (gpu.idles && !member.order.high) {
        target.order.slice_us = gpu.idle.SliceOf(member.id, target.order.slice_us);
      }
    }
  }
  return wanted;
}

std::vector<std::string> Governing::Refresh() {
  FindMeans();
  auto plans = PlanGpus(registry_, max_inst_, means_);
  if (!plans.ok()) {
    return {"compute shares stay as they are: " + plans.error().what};
  }
  std::set<std::string> shared;
  std::map<std::string, Gpu> gpus;
  std::vector<std::string> log;
  for (auto& [uuid, plan] : *plans) {
    Gpu& gpu = gpus[uuid];
    static_cast<PlannedGpu&>(gpu) = std::move(plan);
    const CardMeans means = MeansIn(means_, uuid);
    for (PlannedMember& member : gpu.members) {
      if (member.order.slice_us != 0) {
        member.order.trigger = governor::TriggerOf(means.card.slices);
      }
    }
    gpu.measured = std::chrono::steady_clock::now();
    if (const auto before = gpus_.find(uuid); before != gpus_.end()) {
      gpu.idle = before->second.idle;
      gpu.measured = before->second.measured;
      if (before->second.members == gpu.members) {  // the feedback holds for this plan
        gpu.feedback = before->second.feedback;
      }
    }
    if (gpu.idles) {
      PlanIdle(uuid, gpu, log);
    }
    gpu.corrects = gpu.by_slices && gpu.members.size() > 1 && MayCorrect(uuid, means, log);
    if (gpu.corrects || gpu.idles) {
      shared.insert(uuid);
    }
  }
  std::erase_if(holders_, [&](const auto& one) {
    const auto gpu = gpus.find(one.first);
    return gpu == gpus.end() || !gpu->second.idles;
  });
  gpus_ = std::move(gpus);
  backoff_ = kLeastOrderBackoff;
  const bool measured = measuring_.any();
  for (std::string& line : measuring_.Watch(shared)) {
    log.push_back(std::move(line));
  }
  for (auto& [uuid, gpu] : gpus_) {
    if (gpu.idles && !measuring_.watches(uuid)) {
      GiveUpIdle(uuid, gpu, Error{Code::kUnavailable, 0, "what they get is not known", {}}, log);
    } else if (gpu.idles) {
      unheld_.erase(uuid);
    }
  }
  // A plan does not postpone a measurement: plans may come as often as somebody likes.
  const auto next = std::chrono::steady_clock::now() + measuring_.Rest();
  next_ = measured ? std::min(next_, next) : next;
  for (std::string& line : SendAgain()) {
    log.push_back(std::move(line));
  }
  return log;
}

Result<UniqueFd> Governing::Ask(const Place& place, const Target& target, bool with_helper,
                                std::vector<std::string>& log) const {
  AdminRequest request;
  request.kind = AdminRequest::Kind::kOrder;
  request.uuid = place.second;
  request.order = target.order;
  UniqueFd helper;
  if (with_helper) {
    auto started = StartInterleaver(target.shim_uid);
    if (started.ok()) {
      helper = std::move(*started);
    } else {
      const std::string what =
          target.order.high
              ? "the high priority of container " + place.first + " is a longer slice alone: "
          : target.order.trigger == governor::Trigger::kRestart
              ? "the time slices of container " + place.first + " do not take effect: "
              : "the high priority of container " + place.first + " may stay: ";
      log.push_back(what + started.error().what);
    }
  }
  return registry_.Request(place.first, request, helper.get());
}

std::vector<std::string> Governing::Send() {
  const auto wanted = Wanted();
  std::erase_if(sent_, [&](const auto& one) { return !wanted.contains(one.first); });
  std::erase_if(high_, [&](const Place& place) { return !wanted.contains(place); });
  std::erase_if(shims_, [&](const auto& one) {
    const auto next = wanted.lower_bound({one.first, {}});
    return next == wanted.end() || next->first.first != one.first;
  });
  std::vector<std::string> log;
  for (const auto& [place, target] : wanted) {
    const auto before = sent_.find(place);
    if (before != sent_.end() && before->second.planned == target.planned &&
        !IsWorthSending(before->second.order, target.order, target.planned)) {
      continue;
    }
    // A correction finds the helper that came with the plan.
    const bool corrects = before != sent_.end() && before->second.planned == target.planned;
    auto answer = Ask(place, target, target.helper && !corrects, log);
    Sent& sent = sent_[place] = Sent{};
    sent.planned = target.planned;
    sent.order = target.order;
    sent.until = std::chrono::steady_clock::now() + kAnswerTime;
    if (target.order.high) {
      high_.insert(place);
    }
    if (answer.ok()) {
      sent.answer = std::move(*answer);
      continue;
    }
    Failed(sent);
    if (answer.error().code != Code::kNotFound) {
      log.push_back("container " + place.first + " has no new share: " + answer.error().what);
    }
  }
  return log;
}

void Governing::Failed(Sent& sent) {
  sent.failed = true;
  if (!again_) {
    again_ = std::chrono::steady_clock::now() + backoff_;
  }
}

// Sends what failed, and what is new.
std::vector<std::string> Governing::SendAgain() {
  again_.reset();
  std::erase_if(sent_, [](const auto& one) { return one.second.failed; });
  return Send();
}

std::optional<std::chrono::steady_clock::time_point> Governing::next() const {
  auto next = measuring_.any() && (!again_ || next_ < *again_) ? std::optional(next_) : again_;
  for (const auto& other : {hold_again_, changes_.next()}) {
    if (other && (!next || *other < *next)) {
      next = other;
    }
  }
  for (const auto& [place, sent] : sent_) {
    if (sent.answer.valid() && (!next || sent.until < *next)) {
      next = sent.until;
    }
  }
  return next;
}

// Gives up waiting for shims that stay silent. They are asked again.
void Governing::GiveUp(std::chrono::steady_clock::time_point now, std::vector<std::string>& log) {
  for (auto& [place, sent] : sent_) {
    if (!sent.answer.valid() || now < sent.until) {
      continue;
    }
    sent.answer.reset();
    Failed(sent);
    if (backoff_ == kLeastOrderBackoff) {
      log.push_back("container " + place.first +
                    " does not confirm its share, and keeps what it had: its shim does not answer; "
                    "to end it: cgpu upgrade --force " +
                    place.first);
    }
  }
}

std::vector<std::string> Governing::Step(std::chrono::steady_clock::time_point now) {
  std::vector<std::string> log;
  if (measuring_.any() && now >= next_) {
    log = Measure(now);
  }
  GiveUp(now, log);
  if (hold_again_ && now >= *hold_again_) {
    hold_again_.reset();
    std::ranges::move(Refresh(), std::back_inserter(log));
  }
  if (again_ && now >= *again_) {
    backoff_ = std::min(2 * backoff_, kMostOrderBackoff);
    (void)SendAgain();  // the log has it from the first time
  }
  return log;
}

// Takes what was measured of a GPU.
void Governing::Take(Gpu& gpu, const governor::Meter::Use& use,
                     std::chrono::steady_clock::time_point now) {
  constexpr double kNsPerS = 1e9;
  constexpr double kUsPerS = 1e6;
  const auto part_of = [&use](pid_t pid) {
    const auto part = use.parts.find(static_cast<std::uint32_t>(pid));
    return part == use.parts.end() ? governor::Meter::Part{} : part->second;
  };
  const governor::Meter::Part idle = gpu.idles ? part_of(getpid()) : governor::Meter::Part{};
  // Time that was for containers: not the idle group's, nor that of the switches to it and from it.
  const double free = std::max(1 - idle.on - idle.turns * 2 * governor::kSwitchUs / kUsPerS, 1e-3);
  // Time of processes that are no container's, as far as is known, counts as that of each container
  // whose shim has not answered yet: otherwise it would have no cap until then.
  std::set<std::uint32_t> known{static_cast<std::uint32_t>(getpid())};
  for (const auto& [id, shim] : shims_) {
    known.insert(static_cast<std::uint32_t>(shim));
  }
  governor::Meter::Part unknown;
  for (const auto& [pid, part] : use.parts) {
    unknown.on += known.contains(pid) ? 0 : part.on;
    unknown.turns += known.contains(pid) ? 0 : part.turns;
  }
  std::vector<governor::Feedback::Seen> seen;
  governor::IdleControl::Seen held;
  held.seconds = static_cast<double>(use.span_ns) / kNsPerS;
  held.idle = {idle.on, idle.turns};
  for (const PlannedMember& member : gpu.members) {
    // For the driver, all of a container's clients belong to its shim.
    const auto shim = shims_.find(member.id);
    const auto had = shim == shims_.end() ? governor::Meter::Part{} : part_of(shim->second);
    seen.push_back({member.id, member.promised, had.on / free, member.order.slice_us, had.turns});
    const auto& counted = shim == shims_.end() ? unknown : had;
    held.used[member.id] = {counted.on, counted.turns};
  }
  if (gpu.corrects) {
    gpu.feedback.Step(seen, std::chrono::duration<double>(now.time_since_epoch()).count());
  }
  if (gpu.idles) {
    gpu.idle.Step(held);
    gpu.measured = now;
  }
}

// Gives the idle groups the time slices that they are to have now.
void Governing::HoldBack(std::vector<std::string>& log) {
  for (auto& [uuid, gpu] : gpus_) {
    const auto holder = holders_.find(uuid);
    if (!gpu.idles || holder == holders_.end()) {
      continue;
    }
    if (const auto set = holder->second.Set(gpu.idle.slice_us()); !set.ok()) {
      GiveUpIdle(uuid, gpu, set.error(), log);
    }
  }
}

// Returns the time after which a GPU has been quiet that gave no measurement.
std::chrono::microseconds Governing::StillTime(const Gpu& gpu) {
  if (gpu.idle.slice_us() != 0) {
    return kStill + 3 * std::chrono::duration_cast<std::chrono::microseconds>(
                            std::chrono::nanoseconds(LeastMeasuredNs(gpu)));
  }
  std::chrono::microseconds round{0};
  for (const PlannedMember& member : gpu.members) {
    round += std::chrono::microseconds(member.order.slice_us);
  }
  return kStill + round;
}

std::vector<std::string> Governing::Measure(std::chrono::steady_clock::time_point now) {
  std::map<std::string, std::uint64_t> least_ns;
  for (const auto& [uuid, gpu] : gpus_) {
    least_ns[uuid] = LeastMeasuredNs(gpu);
  }
  const auto uses = measuring_.Read(least_ns);
  bool full = false;  // some idle group wants nothing
  for (auto& [uuid, gpu] : gpus_) {
    if (const auto use = uses.find(uuid); use != uses.end()) {
      Take(gpu, use->second, now);
    } else if (gpu.idles &&
               now > gpu.measured + kStill + 3 * std::chrono::nanoseconds(least_ns.at(uuid))) {
      gpu.idle.Still();
    }
    full = full || (gpu.idles && gpu.idle.slice_us() == 0);
  }
  next_ = now + (full ? std::min(measuring_.Rest(), kLook) : measuring_.Rest());
  std::vector<std::string> log;
  HoldBack(log);
  if (!uses.empty()) {
    std::ranges::move(Send(), std::back_inserter(log));
  }
  return log;
}

std::vector<int> Governing::descriptors() const {
  std::vector<int> all{changes_.fd()};
  for (const auto& [place, sent] : sent_) {
    if (sent.answer.valid()) {
      all.push_back(sent.answer.get());
    }
  }
  return all;
}

void Governing::ReadAnswer(const Place& place, Sent& sent, std::vector<std::string>& log) {
  char buffer[4096];
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(ucred))];
  iovec part{buffer, sizeof(buffer)};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  const ssize_t n = recvmsg(sent.answer.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  const cmsghdr* const head = n > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
  if (head != nullptr && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_CREDENTIALS) {
    ucred from{};
    std::memcpy(&from, CMSG_DATA(head), sizeof(from));
    shims_[place.first] = from.pid;
  }
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
    return;
  }
  if (n > 0 && sent.text.size() < kMaxMessage) {
    sent.text.append(buffer, static_cast<std::size_t>(n));
    return;
  }
  sent.answer.reset();
  const auto outcome = DecodeOutcome(sent.text);
  if (outcome.ok()) {
    if (!sent.order.high) {
      high_.erase(place);
    }
    return;
  }
  Failed(sent);
  // The container of an earlier version, which knows no orders, runs as the driver pleases.
  if (sent.order != governor::Order{} && backoff_ == kLeastOrderBackoff) {
    log.push_back("container " + place.first + " does not take its share: " + outcome.error().what);
  }
}

Governing::News Governing::Look(const std::vector<int>& readable) {
  News news;
  const std::set<int> ready(readable.begin(), readable.end());
  for (auto& [place, sent] : sent_) {
    if (sent.answer.valid() && ready.contains(sent.answer.get())) {
      ReadAnswer(place, sent, news.log);
    }
  }
  news.changed = changes_.Changed(std::chrono::steady_clock::now());
  return news;
}

}  // namespace cgpu
