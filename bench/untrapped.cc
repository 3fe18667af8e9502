// Measures what the filter adds to an ioctl that it lets pass: TCGETS on a terminal, 30 pairs of
// batches of 100,000 calls, one process with the filter and one without taking turns. A third
// process, under a filter that lets everything pass without a look, shows how much of it the kernel
// takes for any filter at all.
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "base/fd.h"
#include "bench/harness.h"
#include "sandbox/filter.h"

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

enum class Filter { kNone, kAllowAll, kGpu };

bool AllowAll() {
  sock_filter allow{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW};
  const sock_fprog prog{1, &allow};
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) == 0;
}

[[noreturn]] void Serve(int in, int out, Filter filter) {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  UniqueFd listener;
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (filter == Filter::kAllowAll && !AllowAll()) {
    _exit(1);
  }
  if (filter == Filter::kGpu) {
    auto installed = sandbox::InstallGpuFilter({});
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

Result<Worker> StartWorker(Filter filter) {
  std::array<int, 2> to{};
  std::array<int, 2> from{};
  if (pipe2(to.data(), O_CLOEXEC) != 0 || pipe2(from.data(), O_CLOEXEC) != 0) {
    return ErrnoError(Code::kUnavailable, errno, "pipe");
  }
  Worker worker{UniqueFd(to[1]), UniqueFd(from[0]), fork()};
  if (worker.pid == 0) {
    worker.to.reset();
    Serve(to[0], from[1], filter);
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
  std::vector<Worker> workers;
  for (const Filter filter : {Filter::kNone, Filter::kAllowAll, Filter::kGpu}) {
    auto worker = StartWorker(filter);
    if (!worker.ok()) {
      return worker.error();
    }
    workers.push_back(std::move(*worker));
  }
  std::vector<double> any;
  std::vector<double> ours;
  for (int i = 0; i < kPairs; ++i) {
    std::array<double, 3> each{};
    for (std::size_t k = 0; k < workers.size(); ++k) {
      const auto batch = Batch(workers[k]);
      if (!batch.ok()) {
        return batch.error();
      }
      each[k] = *batch;
    }
    any.push_back(each[1] - each[0]);
    ours.push_back(each[2] - each[0]);
    std::printf("pair %2d: without %.3f us, with %.3f us; with any filter %.3f us\n", i + 1,
                each[0], each[2], each[1]);
  }
  for (Worker& worker : workers) {
    worker.to.reset();  // later ones hold it too: wait only when all are closed
  }
  for (const Worker& worker : workers) {
    waitpid(worker.pid, nullptr, 0);
  }
  std::printf("a filter that looks at nothing: %.3f us\n", Percentile(any, 0.5));
  std::printf("untrapped: %.3f us\n", Percentile(ours, 0.5));
  return {};
}

}  // namespace
}  // namespace cgpu::bench

int main() {
  const auto result = cgpu::bench::Run();
  return result.ok() ? 0 : cgpu::bench::Fail(result.error());
}
