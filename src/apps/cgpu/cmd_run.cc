// cgpu run: a command with its slice of each granted card.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/cgpu/commands.h"
#include "grant/env.h"
#include "launcher/run.h"
#include "runtime/settings.h"

namespace cgpu {
namespace {

struct Flags {
  std::string gpus;
  std::string memory;
  std::string units;
  RunOptions options;
};

std::map<std::string, std::string> Environment() {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t at = text.find('=');
    if (at != std::string_view::npos) {
      variables.emplace(text.substr(0, at), text.substr(at + 1));
    }
  }
  return variables;
}

// What no flag says is taken from the environment, as for a container of an engine.
Result<> FillFromEnvironment(RunOptions& options) {
  ResourceRequest& request = options.request;
  const auto environment = EnvGrant(Environment());
  if (!environment.ok()) {
    return environment.error();
  }
  if (request.gpus.empty()) {
    request.gpus = environment.value().resources.gpus;
    request.whole = environment.value().resources.whole;
  }
  if (request.memory.empty()) {
    request.memory = environment.value().resources.memory;
  }
  options.compute = environment.value().compute;
  return {};
}

// The request that the flags spell out; absent flags ask for nothing.
Result<> Parse(const CLI::App& command, Flags& flags) {
  const auto given = [&](const char* name) { return command.count(name) > 0; };
  ResourceRequest& request = flags.options.request;
  if (given("--gpus")) {
    auto gpus = ParseGpus(flags.gpus);
    if (!gpus.ok()) {
      return gpus.error();
    }
    request.gpus.push_back(std::move(*gpus));
  }
  if (given("--mem") && given("--units")) {
    return Error{Code::kInvalid, 0, "--mem and --units are both given",
                 "--mem is memory per card, --units a total over the cards: give one"};
  }
  if (given("--mem") || given("--units")) {
    auto memory = given("--mem") ? ParseSize(flags.memory) : ParseUnits(flags.units);
    if (!memory.ok()) {
      return memory.error();
    }
    request.memory.push_back(*memory);
  }
  flags.options.origin = request.gpus.empty() && request.memory.empty() ? "environment" : "flags";
  CGPU_TRY(FillFromEnvironment(flags.options));
  if (request.gpus.empty() && request.memory.empty()) {
    flags.options.origin = "default";
  }
  if (given("--name") && flags.options.name.empty()) {
    return Error{Code::kInvalid, 0, "the container's name is empty", "leave --name out for one"};
  }
  if (given("--node") && flags.options.node.empty()) {
    return Error{Code::kInvalid, 0, "the node's name is empty", "leave --node out to have one"};
  }
  if (given("--record") && flags.options.record.empty()) {
    return Error{Code::kInvalid, 0, "the record's file name is empty",
                 "--record takes a file's name"};
  }
  const std::vector<std::string> rest = command.remaining();
  if (!rest.empty() && (rest.front().starts_with('-') || !WordsAfterDashes().empty())) {
    return Error{Code::kInvalid, 0, "\"" + rest.front() + "\" is not an option of cgpu run",
                 "see `cgpu run --help`; the command comes after --"};
  }
  flags.options.command = rest.empty() ? WordsAfterDashes() : rest;
  if (flags.options.command.empty()) {
    return Error{Code::kInvalid, 0, "there is no command to run", "cgpu run [OPTIONS] -- CMD..."};
  }
  return {};
}

}  // namespace

void AddRun(CLI::App& app, int& status) {
  auto flags = std::make_shared<Flags>();
  CLI::App* const command = app.add_subcommand("run", "Run a command with a slice of GPUs");
  command->add_option("--gpus", flags->gpus,
                      "Cards: a number, all, device=0,2 or device=UUID (default: all)");
  command->add_option("--mem", flags->memory,
                      "Memory per card: 4096MiB, 4GiB, 4G, 25% (default: the whole card)");
  command->add_option("--units", flags->units, "Memory in units of 1 GiB, in total over the cards");
  command->add_option("--name", flags->options.name, "The container's name");
  command->add_option("--record", flags->options.record,
                      "A file to write the sequence of driver calls to: names, sizes and statuses, "
                      "no data");
  command->add_option("--node", flags->options.node, "A simulated node instead of the driver");
  command->footer(
      "CMD...  the command and its arguments, after --\n"
      "Without --gpus or --mem and --units, CGPU_DEVICES and CGPU_MEM of the environment count, "
      "or\n"
      "ALIYUN_COM_GPU_VISIBLE_DEVICES and ALIYUN_COM_GPU_MEM_CONTAINER of ALIYUN_COM_GPU_MEM_DEV.");
  command->prefix_command();
  command->callback([flags, command, &status] {
    if (const auto parsed = Parse(*command, *flags); !parsed.ok()) {
      status = Fail(parsed.error());
      return;
    }
    const auto settings = ReadSettings(kSettingsFile);
    if (!settings.ok()) {
      status = Fail(settings.error());
      return;
    }
    flags->options.max_inst = settings->max_inst;
    const auto ended = RunContainer(flags->options);
    status = ended.ok() ? ended.value() : Fail(ended.error());
  });
}

}  // namespace cgpu
