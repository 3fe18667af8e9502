#include "apps/cgpu-device-plugin/grants.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "host/pod_grants.h"
#include "host/registry.h"
#include "kube/names.h"
#include "kube/pod.h"

namespace cgpu::kube {
namespace {

using Json = nlohmann::json;

constexpr std::chrono::milliseconds kRetry{500};
constexpr std::chrono::hours kForever{24};
constexpr std::chrono::minutes kMostBackoff{1};  // after refusals

// Returns the grant of the pod NAMESPACE/NAME.
PodGrant GrantOf(const Decision& decision, const std::string& pod) {
  PodGrant grant;
  const std::size_t slash = pod.find('/');
  grant.name_space = pod.substr(0, slash);
  grant.name = pod.substr(slash + 1);
  grant.gpus = decision.gpus;
  grant.isolated = decision.isolated;
  for (const ContainerAsk& one : decision.containers) {
    grant.containers[one.name] = {one.memory,
                                  one.compute / static_cast<std::uint32_t>(grant.gpus.size()),
                                  one.weight, one.high_priority};
  }
  return grant;
}

// Returns streams that end with the containers of the pod; none: it has none. To be asked once the
// pod's grant is removed: then no container is added any more.
Result<std::vector<UniqueFd>> EndsOf(const std::string& uid) {
  CGPU_ASSIGN_OR_RETURN(const auto registry, Registry::Open());
  CGPU_ASSIGN_OR_RETURN(const auto lock, registry.Lock());
  CGPU_ASSIGN_OR_RETURN(const auto live, registry.List(lock));
  std::vector<UniqueFd> ends;
  for (const Reservation& one : live) {
    if (one.pod != uid) {
      continue;
    }
    auto stream = registry.Watch(one.id);
    if (stream.ok()) {
      ends.push_back(std::move(*stream));
    } else if (stream.error().code != Code::kNotFound) {
      return stream.error();
    }
  }
  return ends;
}

}  // namespace

Grants::Grants(const Api& api, std::string node, Key key, Admitted admitted, Log log)
    : api_(api),
      node_(std::move(node)),
      key_(std::move(key)),
      log_(std::move(log)),
      wakes_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      admitted_(std::move(admitted)),
      published_(admitted_.Text()) {
  // A grant that the node does not say it has let in is written anew, or is a leftover.
  for (const std::string& uid : ListPodGrants()) {
    if (!admitted_.Has(uid)) {
      RemovePodGrant(uid);
    }
  }
  thread_ = std::thread([this] { Run(); });
}

Grants::~Grants() {
  {
    const MutexLock lock(mutex_);
    ends_ = true;
  }
  Wake();
  thread_.join();
}

void Grants::Wake() const {
  (void)eventfd_write(wakes_.get(), 1);
}

void Grants::Set(std::string_view json) {
  const auto pod = ReadPod(json);
  if (!pod.ok()) {
    return;
  }
  if (pod->ended) {
    Remove(pod->uid);
    return;
  }
  {
    const MutexLock lock(mutex_);
    pods_[pod->uid] = {pod->name_space + "/" + pod->name, pod->decision};
  }
  Wake();
}

void Grants::Remove(const std::string& uid) {
  {
    const MutexLock lock(mutex_);
    pods_.erase(uid);
  }
  Wake();
}

void Grants::SetComplete() {
  {
    const MutexLock lock(mutex_);
    complete_ = true;
  }
  Wake();
}

void Grants::SetPublished(const std::string& text) {
  {
    const MutexLock lock(mutex_);
    seen_ = text;
  }
  Wake();
}

void Grants::Run() {
  while (true) {
    Pods pods;
    bool complete = false;
    {
      const MutexLock lock(mutex_);
      if (ends_) {
        return;
      }
      pods = pods_;
      complete = complete_;
      published_ = std::exchange(seen_, std::nullopt).value_or(published_);
    }
    Wait(Work(pods, complete) ? kForever : std::max(kRetry, backoff_));
  }
}

bool Grants::Work(const Pods& pods, bool complete) {
  ending_.clear();
  if (std::chrono::steady_clock::now() >= again_) {
    put_off_.clear();
  }
  if (complete) {
    TakeBack(pods);
  }
  Admit(pods);
  if (!Publish()) {
    return false;
  }
  WriteGrants();
  return new_.empty() && put_off_.empty();
}

void Grants::TakeBack(const Pods& pods) {
  std::erase_if(said_, [&](const auto& one) {
    return pods.count(one.first) == 0 && !admitted_.Has(one.first);
  });
  for (const std::string& uid : admitted_.Pods()) {
    if (pods.count(uid) != 0) {
      continue;
    }
    RemovePodGrant(uid);
    new_.erase(uid);
    auto ends = EndsOf(uid);
    if (!ends.ok()) {
      Say(uid, FormatError(ends.error()));
      continue;
    }
    if (ends->empty()) {
      admitted_.Remove(uid);
      put_off_.clear();  // there is more room
    }
    std::move(ends->begin(), ends->end(), std::back_inserter(ending_));
  }
}

void Grants::Admit(const Pods& pods) {
  for (const auto& [uid, pod] : pods) {
    if (pod.decision.empty() || put_off_.count(uid) != 0 ||
        (admitted_.Has(uid) && HasPodGrant(uid))) {
      continue;  // what is given does not change
    }
    auto decision = admitted_.Admit(uid, pod.decision, key_);
    if (decision.ok()) {
      new_.insert_or_assign(uid, GrantOf(*decision, pod.name));
    } else {
      Say(uid, "takes no decision for the pod " + pod.name + ": " + decision.error().what);
    }
  }
}

bool Grants::Publish() {
  while (true) {
    const std::string text = admitted_.Text();
    if (text == published_) {
      break;
    }
    if (text == refused_ && std::chrono::steady_clock::now() < again_) {
      return false;
    }
    const auto done =
        api_.MergePatch("/api/v1/nodes/" + node_,
                        Json{{"metadata", {{"annotations", {{kAdmitted, text}}}}}}.dump());
    if (done.ok()) {
      published_ = text;
      break;
    }
    log_("cannot publish what the node has let in: " + done.error().what);
    if (done.error().code == Code::kUnavailable) {
      return false;
    }
    NoteRefusal(text);
    if (!PutOffLargest()) {
      return false;
    }
  }
  if (put_off_.empty()) {
    backoff_ = {};
  }
  return true;
}

void Grants::NoteRefusal(const std::string& text) {
  if (std::chrono::steady_clock::now() >= again_) {  // the first one of a round
    backoff_ = std::min<std::chrono::milliseconds>(std::max(kRetry, backoff_ * 2), kMostBackoff);
    again_ = std::chrono::steady_clock::now() + backoff_;
  }
  refused_ = text;
}

bool Grants::PutOffLargest() {
  const auto published = AdmittedTexts(published_);
  std::string largest;
  std::size_t most = 0;
  for (const auto& [uid, grant] : new_) {
    const std::string text = admitted_.TextOf(uid);
    if (text.size() > most &&
        std::find(published.begin(), published.end(), text) == published.end()) {
      largest = uid;
      most = text.size();
    }
  }
  if (most == 0) {
    return false;
  }
  Say(largest, "the API server takes no more for the node: the pod " + new_[largest].name_space +
                   "/" + new_[largest].name + " gets its part later");
  admitted_.Remove(largest);
  new_.erase(largest);
  put_off_.insert(largest);
  return true;
}

void Grants::WriteGrants() {
  const auto grants = std::exchange(new_, {});
  for (const auto& [uid, grant] : grants) {
    if (const auto done = WritePodGrant(uid, grant); !done.ok()) {
      log_(FormatError(done.error()));
      new_.insert({uid, grant});
    }
  }
}

void Grants::Wait(std::chrono::milliseconds time) {
  std::vector<pollfd> events{{wakes_.get(), POLLIN, 0}};
  for (const UniqueFd& stream : ending_) {
    events.push_back({stream.get(), 0, 0});  // POLLHUP is always reported
  }
  (void)poll(events.data(), events.size(), static_cast<int>(time.count()));
  eventfd_t ignored = 0;
  (void)eventfd_read(wakes_.get(), &ignored);
}

void Grants::Say(const std::string& uid, const std::string& sentence) {
  if (std::exchange(said_[uid], sentence) != sentence) {
    log_(sentence);
  }
}

}  // namespace cgpu::kube
