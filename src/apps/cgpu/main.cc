// cgpu: the command-line program. The work is in the cmd_*.cc files.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "apps/cgpu/commands.h"
#include "base/result.h"

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

bool Has(const CLI::App& app, const std::string& command) {
  const auto commands = app.get_subcommands([](const CLI::App*) { return true; });
  return std::any_of(commands.begin(), commands.end(),
                     [&](const CLI::App* known) { return known->get_name() == command; });
}

int Main(int argc, char** argv) {
  CLI::App app("cgpu: share NVIDIA GPUs between containers, each held to what it was given",
               "cgpu");
  app.set_version_flag("--version", "cgpu " CGPU_VERSION);
  app.require_subcommand(1);
  int status = 0;
  AddRun(app, status);
  AddInstall(app, status);
  AddPolicy(app, status);
  AddPs(app, status);
  AddSet(app, status);
  AddSim(app, status);
  AddSmi(app, status);
  AddTop(app, status);
  AddUpgrade(app, status);
  const std::string first = argc > 1 ? argv[1] : "";
  if (!first.empty() && first[0] != '-' && !Has(app, first)) {
    return Fail(
        Error{Code::kInvalid, 0, "cgpu has no command \"" + first + "\"", "see `cgpu --help`"});
  }
  try {
    app.parse(TakeWordsAfterDashes(argc, argv), argv);
  } catch (const CLI::Success& request) {  // --help, --version
    return app.exit(request);
  } catch (const CLI::ParseError& error) {
    std::string help = "cgpu --help";
    for (const CLI::App* command : app.get_subcommands()) {
      help = "cgpu " + command->get_name() + " --help";
    }
    return Fail(Error{Code::kInvalid, 0, error.what(), "see `" + help + "`"});
  }
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

}  // namespace cgpu

// Under the name cgpu-smi, which cGPU's users know, it is `cgpu smi`.
int main(int argc, char** argv) {
  std::vector<char*> words(argv, argv + argc);
  const std::string_view path = argc > 0 ? argv[0] : "";
  char smi[] = "smi";
  if (path.substr(path.rfind('/') + 1) == "cgpu-smi") {
    words.insert(words.begin() + 1, smi);
  }
  const auto count = static_cast<int>(words.size());
  words.push_back(nullptr);
  return cgpu::Main(count, words.data());
}
