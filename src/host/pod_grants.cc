#include "host/pod_grants.h"

#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/fd.h"
#include "base/file.h"
#include "json/json.h"

namespace cgpu {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostUid = 64;

// Returns true for the uid of a pod: a UUID, or for a static pod the hash of its manifest.
bool IsUid(const std::string& uid) {
  return !uid.empty() && uid.size() <= kMostUid && std::ranges::all_of(uid, [](unsigned char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || c == '-';
  });
}

std::string PathOf(const std::string& folder, const std::string& uid) {
  return folder + "/" + uid;
}

// Makes the folder for root alone; its parent is for all.
Result<> MakeFolder(const std::string& folder) {
  CGPU_TRY(MakeDirectories(folder.substr(0, folder.rfind('/'))));
  return MakeDirectories(folder, 0700);
}

Result<PodGrant> Parse(const std::string& text, const std::string& path) {
  const Error wrong{Code::kInvalid, 0, path + " is no grant of a pod",
                    "restart the pod of cgpu's device plugin on this node"};
  const Json json = ParseJson(text);
  try {
    PodGrant grant;
    grant.name_space = json.value("namespace", "");
    grant.name = json.value("name", "");
    grant.gpus = json.at("gpus").get<std::vector<std::string>>();
    grant.isolated = json.value("isolated", true);
    for (const auto& [name, part] : json.at("containers").items()) {
      grant.containers[name] = {part.at("memory").get<std::uint32_t>(),
                                part.at("compute").get<std::uint32_t>(), part.value("weight", 1U),
                                part.value("high_priority", false)};
    }
    return grant;
  } catch (const Json::exception&) {
    return wrong;
  }
}

}  // namespace

Result<> WritePodGrant(const std::string& uid, const PodGrant& grant, const std::string& folder) {
  if (!IsUid(uid)) {
    return Error{Code::kInvalid, 0, "\"" + uid + "\" is no uid of a pod", {}};
  }
  CGPU_TRY(MakeFolder(folder));
  Json json{{"namespace", grant.name_space},
            {"name", grant.name},
            {"gpus", grant.gpus},
            {"isolated", grant.isolated},
            {"containers", Json::object()}};
  for (const auto& [name, part] : grant.containers) {
    json["containers"][name] = {{"memory", part.memory},
                                {"compute", part.compute},
                                {"weight", part.weight},
                                {"high_priority", part.high_priority}};
  }
  return ReplaceFile(PathOf(folder, uid), json.dump() + "\n", 0600);
}

void RemovePodGrant(const std::string& uid, const std::string& folder) {
  if (IsUid(uid)) {
    (void)unlink(PathOf(folder, uid).c_str());
  }
}

bool HasPodGrant(const std::string& uid, const std::string& folder) {
  return IsUid(uid) && access(PathOf(folder, uid).c_str(), F_OK) == 0;
}

std::vector<std::string> ListPodGrants(const std::string& folder) {
  auto uids = NamesIn(folder).value_or({});
  std::erase_if(uids, [](const std::string& uid) { return !IsUid(uid); });
  return uids;
}

Result<PodGrant> WaitForPodGrant(const std::string& uid, std::chrono::milliseconds timeout,
                                 const std::string& folder) {
  if (!IsUid(uid)) {
    return Error{Code::kInvalid, 0, "\"" + uid + "\" is no uid of a pod", {}};
  }
  CGPU_TRY(MakeFolder(folder));
  const UniqueFd changes(inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  if (!changes.valid() ||
      inotify_add_watch(changes.get(), folder.c_str(), IN_MOVED_TO | IN_CLOSE_WRITE) < 0) {
    return ErrnoError(Code::kInternal, errno, "cannot watch " + folder);
  }
  const auto until = std::chrono::steady_clock::now() + timeout;
  const std::string path = PathOf(folder, uid);
  while (true) {
    if (const auto text = ReadFile(path); text.ok()) {
      return Parse(*text, path);
    }
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    if (left.count() <= 0) {
      return Error{Code::kUnavailable, 0,
                   "no decision of cgpu-scheduler for the pod " + uid + " has come",
                   "see that cgpu's device plugin runs on this node, and that the pod was "
                   "scheduled by cgpu-scheduler"};
    }
    pollfd event{changes.get(), POLLIN, 0};
    (void)poll(&event, 1, static_cast<int>(left.count()));
    std::array<char, 4096> ignored{};
    while (read(changes.get(), ignored.data(), ignored.size()) > 0) {
    }
  }
}

}  // namespace cgpu
