#include "base/child.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>

namespace cgpu {
namespace {

using Clock = std::chrono::steady_clock;

// Waits for input. Returns false when the deadline came first.
bool AwaitInput(int fd, Clock::time_point deadline) {
  int polled = -1;
  do {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd ready{fd, POLLIN, 0};
    polled = poll(&ready, 1, static_cast<int>(std::clamp<long>(left.count(), 0, INT_MAX)));
  } while (polled < 0 && errno == EINTR);
  return polled > 0;
}

// Time for the end of a killed child. One that waits for a driver that hangs does not end.
constexpr std::chrono::seconds kDeathTime{2};

// Returns whether the child ends in time: it may have closed its output before.
bool EndsUntil(pid_t child, Clock::time_point deadline) {
  const UniqueFd process(static_cast<int>(syscall(SYS_pidfd_open, child, 0)));
  return process.valid() && AwaitInput(process.get(), deadline);
}

}  // namespace

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
  pointers.reserve(words.size() + 1);
  for (const std::string& word : words) {
    pointers.push_back(const_cast<char*>(word.c_str()));  // the old signature of execve(2)
  }
  pointers.push_back(nullptr);
  return pointers;
}

bool ReadUntil(int fd, Clock::time_point deadline, std::size_t limit, std::string& text) {
  while (text.size() <= limit && AwaitInput(fd, deadline)) {
    char buffer[4096];
    const ssize_t n = TEMP_FAILURE_RETRY(read(fd, buffer, sizeof(buffer)));
    if (n <= 0) {
      return n == 0;
    }
    text.append(buffer, static_cast<std::size_t>(n));
  }
  return false;
}

Result<Output> OutputOf(const std::vector<std::string>& words, std::chrono::seconds timeout,
                        std::size_t limit) {
  CGPU_ASSIGN_OR_RETURN(auto pipe, MakePipe());
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, pipe.to.get(), STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  const std::vector<char*> argv = PointersTo(words);
  pid_t child = 0;
  const int error = posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  pipe.to.reset();
  if (error != 0) {
    return ErrnoError(Code::kNotFound, error, "cannot execute " + words[0]);
  }
  Output output;
  const auto deadline = Clock::now() + timeout;
  const bool whole =
      ReadUntil(pipe.from.get(), deadline, limit, output.text) && EndsUntil(child, deadline);
  if (!whole) {
    kill(child, SIGKILL);
  }
  int status = 0;
  if (whole || EndsUntil(child, Clock::now() + kDeathTime)) {
    (void)TEMP_FAILURE_RETRY(waitpid(child, &status, 0));
  }
  if (!whole) {
    return Error{Code::kUnavailable, 0, words[0] + " does not end, or says too much", {}};
  }
  output.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return output;
}

}  // namespace cgpu
