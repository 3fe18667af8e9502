// cgpu install, cgpu uninstall: the runtime `cgpu` in the configuration of a container engine.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/cgpu/commands.h"
#include "cli/command_line.h"
#include "host/shim_process.h"
#include "install/install.h"

namespace cgpu {
namespace {

using install::FileChange;
using Json = nlohmann::ordered_json;

struct Flags {
  install::Request request;
  std::string engine;
  bool all = false;
  bool json = false;
};

std::string Names(const char* separator) {
  std::string names;
  for (const install::EngineFacts& facts : install::Engines()) {
    names += (names.empty() ? "" : separator) + std::string(facts.name);
  }
  return names;
}

Result<install::Engine> EngineNamed(const std::string& name) {
  const auto& all = install::Engines();
  const auto found =
      std::ranges::find_if(all, [&](const auto& facts) { return facts.name == name; });
  if (found == all.end()) {
    return Error{Code::kInvalid, 0, "cgpu knows no container engine \"" + name + "\"",
                 "it knows " + Names(", ")};
  }
  return found->engine;
}

// Returns the command that makes the engine read its configuration; empty: it reads it at each
// start.
std::string NextCommand(install::Engine engine) {
  const install::EngineFacts& facts = install::FactsOf(engine);
  return std::string(SystemdRuns() ? facts.reload : facts.reload_without_systemd);
}

void PrintNext(const install::Request& request) {
  const install::EngineFacts& facts = install::FactsOf(request.engine);
  const std::string next = NextCommand(request.engine);
  if (next.empty()) {
    std::printf("next: nothing, %s reads it at each start\n", std::string(facts.name).c_str());
  } else {
    std::printf("next: %s\n", next.c_str());
  }
  if (!request.uninstall) {
    std::printf("then: %s\n", std::string(facts.usage).c_str());
  }
}

std::string_view NameOf(FileChange::Kind kind) {
  constexpr std::string_view kNames[] = {"written", "changed", "removed"};
  return kNames[static_cast<std::size_t>(kind)];
}

void PrintList(const std::vector<Json>& list) {
  std::puts(Json(list).dump(2, ' ', false, Json::error_handler_t::replace).c_str());
}

// Tells what changes in a file, before it does.
void PrintPlan(const FileChange& change, bool uninstall) {
  if (!uninstall) {
    std::printf("%s gets\n%s", change.file.c_str(), change.gets.c_str());
    return;
  }
  std::printf("%s %s\n", change.file.c_str(),
              change.kind == FileChange::Kind::kRemoved
                  ? "goes: only the runtime cgpu is in it"
                  : "loses the runtime cgpu and keeps the rest");
}

void PrintDone(const FileChange& change) {
  if (!change.kept_as.empty()) {
    std::printf("%s is kept as %s\n", change.file.c_str(), change.kept_as.c_str());
  }
  std::printf("%s is %s\n", change.file.c_str(), std::string(NameOf(change.kind)).c_str());
}

void Print(const install::Request& request, const install::Report& report) {
  for (const std::string& note : report.notes) {
    std::printf("note: %s\n", note.c_str());
  }
  for (const FileChange& change : report.changes) {
    PrintPlan(change, request.uninstall);
  }
  if (report.changes.empty() || request.dry_run) {
    return;
  }
  for (const FileChange& change : report.changes) {
    PrintDone(change);
  }
  PrintNext(request);
}

// Returns one engine's object in the list that --json prints.
Json JsonOf(const install::Request& request, const install::Report& report) {
  Json files = Json::array();
  for (const FileChange& change : report.changes) {
    Json file{{"file", change.file}, {"change", NameOf(change.kind)}};
    if (!request.uninstall) {
      file["gets"] = change.gets;
    }
    if (!change.kept_as.empty()) {
      file["kept_as"] = change.kept_as;
    }
    files.push_back(std::move(file));
  }
  Json json{{"engine", install::FactsOf(request.engine).name},
            {"dry_run", request.dry_run},
            {"files", std::move(files)},
            {"notes", report.notes}};
  if (!report.changes.empty() && !request.dry_run) {
    json["next"] = NextCommand(request.engine);
    if (!request.uninstall) {
      json["then"] = install::FactsOf(request.engine).usage;
    }
  }
  return json;
}

Result<int> Change(Flags& flags) {
  CGPU_ASSIGN_OR_RETURN(flags.request.engine, EngineNamed(flags.engine));
  if (flags.request.program.empty()) {
    CGPU_ASSIGN_OR_RETURN(flags.request.program, ProgramPath("cgpu-runtime"));
  }
  CGPU_ASSIGN_OR_RETURN(const auto report, install::Change(flags.request));
  if (flags.json) {
    PrintList({JsonOf(flags.request, report)});
    return 0;
  }
  Print(flags.request, report);
  if (report.changes.empty()) {
    std::printf("nothing to do: %s %s the runtime cgpu\n", flags.engine.c_str(),
                flags.request.uninstall ? "does not have" : "has");
  } else if (flags.request.dry_run) {
    std::puts("nothing was changed");
  }
  return 0;
}

// Takes the runtime out of the configuration of every engine of this host. An engine whose
// configuration cannot be changed does not keep it in the others.
Result<int> RemoveAll(Flags& flags) {
  int status = 0;
  std::vector<Json> list;
  for (const install::EngineFacts& facts : install::Engines()) {
    flags.request.engine = facts.engine;
    const auto report = install::Change(flags.request);
    if (!report.ok()) {
      status = Fail(report.error());
    } else if (flags.json) {
      list.push_back(JsonOf(flags.request, *report));
    } else if (!report->changes.empty()) {
      Print(flags.request, *report);
    }
  }
  if (flags.json) {
    PrintList(list);
  }
  return status;
}

Result<int> Remove(Flags& flags) {
  if (flags.all) {
    return RemoveAll(flags);
  }
  if (flags.engine.empty()) {
    return Error{Code::kInvalid, 0, "no container engine is named",
                 "name one of " + Names(", ") + ", or give --all"};
  }
  return Change(flags);
}

// Adds the flags that both commands have.
void AddCommon(const cli::Command& command, Flags& flags) {
  command
      .AddOption("--config", flags.request.config,
                 "The engine's configuration, if it is not in its usual place")
      .Value("FILE");
  command.AddFlag("--dry-run", flags.request.dry_run, "Only show what would be changed");
  command.AddFlag("--json", flags.json, "As JSON, a list: an object for each engine");
}

}  // namespace

void AddInstall(const cli::Command& app, int& status) {
  const cli::Command add = app.AddCommand("install", "Tell a container engine of the runtime cgpu");
  auto flags = std::make_shared<Flags>();
  add.AddOption("ENGINE", flags->engine, "The container engine").Value(Names("|")).Required();
  AddCommon(add, *flags);
  add.AddOption("--runtime-path", flags->request.program,
                "Where cgpu-runtime is (default: beside cgpu)")
      .Value("FILE");
  add.AddFlag("--set-default", flags->request.set_default,
              "For all containers, also those that do not ask for it");
  OnParsed(add, status, [flags] { return Change(*flags); });

  const cli::Command remove = app.AddCommand("uninstall", "Undo what `cgpu install` did");
  auto removed = std::make_shared<Flags>();
  removed->request.uninstall = true;
  remove.AddOption("ENGINE", removed->engine, "The container engine").Value(Names("|"));
  AddCommon(remove, *removed);
  remove.AddFlag("--all", removed->all, "In all engines, where their configuration usually is")
      .Excludes("ENGINE")
      .Excludes("--config");
  OnParsed(remove, status, [removed] { return Remove(*removed); });
}

}  // namespace cgpu
