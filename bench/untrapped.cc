// What the filter adds to an ioctl that it lets pass: TCGETS on a terminal, 30 pairs of batches of
// 100,000 calls, one process with the filter and one without taking turns.
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <vector>

#include "base/fd.h"
#include "bench/harness.h"
#include "kernel/filter.h"

namespace cgpu::bench {
namespace {

constexpr int kPairs = 30;
constexpr int kBatch = 100'000;

double NowUs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

// A process that runs a batch for every byte it is sent and answers with microseconds per call.
struct Worker {
  UniqueFd to;
  UniqueFd from;
  pid_t pid = -1;
};

[[noreturn]] void Serve(int in, int out, bool filtered) {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  UniqueFd listener;
  if (filtered) {
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    auto installed = kernel::InstallGpuFilter({});
    if (!installed.ok()) {
      _exit(Fail(installed.error()));
    }
    listener = std::move(*installed);
  }
  char c = 0;
  while (read(in, &c, 1) == 1) {
    termios settings{};
    const double start = NowUs();
    for (int i = 0; i < kBatch; ++i) {
      if (ioctl(terminal, TCGETS, &settings) != 0) {
        _exit(1);
      }
    }
    const double each = (NowUs() - start) / kBatch;
    if (write(out, &each, sizeof(each)) != sizeof(each)) {
      _exit(1);
    }
  }
  _exit(0);
}

Result<Worker> StartWorker(bool filtered) {
  std::array<int, 2> to{};
  std::array<int, 2> from{};
  if (pipe2(to.data(), O_CLOEXEC) != 0 || pipe2(from.data(), O_CLOEXEC) != 0) {
    return ErrnoError(Code::kUnavailable, errno, "pipe");
  }
  Worker worker{UniqueFd(to[1]), UniqueFd(from[0]), fork()};
  if (worker.pid == 0) {
    worker.to.reset();
    Serve(to[0], from[1], filtered);
  }
  close(to[0]);
  close(from[1]);
  return worker;
}

Result<double> Batch(const Worker& worker) {
  double each = 0;
  if (write(worker.to.get(), "x", 1) != 1 ||
      read(worker.from.get(), &each, sizeof(each)) != sizeof(each)) {
    return Error{Code::kUnavailable, 0, "a measuring process ended early", {}};
  }
  return each;
}

Result<> Run() {
  auto plain = StartWorker(false);
  if (!plain.ok()) {
    return plain.error();
  }
  auto filtered = StartWorker(true);
  if (!filtered.ok()) {
    return filtered.error();
  }
  std::vector<double> differences;
  for (int i = 0; i < kPairs; ++i) {
    const auto without = Batch(*plain);
    const auto with = Batch(*filtered);
    if (!without.ok() || !with.ok()) {
      return without.ok() ? with.error() : without.error();
    }
    differences.push_back(*with - *without);
    fmt::print("pair {:2}: without {:.3f} us, with {:.3f} us\n", i + 1, *without, *with);
  }
  plain->to.reset();
  filtered->to.reset();
  waitpid(plain->pid, nullptr, 0);
  waitpid(filtered->pid, nullptr, 0);
  fmt::print("untrapped: {:.3f} us\n", Percentile(differences, 0.5));
  return {};
}

}  // namespace
}  // namespace cgpu::bench

int main() {
  const auto result = cgpu::bench::Run();
  return result.ok() ? 0 : cgpu::bench::Fail(result.error());
}
