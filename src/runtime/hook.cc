#include "runtime/hook.h"

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/file.h"
#include "json/json.h"
#include "runtime/spec.h"
#include "sandbox/mount_tree.h"
#include "sandbox/tree_words.h"

namespace cgpu {
namespace {

constexpr std::size_t kMaxObjectDepth = 32;

Error WrongState(std::string what) {
  return Error{Code::kInvalid, 0, std::move(what), "it must be as OCI runtime-spec says"};
}

Result<nlohmann::json> ParseObject(const std::string& text, const std::string& what) {
  if (NestsDeeper(text, kMaxObjectDepth)) {
    return WrongState(what + " is nested too deep");
  }
  nlohmann::json object = ParseJson(text);
  if (!object.is_object()) {
    return WrongState(what + " is no JSON object");
  }
  return object;
}

Result<std::string> BundleOf(int state_fd) {
  const auto text = ReadAll(state_fd, "the container's state", kMaxSpec);
  if (!text.ok()) {
    return text.error().code == Code::kExhausted ? WrongState("the container's state is too large")
                                                 : text.error();
  }
  CGPU_ASSIGN_OR_RETURN(const auto state, ParseObject(*text, "the container's state"));
  std::string bundle = TextAt(state, "bundle");
  if (!bundle.starts_with('/')) {
    return WrongState("the container's state has no absolute path of a bundle");
  }
  return bundle;
}

// Returns whether the container has a mount namespace of its own. A namespace with a path is shared
// with others.
bool HasOwnMounts(const nlohmann::json& config) {
  const nlohmann::json& list = At(At(config, "linux"), "namespaces");
  return std::ranges::any_of(list, [](const nlohmann::json& one) {
    return TextAt(one, "type") == "mount" && TextAt(one, "path").empty();
  });
}

Result<std::string> FindRoot(const std::string& bundle) {
  const std::string path = bundle + "/config.json";
  CGPU_ASSIGN_OR_RETURN(const auto text, ReadFile(path, kMaxSpec));
  CGPU_ASSIGN_OR_RETURN(const auto config, ParseObject(text, path));
  if (!HasOwnMounts(config)) {
    return Error{Code::kUnsupported, 0, "the container has no mount namespace of its own",
                 "a container with a slice of a GPU needs one"};
  }
  std::string rootfs = TextAt(At(config, "root"), "path");
  if (rootfs.empty()) {
    return WrongState(path + " names no root file system");
  }
  return rootfs.starts_with('/') ? rootfs : bundle + "/" + rootfs;
}

}  // namespace

Result<> RunHook(const std::vector<std::string>& arguments, int state_fd) {
  CGPU_ASSIGN_OR_RETURN(const auto tree, TreeFromWords(arguments));
  CGPU_ASSIGN_OR_RETURN(const auto bundle, BundleOf(state_fd));
  const auto rootfs = FindRoot(bundle);
  return rootfs.ok() ? MountGpuTreeAt(tree, *rootfs) : rootfs.error();
}

}  // namespace cgpu
