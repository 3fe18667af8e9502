// cgpu run: runs a command with its slice of each granted GPU.
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "apps/cgpu/commands.h"
#include "base/result.h"
#include "cli/command_line.h"
#include "grant/env.h"
#include "grant/flags.h"
#include "run/run.h"
#include "runtime/settings.h"

namespace cgpu {
namespace {

struct Flags {
  std::string name;
  RunOptions options;
};

std::vector<std::string> Environment() {
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    variables.emplace_back(*entry);
  }
  return GrantVariables(variables);
}

Result<> TakeRequest(const std::string& name, RunOptions& options) {
  options.flags.environment = Environment();
  CGPU_ASSIGN_OR_RETURN(options.request, RequestOf(options.flags));
  options.request.name = name;
  options.request.user = getuid();
  return {};
}

// Reads the host's settings, such as where its daemon listens.
Result<> TakeSettings(RunOptions& options) {
  CGPU_ASSIGN_OR_RETURN(auto settings, ReadSettings(kSettingsFile));
  options.request.max_inst = settings.max_inst;
  options.firmware = std::move(settings.firmware);
  options.daemon = std::move(settings.socket);
  options.group = std::move(settings.group);
  return {};
}

// Parses the flags; absent flags ask for nothing.
Result<> Parse(const cli::Command& command, Flags& flags) {
  const auto given = [&](const char* name) { return command.Count(name) > 0; };
  CGPU_TRY(TakeRequest(flags.name, flags.options));
  if (given("--name") && flags.name.empty()) {
    return Error{Code::kInvalid, 0, "the container's name is empty", "leave --name out for one"};
  }
  if (given("--node") && flags.options.node.empty()) {
    return Error{Code::kInvalid, 0, "the node's name is empty", "leave --node out to have one"};
  }
  if (given("--record") && flags.options.record.empty()) {
    return Error{Code::kInvalid, 0, "the record's file name is empty",
                 "--record takes a file's name"};
  }
  const std::vector<std::string> rest = command.OtherWords();
  if (!rest.empty() && (rest.front().starts_with('-') || !WordsAfterDashes().empty())) {
    return Error{Code::kInvalid, 0, "\"" + rest.front() + "\" is not an option of cgpu run",
                 "see `cgpu run --help`; the command comes after --"};
  }
  flags.options.command = rest.empty() ? WordsAfterDashes() : rest;
  if (flags.options.command.empty()) {
    return Error{Code::kInvalid, 0, "there is no command to run", "cgpu run [OPTIONS] -- CMD..."};
  }
  const std::string& program = flags.options.command.front();
  flags.options.request.stem = program.substr(program.rfind('/') + 1);
  return TakeSettings(flags.options);
}

}  // namespace

void AddRun(const cli::Command& app, int& status) {
  auto flags = std::make_shared<Flags>();
  const cli::Command command = app.AddCommand("run", "Run a command with a slice of GPUs");
  GrantFlags& asked = flags->options.flags;
  command.AddText("--gpus", asked.gpus,
                  "GPUs: a number, all, device=0,2 or device=UUID (default: all)");
  command.AddText("--mem", asked.memory,
                  "Memory per GPU: 4096MiB, 4GiB, 4G, 25% (default: the whole GPU)");
  command.AddText("--units", asked.units, "Memory in units of 1 GiB, in total over the GPUs");
  command.AddText(
      "--compute", asked.compute,
      "Percent of each GPU's compute time: a share, and under `fixed` a cap on GPUs that cap "
      "(`cgpu policy` says which)");
  command.AddText("--compute-max", asked.compute_max,
                  "Percent that it may use while others leave time (with --compute; on GPUs "
                  "that cap)");
  command.AddText("--weight", asked.weight, "1 to 100: its share among those that have work");
  command.AddText("--priority", asked.priority, "high: before the others; or normal")
      .Value("high|normal");
  command.AddOption("--name", flags->name, "The container's name");
  command
      .AddOption("--record", flags->options.record,
                 "A file to write the sequence of driver calls to: names, sizes and statuses, "
                 "no data")
      .Value("FILE");
  command.AddOption("--node", flags->options.node, "A simulated node instead of the driver")
      .Value("NODE");
  command.AddFlag("--alone", flags->options.alone,
                  "As an ordinary user: without cgpud. cgpu then counts the slice among your own "
                  "commands only, and your other programs can reach into it");
  command.SetFooter(
      "CMD...  the command and its arguments, after --\n"
      "Without --gpus or --mem and --units, CGPU_DEVICES and CGPU_MEM of the environment count, "
      "or\n"
      "ALIYUN_COM_GPU_VISIBLE_DEVICES and ALIYUN_COM_GPU_MEM_CONTAINER of ALIYUN_COM_GPU_MEM_DEV.");
  command.KeepOtherWords();
  OnParsed(command, status, [flags, command]() -> Result<int> {
    CGPU_TRY(Parse(command, *flags));
    return RunContainer(flags->options);
  });
}

}  // namespace cgpu
