#include "runtime/spec.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <nlohmann/json.hpp>

#include "json/json.h"
#include "os/privileges.h"
#include "runtime/nvidia.h"
#include "runtime/runtime_environment.h"

namespace cgpu {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxSpecDepth = 32;
constexpr std::array kCapabilitySets = {"bounding", "effective", "permitted", "inheritable",
                                        "ambient"};
constexpr std::array kHookStages = {"prestart",       "createRuntime", "createContainer",
                                    "startContainer", "poststart",     "poststop"};
// Names of fields that are read here. runc and others take names that differ in case alone for
// them, and the last one wins (Go's encoding/json); crun does not.
constexpr std::array kReadFields = {
    "annotations",   "args",        "bounding",    "capabilities",   "createContainer",
    "createRuntime", "destination", "devices",     "effective",      "ambient",
    "env",           "hooks",       "inheritable", "linux",          "major",
    "minor",         "mounts",      "namespaces",  "options",        "path",
    "permitted",     "poststart",   "poststop",    "prestart",       "process",
    "resources",     "seccomp",     "source",      "startContainer", "type",
};
// Fields whose own fields have names that the container's user chooses.
constexpr std::array kMaps = {"annotations", "netDevices", "sysctl", "unified", "rdma"};

Error WrongSpec(std::string what) {
  return Error{Code::kInvalid, 0, "the container's configuration " + std::move(what),
               "it must be as OCI runtime-spec's config.md"};
}

// Returns the field of the kind that it must be; an empty one of that kind where it is absent or
// null, as many writers have it.
Result<const Json*> Get(const Json& object, const char* name, Json::value_t kind) {
  static const Json no_list = Json::array();
  static const Json no_object = Json::object();
  const Json& field = At(object, name);
  if (field.is_null()) {
    return kind == Json::value_t::array ? &no_list : &no_object;
  }
  if (field.type() != kind) {
    return WrongSpec(std::string("has a ") + name + " of another kind");
  }
  return &field;
}

Result<const Json*> List(const Json& object, const char* name) {
  return Get(object, name, Json::value_t::array);
}

Result<const Json*> Object(const Json& object, const char* name) {
  return Get(object, name, Json::value_t::object);
}

Result<std::vector<std::string>> Texts(const Json& object, const char* name) {
  CGPU_ASSIGN_OR_RETURN(const auto list, List(object, name));
  std::vector<std::string> texts;
  for (const Json& one : *list) {
    if (!one.is_string()) {
      return WrongSpec(std::string("has a ") + name + " with something that is no string");
    }
    texts.push_back(one.get<std::string>());
  }
  return texts;
}

// Returns the field `key` of each object of the list `name` that has it.
Result<std::vector<std::string>> TextsOfObjects(const Json& object, const char* name,
                                                const char* key) {
  CGPU_ASSIGN_OR_RETURN(const auto list, List(object, name));
  std::vector<std::string> texts;
  for (const Json& one : *list) {
    const Json& text = At(one, key);
    if (!one.is_object() || !(text.is_null() || text.is_string())) {
      return WrongSpec(std::string("has ") + name + " that are not as they must be");
    }
    texts.push_back(TextAt(one, key));
  }
  return texts;
}

Result<> ReadProcess(const Json& root, ContainerSpec* spec) {
  CGPU_ASSIGN_OR_RETURN(const auto process, Object(root, "process"));
  CGPU_ASSIGN_OR_RETURN(spec->environment, Texts(*process, "env"));
  CGPU_ASSIGN_OR_RETURN(const auto capabilities, Object(*process, "capabilities"));
  for (const char* set : kCapabilitySets) {
    CGPU_ASSIGN_OR_RETURN(const auto names, Texts(*capabilities, set));
    spec->capabilities.insert(names.begin(), names.end());
  }
  return {};
}

Result<> ReadLinux(const Json& root, ContainerSpec* spec) {
  CGPU_ASSIGN_OR_RETURN(const auto linux_part, Object(root, "linux"));
  CGPU_ASSIGN_OR_RETURN(const auto namespaces, TextsOfObjects(*linux_part, "namespaces", "type"));
  for (const std::string& type : namespaces) {
    spec->user_namespace = spec->user_namespace || type == "user";
    spec->pid_namespace = spec->pid_namespace || type == "pid";
  }
  CGPU_ASSIGN_OR_RETURN(const auto devices, TextsOfObjects(*linux_part, "devices", "path"));
  std::ranges::copy_if(devices, std::back_inserter(spec->gpu_files), IsGpuFile);
  CGPU_ASSIGN_OR_RETURN(const auto seccomp, Object(*linux_part, "seccomp"));
  if (!At(*linux_part, "seccomp").is_null()) {
    CGPU_ASSIGN_OR_RETURN(spec->seccomp, ParseSeccompProfile((seccomp)->dump()));
  }
  return {};
}

// Returns whether a slice has this mount from cgpu alone.
bool IsOfGpus(const Json& mount) {
  const std::string destination = TextAt(mount, "destination");
  const std::string source = TextAt(mount, "source");
  return IsGpuFile(destination) || IsGpuFile(source) || IsGpuSocket(destination) ||
         IsGpuSocket(source);
}

// Reads the mounts of the host's files; other mounts make file systems of their own.
Result<> ReadBinds(const Json& root, ContainerSpec* spec) {
  CGPU_ASSIGN_OR_RETURN(const auto mounts, List(root, "mounts"));
  for (const Json& mount : *mounts) {
    CGPU_ASSIGN_OR_RETURN(const auto options, Texts(mount, "options"));
    const auto has = [&](const char* option) {
      return std::ranges::find(options, option) != options.end();
    };
    const bool bind = TextAt(mount, "type") == "bind" || has("bind") || has("rbind");
    if (bind && !IsOfGpus(mount)) {
      spec->binds.push_back({TextAt(mount, "source"), TextAt(mount, "destination"), has("ro")});
    }
  }
  return {};
}

Result<SpecHook> HookFrom(const Json& one) {
  if (!one.is_object() || TextAt(one, "path").empty()) {
    return WrongSpec("has a hook that names no program");
  }
  CGPU_ASSIGN_OR_RETURN(auto arguments, Texts(one, "args"));
  return SpecHook{TextAt(one, "path"), std::move(arguments)};
}

Result<> ReadRest(const Json& root, ContainerSpec* spec) {
  CGPU_ASSIGN_OR_RETURN(const auto files, Object(root, "root"));
  spec->root = TextAt(*files, "path");
  CGPU_ASSIGN_OR_RETURN(const auto annotations, Object(root, "annotations"));
  for (const auto& [name, value] : (annotations)->items()) {
    if (!value.is_string()) {
      return WrongSpec("has an annotation that is no string");
    }
    spec->annotations.emplace(name, value.get<std::string>());
  }
  CGPU_ASSIGN_OR_RETURN(const auto mounts, TextsOfObjects(root, "mounts", "destination"));
  std::ranges::copy_if(mounts, std::back_inserter(spec->gpu_files), IsGpuFile);
  CGPU_ASSIGN_OR_RETURN(const auto hooks, Object(root, "hooks"));
  for (const char* stage : kHookStages) {
    CGPU_ASSIGN_OR_RETURN(const auto list, List(*hooks, stage));
    for (const Json& one : *list) {
      CGPU_ASSIGN_OR_RETURN(auto hook, HookFrom(one));
      spec->hooks.push_back(std::move(hook));
    }
  }
  return {};
}

// Returns the name as Go compares it: without regard to case, also for the two letters outside
// ASCII that have one inside (the long s and the sign for Kelvin).
std::string Folded(std::string name) {
  for (const auto& [letter, plain] : {std::pair("\u017f", 's'), std::pair("\u212a", 'k')}) {
    for (std::size_t at = 0; (at = name.find(letter)) != std::string::npos;) {
      name.replace(at, std::string_view(letter).size(), 1, plain);
    }
  }
  std::ranges::transform(name, name.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return name;
}

bool IsMisspelt(const std::string& name) {
  return std::ranges::any_of(kReadFields, [&](const char* field) {
    return name != field && Folded(name) == Folded(field);
  });
}

// Returns a field that some runtimes take for one that is read here, or nothing. The depth is
// bounded.
std::optional<std::string> FindMisspelt(const Json& json) {  // NOLINT(misc-no-recursion)
  for (const auto& [name, value] : json.items()) {
    if (json.is_object() && IsMisspelt(name)) {
      return name;
    }
    const bool map = std::ranges::find(kMaps, name) != kMaps.end();
    if (auto found = map || !value.is_structured() ? std::nullopt : FindMisspelt(value)) {
      return found;
    }
  }
  return std::nullopt;
}

Result<Json> Parse(std::string_view text) {
  if (text.size() > kMaxSpec || NestsDeeper(text, kMaxSpecDepth)) {
    return WrongSpec("is too large");
  }
  Json root = ParseOrderedJson(text);
  if (!root.is_object()) {
    return WrongSpec(root.is_discarded() ? "is not JSON" : "is no JSON object");
  }
  if (const auto misspelt = FindMisspelt(root)) {
    return WrongSpec("has a field " + *misspelt + ", which not every runtime takes for the same");
  }
  return root;
}

Result<ContainerSpec> Read(const Json& root) {
  ContainerSpec spec;
  CGPU_TRY(ReadProcess(root, &spec));
  CGPU_TRY(ReadLinux(root, &spec));
  CGPU_TRY(ReadRest(root, &spec));
  CGPU_TRY(ReadBinds(root, &spec));
  return spec;
}

// Returns a field, and makes it if there is none. It was read already, so it is of its kind or not
// there. References to other fields of `object` become invalid.
Json& Make(Json& object, const char* name, Json::value_t kind) {
  Json& field = object[name];
  if (field.is_null()) {
    field = Json(kind);
  }
  return field;
}

template <class Unwanted>
void EraseIf(Json& list, const Unwanted& unwanted) {
  std::erase_if(list.get_ref<Json::array_t&>(), unwanted);
}

// Returns the field as a device number; nothing where it is none or not there.
std::optional<unsigned> DeviceNumber(const Json& object, const char* name) {
  const Json& field = At(object, name);
  return field.is_number_unsigned() ? std::optional(field.get<unsigned>()) : std::nullopt;
}

// Removes the devices that are GPU files, with what the device cgroup says of them.
void RemoveDevices(Json& devices, Json& rules, const std::set<unsigned>& majors) {
  std::set<std::pair<unsigned, unsigned>> removed;
  const auto unwanted = [&](const Json& device) {
    const auto major = DeviceNumber(device, "major");
    const auto minor = DeviceNumber(device, "minor");
    const bool gpu = IsGpuFile(TextAt(device, "path")) || (major && majors.contains(*major));
    if (gpu && major && minor) {
      removed.emplace(*major, *minor);
    }
    return gpu;
  };
  EraseIf(devices, unwanted);
  const auto of_removed = [&](const Json& rule) {
    const auto major = DeviceNumber(rule, "major");
    const auto minor = DeviceNumber(rule, "minor");
    return major && minor && removed.contains({*major, *minor});
  };
  EraseIf(rules, of_removed);
}

void ChangeDevices(Json& linux_part, const SpecChanges& changes) {
  (void)Make(linux_part, "devices", Json::value_t::array);  // a new field moves the others
  Json& resources = Make(linux_part, "resources", Json::value_t::object);
  Json& rules = Make(resources, "devices", Json::value_t::array);
  Json& devices = linux_part["devices"];
  RemoveDevices(devices, rules, changes.gpu_majors);
  for (const SpecDevice& device : changes.devices) {
    constexpr unsigned kForAll = 0666;
    devices.push_back({{"path", device.path},
                       {"type", "c"},
                       {"major", device.major},
                       {"minor", device.minor},
                       {"fileMode", kForAll},
                       {"uid", 0},
                       {"gid", 0}});
    rules.push_back({{"allow", true},
                     {"type", "c"},
                     {"major", device.major},
                     {"minor", device.minor},
                     {"access", "rw"}});
  }
}

void ChangeMounts(Json& mounts, const SpecChanges& changes) {
  EraseIf(mounts, IsOfGpus);
  for (const SpecMount& mount : changes.mounts) {
    Json options = {"bind", "nosuid", "nodev", "rprivate"};
    if (!mount.executable) {
      options.push_back("noexec");
    }
    if (mount.read_only) {
      options.push_back("ro");
    }
    mounts.push_back({{"destination", mount.destination},
                      {"type", "bind"},
                      {"source", mount.source},
                      {"options", options}});
  }
}

// Returns a hook. Without an environment of its own it would have the runtime's, or the image's.
Json HookOf(const SpecHook& hook) {
  return {{"path", hook.path}, {"args", hook.arguments}, {"env", {kPlainPath}}};
}

void ChangeHooks(Json& hooks, const SpecChanges& changes) {
  for (Json& list : hooks) {
    if (list.is_array()) {
      EraseIf(list, [](const Json& one) {
        const auto hook = HookFrom(one);
        return hook.ok() && NvidiaHookOf(hook->path, hook->arguments) == NvidiaHook::kNeedless;
      });
    }
  }
  for (const SpecHook& hook : changes.hooks) {
    Make(hooks, "createContainer", Json::value_t::array).push_back(HookOf(hook));
  }
  Json start = Json::array();
  for (const SpecHook& hook : changes.start_hooks) {
    start.push_back(HookOf(hook));
  }
  for (const Json& hook : Make(hooks, "startContainer", Json::value_t::array)) {
    start.push_back(hook);
  }
  hooks["startContainer"] = std::move(start);
}

void ChangeEnvironment(Json& environment, const SpecChanges& changes) {
  for (const auto& [name, value] : changes.environment) {
    const std::string beginning = name + "=";
    const auto same = [&](const Json& one) {
      return one.get_ref<const std::string&>().starts_with(beginning);
    };
    EraseIf(environment, same);
    environment.push_back(beginning + value);
  }
}

}  // namespace

namespace {

// Returns whether a text, or the name of a member, has a NUL. Parse() bounds the depth.
bool HasNul(const Json& value) {
  if (value.is_string()) {
    return value.get_ref<const std::string&>().find('\0') != std::string::npos;
  }
  for (auto member = value.begin(); value.is_structured() && member != value.end(); ++member) {
    if ((value.is_object() && member.key().find('\0') != std::string::npos) || HasNul(*member)) {
      return true;
    }
  }
  return false;
}

}  // namespace

Result<ContainerSpec> ParseSpec(std::string_view text) {
  CGPU_ASSIGN_OR_RETURN(const auto root, Parse(text));
  if (HasNul(root)) {
    return Error{Code::kInvalid, 0, "the container's configuration has a text with a NUL in it",
                 "runtimes read only what is before it: leave it out"};
  }
  return Read(root);
}

std::string NamesFile(std::string_view id, const ContainerSpec& spec) {
  const bool podman = std::ranges::any_of(
      spec.binds, [](const SpecMount& mount) { return mount.destination == "/run/.containerenv"; });
  for (const std::string driver : {"overlay", "vfs"}) {
    const std::size_t at = spec.root.find("/" + driver + "/");
    if (podman && at != std::string::npos) {
      return spec.root.substr(0, at + 1) + driver + "-containers/containers.json";
    }
  }
  for (const SpecMount& mount : spec.binds) {
    const std::filesystem::path source = mount.source;
    if (mount.destination == "/etc/hostname" && source.is_absolute() &&
        source.filename() == "hostname") {
      // The folder is another container's where it shares that one's network.
      return source.parent_path().parent_path() / id / "config.v2.json";
    }
  }
  return {};
}

std::optional<std::string> CapabilityPastSlices(const ContainerSpec& spec) {
  if (spec.user_namespace) {
    return std::nullopt;
  }
  const auto found = std::ranges::find_if(spec.capabilities, [](const auto& capability) {
    return std::ranges::none_of(
        kHeldCapabilities, [&](const NamedCapability& held) { return held.name == capability; });
  });
  return found == spec.capabilities.end() ? std::nullopt : std::optional(*found);
}

Result<std::string> ChangeSpec(std::string_view text, const SpecChanges& changes) {
  CGPU_ASSIGN_OR_RETURN(auto parsed, Parse(text));
  Json& root = parsed;
  CGPU_TRY(Read(root));
  Json& linux_part = Make(root, "linux", Json::value_t::object);
  CGPU_ASSIGN_OR_RETURN(const auto resources, Object(linux_part, "resources"));
  CGPU_TRY(List(*resources, "devices"));
  ChangeDevices(linux_part, changes);
  linux_part["seccomp"] = ParseOrderedJson(FormatSeccompProfile(changes.seccomp));
  ChangeMounts(Make(root, "mounts", Json::value_t::array), changes);
  ChangeHooks(Make(root, "hooks", Json::value_t::object), changes);
  Json& process = Make(root, "process", Json::value_t::object);
  ChangeEnvironment(Make(process, "env", Json::value_t::array), changes);
  return root.dump();
}

}  // namespace cgpu
