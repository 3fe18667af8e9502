#include "run/command.h"

#include <unistd.h>

#include <cerrno>

#include "base/child.h"
#include "base/file.h"
#include "base/result.h"

namespace cgpu {

void BecomeCommand(const std::vector<std::string>& command) {
  execvp(command[0].c_str(), PointersTo(command).data());
  const int status = errno == ENOENT ? kCommandNotFound : kCannotExecute;
  const Error error = ErrnoError(Code::kNotFound, errno, "cannot run \"" + command[0] + "\"");
  (void)WriteAll(STDERR_FILENO, FormatError(error) + "\n");
  _exit(status);
}

}  // namespace cgpu
