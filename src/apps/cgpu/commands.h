// The subcommands of `cgpu`. Each AddX() registers one with the parser. Its callback writes the
// exit status of `cgpu` into `status`, which must outlive the parse.
#ifndef CGPU_APPS_CGPU_COMMANDS_H_
#define CGPU_APPS_CGPU_COMMANDS_H_

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/command_line.h"
#include "host/admin.h"

namespace cgpu {

// Exit status of `cgpu` when the failure is its own, not that of a command it runs.
inline constexpr int kOwnError = 125;

// Exit status of `cgpu doctor` for wrong options, as 1 says that it found an error.
inline constexpr int kDoctorUsage = 2;

// Prints FormatError(error) on stderr and returns kOwnError.
int Fail(const Error& error);

// Calls `run` when this command was parsed. `status` becomes what it returns, or Fail() of its
// error.
void OnParsed(const cli::Command& command, int& status, std::function<Result<int>()> run);

// Prints containers as `cgpu ps --json` does.
void PrintJson(const std::vector<ContainerStatus>& containers);

// Returns the words after the first "--" of a command line that runs another program (`cgpu run`,
// `cgpu sim exec`). They are removed before the parser runs, which would interpret some of them.
[[nodiscard]] const std::vector<std::string>& WordsAfterDashes();

void AddBundle(const cli::Command& app, int& status);
void AddCalibrate(const cli::Command& app, int& status);
void AddDoctor(const cli::Command& app, int& status);
void AddEvents(const cli::Command& app, int& status);
// `cgpu install` and `cgpu uninstall`.
void AddInstall(const cli::Command& app, int& status);
void AddPolicy(const cli::Command& app, int& status);
void AddPs(const cli::Command& app, int& status);
void AddRun(const cli::Command& app, int& status);
void AddSet(const cli::Command& app, int& status);
void AddSim(const cli::Command& app, int& status);
void AddSmi(const cli::Command& app, int& status);
// Returns the words of a `cgpu smi`, with the two forms of nvidia-smi's that our parser does not
// know in forms that it knows: "-lms N", and "-l" without a number.
[[nodiscard]] std::vector<std::string> SmiWords(std::vector<std::string> words);
void AddTop(const cli::Command& app, int& status);
void AddUpgrade(const cli::Command& app, int& status);

}  // namespace cgpu

#endif  // CGPU_APPS_CGPU_COMMANDS_H_
