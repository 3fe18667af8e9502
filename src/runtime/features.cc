#include "runtime/features.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>

#include "base/child.h"
#include "base/fd.h"
#include "base/json_depth.h"

namespace cgpu {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kTimeout{10};
constexpr std::size_t kMaxOutput = std::size_t{1} << 20;
constexpr std::size_t kMaxDepth = 32;
constexpr const char* kFlag = "SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV";
constexpr int kMajor = 1;  // first version of crun that has it
constexpr int kMinor = 6;

bool IsListed(std::string_view features) {
  if (NestsDeeper(features, kMaxDepth)) {
    return false;
  }
  const auto root = nlohmann::json::parse(features, nullptr, /*allow_exceptions=*/false);
  const auto at = nlohmann::json::json_pointer("/linux/seccomp/supportedFlags");
  const auto flags = root.is_object() && root.contains(at) ? root.at(at) : nlohmann::json();
  return flags.is_array() && std::ranges::find(flags, kFlag) != flags.end();
}

// Returns whether the text, such as "crun version 1.8.1", is of a crun that has it.
bool IsNewCrun(std::string_view version) {
  constexpr std::string_view kBeginning = "crun version ";
  if (!version.starts_with(kBeginning)) {
    return false;
  }
  const char* const end = version.data() + version.size();
  int major = 0;
  int minor = 0;
  const auto [dot, wrong] = std::from_chars(version.data() + kBeginning.size(), end, major);
  if (wrong != std::errc() || dot == end || *dot != '.' ||
      std::from_chars(dot + 1, end, minor).ec != std::errc()) {
    return false;
  }
  return major > kMajor || (major == kMajor && minor >= kMinor);
}

// Waits for input. Returns false when the deadline came first.
bool AwaitInput(int fd, Clock::time_point deadline) {
  int polled = -1;
  do {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd ready{fd, POLLIN, 0};
    polled = poll(&ready, 1, static_cast<int>(std::max(left.count(), 0L)));
  } while (polled < 0 && errno == EINTR);
  return polled > 0;
}

// Reads until the end of the stream, the deadline or too much. Returns true when the end was
// reached.
bool ReadOutput(int fd, Clock::time_point deadline, std::string& output) {
  while (output.size() <= kMaxOutput && AwaitInput(fd, deadline)) {
    char buffer[4096];
    const ssize_t n = read(fd, buffer, sizeof(buffer));
    if (n <= 0) {
      return n == 0;
    }
    output.append(buffer, static_cast<std::size_t>(n));
  }
  return false;
}

// Returns whether the child ends in time: it may have closed its output before.
bool EndsUntil(pid_t child, Clock::time_point deadline) {
  const UniqueFd process(static_cast<int>(syscall(SYS_pidfd_open, child, 0)));
  return process.valid() && AwaitInput(process.get(), deadline);
}

// Returns the standard output of a program that must end soon; "" if it fails.
Result<std::string> OutputOf(const std::string& program, const char* argument) {
  CGPU_ASSIGN_OR_RETURN(auto pipe, MakePipe());
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, pipe.to.get(), STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  char* const argv[] = {const_cast<char*>(program.c_str()), const_cast<char*>(argument), nullptr};
  pid_t child = 0;
  const int error = posix_spawnp(&child, program.c_str(), &actions, nullptr, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  pipe.to.reset();
  if (error != 0) {
    return ErrnoError(Code::kNotFound, error, "cannot execute " + program);
  }
  std::string output;
  const auto deadline = Clock::now() + kTimeout;
  const bool whole = ReadOutput(pipe.from.get(), deadline, output) && EndsUntil(child, deadline);
  if (!whole) {
    kill(child, SIGKILL);
  }
  int status = 0;
  (void)TEMP_FAILURE_RETRY(waitpid(child, &status, 0));
  if (!whole) {
    return Error{Code::kUnavailable, 0, program + " " + argument + " does not end", {}};
  }
  return status == 0 ? output : std::string();
}

}  // namespace

bool WaitsKillably(std::string_view features, std::string_view version) {
  return IsListed(features) || IsNewCrun(version);
}

Result<bool> AskForKillableWaits(const std::string& program) {
  CGPU_ASSIGN_OR_RETURN(const auto features, OutputOf(program, "features"));
  CGPU_ASSIGN_OR_RETURN(const auto version, OutputOf(program, "--version"));
  return WaitsKillably(features, version);
}

}  // namespace cgpu
