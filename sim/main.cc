// cgpu-sim: the server of one simulated node. Started by `cgpu sim start`, which holds the node's
// lock on descriptor 3 and waits on descriptor 4 for one line: {"result":{}} or {"error":{...}}.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "base/file.h"
#include "cli/command_line.h"
#include "rm/abi.h"
#include "sim/driver/driver.h"
#include "sim/fuse/gpu_link.h"
#include "sim/fuse/server.h"
#include "sim/gpu/engines.h"
#include "sim/node/control_server.h"
#include "sim/node/wire.h"
#include "version/version.h"

namespace cgpu::sim {
namespace {

constexpr int kLockFd = 3;
constexpr int kReadyFd = 4;

int FailStart(const Error& error) {
  std::fprintf(stderr, "%s\n", FormatError(error).c_str());
  (void)WriteAll(kReadyFd, ErrorReply(error) + "\n");
  return 1;
}

// A termination signal ends the node as `cgpu sim stop` does.
void StopOnSignal(ControlServer& control) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread([&control, signals] {
    int number = 0;
    sigwait(&signals, &number);
    control.Stop();
  }).detach();
}

void RaiseFileLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;  // a descriptor per memory object that was mapped
    (void)setrlimit(RLIMIT_NOFILE, &limit);
  }
}

int Serve(const std::string& name, const std::string& asked, const std::string& driver_text,
          const GpuOptions& options, const std::string& hang_rules, bool caps) {
  const Result<NodeDir> dir = NodeDir::Of(name);
  if (!dir.ok()) {
    return FailStart(dir.error());
  }
  Result<std::vector<Gpu>> gpus = ParseGpus(asked, name);
  if (!gpus.ok()) {
    return FailStart(gpus.error());
  }
  const Result<rm::DriverVersion> version = rm::SupportedVersion(driver_text);
  if (!version.ok()) {
    return FailStart(version.error());
  }
  if (const Result<> fits = CheckDriver(*gpus, *version); !fits.ok()) {
    return FailStart(fits.error());
  }
  const Result<HangRules> rules = ParseHangRules(hang_rules);
  if (!rules.ok()) {
    return FailStart(rules.error());
  }
  // None of these is destroyed: the process ends in ControlServer::Stop().
  const Result<GpuLink*> link = GpuLink::Start(options);
  if (!link.ok()) {
    return FailStart(link.error());
  }
  auto* driver = new Driver(std::move(gpus).value(), *version, *rm::FindAbi(*version));
  driver->SetHangRules(*rules);
  auto* files = new FuseServer(*driver, dir->Mount());
  files->SetEngines(*link);
  auto* control = new ControlServer(*driver, *files, **link, *dir);
  StopOnSignal(*control);
  Result<> done = files->Start();
  if (done.ok()) {
    done = WriteFile(dir->Description(), DescribeNode(*driver, *files, *dir, caps), 0644);
  }
  if (done.ok()) {
    done = MakeDirectories(dir->CdiFolder(), 0755);
  }
  if (done.ok()) {
    done = WriteFile(dir->CdiFile(), DescribeForCdi(*driver, *files, *dir), 0644);
  }
  if (done.ok()) {
    done = control->Listen();
  }
  if (!done.ok()) {
    files->Unmount();
    return FailStart(done.error());
  }
  (void)WriteAll(kReadyFd, ResultReply("{}") + "\n");
  close(kReadyFd);
  control->Run();
}

// Runs what GpuLink::Start() starts: cgpu-sim engine SWITCH-US PREEMPT-US COPY-GBPS SLICE-EFFECT
// DISABLE-EFFECT, the last two as numbers.
int RunEngines(char** argv) {
  GpuOptions options;
  options.context_switch_us = std::strtoull(argv[2], nullptr, 10);
  options.preempt_us = std::strtoull(argv[3], nullptr, 10);
  options.copy_gbps = std::strtoull(argv[4], nullptr, 10);
  options.slice_effect = static_cast<engine::SliceEffect>(std::strtoul(argv[5], nullptr, 10));
  options.disable_effect = static_cast<engine::DisableEffect>(std::strtoul(argv[6], nullptr, 10));
  RaiseFileLimit();
  void* const shared =
      mmap(nullptr, sizeof(wire::Shared), PROT_READ, MAP_SHARED, wire::kSharedFd, 0);
  if (shared == MAP_FAILED) {
    std::perror("cgpu-sim: mapping the memory that both processes share");
    return 1;
  }
  (new Engines(wire::kSocketFd, *static_cast<const wire::Shared*>(shared), options))->Run();
}

int Main(int argc, char** argv) {
  if (argc == 7 && std::string_view(argv[1]) == "engine") {
    return RunEngines(argv);
  }
  const cli::Program app("The server of one simulated NVIDIA node. Started by `cgpu sim start`.",
                         "cgpu-sim");
  std::string name;
  std::string gpus;
  std::string driver;
  app.SetVersion(VersionText("cgpu-sim"));
  app.AddOption("--name", name, "The node's name").Required();
  app.AddOption("--gpus", gpus, "Its GPUs, as `cgpu sim start` takes them").Required();
  app.AddOption("--driver", driver, "Its driver's version").Required();
  GpuOptions options;
  for (const auto& [option, value] : {std::pair("--context-switch-us", &options.context_switch_us),
                                      {"--preempt-us", &options.preempt_us},
                                      {"--copy-gbps", &options.copy_gbps}}) {
    app.AddOption(option, *value, "As `cgpu sim start` takes it");
  }
  std::string hang_rules = "all";
  app.AddOption("--hang-rules", hang_rules, "As `cgpu sim start` takes it");
  std::string slices;
  app.AddOption("--slices-take-effect", slices, "As `cgpu sim start` takes it").Required();
  std::string channels;
  app.AddOption("--channels-go-off", channels, "As `cgpu sim start` takes it").Required();
  bool no_caps = false;
  app.AddFlag("--no-caps", no_caps, "As `cgpu sim start` takes it");
  if (const auto status = app.ParseOrPrint(argc, argv)) {
    return *status;
  }
  if (fcntl(kLockFd, F_SETFD, FD_CLOEXEC) != 0 || fcntl(kReadyFd, F_SETFD, FD_CLOEXEC) != 0) {
    std::fprintf(stderr, "cgpu-sim is started by `cgpu sim start`\n");
    return 1;
  }
  signal(SIGPIPE, SIG_IGN);
  signal(SIGHUP, SIG_IGN);
  umask(0022);
  RaiseFileLimit();
  const auto slice_effect = ParseSliceEffect(slices);
  const auto disable_effect = ParseDisableEffect(channels);
  if (!slice_effect.ok() || !disable_effect.ok()) {
    return FailStart(slice_effect.ok() ? disable_effect.error() : slice_effect.error());
  }
  options.slice_effect = *slice_effect;
  options.disable_effect = *disable_effect;
  const bool caps = !no_caps && options.disable_effect == engine::DisableEffect::kAtOnce;
  return Serve(name, gpus, driver, options, hang_rules, caps);
}

}  // namespace
}  // namespace cgpu::sim

int main(int argc, char** argv) {
  return cgpu::sim::Main(argc, argv);
}
