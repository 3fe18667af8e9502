#include "run/run.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "host/capping.h"
#include "host/compute.h"
#include "host/container_events.h"
#include "host/event_ring.h"
#include "host/node.h"
#include "host/registry.h"
#include "host/reserve.h"
#include "host/shim_process.h"
#include "os/messages.h"
#include "protocol/creation.h"
#include "protocol/text.h"
#include "rm/abi.h"
#include "run/command.h"
#include "run/container.h"
#include "run/descriptors.h"
#include "run/machine.h"
#include "sandbox/tree_words.h"

namespace cgpu {
namespace {

// Time for which the end of a shim is waited for after its container's. While another container
// keeps files of this one, the shim goes on without this process.
constexpr int kShimEndMs = 3'000;
// Longest begin of a made-up name: more than a name can have.
constexpr std::size_t kMaxStem = 64;

// Returns the folders that a container must not reach: other nodes' files, the events, whose lock
// would hold cgpud up, and all admin sockets.
// `own`: the folder of the sockets that this container uses.
std::vector<std::string> HiddenFolders(const std::string& own) {
  std::vector<std::string> hidden{kSimulatedNodes, "/run/cgpu", kEventsFolder, own};
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/run/user", ignored)) {
    hidden.push_back(entry.path().string() + "/cgpu");
  }
  for (const auto& entry : std::filesystem::directory_iterator("/tmp", ignored)) {
    const std::string name = entry.path().filename().string();
    std::uint64_t uid = 0;
    if (name.starts_with("cgpu-") && ToNumber(std::string_view(name).substr(5), 10, ~0U, uid)) {
      hidden.push_back(entry.path().string());
    }
  }
  return hidden;
}

// The state of the calling process that a container needs or that changes for it.
struct Caller {
  std::vector<int> inherited;
  SignalState signals;
  UniqueFd signal_fd;
};

Result<Caller> PrepareCaller(std::vector<int> inherited) {
  Caller caller;
  caller.inherited = std::move(inherited);
  CGPU_ASSIGN_OR_RETURN(caller.signals, BlockSignals());
  CGPU_ASSIGN_OR_RETURN(caller.signal_fd, OpenSignals());
  return caller;
}

Result<std::string> WorkingDirectory() {
  std::error_code error;
  const auto path = std::filesystem::current_path(error);
  if (error) {
    return ErrnoError(Code::kUnavailable, error.value(), "the working directory has no path");
  }
  return path.string();
}

Result<InitOptions> InitOptionsFor(const RunOptions& options, const Caller& caller,
                                   const sandbox::FilterOptions& filter, GpuTree tree) {
  CGPU_ASSIGN_OR_RETURN(auto directory, WorkingDirectory());
  InitOptions init;
  init.tree = std::move(tree);
  init.tree.mask_machine = true;
  init.command = options.command;
  init.working_directory = directory;
  init.inherited = caller.inherited;
  init.signals = caller.signals;
  init.filter = filter;
  init.uid = geteuid();
  init.gid = getegid();
  return init;
}

// Runs the container from process 1 to its end, under a shim that is ready.
Result<int> RunUnder(ShimProcess& shim, const InitOptions& init, const Caller& caller) {
  CGPU_ASSIGN_OR_RETURN(auto container, Container::Start(init));
  CGPU_TRY(shim.Attach(container.TakeListener(), container.command_pid()));
  CGPU_TRY(container.Go());
  ReleaseInherited(caller.inherited);
  return container.Wait(caller.signal_fd.get(), shim.control());
}

// Opens the file of --record as the user and writes its first lines; invalid for an empty path.
Result<UniqueFd> OpenRecord(const std::string& path, const ShimConfig& config) {
  if (path.empty()) {
    return UniqueFd();
  }
  UniqueFd file(
      open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666));
  struct stat info{};
  if (!file.valid() || fstat(file.get(), &info) != 0) {
    Error error = ErrnoError(Code::kInvalid, errno, "cannot record in " + path);
    error.hint = "--record takes the name of a file that can be written";
    return error;
  }
  if (!S_ISREG(info.st_mode)) {
    return Error{Code::kInvalid, 0, path + " is no regular file", "--record takes a file's name"};
  }
  CGPU_TRY(WriteAll(file.get(),
                    "# driver " + config.driver + "\n# PROCESS FILE CALL SIZE STATUS ERRNO WHO\n"));
  return file;
}

Result<int> RunReserved(Reserved& reserved, const Registry& registry, const Node& node,
                        const RunOptions& options, const Caller& caller,
                        const sandbox::FilterOptions& filter) {
  const Giveback at_its_end(registry, reserved.reservation.id);
  CGPU_ASSIGN_OR_RETURN(const auto init, InitOptionsFor(options, caller, filter,
                                                        TreeFor(node, reserved.grant,
                                                                HiddenFolders(registry.folder()))));
  ShimConfig config = ConfigFor(reserved.reservation, node, reserved.grant);
  config.killable = filter.killable_wait;
  config.firmware = options.firmware;
  CGPU_ASSIGN_OR_RETURN(auto record, OpenRecord(options.record, config));
  ShimDescriptors descriptors;
  descriptors.admin = std::move(reserved.admin);
  descriptors.record = std::move(record);
  CGPU_ASSIGN_OR_RETURN(
      auto shim, ShimProcess::Start(config, std::move(descriptors), reserved.reservation.shim_uid));
  NoteEvent(events::kStarted, StartedFields(reserved.reservation));
  OfferLibraries(node.libraries);
  auto status = RunUnder(shim, init, caller);
  // Until the shim has ended, the container's memory and grant are not free for the next one.
  (void)shim.WaitForEnd(kShimEndMs);
  EventFields ended = NamesOf(reserved.reservation);
  ended["why"] = status.ok() ? "its command ended with status " + std::to_string(*status)
                             : status.error().what;
  NoteEvent(events::kEnded, std::move(ended));
  return status;
}

// Tells if no daemon holds the shares. The container runs all the same, as one does whose daemon is
// away for a while.
void TellIfNobodyGoverns(const RunOptions& options) {
  if (options.request.compute == ComputeRequest{}) {
    return;
  }
  if (geteuid() != 0) {
    (void)std::fputs("cgpu: a slice --alone has a limit of memory and no share of compute time\n",
                     stderr);
  } else {
    TellIfNobodyHoldsShares(options.daemon);
  }
}

// Keeps the event, for root: cgpud knows nothing of this container.
void NoteRefusal(const RunOptions& options, const Error& error) {
  EventFields fields{{"who", "a command of root"}, {"why", error.what}};
  if (!error.hint.empty()) {
    fields["hint"] = error.hint;
  }
  if (!options.request.name.empty()) {
    fields["name"] = options.request.name;
  }
  NoteEvent(events::kStartRefused, std::move(fields));
}

Result<int> RunByItself(const RunOptions& options, const Caller& caller,
                        const sandbox::FilterOptions& filter) {
  CGPU_ASSIGN_OR_RETURN(const auto node, FindNode(options.node));
  if (options.node.empty() && !node.name.empty()) {
    std::fprintf(stderr, "cgpu: no NVIDIA driver was found; using the simulated node \"%s\"\n",
                 node.name.c_str());
  }
  if (const std::string notice = rm::NotCompared(node.driver); !notice.empty()) {
    std::fprintf(stderr, "cgpu: %s\n", notice.c_str());
  }
  CGPU_ASSIGN_OR_RETURN(const auto registry, Registry::Open());
  TellIfNobodyGoverns(options);
  TellIfNoCap(node, options.request.compute);
  auto reserved = Reserve(registry, node, options.request);
  if (!reserved.ok()) {
    NoteRefusal(options, reserved.error());
    return reserved.error();
  }
  return RunReserved(*reserved, registry, node, options, caller, filter);
}

Result<CreationReply> AskForSlice(const RunOptions& options, bool killable) {
  if (!options.record.empty()) {
    return Error{Code::kUnsupported, 0, "--record does not work in a slice that cgpud gives",
                 "run it with sudo, or add --alone"};
  }
  CreationRequest request;
  CommandRequest& command = request.command.emplace();
  command.name = options.request.name;
  command.stem = options.request.stem.substr(0, kMaxStem);
  command.node = options.node;
  command.killable = killable;
  command.flags = options.flags;
  request.environment = options.flags.environment;
  const auto daemon = ConnectToDaemon(options.daemon);
  if (!daemon.ok()) {
    Error error = daemon.error();
    if (error.code == Code::kPermission) {
      return NotAMember(options.group);
    }
    error.what = "an ordinary user's slice comes from cgpud, which does not run: " + error.what;
    error.hint = "start it: systemctl start cgpud; or see --alone in `cgpu run --help`";
    return error;
  }
  return AskDaemon(*daemon, request);
}

// Runs a container whose shim cgpud has started: what is left to do needs only the user's own
// rights.
Result<int> RunByDaemon(const RunOptions& options, const Caller& caller,
                        const sandbox::FilterOptions& filter) {
  CGPU_ASSIGN_OR_RETURN(const auto reply, AskForSlice(options, filter.killable_wait));
  CGPU_ASSIGN_OR_RETURN(auto tree, TreeFromWords(reply.tree));
  tree.hide = HiddenFolders(options.daemon.substr(0, options.daemon.rfind('/')));
  CGPU_ASSIGN_OR_RETURN(const auto init, InitOptionsFor(options, caller, filter, std::move(tree)));
  CGPU_ASSIGN_OR_RETURN(auto container, Container::Start(init));
  // As an OCI runtime does it (shim/agent.h); kept, since it hangs up when the shim ends.
  CGPU_ASSIGN_OR_RETURN(const auto shim, ConnectToAgent(reply.listener));
  CGPU_TRY(SendMessage(shim.get(),
                       "{\"pid\":" + std::to_string(container.command_pid()) + ",\"metadata\":\"" +
                           reply.word + "\"}",
                       container.TakeListener().get()));
  CGPU_TRY(container.Go());
  ReleaseInherited(caller.inherited);
  auto status = container.Wait(caller.signal_fd.get(), shim.get());
  pollfd ended{shim.get(), 0, 0};  // POLLHUP is always reported
  (void)TEMP_FAILURE_RETRY(poll(&ended, 1, kShimEndMs));
  return status;
}

}  // namespace

Result<int> RunContainer(const RunOptions& options) {
  CGPU_ASSIGN_OR_RETURN(auto inherited, TakeInheritedDescriptors());
  CGPU_ASSIGN_OR_RETURN(const auto filter, CheckMachine());
  CGPU_ASSIGN_OR_RETURN(const auto caller, PrepareCaller(std::move(inherited)));
  return geteuid() == 0 || options.alone ? RunByItself(options, caller, filter)
                                         : RunByDaemon(options, caller, filter);
}

}  // namespace cgpu
