#include "runtime/container_state.h"

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/file.h"
#include "json/json.h"

namespace cgpu {
namespace {

constexpr std::string_view kLabel = "bundle=";
constexpr std::size_t kMostBytes = std::size_t{8} << 20;

Error NoBundle() {
  return Error{Code::kNotFound, 0, "the state of the container names no bundle", {}};
}

// Returns the folders where a runtime of that name may keep its containers: crun takes
// XDG_RUNTIME_DIR where it is set, and runc does for users other than the host's root.
std::vector<std::string> RootsOf(const std::string& root, const std::string& runtime) {
  if (!root.empty()) {
    return {root};
  }
  std::vector<std::string> roots = {"/run/" + runtime};
  if (const char* const own = secure_getenv("XDG_RUNTIME_DIR")) {
    roots.insert(roots.begin(), own + ("/" + runtime));
  }
  return roots;
}

}  // namespace

Result<std::string> BundleInRuncState(std::string_view text) {
  const auto state = ParseJson(text);
  for (const nlohmann::json& label : At(At(state, "config"), "labels")) {
    if (label.is_string() && label.get_ref<const std::string&>().starts_with(kLabel)) {
      return label.get<std::string>().substr(kLabel.size());
    }
  }
  return NoBundle();
}

Result<std::string> BundleInCrunStatus(std::string_view text) {
  std::string bundle = TextAt(ParseJson(text), "bundle");
  return bundle.empty() ? NoBundle() : Result<std::string>(std::move(bundle));
}

Result<std::string> BundleOf(const std::string& root, const std::string& id) {
  if (id.empty() || id.find('/') != std::string::npos || id == "." || id == "..") {
    return Error{Code::kInvalid, 0, "\"" + id + "\" names no container", {}};
  }
  for (std::string path : RootsOf(root, "runc")) {
    path.append("/").append(id).append("/state.json");
    if (const auto text = ReadFile(path, kMostBytes); text.ok()) {
      return BundleInRuncState(*text);
    }
  }
  for (std::string path : RootsOf(root, "crun")) {
    path.append("/").append(id).append("/status");
    if (const auto text = ReadFile(path, kMostBytes); text.ok()) {
      return BundleInCrunStatus(*text);
    }
  }
  return Error{Code::kNotFound, 0, "no runtime that is known keeps the container " + id, {}};
}

}  // namespace cgpu
