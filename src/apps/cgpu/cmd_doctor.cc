// cgpu doctor: looks for what is wrong with this host, or with a Kubernetes cluster.
#include <cstdio>
#include <memory>
#include <string>

#include "apps/cgpu/commands.h"
#include "cli/command_line.h"
#include "doctor/examination.h"
#include "doctor/facts.h"

namespace cgpu {
namespace {

struct Flags {
  std::string only;
  std::string output = "table";
  doctor::Choice choice;
};

Result<int> Examine(Flags& flags) {
  CGPU_ASSIGN_OR_RETURN(flags.choice.only, doctor::ParseCategories(flags.only));
  const bool json = flags.output == "json";
  const bool brief = flags.output == "short";
  if (!json && !brief && flags.output != "table") {
    return Error{Code::kInvalid, 0, "there is no form \"" + flags.output + "\" of output",
                 "there are table, short and json"};
  }
  const auto host = doctor::ThisHost(CGPU_VERSION);
  const auto answers = doctor::Examine(*host, flags.choice);
  const std::string text = json ? doctor::AsJson(answers) : doctor::AsTable(answers, brief);
  (void)std::fputs(text.c_str(), stdout);
  return doctor::HasErrors(answers) ? 1 : 0;
}

Result<int> Run(Flags& flags) {
  const auto done = Examine(flags);
  if (!done.ok()) {
    (void)Fail(done.error());
    return kDoctorUsage;
  }
  return *done;
}

}  // namespace

void AddDoctor(const cli::Command& app, int& status) {
  auto flags = std::make_shared<Flags>();
  const cli::Command command = app.AddCommand(
      "doctor", "Look for what is wrong here, say why it matters and how to mend it");
  command.AddOption("--only", flags->only,
                    "Only these categories: kernel, driver, engines, cgpu, kubernetes");
  command.AddFlag("--pre", flags->choice.before, "Only what matters before cgpu is installed");
  command.AddFlag("--kubernetes", flags->choice.kubernetes,
                  "Also the Kubernetes cluster that kubectl leads to");
  command.AddOption("--wait", flags->choice.wait,
                    "Seconds in which what may mend itself can do so (default: 0)");
  command
      .AddOption("-o,--output", flags->output,
                 "table; short: only what is not right; or json (default: table)")
      .Value("table|short|json");
  command.SetFooter(
      "Changes nothing. The exit status is 0 if there is no error, 1 if there is one, 2 for wrong "
      "options.");
  OnParsed(command, status, [flags] { return Run(*flags); });
}

}  // namespace cgpu
