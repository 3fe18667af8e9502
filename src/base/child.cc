#include "base/child.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace cgpu {

Result<Pipe> MakePipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return ErrnoError(Code::kUnavailable, errno, "cannot make a pipe");
  }
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

Result<pid_t> Fork() {
  const pid_t child = fork();
  if (child < 0) {
    return ErrnoError(Code::kExhausted, errno, "cannot start a process");
  }
  return child;
}

std::vector<char*> PointersTo(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (const std::string& word : words) {
    pointers.push_back(const_cast<char*>(word.c_str()));  // the old signature of execve(2)
  }
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace cgpu
