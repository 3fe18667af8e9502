// cgpu top: shows repeatedly which part of the GPUs' compute time each container is given, and
// which it gets.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "apps/cgpu/commands.h"
#include "base/result.h"
#include "cgpud/measure.h"
#include "cgpud/plan_gpus.h"
#include "cli/command_line.h"
#include "cli/text_table.h"
#include "host/admin.h"
#include "host/engine_names.h"
#include "runtime/settings.h"

namespace cgpu {
namespace {

constexpr double kPercent = 100;
constexpr std::uint64_t kMib = std::uint64_t{1} << 20;

struct Flags {
  std::string node;
  double seconds = 1;
  unsigned count = 0;  // 0: until it is ended
  bool json = false;
};

// Parts of the GPU's time, 0 to 1; an unknown one is empty.
struct Line {
  std::string id;
  std::string name;
  double share = 0;
  std::optional<double> used;
  std::optional<double> waiting;
  double off = 0;
  GpuStatus memory;
};

struct GpuLines {
  std::string uuid;
  unsigned index = 0;
  governor::Policy policy = governor::Policy::kPreempt;
  bool caps = false;  // percentages are caps
  std::optional<double> busy;
  std::uint64_t from_ns = 0;  // of the GPU's clock: what was measured
  std::uint64_t to_ns = 0;
  std::vector<Line> lines;
};

// Returns the part of the time for which the clock keeps a container off the GPU.
double OffPart(const governor::Duty& duty) {
  return duty.period_us == 0 ? 0 : 1 - static_cast<double>(duty.on_us) / duty.period_us;
}

class Top {
 public:
  Top(const Registry& registry, const Flags& flags, unsigned max_inst)
      : registry_(registry),
        max_inst_(max_inst),
        node_(flags.node),
        measuring_(flags.node, Measuring::What::kUse) {}

  // Begins to measure the GPUs that have containers, and measures for so long.
  Result<> Measure(std::chrono::duration<double> time) {
    const auto until = std::chrono::steady_clock::now() +
                       std::chrono::duration_cast<std::chrono::nanoseconds>(time);
    means_ = MeansOfNode(node_);
    CGPU_ASSIGN_OR_RETURN(plans_, PlanGpus(registry_, max_inst_, means_));
    std::set<std::string> uuids;
    std::map<std::string, std::uint64_t> least_ns;
    for (const auto& [uuid, plan] : plans_) {
      uuids.insert(uuid);
      least_ns[uuid] = 0;
    }
    for (const std::string& line : measuring_.Watch(uuids)) {
      std::fprintf(stderr, "cgpu: %s\n", line.c_str());
    }
    for (;;) {
      const auto now = std::chrono::steady_clock::now();
      (void)measuring_.Read(least_ns);
      if (now >= until) {
        return {};
      }
      std::this_thread::sleep_for(
          std::min<std::chrono::nanoseconds>(until - now, measuring_.Rest()));
    }
  }

  // Returns what was measured since the last time.
  Result<std::vector<GpuLines>> Look() {
    CGPU_ASSIGN_OR_RETURN(auto containers, ListContainers(registry_));
    CGPU_ASSIGN_OR_RETURN(const auto live, registry_.Live());
    TakeNames(WithEngineNames(live), containers);
    auto uses = measuring_.Used();
    std::vector<GpuLines> gpus;
    for (const auto& [uuid, plan] : plans_) {
      Measuring::Use& use = uses[uuid];
      if (use.engine) {
        use.engine = Latest(uuid, std::move(*use.engine));
      }
      gpus.push_back(Of(uuid, means_, plan, containers, use));
    }
    std::ranges::sort(gpus, {}, &GpuLines::index);
    return gpus;
  }

 private:
  // Returns the use, or that of the last time where no sample came since then: they come seven
  // times a second, and not while nothing runs.
  governor::UseCounter::Use Latest(const std::string& uuid, governor::UseCounter::Use use) {
    constexpr std::chrono::seconds kStale{1};
    auto& [time, last] = latest_[uuid];
    const auto now = std::chrono::steady_clock::now();
    if (use.span_ns != 0 || now > time + kStale) {
      time = now;
      last = std::move(use);
    }
    return last;
  }

  static GpuLines Of(const std::string& uuid, const Means& means, const PlannedGpu& plan,
                     const std::vector<ContainerStatus>& containers,
                     const Measuring::Use& measured) {
    GpuLines gpu;
    gpu.uuid = uuid;
    gpu.policy = plan.policy;
    gpu.caps = MeansIn(means, uuid).capping != governor::Capping::kNone;
    const double span_ns = measured.engine ? static_cast<double>(measured.engine->span_ns) : 0;
    if (measured.engine) {
      gpu.busy = Part(static_cast<double>(measured.engine->busy_ns), span_ns);
      gpu.to_ns = measured.engine->end_ns;
      gpu.from_ns = gpu.to_ns - measured.engine->span_ns;
    }
    for (const PlannedMember& member : plan.members) {
      const auto status =
          std::ranges::find_if(containers, [&](const auto& one) { return one.id == member.id; });
      if (status == containers.end()) {
        continue;
      }
      Line line;
      line.id = member.id;
      line.name = status->name;
      line.share = member.promised;
      line.off = OffPart(member.order.duty);
      for (const GpuStatus& memory : status->gpus) {
        if (memory.uuid == uuid) {
          line.memory = memory;
          gpu.index = memory.host_index;
        }
      }
      // All of a container's clients are its shim's for the driver.
      if (measured.engine && status->shim != 0) {
        line.used =
            Part(static_cast<double>(ValueOf(measured.engine->used_ns, status->shim)), span_ns);
        line.waiting = Part(ValueOf(measured.waiting_ns, status->shim), measured.switches_ns);
      }
      gpu.lines.push_back(std::move(line));
    }
    return gpu;
  }

  template <class T>
  static T ValueOf(const std::map<std::uint32_t, T>& by_pid, std::uint32_t pid) {
    const auto one = by_pid.find(pid);
    return one == by_pid.end() ? T{} : one->second;
  }

  // The driver takes no samples and lists no switches while nothing runs.
  static double Part(double ns, double span_ns) { return span_ns > 0 ? ns / span_ns : 0; }

  const Registry& registry_;
  const unsigned max_inst_;
  const std::string node_;
  Means means_;
  Measuring measuring_;
  std::map<std::string, PlannedGpu> plans_;
  std::map<std::string, std::pair<std::chrono::steady_clock::time_point, governor::UseCounter::Use>>
      latest_;
};

std::string Text(std::optional<double> part) {
  char text[32] = "-";
  if (part) {
    std::snprintf(text, sizeof(text), "%.1f %%", *part * kPercent);
  }
  return text;
}

void PrintTable(const std::vector<GpuLines>& gpus) {
  if (gpus.empty()) {
    std::puts("no containers");
  }
  for (const GpuLines& gpu : gpus) {
    std::printf("GPU %u: %s, busy %s%s\n", gpu.index, std::string(NameOf(gpu.policy)).c_str(),
                Text(gpu.busy).c_str(), gpu.caps ? "" : "; shares, no caps");
    cli::TextTable table{{{"NAME", "SHARE", "USED", "WAITING", "THROTTLED", "MEMORY USED / LIMIT"}},
                         0,
                         {1, 2, 3, 4, 5}};
    for (const Line& line : gpu.lines) {
      table.rows.push_back({line.name, Text(line.share), Text(line.used), Text(line.waiting),
                            Text(line.off),
                            std::to_string(line.memory.used_bytes / kMib) + " / " +
                                std::to_string(line.memory.limit_bytes / kMib) + " MiB"});
    }
    std::fputs(table.Text(cli::TerminalWidth()).c_str(), stdout);
    std::puts("");
  }
  std::fflush(stdout);
}

nlohmann::ordered_json Json(std::optional<double> part) {
  return part ? nlohmann::ordered_json(*part * kPercent) : nlohmann::ordered_json();
}

// Prints one line each time.
void PrintJson(const std::vector<GpuLines>& gpus) {
  auto all = nlohmann::ordered_json::array();
  for (const GpuLines& gpu : gpus) {
    auto containers = nlohmann::ordered_json::array();
    for (const Line& line : gpu.lines) {
      containers.push_back({{"id", line.id},
                            {"name", line.name},
                            {"share_percent", line.share * kPercent},
                            {"used_percent", Json(line.used)},
                            {"waiting_percent", Json(line.waiting)},
                            {"throttled_percent", line.off * kPercent},
                            {"used_bytes", line.memory.used_bytes},
                            {"limit_bytes", line.memory.limit_bytes}});
    }
    all.push_back({{"index", gpu.index},
                   {"uuid", gpu.uuid},
                   {"policy", NameOf(gpu.policy)},
                   {"caps", gpu.caps},
                   {"busy_percent", Json(gpu.busy)},
                   {"from_ns", gpu.from_ns},
                   {"to_ns", gpu.to_ns},
                   {"containers", std::move(containers)}});
  }
  std::puts(all.dump().c_str());
  std::fflush(stdout);
}

Result<int> Run(Flags flags) {
  if (geteuid() != 0) {
    return Error{Code::kPermission, 0, "only root may see what all containers get of a GPU",
                 "run it with sudo"};
  }
  CGPU_ASSIGN_OR_RETURN(const auto settings, ReadSettings(kSettingsFile));
  if (flags.node.empty()) {
    flags.node = settings.node;
  }
  CGPU_ASSIGN_OR_RETURN(const auto registry, Registry::Open());
  Top top(registry, flags, settings.max_inst);
  const bool clear = !flags.json && flags.count != 1 && isatty(STDOUT_FILENO) == 1;
  for (unsigned shown = 0; flags.count == 0 || shown < flags.count; ++shown) {
    constexpr double kFirst = 0.7;  // seconds until the first samples are counted
    CGPU_TRY(top.Measure(std::chrono::duration<double>(shown == 0 ? std::max(kFirst, flags.seconds)
                                                                  : flags.seconds)));
    CGPU_ASSIGN_OR_RETURN(const auto gpus, top.Look());
    if (clear) {
      std::fputs("\033[H\033[2J", stdout);
    }
    flags.json ? PrintJson(gpus) : PrintTable(gpus);
  }
  return 0;
}

}  // namespace

void AddTop(const cli::Command& app, int& status) {
  auto flags = std::make_shared<Flags>();
  const cli::Command command = app.AddCommand(
      "top",
      "Show, again and again, what each container is given of the GPUs' compute time, what it "
      "used, for how long others had the GPU while it came back for more (waiting), and for how "
      "long the clock keeps it off (throttled); root");
  command.AddOption("-d,--delay", flags->seconds, "Seconds between two tables")
      .Between(0.1, 3600.0);
  command.AddOption("-n,--count", flags->count, "So many tables; without, until it is ended");
  command.AddFlag("--json", flags->json, "As JSON, a line each time");
  command.AddOption("--node", flags->node, "A simulated node instead of the driver").Value("NODE");
  OnParsed(command, status, [flags] { return Run(*flags); });
}

}  // namespace cgpu
