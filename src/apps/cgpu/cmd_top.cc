// cgpu top: shows repeatedly which part of the GPUs' compute time each container is given, and
// which it gets.
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
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
#include "cgpud/plan_cards.h"
#include "cli/command_line.h"
#include "host/admin.h"
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
  CardStatus memory;
};

struct CardLines {
  std::string uuid;
  unsigned index = 0;
  governor::Policy policy = governor::Policy::kPreempt;
  std::optional<double> busy;
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
        suspendable_(SuspendableCards(flags.node)),
        measuring_(flags.node) {}

  // Returns what happened since the last look.
  Result<std::vector<CardLines>> Look() {
    CGPU_ASSIGN_OR_RETURN(const auto plans, PlanCards(registry_, max_inst_, suspendable_));
    CGPU_ASSIGN_OR_RETURN(const auto containers, ListContainers(registry_));
    std::set<std::string> uuids;
    std::map<std::string, std::uint64_t> least_ns;
    for (const auto& [uuid, plan] : plans) {
      uuids.insert(uuid);
      least_ns[uuid] = 0;
    }
    for (const std::string& line : measuring_.Watch(uuids)) {
      std::fprintf(stderr, "cgpu: %s\n", line.c_str());
    }
    const auto uses = measuring_.Read(least_ns);
    std::vector<CardLines> cards;
    for (const auto& [uuid, plan] : plans) {
      const auto use = uses.find(uuid);
      cards.push_back(Of(uuid, plan, containers, use == uses.end() ? nullptr : &use->second));
    }
    std::ranges::sort(cards, {}, &CardLines::index);
    return cards;
  }

 private:
  CardLines Of(const std::string& uuid, const PlannedCard& plan,
               const std::vector<ContainerStatus>& containers, const governor::Meter::Use* use) {
    CardLines card;
    card.uuid = uuid;
    card.policy = plan.policy;
    const auto sample = measuring_.Busy(uuid);
    if (sample) {  // there is no newer one: nothing has run
      card.busy = std::exchange(seen_[uuid], sample->time) == sample->time ? 0 : sample->busy;
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
      for (const CardStatus& memory : status->cards) {
        if (memory.uuid == uuid) {
          line.memory = memory;
          card.index = memory.host_index;
        }
      }
      Measured(status->shim, use, card.busy, sample ? sample->pid : 0, line);
      card.lines.push_back(std::move(line));
    }
    return card;
  }

  // Fills in measured times. For the driver all of a container's clients are its shim's. Where the
  // GPU changed hands, it is known who had it. The time that it was idle in one container's hands
  // is divided among all.
  static void Measured(unsigned shim, const governor::Meter::Use* use, std::optional<double> busy,
                       std::uint32_t last, Line& line) {
    if (shim == 0) {
      return;
    }
    if (use == nullptr) {
      if (busy) {
        line.used = *busy > 0 && last == shim ? *busy : 0;
        line.waiting = 0;
      }
      return;
    }
    const auto part = use->parts.find(shim);
    const auto mine = part == use->parts.end() ? governor::Meter::Part{} : part->second;
    line.used = busy ? std::min(mine.on, mine.on * *busy / SumOf(*use)) : mine.on;
    line.waiting = mine.between;
  }

  static double SumOf(const governor::Meter::Use& use) {
    double sum = 0;
    for (const auto& [pid, part] : use.parts) {
      sum += part.on;
    }
    return std::max(sum, 0.01);
  }

  const Registry& registry_;
  const unsigned max_inst_;
  const std::set<std::string> suspendable_;
  Measuring measuring_;
  std::map<std::string, std::uint64_t> seen_;  // the time of the newest sample
};

std::string Text(std::optional<double> part) {
  char text[32] = "-";
  if (part) {
    std::snprintf(text, sizeof(text), "%.1f %%", *part * kPercent);
  }
  return text;
}

void PrintTable(const std::vector<CardLines>& cards) {
  if (cards.empty()) {
    std::puts("no containers");
  }
  for (const CardLines& card : cards) {
    std::printf("GPU %u: %s, busy %s\n", card.index, std::string(NameOf(card.policy)).c_str(),
                Text(card.busy).c_str());
    std::printf("%-14s %-20s %8s %8s %8s %10s   %s\n", "CONTAINER ID", "NAME", "SHARE", "USED",
                "WAITING", "THROTTLED", "MEMORY USED / LIMIT");
    for (const Line& line : card.lines) {
      std::printf("%-14s %-20s %8s %8s %8s %10s   %" PRIu64 "MiB / %" PRIu64 "MiB\n",
                  line.id.c_str(), line.name.c_str(), Text(line.share).c_str(),
                  Text(line.used).c_str(), Text(line.waiting).c_str(), Text(line.off).c_str(),
                  line.memory.used_bytes / kMib, line.memory.limit_bytes / kMib);
    }
    std::puts("");
  }
  std::fflush(stdout);
}

nlohmann::ordered_json Json(std::optional<double> part) {
  return part ? nlohmann::ordered_json(*part * kPercent) : nlohmann::ordered_json();
}

// Prints one line each time.
void PrintJson(const std::vector<CardLines>& cards) {
  auto all = nlohmann::ordered_json::array();
  for (const CardLines& card : cards) {
    auto containers = nlohmann::ordered_json::array();
    for (const Line& line : card.lines) {
      containers.push_back({{"id", line.id},
                            {"name", line.name},
                            {"share_percent", line.share * kPercent},
                            {"used_percent", Json(line.used)},
                            {"waiting_percent", Json(line.waiting)},
                            {"throttled_percent", line.off * kPercent},
                            {"used_bytes", line.memory.used_bytes},
                            {"limit_bytes", line.memory.limit_bytes}});
    }
    all.push_back({{"index", card.index},
                   {"uuid", card.uuid},
                   {"policy", NameOf(card.policy)},
                   {"busy_percent", Json(card.busy)},
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
  CGPU_TRY(top.Look());  // measuring starts here
  const bool clear = !flags.json && flags.count != 1 && isatty(STDOUT_FILENO) == 1;
  for (unsigned shown = 0; flags.count == 0 || shown < flags.count; ++shown) {
    std::this_thread::sleep_for(std::chrono::duration<double>(flags.seconds));
    CGPU_ASSIGN_OR_RETURN(const auto cards, top.Look());
    if (clear) {
      std::fputs("\033[H\033[2J", stdout);
    }
    flags.json ? PrintJson(cards) : PrintTable(cards);
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
  command.AddOption("--node", flags->node, "A simulated node instead of the driver");
  OnParsed(command, status, [flags] { return Run(*flags); });
}

}  // namespace cgpu
