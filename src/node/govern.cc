#include "node/govern.h"

#include <sys/inotify.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <string_view>

#include "governor/plan.h"
#include "launcher/shim_process.h"
#include "registry/text.h"

namespace cgpu {
namespace {

struct Member {
  std::string id;
  uid_t shim_uid = 0;
  governor::Member member;
};

// By card; the oldest container has the first place.
std::map<std::string, std::vector<Member>> MembersOf(const std::vector<Reservation>& live) {
  std::map<std::string, std::vector<Member>> by_card;
  for (const Reservation& reservation : live) {
    for (const CardGrant& grant : reservation.cards) {
      if (!reservation.isolated) {
        continue;
      }
      std::vector<Member>& members = by_card[grant.card.uuid];
      const auto place = static_cast<unsigned>(members.size());
      members.push_back({reservation.id, reservation.shim_uid, {reservation.compute, place}});
    }
  }
  return by_card;
}

}  // namespace

Governing::Governing(const Registry& registry, unsigned max_inst, bool can_suspend)
    : registry_(registry),
      max_inst_(max_inst),
      can_suspend_(can_suspend),
      changes_(inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
  // Grants and settings are renamed into their places.
  (void)inotify_add_watch(changes_.get(), registry.folder().c_str(), IN_MOVED_TO | IN_DELETE);
}

Result<std::map<Governing::Place, Governing::Wish>> Governing::Wanted() const {
  const auto lock = registry_.Lock();
  if (!lock.ok()) {
    return lock.error();
  }
  const auto live = registry_.List(*lock);
  if (!live.ok()) {
    return live.error();
  }
  std::map<Place, Wish> wanted;
  for (const auto& [uuid, members] : MembersOf(*live)) {
    const auto settings = registry_.SettingsOf(*lock, uuid);
    if (!settings.ok()) {
      continue;  // it stays as it is there
    }
    governor::Rules rules;
    rules.policy = settings->PolicyNow();
    rules.max_inst = settings->max_inst.value_or(max_inst_);
    rules.prio_ratio = settings->prio_ratio.value_or(governor::kDefaultPrioRatio);
    rules.can_suspend = can_suspend_;
    std::vector<governor::Member> plain;
    for (const Member& one : members) {
      plain.push_back(one.member);
    }
    const auto orders = governor::Plan(rules, plain);
    for (std::size_t i = 0; i < members.size(); ++i) {
      wanted[{members[i].id, uuid}] = {orders[i], members[i].shim_uid};
    }
  }
  return wanted;
}

Result<UniqueFd> Governing::Send(const Place& place, const Wish& wish,
                                 std::vector<std::string>& log) const {
  AdminRequest request;
  request.kind = AdminRequest::Kind::kOrder;
  request.uuid = place.second;
  request.order = wish.order;
  UniqueFd helper;
  if (wish.order.high) {
    auto started = StartInterleaver(wish.shim_uid);
    if (started.ok()) {
      helper = std::move(*started);
    } else {
      log.push_back("the high priority of container " + place.first +
                    " is a longer slice alone: " + started.error().what);
    }
  }
  return registry_.Request(place.first, request, helper.get());
}

std::vector<std::string> Governing::Refresh() {
  const auto wanted = Wanted();
  if (!wanted.ok()) {
    return {"compute shares stay as they are: " + wanted.error().what};
  }
  std::erase_if(sent_, [&](const auto& one) { return !wanted->contains(one.first); });
  std::vector<std::string> log;
  for (const auto& [place, wish] : *wanted) {
    const auto before = sent_.find(place);
    if (before != sent_.end() && before->second.order == wish.order) {
      continue;
    }
    auto answer = Send(place, wish, log);
    if (answer.ok()) {
      sent_[place] = Sent{wish.order, std::move(*answer), false, {}};
    } else if (answer.error().code != Code::kNotFound) {
      log.push_back("container " + place.first + " has no new share: " + answer.error().what);
    }
  }
  return log;
}

std::vector<int> Governing::descriptors() const {
  std::vector<int> all{changes_.get()};
  for (const auto& [place, sent] : sent_) {
    if (sent.answer.valid()) {
      all.push_back(sent.answer.get());
    }
  }
  return all;
}

void Governing::ReadAnswer(const Place& place, Sent& sent, std::vector<std::string>& log) {
  char buffer[4096];
  const ssize_t n = recv(sent.answer.get(), buffer, sizeof(buffer), MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
    return;
  }
  if (n > 0 && sent.text.size() < kMaxMessage) {
    sent.text.append(buffer, static_cast<std::size_t>(n));
    return;
  }
  sent.answer.reset();
  const auto outcome = DecodeOutcome(sent.text);
  sent.done = outcome.ok();
  // An earlier version, which knows no orders, is as the driver pleases.
  if (!outcome.ok() && sent.order != governor::Order{}) {
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
  // Sent again with the next change.
  std::erase_if(sent_,
                [](const auto& one) { return !one.second.answer.valid() && !one.second.done; });
  if (ready.contains(changes_.get())) {
    alignas(inotify_event) char buffer[4096];
    while (read(changes_.get(), buffer, sizeof(buffer)) > 0) {
    }
    news.changed = true;
  }
  return news;
}

}  // namespace cgpu
