#include "cgpud/chronicle.h"

#include <algorithm>
#include <utility>

namespace cgpu {
namespace {

constexpr char kCalls[] = "calls";

}  // namespace

void Chronicle::Remember(const std::vector<Event>& past) {
  for (const Event& event : past) {
    Refusal refusal;
    refusal.container = TextOf(event, "container");
    refusal.engine_id = TextOf(event, "engine_id");
    refusal.count = NumberOf(event, "total");
    if (event.kind == events::kEnded) {
      (void)pace_.End(refusal.container, {});
    } else if (event.kind == events::kMemoryRefused || event.kind == events::kCallsRefused) {
      refusal.what = event.kind == events::kCallsRefused ? kCalls : TextOf(event, "uuid");
      pace_.TakeSaid(refusal);
    }
  }
}

void Chronicle::Take(const Refusal& refusal) {
  Container& container = containers_[refusal.container];
  container.name = refusal.name;
  container.user = refusal.user;
  // A shim sends no more names than this.
  if (!container.calls.contains(refusal.what) && container.calls.size() > AuditLog::kMaxOthers) {
    return;
  }
  std::uint64_t& count = container.calls[refusal.what];
  container.all_calls += refusal.count - std::min(count, refusal.count);
  count = std::max(count, refusal.count);
  Refusal sum = refusal;
  sum.what = kCalls;
  sum.count = container.all_calls;
  pace_.Take(sum);
}

void Chronicle::Take(const Denial& denial) {
  Container& container = containers_[denial.container];
  container.name = denial.name;
  container.user = denial.user;
  container.denials[denial.what] = denial;
  pace_.Take(denial);
}

void Chronicle::TellDue(const std::vector<DueRefusal>& all, Now now) {
  for (const DueRefusal& due : all) {
    const auto found = containers_.find(due.container);
    if (found == containers_.end()) {
      continue;
    }
    const Container& container = found->second;
    Event event{now.ms,
                events::kCallsRefused,
                {{"container", due.container},
                 {"name", container.name},
                 {"count", due.grown},
                 {"total", due.count}}};
    if (!due.engine_id.empty()) {
      event.fields["engine_id"] = due.engine_id;
    }
    if (due.over.count() > 0) {
      event.fields["over_ms"] = static_cast<std::uint64_t>(due.over.count());
    }
    if (const auto denial = container.denials.find(due.what); denial != container.denials.end()) {
      event.kind = events::kMemoryRefused;
      event.fields["uuid"] = due.what;
      event.fields["gpu"] = std::to_string(denial->second.gpu);
      event.fields["limit_bytes"] = denial->second.limit_bytes;
    } else if (!container.calls.empty()) {
      event.fields["most"] = std::ranges::max_element(container.calls, {}, [](const auto& one) {
                               return one.second;
                             })->first;
    }
    Tell(std::move(event), container.user, now);
  }
}

void Chronicle::Flush(Now now) {
  TellDue(pace_.Due(now.time), now);
  std::vector<Event> events;
  for (auto at = buckets_.begin(); at != buckets_.end();) {
    Bucket& bucket = Fill(at->first, now.time);
    if (bucket.left_out != 0) {
      SayLeftOut(at->first, bucket, now, events);
    }
    const unsigned most = at->first == 0 ? kAtOnceOfRoot : kAtOnce;
    at = bucket.room >= most ? buckets_.erase(at) : std::next(at);
  }
  if (!events.empty()) {
    write_(events);
  }
}

void Chronicle::End(const std::string& id, Now now) {
  TellDue(pace_.End(id, now.time), now);
  containers_.erase(id);
}

std::optional<AuditLog::Time> Chronicle::next() const {
  auto first = pace_.next();
  for (const auto& [user, bucket] : buckets_) {
    if (bucket.left_out != 0) {
      const auto room = bucket.when + OneMore(user);
      first = first ? std::min(*first, room) : room;
    }
  }
  return first;
}

std::chrono::milliseconds Chronicle::OneMore(unsigned user) {
  return user == 0 ? kOneMoreOfRoot : kOneMore;
}

// Returns the user's bucket as it is at `now`.
Chronicle::Bucket& Chronicle::Fill(unsigned user, AuditLog::Time now) {
  const unsigned most = user == 0 ? kAtOnceOfRoot : kAtOnce;
  const auto [found, fresh] = buckets_.try_emplace(user, Bucket{static_cast<double>(most), now, 0});
  Bucket& bucket = found->second;
  const std::chrono::duration<double> since = now - bucket.when;
  bucket.room = std::min(bucket.room + since / std::chrono::duration<double>(OneMore(user)),
                         static_cast<double>(most));
  bucket.when = now;
  return bucket;
}

void Chronicle::SayLeftOut(unsigned user, Bucket& bucket, Now now, std::vector<Event>& events) {
  if (bucket.room < 1) {
    return;
  }
  --bucket.room;
  events.push_back(
      {now.ms,
       events::kLeftOut,
       {{"count", std::exchange(bucket.left_out, 0)}, {"who", "uid " + std::to_string(user)}}});
}

void Chronicle::Tell(Event event, unsigned user, Now now) {
  Bucket& bucket = Fill(user, now.time);
  std::vector<Event> events;
  if (bucket.left_out != 0) {
    SayLeftOut(user, bucket, now, events);
  }
  if (bucket.room < 1) {
    ++bucket.left_out;
  } else {
    --bucket.room;
    events.push_back(std::move(event));
  }
  if (!events.empty()) {
    write_(events);
  }
}

}  // namespace cgpu
