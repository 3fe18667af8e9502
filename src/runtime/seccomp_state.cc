#include "runtime/seccomp_state.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "runtime/json_depth.h"

namespace cgpu {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxName = 1024;  // of a container's id, a status, a version
constexpr std::size_t kMaxPath = 4096;  // PATH_MAX

Error Wrong(std::string what) {
  return Error{Code::kInvalid, 0, "the container runtime's seccomp state " + std::move(what),
               "use a runtime that hands over seccomp listeners as OCI runtime-spec 1.0.2 says, as "
               "runc does since 1.1"};
}

bool HasControls(const std::string& text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

// The string `name` of `object`; an empty one where it may be left out.
Result<std::string> TextOf(const Json& object, const char* name, std::size_t most, bool required) {
  const auto found = object.find(name);
  if (found == object.end() || found->is_null()) {
    if (required) {
      return Wrong(std::string("has no ") + name);
    }
    return std::string();
  }
  if (!found->is_string()) {
    return Wrong(std::string("has a ") + name + " that is no string");
  }
  const auto& text = found->get_ref<const std::string&>();
  if (text.size() > most || (required && text.empty())) {
    return Wrong(std::string("has a ") + name + " of " + std::to_string(text.size()) + " bytes");
  }
  return text;
}

// 0: not there.
Result<std::uint32_t> PidOf(const Json& object, const char* whose, bool required) {
  const auto found = object.find("pid");
  if (found == object.end() && !required) {
    return 0U;
  }
  if (found == object.end() || !found->is_number_integer()) {
    return Wrong(std::string("has no number as the pid of the ") + whose);
  }
  // Negative numbers are kept as signed ones.
  const bool fits = found->is_number_unsigned() && found->get<std::uint64_t>() <= kMaxPid &&
                    (!required || found->get<std::uint64_t>() != 0);
  if (!fits) {
    return Wrong("has " + found->dump() + " as the pid of the " + whose);
  }
  return found->get<std::uint32_t>();
}

Result<> ReadFds(const Json& text, SeccompState& state) {
  const auto fds = text.find("fds");
  if (fds == text.end() || !fds->is_array()) {
    return Wrong("names no file descriptors");
  }
  if (fds->size() > kMaxSeccompStateFds) {
    return Wrong("names " + std::to_string(fds->size()) + " file descriptors");
  }
  std::optional<std::size_t> listener;
  for (std::size_t i = 0; i < fds->size(); ++i) {
    const Json& name = (*fds)[i];
    if (!name.is_string()) {
      return Wrong("names a file descriptor with something that is no string");
    }
    if (name.get_ref<const std::string&>() != "seccompFd") {
      continue;
    }
    if (listener) {
      return Wrong("names two listeners");
    }
    listener = i;
  }
  if (!listener) {
    return Wrong("names no listener (seccompFd)");
  }
  state.fds = fds->size();
  state.listener = *listener;
  return {};
}

Result<> ReadAnnotations(const Json& container, SeccompState& state) {
  const auto annotations = container.find("annotations");
  if (annotations == container.end() || annotations->is_null()) {
    return {};
  }
  if (!annotations->is_object()) {
    return Wrong("has annotations that are no object");
  }
  for (const auto& [name, value] : annotations->items()) {
    if (!value.is_string()) {
      return Wrong("has an annotation that is no string");
    }
    state.annotations.emplace(name, value.get_ref<const std::string&>());
  }
  return {};
}

Result<> ReadContainer(const Json& text, SeccompState& state) {
  const auto container = text.find("state");
  if (container == text.end() || !container->is_object()) {
    return Wrong("has no state of the container");
  }
  auto id = TextOf(*container, "id", kMaxName, true);
  if (!id.ok()) {
    return id.error();
  }
  auto status = TextOf(*container, "status", kMaxName, true);
  if (!status.ok()) {
    return status.error();
  }
  auto bundle = TextOf(*container, "bundle", kMaxPath, true);
  if (!bundle.ok()) {
    return bundle.error();
  }
  auto init = PidOf(*container, "container", false);
  if (!init.ok()) {
    return init.error();
  }
  // Ids become names of files and sockets, and words of a line.
  if (HasControls(*id) || id->find_first_of("/ ") != std::string::npos || *id == "." ||
      *id == "..") {
    return Wrong("has a container id that is no file name");
  }
  if (HasControls(*bundle) || bundle->front() != '/') {
    return Wrong("has a bundle that is no absolute path");
  }
  state.id = std::move(*id);
  state.status = std::move(*status);
  state.bundle = std::move(*bundle);
  state.init = *init;
  return ReadAnnotations(*container, state);
}

}  // namespace

Result<SeccompState> ParseSeccompState(std::string_view text) {
  if (text.size() > kMaxSeccompState) {
    return Wrong("is longer than " + std::to_string(kMaxSeccompState) + " bytes");
  }
  if (NestsDeeper(text, kMaxSeccompStateDepth)) {
    return Wrong("is nested too deeply");
  }
  const Json parsed = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) {
    return Wrong(parsed.is_discarded() ? "is not JSON" : "is no JSON object");
  }
  SeccompState state;
  auto version = TextOf(parsed, "ociVersion", kMaxName, true);
  if (!version.ok()) {
    return version.error();
  }
  auto metadata = TextOf(parsed, "metadata", kMaxSeccompState, false);
  if (!metadata.ok()) {
    return metadata.error();
  }
  auto pid = PidOf(parsed, "process", true);
  if (!pid.ok()) {
    return pid.error();
  }
  state.oci_version = std::move(*version);
  state.metadata = std::move(*metadata);
  state.pid = *pid;
  CGPU_TRY(ReadFds(parsed, state));
  CGPU_TRY(ReadContainer(parsed, state));
  return state;
}

}  // namespace cgpu
