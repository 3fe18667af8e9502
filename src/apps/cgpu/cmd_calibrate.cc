// cgpu calibrate: asks GPUs how they take orders, and keeps what they show.
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "apps/cgpu/commands.h"
#include "base/result.h"
#include "base/rfc3339.h"
#include "calibration/calibrate.h"
#include "calibration/record.h"
#include "cli/command_line.h"
#include "host/node.h"
#include "host/registry.h"
#include "host/unmanaged.h"
#include "rmclient/gpus.h"
#include "runtime/settings.h"

namespace cgpu {
namespace {

struct Flags {
  std::string gpu;
  bool again = false;
  std::uint64_t interruptions = CalibrationOptions{}.interruptions;
  bool json = false;
  std::string node;
};

// Programs that have the files of GPUs open and give them no work: the simulated GPU itself, cgpu's
// own, NVIDIA's monitors.
constexpr std::string_view kHarmless[] = {
    "cgpu-sim",      "cgpud",         "cgpu-exporter", "cgpu-device-plugin", "nvidia-persistenced",
    "nv-hostengine", "dcgm-exporter", "nvidia-smi"};

bool IsHarmless(unsigned pid) {
  std::error_code error;
  const auto program =
      std::filesystem::read_symlink("/proc/" + std::to_string(pid) + "/exe", error);
  return std::ranges::find(kHarmless, program.filename().string()) != std::end(kHarmless);
}

// Returns why the GPU may not be asked now: somebody else's work would spoil the answers.
Result<> CheckIdle(const Registry& registry, const Node& node, const Gpu& gpu) {
  const std::string what = "GPU " + std::to_string(gpu.index) + " is in use: ";
  const char* const hint = "try again when nobody uses it";
  CGPU_ASSIGN_OR_RETURN(const auto live, registry.Live());
  for (const Reservation& reservation : live) {
    for (const GpuGrant& grant : reservation.gpus) {
      if (grant.gpu.uuid == gpu.uuid) {
        return Error{Code::kConflict, 0, what + "container " + reservation.id, hint};
      }
    }
  }
  CGPU_ASSIGN_OR_RETURN(const auto others, ListUnmanaged(registry, node));
  const std::string file = "nvidia" + std::to_string(gpu.minor);
  for (const UnmanagedProcess& other : others) {
    if (other.user == 0 && IsHarmless(other.pid)) {
      continue;
    }
    for (const std::string& name : other.files) {
      if (name == file) {
        return Error{Code::kConflict, 0,
                     what + "process " + std::to_string(other.pid) + " (" + other.command + ")",
                     hint};
      }
    }
  }
  return {};
}

Result<CardRecord> Ask(const Node& node, const Gpu& gpu, std::uint64_t interruptions) {
  CGPU_ASSIGN_OR_RETURN(auto session, rmclient::OpenSession(PathsOf(node), gpu.minor));
  CalibrationOptions options;
  options.interruptions = interruptions;
  options.progress = [&gpu](const std::string& line) {
    std::fprintf(stderr, "GPU %u: %s\n", gpu.index, line.c_str());
  };
  CGPU_ASSIGN_OR_RETURN(auto calibration, Calibrate(session, options));
  return CardRecord{gpu.uuid, gpu.model, node.driver,
                    Rfc3339(static_cast<std::uint64_t>(std::time(nullptr))),
                    std::move(calibration)};
}

void Print(const Gpu& gpu, const CardRecord& record) {
  const governor::Card& card = record.calibration.card;
  std::printf("GPU %u, %s, driver %s, asked %s\n", gpu.index, record.model.c_str(),
              record.driver.c_str(), record.when.c_str());
  std::printf("  time slices take effect %s%s\n", Describe(card.slices).data(),
              card.slices_at_start ? "; those set before a program's start hold" : "");
  std::printf("  channels go off, and come back, %s\n", Describe(card.off).data());
  std::printf("  an idle channel group of cgpu's own %s\n",
              card.holds ? "keeps others off for its time slice" : "does not hold the GPU");
  std::printf("  interleave levels: %s; list of context switches: %s\n",
              card.levels ? "taken" : "refused", card.switches ? "there" : "missing");
  for (const auto& [name, value] : record.calibration.figures) {
    std::printf("  %10.1f  %s\n", value, name.c_str());
  }
}

Result<int> Run(const Flags& flags) {
  if (geteuid() != 0) {
    return Error{Code::kPermission, 0, "only root may ask a GPU how it takes orders",
                 "run it with sudo"};
  }
  CGPU_ASSIGN_OR_RETURN(const auto settings, ReadSettings(kSettingsFile));
  CGPU_ASSIGN_OR_RETURN(const auto node, FindNode(flags.node.empty() ? settings.node : flags.node));
  GpuRequest request;
  if (!flags.gpu.empty()) {
    request.kind = GpuRequest::Kind::kDevices;
    request.devices = {flags.gpu};
  }
  CGPU_ASSIGN_OR_RETURN(const auto gpus, SelectGpus(request, node.gpus));
  CGPU_ASSIGN_OR_RETURN(const auto registry, Registry::Open());
  for (const Gpu& gpu : gpus) {
    CGPU_ASSIGN_OR_RETURN(auto record, ReadCard(CardsOf(node), gpu.uuid, node.driver));
    if (!record || flags.again || record->calibration.card.slices == governor::Effect::kUnknown) {
      CGPU_TRY(CheckIdle(registry, node, gpu));
      CGPU_ASSIGN_OR_RETURN(record, Ask(node, gpu, flags.interruptions));
      CGPU_TRY(CheckIdle(registry, node, gpu));  // who came meanwhile has spoilt the answers
      CGPU_TRY(WriteCard(CardsOf(node), *record));
    }
    if (flags.json) {
      std::fputs(EncodeCard(*record).c_str(), stdout);
    } else {
      Print(gpu, *record);
    }
  }
  return 0;
}

}  // namespace

void AddCalibrate(const cli::Command& app, int& status) {
  auto flags = std::make_shared<Flags>();
  const cli::Command command = app.AddCommand(
      "calibrate", "Ask an idle GPU how it takes orders, in less than a minute; root");
  command.AddOption("GPU", flags->gpu, "Its index, or UUID (default: all)");
  command.AddFlag("--again", flags->again, "Also if it was asked before, with this driver");
  command
      .AddOption("--interruptions", flags->interruptions,
                 "Take work off and bring it back so often, or as often as 30 s allow")
      .Between(std::uint64_t{1}, std::uint64_t{1'000'000})
      .ShowDefault();
  command.AddFlag("--json", flags->json, "As JSON, one object for each GPU");
  command.AddOption("--node", flags->node, "A simulated node instead of the driver").Value("NODE");
  OnParsed(command, status, [flags] { return Run(*flags); });
}

}  // namespace cgpu
