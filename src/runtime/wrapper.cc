#include "runtime/wrapper.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/child.h"
#include "base/file.h"
#include "grant/env.h"
#include "host/registry.h"
#include "protocol/creation.h"
#include "runtime/annotations.h"
#include "runtime/arguments.h"
#include "runtime/bundle.h"
#include "runtime/cdi.h"
#include "runtime/container_state.h"
#include "runtime/nvidia.h"
#include "runtime/others_filter.h"
#include "runtime/runtime_environment.h"
#include "runtime/seccomp_rules.h"
#include "runtime/settings.h"
#include "runtime/spec.h"
#include "sandbox/tree_words.h"

namespace cgpu {
namespace {

namespace fs = std::filesystem;

constexpr int kFailure = 1;  // as runc's own
// Annotations that say which container it is, as containerd and CRI-O write them.
constexpr std::array<std::string_view, 4> kAnnotations = {
    "io.kubernetes.cri.sandbox-", "io.kubernetes.cri.container-name", "io.kubernetes.pod.",
    "io.kubernetes.container.name"};

bool NamesContainer(std::string_view annotation) {
  return std::ranges::any_of(kAnnotations,
                             [&](std::string_view one) { return annotation.starts_with(one); });
}

std::string_view LastComponent(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

// Returns the folders of this host that a container with a slice must not see, by their real paths.
std::vector<std::string> OwnFolders(const Settings& settings) {
  const std::string socket_folder = settings.socket.substr(0, settings.socket.rfind('/'));
  std::vector<std::string> folders;
  for (const std::string& path :
       {std::string("/run/cgpu"), std::string("/run/cgpu-sim"), std::string("/etc/cgpu"),
        std::string("/var/lib/cgpu"), socket_folder}) {
    std::error_code gone;
    const auto real = fs::canonical(path, gone);
    if (!gone) {
      folders.push_back(real);
    }
  }
  return folders;
}

// Refuses a configuration that says that it mounts some of them. Where the container gets one by
// another name, the hook finds that when it is mounted.
Result<> CheckMounts(const ContainerSpec& spec, const std::string& bundle,
                     const std::vector<std::string>& folders) {
  for (const SpecMount& mount : spec.binds) {
    std::error_code gone;
    const std::string source = fs::canonical(fs::path(bundle) / mount.source, gone);
    if (gone == std::errc::not_connected) {  // as of a FUSE server that was killed
      return Error{Code::kPermission, 0,
                   mount.source + " cannot be looked at: nobody serves that file system any more",
                   "leave that mount out"};
    }
    if (!gone && std::ranges::any_of(folders, [&](const std::string& folder) {
          return IsAtOrBelow(source, folder);
        })) {
      return Error{Code::kPermission, 0,
                   "the container would have " + mount.source + " of cgpu itself",
                   "leave that mount out"};
    }
  }
  return {};
}

// Writes to the log as runc does (github.com/sirupsen/logrus): container engines show its last
// line.
void Log(const RuntimeCall& call, const std::string& level, const std::string& text) {
  if (call.log.empty()) {
    return;
  }
  const auto file = OpenFile(call.log, O_WRONLY | O_CREAT | O_APPEND, 0644);
  if (file.ok()) {
    const nlohmann::json quoted = text;
    const std::string message =
        quoted.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    (void)WriteAll(file->get(), call.log_json
                                    ? R"({"level":")" + level + R"(","msg":)" + message + "}\n"
                                    : "level=" + level + " msg=" + message + "\n");
  }
}

// Returns true for the sandbox of a pod, which runs nothing of the pod. containerd and CRI-O say so
// of each container and each sandbox. The pod's own annotations may say something else, and only by
// another name: a word against it counts.
bool IsSandbox(const ContainerSpec& spec) {
  bool found = false;
  for (const char* name :
       {"io.kubernetes.cri.container-type", "io.kubernetes.cri-o.ContainerType"}) {
    const auto type = spec.annotations.find(name);
    if (type != spec.annotations.end() && type->second != "sandbox") {
      return false;
    }
    found = found || type != spec.annotations.end();
  }
  return found;
}

// Returns true for the container of a pod.
bool IsOfPod(const ContainerSpec& spec) {
  return !IsSandbox(spec) && std::ranges::any_of(spec.annotations, [](const auto& annotation) {
    return annotation.first == "io.kubernetes.cri.container-name" ||
           annotation.first == "io.kubernetes.container.name";
  });
}

// Refuses a container that cannot have a slice at all.
Result<> CheckCanBeHeld(const ContainerSpec& spec) {
  if (const auto capability = CapabilityPastSlices(spec)) {
    return Error{
        Code::kPermission, 0,
        "a container with the capability " + *capability + " cannot be held to a slice of a GPU",
        "run it without --privileged or --cap-add, or in a user namespace of its own"};
  }
  for (const SpecHook& hook : spec.hooks) {
    const NvidiaHook kind = NvidiaHookOf(hook.path, hook.arguments);
    if (kind == NvidiaHook::kGpus) {
      return Error{Code::kConflict, 0,
                   "NVIDIA's hook " + hook.path + " would put whole GPUs into the container",
                   "leave --gpus out, cgpu gives the container its GPUs; behind NVIDIA's runtime "
                   "set mode = \"cdi\" in its config.toml"};
    }
    if (kind == NvidiaHook::kUnknown) {
      return Error{Code::kUnsupported, 0,
                   "it is not known what the hook " + hook.path + " puts into the container",
                   "switch that hook off, or run the container without a slice"};
    }
  }
  return {};
}

Result<CreationReply> AskForSlice(const Settings& settings, const std::string& id,
                                  const ContainerSpec& spec) {
  CreationRequest request;
  request.engine_id = id;
  request.pid_namespace = spec.pid_namespace;
  request.environment = GrantVariables(spec.environment);
  std::set<unsigned> minors;
  for (const std::string& file : spec.gpu_files) {
    if (const auto minor = GpuMinor(file)) {
      minors.insert(*minor);
    }
  }
  request.minors.assign(minors.begin(), minors.end());
  for (const auto& [name, value] : spec.annotations) {
    if (NamesContainer(name)) {
      request.annotations.emplace_back(name, value);
    }
  }
  if (std::string file = NamesFile(id, spec); !file.empty()) {
    request.annotations.emplace_back(kNamesFile, std::move(file));
  }
  const auto daemon = ConnectToDaemonSoon(settings.socket);
  if (!daemon.ok()) {
    Error error = daemon.error();
    if (error.code == Code::kPermission) {
      return NotAMember(settings.group);
    }
    error.what = "the container asks for a slice of a GPU, and cgpud does not run: " + error.what;
    error.hint = "start it: systemctl start cgpud";
    return error;
  }
  return AskDaemon(*daemon, request);
}

// Returns the hook that puts the files in, with this program to prove the filter, and covers `own`.
Result<SpecHook> HookFor(const CreationReply& reply, const std::vector<std::string>& own) {
  CGPU_ASSIGN_OR_RETURN(const auto self, OwnProgram());
  CGPU_ASSIGN_OR_RETURN(auto tree, TreeFromWords(reply.tree));
  tree.prover = self;
  tree.own = own;
  SpecHook hook{self, {"cgpu-runtime", "hook"}};
  for (std::string& argument : TreeWords(tree)) {
    hook.arguments.push_back(std::move(argument));
  }
  return hook;
}

// Adds the driver's libraries and programs, without those that are already in.
void AddDriverFiles(const DriverFiles& files, const ContainerSpec& spec, SpecChanges& changes) {
  for (const SpecMount& mount : files.mounts) {
    const bool there = std::ranges::any_of(
        spec.binds, [&](const SpecMount& other) { return other.destination == mount.destination; });
    if (!there) {
      changes.mounts.push_back(mount);
    }
  }
  for (const SpecHook& hook : files.hooks) {
    const bool there = std::ranges::any_of(spec.hooks, [&](const SpecHook& other) {
      return other.path == hook.path && other.arguments == hook.arguments;
    });
    if (!there) {
      changes.hooks.push_back(hook);
    }
  }
  changes.environment = files.environment;
}

Result<SpecChanges> ChangesForSlice(const ContainerSpec& spec, const CreationReply& reply,
                                    const DriverFiles& files, const std::vector<std::string>& own) {
  CGPU_ASSIGN_OR_RETURN(
      auto profile, ProfileForSlice(spec.seccomp, {reply.listener, reply.word, reply.killable}));
  SpecChanges changes;
  changes.seccomp = std::move(profile);
  changes.gpu_majors.insert(reply.majors.begin(), reply.majors.end());
  for (const CreatedDevice& device : reply.devices) {
    changes.devices.push_back({device.path, device.major, device.minor});
  }
  AddDriverFiles(files, spec, changes);
  for (const auto& [name, value] : VariablesOf(reply.environment)) {
    changes.environment.emplace_back(name, value);
  }
  CGPU_ASSIGN_OR_RETURN(auto hook, HookFor(reply, own));
  changes.hooks.push_back(std::move(hook));
  changes.start_hooks.push_back({kProver, {"cgpu-runtime", "prove", reply.id}});
  // A program that reads the configuration later gives the container nothing more.
  changes.environment.emplace_back("NVIDIA_VISIBLE_DEVICES", "void");
  return changes;
}

Result<> GiveSlice(const Settings& settings, const RuntimeCall& call, const ContainerSpec& spec,
                   Bundle& bundle) {
  CGPU_TRY(CheckCanBeHeld(spec));
  // The profile comes first: nothing must be given back if it cannot be changed.
  CGPU_TRY(ProfileForSlice(spec.seccomp, {"/", "", false}));
  const std::vector<std::string> own = OwnFolders(settings);
  CGPU_TRY(CheckMounts(spec, call.bundle, own));
  CGPU_ASSIGN_OR_RETURN(const auto reply, AskForSlice(settings, call.id, spec));
  CGPU_ASSIGN_OR_RETURN(const auto files, ReadCdi(reply.cdi));
  for (const std::string& hook : files.left_out) {
    Log(call, "warning", "cgpu: the hook " + hook + " of a CDI specification is left out");
  }
  CGPU_ASSIGN_OR_RETURN(const auto changes, ChangesForSlice(spec, reply, files, own));
  const auto text = ChangeSpec(bundle.text(), changes);
  return text.ok() ? bundle.Replace(*text) : Result<>(text.error());
}

// Returns why the container gets whole GPUs, from cgpu or from a later program; "" if it does not.
std::string WholeGpus(const Settings& settings, const ContainerSpec& spec,
                      const std::map<std::string, std::string>& variables) {
  if (!spec.gpu_files.empty()) {
    return spec.gpu_files.front();
  }
  for (const SpecHook& hook : spec.hooks) {
    if (NvidiaHookOf(hook.path, hook.arguments) == NvidiaHook::kGpus) {
      return "the hook " + hook.path;
    }
  }
  const auto visible = variables.find("NVIDIA_VISIBLE_DEVICES");
  const bool nvidia_next = LastComponent(settings.runtime).starts_with("nvidia-container-runtime");
  return nvidia_next && visible != variables.end() && NamesGpus(visible->second)
             ? "NVIDIA_VISIBLE_DEVICES"
             : "";
}

// Puts the filter for containers without a slice on this process, and so on the runtime and the
// container. An ordinary user who may not do that gets none: a program of his on the host has none
// either.
Result<> KeepOffGpus() {
  auto done = InstallOthersFilter();
  const bool may_not = !done.ok() && done.error().code == Code::kPermission && geteuid() != 0;
  return may_not ? Result<>() : done;
}

// Refuses a profile that would hand a container without a slice to a shim. A shim knows its own
// container by a word; this says why.
Result<> CheckListener(const ContainerSpec& spec) {
  if (!spec.seccomp || spec.seccomp->listener_path.empty()) {
    return {};
  }
  std::error_code gone;
  const std::string path = fs::weakly_canonical(spec.seccomp->listener_path, gone);
  return !gone && !IsAtOrBelow(path, fs::weakly_canonical("/run/cgpu", gone).string())
             ? Result<>()
             : Error{Code::kPermission, 0,
                     "the container's seccomp profile names a listener of cgpu's, and it has no "
                     "slice of a GPU",
                     "leave listenerPath out"};
}

Result<> PrepareContainer(const Settings& settings, const RuntimeCall& call) {
  CGPU_ASSIGN_OR_RETURN(auto bundle, Bundle::Open(call.bundle, call.config));
  CGPU_ASSIGN_OR_RETURN(const auto spec, ParseSpec(bundle.text()));
  CGPU_TRY(CheckAnnotations(spec.annotations));
  const auto variables = VariablesOf(GrantVariables(spec.environment));
  CGPU_ASSIGN_OR_RETURN(const auto request, EnvGrant(variables));
  const bool of_pod = settings.kubernetes && IsOfPod(spec);
  if (of_pod || request.mode == EnvRequest::Mode::kManaged) {
    const auto given = GiveSlice(settings, call, spec, bundle);
    const bool has_no_part = !given.ok() && of_pod && given.error().code == Code::kNotFound;
    if (!has_no_part) {
      return given;
    }
  }
  CGPU_TRY(CheckListener(spec));
  const std::string whole = WholeGpus(settings, spec, variables);
  if (!whole.empty() && (settings.refuse_unmanaged || of_pod)) {
    return Error{Code::kPermission, 0,
                 "the container has " + whole +
                     " but no slice, and this node's GPUs are shared by slices only",
                 "say how much it may have, as CGPU_MEM=4GiB"};
  }
  CGPU_TRY(bundle.Replace(bundle.text()));
  return whole.empty() ? KeepOffGpus() : Result<>();
}

// Returns false also for root in another user namespace, as a rootless container engine is.
bool IsRootOfHost() {
  constexpr ino_t kInitial = 0xEFFFFFFD;  // PROC_USER_INIT_INO in Linux' include/linux/proc_ns.h
  struct stat st{};
  return geteuid() == 0 && stat("/proc/self/ns/user", &st) == 0 && st.st_ino == kInitial;
}

// Returns whether the caller's container with this id has a slice. `spec` is its configuration, if
// it could be read; what that says alone is only its user's word, and this host's registry knows.
// Another user may have a container of the same name, and so may the caller, elsewhere. An ordinary
// user cannot read that registry, so for him the word does.
Result<bool> HasSlice(const std::string& id, const Result<ContainerSpec>& spec) {
  const bool says =
      spec.ok() && spec->seccomp && spec->seccomp->listener_path.starts_with("/run/cgpu/");
  if (!IsRootOfHost() || (spec.ok() && !says)) {
    return says;
  }
  CGPU_ASSIGN_OR_RETURN(const auto registry, Registry::Open());
  CGPU_ASSIGN_OR_RETURN(const auto lock, registry.Lock());
  CGPU_ASSIGN_OR_RETURN(const auto recorded, registry.Recorded(lock));  // wakes no shim
  return std::ranges::any_of(recorded, [&](const Reservation& one) {
    return one.engine_id == id && one.user == 0 &&
           (!says || spec->seccomp->listener_path == registry.AgentPath(one.id));
  });
}

// Returns the configuration of a container that runs, with what was made of it at its start.
Result<ContainerSpec> SpecOfLive(const RuntimeCall& call) {
  CGPU_ASSIGN_OR_RETURN(const auto folder, BundleOf(call.root, call.id));
  CGPU_ASSIGN_OR_RETURN(const auto text, ReadFile(folder + "/config.json", kMaxSpec));
  return ParseSpec(text);
}

// Prepares a process that is added to a container. In a slice it gets the container's filter from
// the runtime, but capabilities of its own. In a container of which nothing is known it gets the
// filter of those without a slice.
Result<> PrepareProcess(const Settings& settings, const RuntimeCall& call) {
  const auto spec = SpecOfLive(call);
  if (!HasSlice(call.id, spec).value_or(false)) {
    const bool whole =
        spec.ok() &&
        !WholeGpus(settings, *spec, VariablesOf(GrantVariables(spec->environment))).empty();
    return whole ? Result<>() : KeepOffGpus();
  }
  ContainerSpec process;
  if (!call.process.empty()) {
    CGPU_ASSIGN_OR_RETURN(const auto text, ReadFile(call.process, kMaxSpec));
    CGPU_ASSIGN_OR_RETURN(process, ParseSpec("{\"process\":" + text + "}"));
  }
  process.capabilities.insert(call.capabilities.begin(), call.capabilities.end());
  const auto capability = CapabilityPastSlices(process);
  return !capability ? Result<>()
                     : Error{Code::kPermission, 0,
                             "a process with the capability " + *capability +
                                 " cannot be let into a container that is held to a slice of a GPU",
                             "leave --privileged or --cap out"};
}

// Returns why the runtime is not asked.
Error Refusal(const std::string& command) {
  if (command == "restore") {
    return Error{
        Code::kUnsupported, 0,
        "a container cannot be restored: no OCI runtime makes its filter anew, which holds "
        "it to its slice or keeps it off the GPUs",
        "start it anew, without a checkpoint"};
  }
  if (command == "mounts") {
    return Error{Code::kUnsupported, 0,
                 "the mounts of a container that runs cannot be changed: what it must not see was "
                 "looked for before",
                 "start it anew with the mounts that it is to have"};
  }
  return Error{
      Code::kUnsupported, 0,
      "the runtime's command " + command + " is not known to leave containers held as they are",
      "do without it, or use a version of cgpu that knows it"};
}

Result<> Prepare(const Settings& settings, const RuntimeCall& call) {
  switch (call.kind) {
    case RuntimeCall::Kind::kCreate:
      return PrepareContainer(settings, call);
    case RuntimeCall::Kind::kExec:
      return PrepareProcess(settings, call);
    case RuntimeCall::Kind::kRefused:
      return Refusal(call.command);
    case RuntimeCall::Kind::kOther:
      break;
  }
  return {};
}

void Report(const RuntimeCall& call, const Error& error) {
  const std::string text =
      "cgpu: " + error.what + (error.hint.empty() ? std::string() : " (" + error.hint + ")");
  (void)std::fprintf(stderr, "%s\n", text.c_str());
  Log(call, "error", text);
}

std::vector<std::string> WordsOf(char* const* list) {
  std::vector<std::string> words;
  while (list != nullptr && *list != nullptr) {
    words.emplace_back(*list++);
  }
  return words;
}

// Becomes the program. Never returns if it can be executed.
Error BecomeProgram(const std::string& program, const std::vector<std::string>& arguments) {
  std::vector<std::string> words{program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  execvp(program.c_str(), PointersTo(words).data());
  Error error = ErrnoError(Code::kNotFound, errno, "cannot execute the OCI runtime " + program);
  error.hint = "install it, or set `runtime` in " + std::string(kSettingsFile);
  return error;
}

// Does BecomeRuntime()'s work, with an environment that is safe for the runtime. Returns what went
// wrong; `call` is what was understood by then.
Error PrepareAndBecome(const WrapperOptions& options, RuntimeCall& call) {
  CGPU_ASSIGN_OR_RETURN(call, ParseArguments(options.arguments));
  CGPU_ASSIGN_OR_RETURN(const auto settings, ReadSettings(options.settings_file));
  CGPU_TRY(Prepare(settings, call));
  return BecomeProgram(settings.runtime, options.arguments);
}

}  // namespace

int BecomeRuntime(const WrapperOptions& options) {
  // This comes before anything of the container is read.
  const std::vector<std::string> environment = RuntimeEnvironment(WordsOf(environ));
  std::vector<char*> variables = PointersTo(environment);
  environ = variables.data();
  RuntimeCall call;
  const Error error = PrepareAndBecome(options, call);
  Report(call, error);
  environ = nullptr;
  return kFailure;
}

}  // namespace cgpu
