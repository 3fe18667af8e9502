// cgpu smi: shows what nvidia-smi shows, asked of the driver itself, inside a slice and outside.
#include <cstdio>
#include <ctime>
#include <memory>
#include <string>
#include <utility>

#include "apps/cgpu/commands.h"
#include "apps/cgpu/smi/report.h"
#include "cli/command_line.h"
#include "host/node.h"
#include "rm/abi.h"

namespace cgpu {
namespace {

struct Flags {
  std::string node;
  std::string query;
  std::string format;
  std::string id;
  bool list = false;
};

// Reads the files here, in a slice or outside of one. If there are none here or a name is given,
// reads those of the simulated node that `cgpu run` would take, seen from outside.
Result<smi::Report> GatherFor(const std::string& node_name) {
  if (node_name.empty()) {
    Result<smi::Report> here = smi::Gather(rmclient::DevicePaths::InFolder("/dev"));
    if (here.ok() || here.error().code != Code::kNotFound) {
      return here;
    }
  }
  CGPU_ASSIGN_OR_RETURN(const auto node, FindNode(node_name));
  if (node_name.empty() && !node.name.empty()) {
    std::fprintf(stderr, "cgpu: no NVIDIA driver here; this is the simulated node \"%s\"\n",
                 node.name.c_str());
  }
  return smi::Gather(PathsOf(node));
}

// Leaves only the GPU that `id` names by index or UUID.
Result<> Select(smi::Report& report, const std::string& id) {
  for (smi::Card& card : report.cards) {
    if (id == std::to_string(card.index) || id == card.uuid) {
      report.cards = {std::move(card)};
      return {};
    }
  }
  return Error{Code::kNotFound, 0, "No devices were found: there is no GPU \"" + id + "\"",
               "`cgpu smi -L` lists them"};
}

std::string Now() {
  const std::time_t now = std::time(nullptr);
  std::tm local = {};
  char text[64];
  localtime_r(&now, &local);
  return {text, std::strftime(text, sizeof(text), "%a %b %e %H:%M:%S %Y", &local)};
}

Result<std::string> Render(const smi::Report& report, const Flags& flags) {
  if (flags.list) {
    return smi::RenderList(report);
  }
  if (flags.query.empty()) {
    return smi::RenderTable(report, Now(), CGPU_VERSION);
  }
  CGPU_ASSIGN_OR_RETURN(const auto format, smi::ParseQueryFormat(flags.format));
  return smi::RenderQuery(report, flags.query, format);
}

Result<int> Smi(const Flags& flags) {
  CGPU_ASSIGN_OR_RETURN(auto report, GatherFor(flags.node));
  if (report.cards.empty()) {
    return Error{
        Code::kNotFound, 0, "No devices were found: the driver shows no GPU here",
        "in a container, ask for GPUs when it starts (CGPU_MEM); on the host, see `dmesg`"};
  }
  CGPU_TRY(flags.id.empty() ? Result<>() : Select(report, flags.id));
  if (const std::string notice = rm::NotCompared(report.driver_version); !notice.empty()) {
    std::fprintf(stderr, "cgpu: %s\n", notice.c_str());
  }
  CGPU_ASSIGN_OR_RETURN(const auto text, Render(report, flags));
  return std::fputs(text.c_str(), stdout) < 0 ? kOwnError : 0;
}

}  // namespace

void AddSmi(const cli::Command& app, int& status) {
  auto flags = std::make_shared<Flags>();
  const cli::Command command = app.AddCommand("smi", "Show the GPUs, as nvidia-smi does");
  command.AddFlag("-L,--list-gpus", flags->list, "One line per GPU");
  const cli::Option query = command.AddOption(
      "--query-gpu", flags->query, "Comma-separated fields, as of nvidia-smi: memory.used, ...");
  const cli::Option format =
      command.AddOption("--format", flags->format, "csv[,noheader][,nounits]");
  query.Needs(format);
  format.Needs(query);
  command.AddOption("-i,--id", flags->id, "Only this GPU, by index or UUID");
  command.AddOption("--node", flags->node, "A simulated node instead of the GPUs seen here")
      .Value("NODE");
  OnParsed(command, status, [flags] { return Smi(*flags); });
}

}  // namespace cgpu
