#include "kube/follow.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <set>

#include "json/json.h"

namespace cgpu::kube {
namespace {

using Json = nlohmann::json;

constexpr char kPage[] = "limit=500";  // objects of a list in one answer
constexpr std::chrono::milliseconds kFirstPause{100};
constexpr std::chrono::milliseconds kLongestPause{10'000};

class Following {
 public:
  Following(const Api& api, std::string path, const Follower& follower)
      : api_(api), path_(std::move(path)), follower_(follower) {}

  // Lists all objects. Returns the version to watch from.
  Result<std::string> List() {
    std::set<std::string> seen;
    std::string version;
    std::string more;
    do {
      const std::string query =
          std::string(Query()) + kPage + (more.empty() ? "" : "&continue=" + more);
      CGPU_ASSIGN_OR_RETURN(const auto body, api_.Get(path_ + query));
      const Json list = ParseJson(body);
      const Json& metadata = At(list, "metadata");
      version = TextAt(metadata, "resourceVersion");
      more = TextAt(metadata, "continue");
      if (version.empty()) {
        return Error{
            Code::kUnavailable, 0, "the API server's answer to " + path_ + " is no list", {}};
      }
      for (const Json& item : At(list, "items")) {
        seen.insert(KeyOf(item));
        follower_.set(item.dump());
      }
    } while (!more.empty());
    for (const std::string& key : known_) {
      if (seen.count(key) == 0) {
        follower_.remove(key);
      }
    }
    known_ = std::move(seen);
    follower_.complete();
    return version;
  }

  // Watches from `version` on, until the API server ends it.
  Result<> Watch(std::string& version, const Stop& stop) {
    Result<> end;
    CGPU_TRY(api_.Stream(
        path_ + Query() + "watch=1&allowWatchBookmarks=true&resourceVersion=" + version,
        [&](std::string_view line) { return Take(line, version, end); }, stop));
    return end;
  }

 private:
  [[nodiscard]] const char* Query() const {
    return path_.find('?') == std::string::npos ? "?" : "&";
  }

  [[nodiscard]] std::string KeyOf(const Json& object) const {
    return TextAt(At(object, "metadata"), follower_.by_uid ? "uid" : "name");
  }

  bool Take(std::string_view line, std::string& version, Result<>& end) {
    const Json event = ParseJson(line);
    const std::string type = TextAt(event, "type");
    const Json& object = At(event, "object");
    if (type != "ADDED" && type != "MODIFIED" && type != "DELETED" && type != "BOOKMARK") {
      end = Error{Code::kConflict, 0, "the watch of " + path_ + " ended: " + object.dump(), {}};
      return false;
    }
    version = TextAt(At(object, "metadata"), "resourceVersion");
    const std::string key = KeyOf(object);
    if (type == "DELETED") {
      known_.erase(key);
      follower_.remove(key);
    } else if (type != "BOOKMARK") {
      known_.insert(key);
      follower_.set(object.dump());
    }
    return true;
  }

  const Api& api_;
  const std::string path_;
  const Follower& follower_;
  std::set<std::string> known_;
};

}  // namespace

void Follow(const Api& api, const std::string& path, const Follower& follower, const Stop& stop) {
  Following following(api, path, follower);
  std::chrono::milliseconds pause = kFirstPause;
  while (!stop.set()) {
    auto version = following.List();
    Result<> watched;
    if (version.ok()) {
      pause = kFirstPause;
      // The API server ends a watch now and then; it goes on from where it was.
      while (watched.ok() && !stop.set()) {
        watched = following.Watch(*version, stop);
      }
    }
    const Error* const error = !version.ok()   ? &version.error()
                               : !watched.ok() ? &watched.error()
                                               : nullptr;
    if (error != nullptr && error->code != Code::kConflict && !stop.set()) {
      follower.log(error->what);
      (void)stop.WaitFor(pause);  // the API server may need time
      pause = std::min(2 * pause, kLongestPause);
    }
  }
}

}  // namespace cgpu::kube
