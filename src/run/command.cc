#include "run/command.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "base/child.h"
#include "base/file.h"
#include "base/result.h"

namespace cgpu {
namespace {

constexpr char kLibraryPath[] = "LD_LIBRARY_PATH";

}  // namespace

void OfferLibraries(const std::string& folder) {
  if (folder.empty()) {
    return;
  }
  // NOLINTBEGIN(concurrency-mt-unsafe): the process has one thread
  const char* const before = std::getenv(kLibraryPath);
  const std::string own = before == nullptr || *before == '\0' ? "" : std::string(before) + ":";
  (void)setenv(kLibraryPath, (own + folder).c_str(), 1);
  // NOLINTEND(concurrency-mt-unsafe)
}

void BecomeCommand(const std::vector<std::string>& command) {
  execvp(command[0].c_str(), PointersTo(command).data());
  const int status = errno == ENOENT ? kCommandNotFound : kCannotExecute;
  const Error error = ErrnoError(Code::kNotFound, errno, "cannot run \"" + command[0] + "\"");
  (void)WriteAll(STDERR_FILENO, FormatError(error) + "\n");
  _exit(status);
}

}  // namespace cgpu
