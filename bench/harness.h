// Parts that the benchmarks share: a simulated node of their own, a slice on it, statistics.
#ifndef CGPU_BENCH_HARNESS_H_
#define CGPU_BENCH_HARNESS_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace cgpu::bench {

// Starts and stops a simulated node with one GPU under a name of its own.
class Node {
 public:
  static Result<Node> Start();
  Node(Node&& other) noexcept : name_(std::move(other.name_)) { other.name_.clear(); }
  Node& operator=(Node&&) = delete;
  ~Node();
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  explicit Node(std::string name) : name_(std::move(name)) {}
  std::string name_;
};

// bench-client makes its calls on a descriptor not below this one.
inline constexpr int kClientFd = 500;

// The driver that answers the controls which the shim executes for bench-client.
enum class Answers {
  kSimulatedDriver,  // a process of its own, behind FUSE: the shim sleeps until it has answered
  kAtOnce,  // nothing: the kernel returns success and the parameters as they are. As with a
            // real driver, the shim does not sleep, and the processor stays awake
};

// `cgpu run` of bench-client in a slice of 1 GiB; talks to it over pipes, a line at a time.
class Slice {
 public:
  static Result<Slice> Start(const Node& node, Answers answers = Answers::kSimulatedDriver);
  Slice(Slice&& other) noexcept
      : name_(std::move(other.name_)),
        pid_(std::exchange(other.pid_, -1)),
        to_(std::move(other.to_)),
        from_(std::move(other.from_)) {}
  Slice& operator=(Slice&&) = delete;
  ~Slice();

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] Result<> Say(const std::string& line);
  // Exactly `size` bytes of the client's output.
  [[nodiscard]] Result<std::string> Read(std::size_t size);

 private:
  Slice(std::string name, pid_t pid, UniqueFd to, UniqueFd from)
      : name_(std::move(name)), pid_(pid), to_(std::move(to)), from_(std::move(from)) {}
  std::string name_;
  pid_t pid_;
  UniqueFd to_;
  UniqueFd from_;
};

// The folder of this program, where bin's programs lie.
[[nodiscard]] std::string BinFolder();

// The value below which `fraction` of `values` lie. Sorts. `values` must not be empty.
[[nodiscard]] double Percentile(std::vector<double>& values, double fraction);

// Prints "error: ..." and returns 1.
int Fail(const Error& error);

}  // namespace cgpu::bench

#endif  // CGPU_BENCH_HARNESS_H_
