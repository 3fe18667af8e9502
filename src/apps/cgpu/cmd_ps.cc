// cgpu ps: lists the running containers.
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "apps/cgpu/commands.h"
#include "base/printable.h"
#include "base/rfc3339.h"
#include "cli/command_line.h"
#include "cli/text_table.h"
#include "host/admin.h"
#include "host/engine_names.h"
#include "host/node.h"
#include "host/unmanaged.h"
#include "rm/abi.h"

namespace cgpu {
namespace {

constexpr std::uint64_t kMib = std::uint64_t{1} << 20;

// Returns the name from /etc/passwd, because a statically linked program has no other name service;
// without a name, the uid.
std::string UserName(unsigned uid) {
  std::ifstream passwd("/etc/passwd");
  for (std::string line; std::getline(passwd, line);) {
    const std::size_t name = line.find(':');
    const std::size_t password = name == std::string::npos ? name : line.find(':', name + 1);
    const std::string field = ":" + std::to_string(uid) + ":";
    if (password != std::string::npos && line.compare(password, field.size(), field) == 0) {
      return line.substr(0, name);
    }
  }
  return std::to_string(uid);
}

std::string Age(std::uint64_t since) {
  const auto now = static_cast<std::uint64_t>(std::time(nullptr));
  const std::uint64_t seconds = now - std::min(now, since);
  if (seconds < 120) {
    return std::to_string(seconds) + "s";
  }
  if (seconds < 2 * 3600) {
    return std::to_string(seconds / 60) + "m";
  }
  if (seconds < 48 * 3600) {
    return std::to_string(seconds / 3600) + "h";
  }
  return std::to_string(seconds / (24 * 3600)) + "d";
}

// Returns the request as JSON.
nlohmann::ordered_json ComputeJson(const ComputeRequest& compute) {
  auto json = nlohmann::ordered_json::object();
  for (const auto& [name, value] : {std::pair{"percent", compute.percent},
                                    {"max_percent", compute.max_percent},
                                    {"weight", compute.weight}}) {
    if (value) {
      json[name] = *value;
    }
  }
  if (compute.high_priority) {
    json["priority"] = "high";
  }
  return json;
}

// Returns the processes, or null if the shim does not name them.
nlohmann::ordered_json ProcessesJson(const std::optional<std::vector<ProcessMemory>>& processes) {
  if (!processes) {
    return nullptr;
  }
  auto list = nlohmann::ordered_json::array();
  for (const ProcessMemory& process : *processes) {
    list.push_back({{"pid", process.pid}, {"bytes", process.bytes}});
  }
  return list;
}

// Returns the compute time that a container asked for, in few letters.
std::string ShortCompute(const ComputeRequest& compute) {
  std::string text = compute.percent ? std::to_string(*compute.percent) : "";
  if (compute.max_percent) {
    text += "-" + std::to_string(*compute.max_percent);
  }
  text += text.empty() ? "" : "%";
  if (compute.weight) {
    text += (text.empty() ? "weight " : " weight ") + std::to_string(*compute.weight);
  }
  if (compute.high_priority) {
    text += text.empty() ? "high" : " high";
  }
  return text.empty() ? "equal" : text;
}

// Prints one line per GPU; a container's own values are in its first line only.
void PrintTable(const std::vector<ContainerStatus>& containers) {
  cli::TextTable table{
      {{"CONTAINER ID", "NAME", "STATE", "UP", "GPU", "USED / LIMIT", "COMPUTE", "DENIED"}},
      1,
      {5, 7}};
  for (const ContainerStatus& container : containers) {
    std::vector<std::string> row{container.id, container.name, container.state,
                                 Age(container.since)};
    for (const GpuStatus& gpu : container.gpus) {
      row.resize(4);
      row.push_back(std::to_string(gpu.host_index));
      row.push_back(std::to_string(gpu.used_bytes / kMib) + " / " +
                    std::to_string(gpu.limit_bytes / kMib) + " MiB");
      row.push_back(ShortCompute(container.compute));
      row.push_back(std::to_string(gpu.denied));
      table.rows.push_back(row);
      row.assign(4, "");
    }
  }
  std::fputs(table.Text(cli::TerminalWidth()).c_str(), stdout);
}

// Returns the container's refused driver calls, the most frequent first. If the answer is cut off
// or missing, returns what there is.
std::vector<std::pair<std::uint64_t, std::string>> Refused(const Registry& registry,
                                                           const std::string& id) {
  AdminRequest request;
  request.kind = AdminRequest::Kind::kRefused;
  std::vector<std::pair<std::uint64_t, std::string>> list;
  std::istringstream lines(registry.Ask(id, request).value_or(""));
  std::uint64_t count = 0;
  for (std::string what; lines >> count && std::getline(lines >> std::ws, what);) {
    list.emplace_back(count, what);
  }
  std::ranges::stable_sort(list, [](const auto& x, const auto& y) { return x.first > y.first; });
  return list;
}

void PrintDetails(const Registry& registry, const std::vector<ContainerStatus>& containers) {
  if (const auto node = FindNode({}); node.ok()) {
    if (const std::string notice = rm::NotCompared(node->driver); !notice.empty()) {
      std::printf("\n%s\n", notice.c_str());
    }
  }
  for (const ContainerStatus& container : containers) {
    std::printf("\n%s (%s): user %s, %s, grant from %s\n", container.name.c_str(),
                container.id.c_str(), UserName(container.user).c_str(),
                container.pid == 0 ? "no process yet"
                                   : ("process " + std::to_string(container.pid)).c_str(),
                container.origin.empty() ? "an earlier version" : container.origin.c_str());
    for (const GpuStatus& gpu : container.gpus) {
      std::printf("GPU %u of it is GPU %u of the host, %s\n", gpu.index, gpu.host_index,
                  gpu.uuid.c_str());
    }
    if (!container.isolated) {
      std::printf("It has whole GPUs: this node's containers share without limits.\n");
    }
    std::printf("Compute time: %s%s\n", SentenceOf(container.compute).c_str(),
                container.isolated ? "" : ", as it asked; it is held to nothing");
    const auto refused = Refused(registry, container.id);
    std::printf("Refused driver calls%s\n", refused.empty() ? ": none" : ":");
    for (const auto& [count, what] : refused) {
      std::printf("%8" PRIu64 "  %s\n", count, what.c_str());
    }
  }
}

Result<int> PsUnmanaged(const std::string& node_name, bool json) {
  CGPU_ASSIGN_OR_RETURN(const auto registry, Registry::Open());
  CGPU_ASSIGN_OR_RETURN(const auto node, FindNode(node_name));
  CGPU_ASSIGN_OR_RETURN(const auto processes, ListUnmanaged(registry, node));
  if (json) {
    auto list = nlohmann::ordered_json::array();
    for (const UnmanagedProcess& process : processes) {
      list.push_back({{"pid", process.pid},
                      {"user", UserName(process.user)},
                      {"command", Printable(process.command)},
                      {"files", process.files}});
    }
    std::puts(list.dump(2).c_str());
    return 0;
  }
  std::printf("%-10s %-12s %-16s %s\n", "PID", "USER", "COMMAND", "FILES OPEN");
  for (const UnmanagedProcess& process : processes) {
    std::string files;
    for (const std::string& name : process.files) {
      files += (files.empty() ? "" : " ") + name;
    }
    std::printf("%-10d %-12s %-16s %s\n", process.pid, UserName(process.user).c_str(),
                Printable(process.command).c_str(), files.c_str());
  }
  return 0;
}

Result<int> Ps(bool json, bool verbose) {
  CGPU_ASSIGN_OR_RETURN(const auto registry, Registry::Open());
  CGPU_ASSIGN_OR_RETURN(auto containers,
                        json ? ListWithProcesses(registry) : ListContainers(registry));
  CGPU_ASSIGN_OR_RETURN(const auto live, registry.Live());
  TakeNames(WithEngineNames(live), containers);
  if (json) {
    PrintJson(containers);
    return 0;
  }
  PrintTable(containers);
  if (verbose) {
    PrintDetails(registry, containers);
  }
  return 0;
}

}  // namespace

void PrintJson(const std::vector<ContainerStatus>& containers) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ContainerStatus& container : containers) {
    nlohmann::ordered_json gpus = nlohmann::ordered_json::array();
    for (const GpuStatus& gpu : container.gpus) {
      gpus.push_back({{"index", gpu.index},
                      {"uuid", gpu.uuid},
                      {"host_index", gpu.host_index},
                      {"limit_bytes", gpu.limit_bytes},
                      {"reserved_bytes", gpu.reserved_bytes},
                      {"used_bytes", gpu.used_bytes},
                      {"peak_bytes", gpu.peak_bytes},
                      {"denied", gpu.denied},
                      {"processes", ProcessesJson(gpu.processes)}});
    }
    list.push_back({{"id", container.id},
                    {"name", container.name},
                    {"pid", container.pid},
                    {"user", UserName(container.user)},
                    {"state", container.state},
                    {"since", Rfc3339(container.since)},
                    {"engine_id", container.engine_id},
                    {"origin", container.origin},
                    {"isolated", container.isolated},
                    {"compute", ComputeJson(container.compute)},
                    {"gpus", gpus}});
  }
  std::puts(list.dump(2).c_str());
}

void AddPs(const cli::Command& app, int& status) {
  auto json = std::make_shared<bool>(false);
  const cli::Command command = app.AddCommand("ps", "List the containers that run");
  command.AddFlag("--json", *json, "As JSON, sizes in bytes");
  auto verbose = std::make_shared<bool>(false);
  command
      .AddFlag("-v,--verbose", *verbose,
               "Also user, process and GPUs, and which driver calls were refused, and how often")
      .Excludes("--json");
  auto unmanaged = std::make_shared<bool>(false);
  const cli::Option others = command.AddFlag(
      "--unmanaged", *unmanaged, "Instead, the processes that use GPUs and are in none (root)");
  others.Excludes("--verbose");
  auto node = std::make_shared<std::string>();
  command.AddOption("--node", *node, "A simulated node instead of the driver")
      .Value("NODE")
      .Needs(others);
  OnParsed(command, status, [json, verbose, unmanaged, node] {
    return *unmanaged ? PsUnmanaged(*node, *json) : Ps(*json, *verbose);
  });
}

}  // namespace cgpu
