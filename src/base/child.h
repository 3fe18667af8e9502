// Parts of starting a process.
#ifndef CGPU_BASE_CHILD_H_
#define CGPU_BASE_CHILD_H_

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace cgpu {

struct Pipe {
  UniqueFd from;
  UniqueFd to;
};

// Both ends are closed by execve(2).
[[nodiscard]] Result<Pipe> MakePipe();

// As fork(2): 0 in the child.
[[nodiscard]] Result<pid_t> Fork();

// Returns pointers to the words with a null at the end, as execve(2) wants them; they last as long
// as `words`.
[[nodiscard]] std::vector<char*> PointersTo(const std::vector<std::string>& words);

// Appends to `text` what comes from a pipe, until its other ends are closed. Returns false if the
// deadline or more than `limit` bytes came first.
[[nodiscard]] bool ReadUntil(int fd, std::chrono::steady_clock::time_point deadline,
                             std::size_t limit, std::string& text);

// The standard output of a program, and its exit status as a shell has it.
struct Output {
  std::string text;
  int status = 0;
};
// Runs a program, found in PATH, to its end, without input and without its standard error.
// kNotFound: it cannot be executed. kUnavailable: it did not end in time, or said more than `limit`
// bytes; it was killed. Waits 2 s at most for the end of a killed one.
[[nodiscard]] Result<Output> OutputOf(const std::vector<std::string>& words,
                                      std::chrono::seconds timeout, std::size_t limit);

}  // namespace cgpu

#endif  // CGPU_BASE_CHILD_H_
