// gpu-trace: which calls a program makes of the driver, without cgpu, by ptrace; and what becomes
// of it when it is told something else than the driver said.
//
//   gpu-trace [--out FILE] [--driver VERSION] [--details] [--bytes firmware|all]
//             [--answer alloc:0x2081=0x22]... -- PROGRAM WORDS...
//
// Lines as of `cgpu run --record` (shim/recorder.h), more in call.h and tracer.h. Sizes of what has
// none in the call are those of the driver's branch, which it finds out by itself. The exit status
// is the program's; 125 with a sentence if there is no tracing here.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <regex>
#include <string>
#include <vector>

#include "gpu/trace/tracer.h"
#include "rm/abi.h"

namespace {

using cgpu::Code;
using cgpu::Error;
using cgpu::Result;

constexpr int kCannot = 125;

int Fail(const Error& error) {
  std::fprintf(stderr, "gpu-trace: %s\n", cgpu::FormatError(error).c_str());
  return kCannot;
}

// As the loaded driver says it.
std::string DriverVersion() {
  for (const char* const path : {"/proc/driver/nvidia/version", "/sys/module/nvidia/version"}) {
    std::ifstream file(path);
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    std::smatch found;
    if (std::regex_search(text, found, std::regex(R"(\b\d{3}\.\d+(\.\d+)?\b)"))) {
      return found.str();
    }
  }
  return "";
}

// The branch of a release, also of one that cgpu does not support: the newest that is no newer.
cgpu::rm::Branch BranchOf(const std::string& version) {
  const unsigned long major = std::strtoul(version.c_str(), nullptr, 10);
  cgpu::rm::Branch branch = cgpu::rm::kBranches.front();
  for (const cgpu::rm::Branch one : cgpu::rm::kBranches) {
    if (cgpu::rm::GetAbi(one).reference.major <= major) {
      branch = one;
    }
  }
  return branch;
}

Result<int> Run(cgpu::trace::Options& options, const std::vector<std::string>& answers,
                const std::string& out, const std::string& driver) {
  for (const std::string& text : answers) {
    const auto answer = cgpu::trace::ParseAnswer(text);
    if (!answer.ok()) {
      return answer.error();
    }
    options.answers.push_back(*answer);
  }
  if (!out.empty()) {
    options.out = std::fopen(out.c_str(), "we");
    if (options.out == nullptr) {
      return cgpu::ErrnoError(Code::kInvalid, errno, out + " cannot be written");
    }
  }
  (void)std::setvbuf(options.out, nullptr, _IOLBF, BUFSIZ);
  options.line.branch = BranchOf(driver);
  std::fprintf(options.out, "# driver %s\n", driver.empty() ? "?" : driver.c_str());
  return cgpu::trace::Trace(options);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("The calls that a program makes of the driver");
  cgpu::trace::Options options;
  std::vector<std::string> answers;
  std::string out;
  std::string driver = DriverVersion();
  app.add_option("--out", out, "File for the lines (standard error)");
  app.add_option("--driver", driver, "The driver's version (" + driver + ")");
  app.add_flag("--details", options.line.details, "More words behind each line");
  app.add_option("--bytes", options.line.bytes, "Whose parameters' bytes are among them")
      ->transform(CLI::CheckedTransformer(std::map<std::string, cgpu::trace::Shown>{
          {"firmware", cgpu::trace::Shown::kFirmware}, {"all", cgpu::trace::Shown::kAll}}));
  app.add_option("--answer", answers, "What the program is told, e.g. alloc:0x2081=0x22")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("command", options.command, "The program and its words, after --")->required();
  app.positionals_at_end();
  CLI11_PARSE(app, argc, argv);
  const Result<int> status = Run(options, answers, out, driver);
  return status.ok() ? *status : Fail(status.error());
}
