// A container's configuration with annotations, hooks and mounts of all kinds, and what becomes of
// it. For every input: an error has a sentence and a hint, and what is accepted comes out with our
// filter and no other, no annotation that a runtime acts on, no field that a runtime could take for
// another, and our mounts and hooks whole, where they must stand.
#include "runtime/spec.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "runtime/annotations.h"
#include "runtime/seccomp_rules.h"
#include "tests/fuzz/input.h"

using cgpu::fuzz::Input;
using cgpu::fuzz::Require;
using Json = nlohmann::json;

namespace {

constexpr std::array kNames = {"annotations",
                               "hooks",
                               "mounts",
                               "linux",
                               "process",
                               "seccomp",
                               "Seccomp",
                               "startContainer",
                               "createContainer",
                               "prestart",
                               "path",
                               "args",
                               "env",
                               "source",
                               "destination",
                               "type",
                               "options",
                               "devices",
                               "resources",
                               "namespaces",
                               "defaultAction",
                               "listenerPath",
                               "syscalls",
                               "architectures",
                               "names",
                               "action",
                               "capabilities",
                               "bounding",
                               "Linux",
                               "Annotations",
                               "run.oci.handler",
                               "run.oci.seccomp_bpf_data",
                               "bundle=/x",
                               "org.criu.config",
                               "run.oci.keep_original_groups",
                               "\u017feccomp"};
constexpr std::array kTexts = {"SCMP_ACT_ALLOW",
                               "SCMP_ACT_ERRNO",
                               "SCMP_ACT_NOTIFY",
                               "ioctl",
                               "mmap",
                               "/dev/nvidia0",
                               "/usr/bin/program",
                               "bind",
                               "CGPU_MEM=1GiB",
                               "SCMP_ARCH_X86_64",
                               "CAP_SYS_ADMIN",
                               "mount",
                               ""};

// Text and not a tree: a name may come twice in an object.
std::string Value(Input& input, int depth) {  // NOLINT(misc-no-recursion)
  const unsigned kind = input.Take<std::uint8_t>() % (depth > 5 ? 3 : 7);
  const auto size = input.Take<std::uint8_t>() % 6;
  std::string text;
  switch (kind) {
    case 0:
      return std::array{"null", "true", "195", "-1"}[static_cast<std::size_t>(size) % 4];
    case 1:
    case 2:
      return "\"" + std::string(kTexts[input.Take<std::uint8_t>() % kTexts.size()]) + "\"";
    case 3:
    case 4:
      for (int i = 0; i < size; ++i) {
        text += (i == 0 ? "" : ",") + Value(input, depth + 1);
      }
      return "[" + text + "]";
    default:
      for (int i = 0; i < size; ++i) {
        text += (i == 0 ? "\"" : ",\"");
        text += kNames[input.Take<std::uint8_t>() % kNames.size()];
        text += "\":" + Value(input, depth + 1);
      }
      return "{" + text + "}";
  }
}

std::string Configuration(Input& input) {
  if (input.Take<std::uint8_t>() % 4 == 0) {
    return input.TakeRest();
  }
  std::string text;
  for (const char* name : {"annotations", "hooks", "mounts", "linux", "process"}) {
    // Lists for mounts and objects for the rest, mostly: most else is refused at once.
    const bool list = std::string_view(name) == "mounts";
    if (input.Take<std::uint8_t>() % 3 != 0) {
      text += (text.empty() ? "\"" : ",\"") + std::string(name) + "\":";
      text += (list ? "[" : "{\"x\":") + Value(input, 1) + (list ? "]" : "}");
    }
  }
  if (input.Take<std::uint8_t>() % 2 == 0) {
    text += (text.empty() ? "\"" : ",\"");
    text += kNames[input.Take<std::uint8_t>() % kNames.size()];
    text += "\":" + Value(input, 0);
  }
  return "{" + text + "}";
}

void CheckFilter(const Json& root, const cgpu::SeccompProfile& profile) {
  Require(root.at("linux").at("seccomp") == Json::parse(cgpu::FormatSeccompProfile(profile)),
          "the filter is ours");
  const auto annotations = root.find("annotations");
  if (annotations != root.end() && annotations->is_object()) {
    for (const auto& [name, value] : annotations->items()) {
      Require(!cgpu::IsActingAnnotation(name), "no annotation changes what is made");
    }
  }
  for (const char* name : {"Linux", "Annotations"}) {
    Require(!root.contains(name), "no runtime takes a field for another");
  }
  Require(!root.at("linux").contains("Seccomp") && !root.at("linux").contains("\u017feccomp"),
          "no runtime takes another filter");
}

cgpu::SpecChanges Changes(cgpu::SeccompProfile profile) {
  cgpu::SpecChanges changes;
  changes.seccomp = std::move(profile);
  changes.gpu_majors = {195};
  changes.mounts = {{"/lib/libcuda.so.1", "/usr/lib/libcuda.so.1", true, true}};
  changes.hooks = {{"/usr/bin/cgpu-runtime", {"cgpu-runtime", "hook"}}};
  changes.start_hooks = {{"/dev/prove", {"prove", "id"}}};
  return changes;
}

void CheckSlice(const Json& root) {
  const Json& mount = root.at("mounts").back();
  Require(mount.at("source") == "/lib/libcuda.so.1" &&
              mount.at("destination") == "/usr/lib/libcuda.so.1",
          "our mount is the last");
  const Json& hooks = root.at("hooks");
  Require(hooks.at("createContainer").back().at("args") == Json({"cgpu-runtime", "hook"}),
          "our hook is the last");
  Require(hooks.at("startContainer").front().at("path") == "/dev/prove" &&
              hooks.at("startContainer").front().at("args") == Json({"prove", "id"}),
          "the proof comes before all that is the container's");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  Input input(bytes, size);
  const std::string text = Configuration(input);
  const auto spec = cgpu::ParseSpec(text);
  if (!spec.ok()) {
    Require(!spec.error().what.empty() && !spec.error().hint.empty(), "an error says what to do");
    Require(!cgpu::ChangeSpec(text, {}).ok(), "what cannot be read is not changed");
    return 0;
  }
  if (!cgpu::CheckAnnotations(spec->annotations).ok()) {
    return 0;
  }
  auto profile = cgpu::ProfileForSlice(spec->seccomp, {"/l", "id", true});
  if (!profile.ok()) {
    return 0;
  }
  const auto slice = cgpu::ChangeSpec(text, Changes(*profile));
  if (slice.ok()) {  // devices that are not as they must be are looked at here alone
    CheckFilter(Json::parse(*slice), *profile);
    CheckSlice(Json::parse(*slice));
  }
  return 0;
}
