// cgpu sim: simulated hosts, for machines without a GPU and for tests.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "apps/cgpu/commands.h"
#include "base/result.h"
#include "cli/command_line.h"
#include "cli/text_table.h"
#include "host/node.h"
#include "host/shim_process.h"
#include "json/json.h"
#include "rm/abi.h"
#include "run/command.h"
#include "run/plain.h"
#include "sim/node/control_client.h"
#include "sim/node/lifecycle.h"

namespace cgpu {
namespace {

using nlohmann::json;

struct SimFlags {
  std::string name = kDefaultNode;
  std::string gpus;
  std::string driver = "550";
  sim::GpuOptions gpu;
  std::string hang_rules = "all";
  std::string slices_take_effect{sim::kCautiousEffect};
  std::string channels_go_off{sim::kCautiousEffect};
  bool no_caps = false;
  bool as_json = false;
  std::int64_t starts_from = -1;
  json fault = json::object();
  std::size_t held = 1;
  std::uint64_t lost = 0;  // index of a GPU
};

// Returns what GPUs a node has, as "2 x v100-16g".
std::string GpusOf(const Node& node) {
  std::map<std::string, int> counts;
  for (const Gpu& gpu : node.gpus) {
    ++counts[gpu.model];
  }
  std::string text;
  for (const auto& [model, count] : counts) {
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " x " + model;
  }
  return text;
}

Result<> Start(const SimFlags& flags) {
  CGPU_ASSIGN_OR_RETURN(const auto dir, sim::NodeDir::Of(flags.name));
  CGPU_ASSIGN_OR_RETURN(auto server, ProgramPath("cgpu-sim"));
  CGPU_TRY(sim::StartNode(dir, {flags.gpus, flags.driver, server, flags.gpu, flags.hang_rules,
                                flags.slices_take_effect, flags.channels_go_off, flags.no_caps}));
  CGPU_ASSIGN_OR_RETURN(const auto node, FindSimulatedNode(flags.name));
  std::printf("node %s: driver %s, %s\n", flags.name.c_str(), node.driver.c_str(),
              GpusOf(node).c_str());
  const std::string name = flags.name == kDefaultNode ? "" : " --name " + flags.name;
  std::printf("its GPUs: cgpu sim exec%s -- cgpu smi; to end it: cgpu sim stop%s\n", name.c_str(),
              name.c_str());
  return {};
}

// Lists the nodes, and what is left of one that was killed.
Result<> List(const SimFlags& flags) {
  std::set<std::string> names;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(kSimulatedNodes, none)) {
    if (entry.is_directory()) {
      names.insert(entry.path().filename());
    }
  }
  auto list = json::array();
  cli::TextTable table{{{"NAME", "STATE", "DRIVER", "GPUS"}}, 3, {}};
  for (const std::string& name : names) {
    const auto dir = sim::NodeDir::Of(name);
    const auto node = FindSimulatedNode(name);
    const bool runs = dir.ok() && sim::ControlClient::Connect(*dir).ok() && node.ok();
    const std::string driver = node.ok() ? node->driver : "";
    const std::string gpus = node.ok() ? GpusOf(*node) : "";
    table.rows.push_back({name, runs ? "running" : "killed", driver, gpus});
    list.push_back({{"name", name}, {"running", runs}, {"driver", driver}, {"gpus", gpus}});
  }
  std::fputs(
      flags.as_json ? (list.dump(2) + "\n").c_str() : table.Text(cli::TerminalWidth()).c_str(),
      stdout);
  return {};
}

Result<> Stop(const SimFlags& flags) {
  const auto dir = sim::NodeDir::Of(flags.name);
  return dir.ok() ? sim::StopNode(*dir) : Result<>(dir.error());
}

Result<json> Ask(const SimFlags& flags, const json& request) {
  CGPU_ASSIGN_OR_RETURN(const auto dir, sim::NodeDir::Of(flags.name));
  CGPU_ASSIGN_OR_RETURN(auto client, sim::ControlClient::Connect(dir));
  CGPU_ASSIGN_OR_RETURN(const auto reply, client.Ask(request.dump()));
  return ParseJson(reply);
}

Result<> Tell(const SimFlags& flags, const json& request) {
  const auto reply = Ask(flags, request);
  return reply.ok() ? Result<>() : Result<>(reply.error());
}

void PrintBooks(const json& books) {
  std::printf("driver %s\n", books.value("driver", std::string()).c_str());
  for (const json& gpu : books["gpus"]) {
    std::printf("GPU %d  %s  %s  %.1f of %.1f MiB in use, %zu channel groups\n",
                gpu["index"].get<int>(), gpu["model"].get<std::string>().c_str(),
                gpu["uuid"].get<std::string>().c_str(), gpu["used_bytes"].get<double>() / (1 << 20),
                gpu["memory_bytes"].get<double>() / (1 << 20), gpu["groups"].size());
  }
  for (const json& client : books["clients"]) {
    std::printf("client 0x%08x  pid %d  files %d  objects %d  %.1f MiB\n",
                client["handle"].get<unsigned>(), client["pid"].get<int>(),
                client["files"].get<int>(), client["objects"].get<int>(),
                client["bytes"].get<double>() / (1 << 20));
  }
  const json& engines = books["engines"];
  std::printf("engines: pid %d%s  switch %s us  preempt %s us  copy %s GB/s\n",
              engines["pid"].get<int>(), engines["answer"].get<bool>() ? "" : " (no answer)",
              engines["context_switch_us"].dump().c_str(), engines["preempt_us"].dump().c_str(),
              engines["copy_gbps"].dump().c_str());
  for (const auto& [command, count] : books["refused"].items()) {
    std::printf("refused %s  %s times\n", command.c_str(), count.dump().c_str());
  }
}

Result<> Books(const SimFlags& flags) {
  json request = {{"command", "books"}};
  if (flags.starts_from >= 0) {
    request["starts_from"] = flags.starts_from;
  }
  CGPU_ASSIGN_OR_RETURN(const auto books, Ask(flags, request));
  if (flags.as_json) {
    std::printf("%s\n", books.dump(2).c_str());
  } else {
    PrintBooks(books);
  }
  return {};
}

Result<> Exec(const SimFlags& flags, const std::vector<std::string>& other_words) {
  if (!other_words.empty()) {
    return Error{Code::kInvalid, 0,
                 "\"" + other_words.front() + "\" is not an option of cgpu sim exec",
                 "see `cgpu sim exec --help`; the command comes after --"};
  }
  if (WordsAfterDashes().empty()) {
    return Error{Code::kInvalid, 0, "there is no command to run",
                 "cgpu sim exec [--name N] -- CMD..."};
  }
  CGPU_TRY(EnterPlainNode(flags.name));
  BecomeCommand(WordsAfterDashes());
}

using Flags = std::shared_ptr<SimFlags>;

std::string BranchNames() {
  std::string names;
  for (const rm::Abi& abi : rm::Abis()) {
    names.append(names.empty() ? "" : "|").append(abi.name);
  }
  return names;
}

cli::Command AddVerb(const cli::Command& sim, const Flags& flags, int& status, const char* verb,
                     const char* description, std::function<Result<>(SimFlags&)> run) {
  const cli::Command command = sim.AddCommand(verb, description);
  command.AddOption("--name", flags->name, "The node's name (default: default)").Value("NODE");
  OnParsed(command, status, [flags, run = std::move(run)]() -> Result<int> {
    CGPU_TRY(run(*flags));
    return 0;
  });
  return command;
}

void AddExec(const cli::Command& sim, const Flags& flags, int& status) {
  const cli::Command command = sim.AddCommand("exec", "Run a command on a node without cgpu");
  command.AddOption("--name", flags->name, "The node's name (default: default)").Value("NODE");
  command.SetFooter("CMD...  the command and its arguments, after --");
  command.KeepOtherWords();
  OnParsed(command, status, [flags, command]() -> Result<int> {
    CGPU_TRY(Exec(*flags, command.OtherWords()));
    return 0;
  });
}

// Adds one injected fault: the calls, and what happens to them.
void AddFault(const cli::Command& sim, const Flags& flags, int& status) {
  const cli::Command command = AddVerb(
      sim, flags, status, "fault",
      "Make calls of programs on the node slow or fail, or give a GPU errors", [](SimFlags& f) {
        f.fault["command"] = "fault";
        return Tell(f, f.fault);
      });
  const auto text = [&](const char* option, const char* key, const char* help) {
    command.AddOptionCallback<std::string>(
        option, [flags, key](const std::string& value) { flags->fault[key] = value; }, help);
  };
  text("--escape", "escape", "Only this ioctl: its number or the vendor's name");
  text("--control", "control", "Only this RM_CONTROL command: its number or the vendor's name");
  text("--class", "class", "Only RM_ALLOC of this class: its number");
  command.AddOptionCallback<std::uint64_t>(
      "--count", [flags](std::uint64_t n) { flags->fault["count"] = n; },
      "For so many calls (default: 1)");
  command.AddOptionCallback<unsigned>(
      "--gpu", [flags](unsigned index) { flags->fault["gpu"] = index; },
      "The GPU that gets memory errors or an Xid, by its index (default: 0)");
  const cli::Command effects = command.AddGroup("effect");
  const auto effect = [&](const char* option, const char* name, const char* help) {
    effects.AddOptionCallback<std::uint32_t>(
        option,
        [flags, name](std::uint32_t value) {
          flags->fault["effect"] = name;
          flags->fault["value"] = value;
        },
        help);
  };
  effect("--delay-ms", "delay", "Execute it after so many milliseconds");
  effect("--status", "status", "Fail it with this NV_STATUS");
  effect("--errno", "errno", "Fail it with this errno");
  effects.AddFlagCallback(
      "--hold", [flags] { flags->fault["effect"] = "hold"; },
      "Hold it until `cgpu sim release`, or until its caller is killed");
  effect("--ecc-corrected", "ecc-corrected", "The GPU counts so many more corrected ECC errors");
  effect("--ecc-uncorrected", "ecc-uncorrected",
         "The GPU counts so many more ECC errors that could not be corrected");
  effect("--xid", "xid",
         "The GPU has an error of this number (Xid), and tells the programs that wait for one");
  effects.RequireOne();
}

void AddStart(const cli::Command& sim, const Flags& flags, int& status) {
  const cli::Command start =
      AddVerb(sim, flags, status, "start", "Start a node (root only)", Start);
  start.AddOption("--gpus", flags->gpus, "Its GPUs: v100-16g:2,t4:1,v100-16g@16130MiB:1")
      .Required();
  start.AddOption("--driver", flags->driver, "Its driver: a branch, or a full version")
      .Value(BranchNames());
  const auto cost = [&](const char* option, std::uint64_t* value, std::uint64_t most,
                        const char* help) {
    start.AddOption(option, *value, help).Between(std::uint64_t{1}, most).ShowDefault();
  };
  cost("--context-switch-us", &flags->gpu.context_switch_us, 1000000,
       "What an engine takes from one channel group to the next");
  cost("--preempt-us", &flags->gpu.preempt_us, 1000000,
       "What the driver takes to get a running group off its engine");
  cost("--copy-gbps", &flags->gpu.copy_gbps, 100000,
       "What a copy engine moves, 10^9 bytes a second");
  start.AddOption(
      "--hang-rules", flags->hang_rules,
      "What makes a channel that is taken off its engine hang: all, none, or "
      "unscheduled,mixed,rescheduled,copies,enabled (docs/reference/simulated-driver.md)");
  start
      .AddOption("--slices-take-effect", flags->slices_take_effect,
                 "When a time slice that is set takes effect: at-once, preempt, own-schedule, "
                 "any-schedule, restart or never")
      .ShowDefault();
  start
      .AddOption("--channels-go-off", flags->channels_go_off,
                 "When channels that are scheduled go off their engine: at-once, restart, or "
                 "for-good: they "
                 "never come back")
      .ShowDefault();
  start.AddFlag(
      "--no-caps", flags->no_caps,
      "Let cgpu take no channels off by the clock, as on real GPUs (nor does it unless they go off "
      "at once)");
}

}  // namespace

void AddSim(const cli::Command& app, int& status) {
  const auto flags = std::make_shared<SimFlags>();
  const cli::Command sim = app.AddCommand("sim", "Simulated nodes, for tests and for a try");
  sim.RequireCommand();

  AddStart(sim, flags, status);
  const cli::Command list = sim.AddCommand("list", "List the nodes");
  list.AddFlag("--json", flags->as_json, "As JSON");
  OnParsed(list, status, [flags]() -> Result<int> {
    CGPU_TRY(List(*flags));
    return 0;
  });
  AddVerb(sim, flags, status, "stop", "Stop a node, or clean up after one that was killed", Stop);
  AddExec(sim, flags, status);
  const cli::Command books = AddVerb(sim, flags, status, "books",
                                     "List what the driver has handed out, and to whom", Books);
  books.AddFlag("--json", flags->as_json, "As JSON");
  books.AddOption("--starts-from", flags->starts_from,
                  "With --json: when groups got work and began with it, from this number on");
  AddVerb(sim, flags, status, "sync", "Wait until all closed files are released",
          [](SimFlags& f) { return Tell(f, {{"command", "sync"}}); });
  AddFault(sim, flags, status);
  AddVerb(sim, flags, status, "keep-mapped",
          "Keep from unmapping the address spaces that end, until `cgpu sim release`",
          [](SimFlags& f) { return Tell(f, {{"command", "keep-mapped"}}); });
  for (const auto& [verb, help] :
       {std::pair("lose", "Take a GPU off the bus"), std::pair("restore", "Put a lost GPU back")}) {
    AddVerb(sim, flags, status, verb, help,
            [verb = std::string(verb)](SimFlags& f) {
              return Tell(f, {{"command", verb}, {"gpu", f.lost}});
            })
        .AddOption("--gpu", flags->lost, "Its index")
        .Required();
  }
  AddVerb(sim, flags, status, "release", "Let all held calls go on, and drop the rules that hold",
          [](SimFlags& f) { return Tell(f, {{"command", "release"}}); });
  AddVerb(sim, flags, status, "clear", "Drop all faults that have not happened yet",
          [](SimFlags& f) { return Tell(f, {{"command", "clear"}}); });
  const cli::Command wait =
      AddVerb(sim, flags, status, "wait-held", "Wait until so many calls are held",
              [](SimFlags& f) { return Tell(f, {{"command", "wait"}, {"count", f.held}}); });
  wait.AddOption("--count", flags->held, "How many (default: 1)");
}

}  // namespace cgpu
