// cgpu: the command at a prompt. The work is in the cmd_*.cc files.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "apps/cgpu/commands.h"
#include "base/result.h"

namespace cgpu {
namespace {

int Main(int argc, char** argv) {
  CLI::App app("cgpu: share NVIDIA GPUs between containers, each held to what it was given",
               "cgpu");
  app.set_version_flag("--version", "cgpu " CGPU_VERSION);
  app.require_subcommand(1);
  int status = 0;
  try {
    app.parse(argc, argv);
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

int Fail(const Error& error) {
  std::fprintf(stderr, "%s\n", FormatError(error).c_str());
  return kOwnError;
}

}  // namespace cgpu

int main(int argc, char** argv) {
  return cgpu::Main(argc, argv);
}
