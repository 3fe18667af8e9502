// Ends every launch: the calling process becomes the command.
#ifndef CGPU_RUN_COMMAND_H_
#define CGPU_RUN_COMMAND_H_

#include <string>
#include <vector>

namespace cgpu {

// Exit statuses of the process when the command does not run, as env(1) has them.
inline constexpr int kCannotExecute = 126;
inline constexpr int kCommandNotFound = 127;

// Lets the loader of the command find the libraries in `folder`, after those that its user named
// (LD_LIBRARY_PATH). Does nothing for an empty folder. Before the process has another thread.
void OfferLibraries(const std::string& folder);

// Executes `command` (at least one word, looked up in PATH). When that fails, says so on standard
// error and exits with one of the statuses above.
[[noreturn]] void BecomeCommand(const std::vector<std::string>& command);

}  // namespace cgpu

#endif  // CGPU_RUN_COMMAND_H_
