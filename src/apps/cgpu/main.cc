// cgpu: the command-line program. The work is in the cmd_*.cc files.
#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/cgpu/commands.h"
#include "base/result.h"
#include "cli/command_line.h"
#include "version/version.h"

namespace cgpu {
namespace {

std::vector<std::string>& MutableWordsAfterDashes() {
  static std::vector<std::string> words;
  return words;
}

// Returns how many of the arguments are cgpu's own; keeps the rest for WordsAfterDashes().
int TakeWordsAfterDashes(int argc, char** argv) {
  const std::string_view command = argc > 1 ? argv[1] : "";
  const bool exec = command == "sim" && argc > 2 && std::string_view(argv[2]) == "exec";
  for (int i = 2; (command == "run" || exec) && i < argc; ++i) {
    if (std::string_view(argv[i]) == "--") {
      MutableWordsAfterDashes().assign(argv + i + 1, argv + argc);
      return i;
    }
  }
  return argc;
}

int Main(int argc, char** argv) {
  const cli::Program app(
      "cgpu: share NVIDIA GPUs between containers, each held to what it was given", "cgpu");
  app.SetVersion(VersionText("cgpu"));
  app.SetFooter("Exit status: 0, or that of the command that was run; 125 if cgpu itself failed.");
  app.RequireCommand();
  int status = 0;
  AddRun(app, status);
  AddBundle(app, status);
  AddCalibrate(app, status);
  AddDoctor(app, status);
  AddEvents(app, status);
  AddInstall(app, status);
  AddPolicy(app, status);
  AddPs(app, status);
  AddSet(app, status);
  AddSim(app, status);
  AddSmi(app, status);
  AddTop(app, status);
  AddUpgrade(app, status);
  const std::string first = argc > 1 ? argv[1] : "";
  if (!first.empty() && first[0] != '-' && !app.HasCommand(first)) {
    return Fail(
        Error{Code::kInvalid, 0, "cgpu has no command \"" + first + "\"", "see `cgpu --help`"});
  }
  const int own = TakeWordsAfterDashes(argc, argv);
  std::vector<std::string> words(argv + std::min(1, own), argv + own);
  if (first == "smi") {
    words = SmiWords(std::move(words));
  }
  const cli::Parsed parsed = app.Parse(std::move(words));
  if (parsed.kind == cli::Parsed::Kind::kWrong) {
    const int failed =
        Fail(Error{Code::kInvalid, 0, parsed.text, "see `" + parsed.command + " --help`"});
    return parsed.command == "cgpu doctor" ? kDoctorUsage : failed;
  }
  (void)std::fputs(parsed.text.c_str(), stdout);
  return status;
}

}  // namespace

const std::vector<std::string>& WordsAfterDashes() {
  return MutableWordsAfterDashes();
}

int Fail(const Error& error) {
  std::fprintf(stderr, "%s\n", FormatError(error).c_str());
  return kOwnError;
}

void OnParsed(const cli::Command& command, int& status, std::function<Result<int>()> run) {
  command.OnParsed([&status, run = std::move(run)] {
    const auto done = run();
    status = done.ok() ? *done : Fail(done.error());
  });
}

}  // namespace cgpu

// Under the names cgpu-smi, which cGPU's users know, and nvidia-smi, it is `cgpu smi`.
int main(int argc, char** argv) {
  std::vector<char*> words(argv, argv + argc);
  const std::string_view path = argc > 0 ? argv[0] : "";
  const std::string_view name = path.substr(path.rfind('/') + 1);
  char smi[] = "smi";
  if (name == "cgpu-smi" || name == "nvidia-smi") {
    words.insert(words.begin() + 1, smi);
  }
  const auto count = static_cast<int>(words.size());
  words.push_back(nullptr);
  return cgpu::Main(count, words.data());
}
