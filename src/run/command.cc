#include "run/command.h"

#include <unistd.h>

#include <cerrno>

#include "base/file.h"
#include "base/result.h"

namespace cgpu {

void BecomeCommand(const std::vector<std::string>& command) {
  std::vector<char*> argv;
  argv.reserve(command.size() + 1);
  for (const std::string& word : command) {
    argv.push_back(const_cast<char*>(word.c_str()));  // execvp's old signature
  }
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  const int status = errno == ENOENT ? kCommandNotFound : kCannotExecute;
  const Error error = ErrnoError(Code::kNotFound, errno, "cannot run \"" + command[0] + "\"");
  (void)WriteAll(STDERR_FILENO, FormatError(error) + "\n");
  _exit(status);
}

}  // namespace cgpu
