// Prints cgpu-burn's results: for people, or a JSON object a line. The names contain the units.
#ifndef CGPU_TESTS_LOAD_BURN_REPORT_H_
#define CGPU_TESTS_LOAD_BURN_REPORT_H_

#include <cstdint>
#include <optional>

#include "load/burn/latencies.h"
#include "load/burn/options.h"

namespace cgpu::burn {

// The work of a second, or of the whole run.
struct Done {
  std::uint64_t launches = 0;  // that ended
  std::uint64_t ns = 0;        // that it took
};

class Report {
 public:
  explicit Report(const Options& options) : options_(options) {}

  // `steps`: those of Load.
  void Begin(std::optional<std::uint64_t> steps) const;
  // Prints the `number`th second, counted from 1.
  void Second(std::uint64_t number, const Done& done) const;
  // Prints that a launch has ended, and how long it took.
  void Each(std::uint64_t latency_ns) const;
  // Prints the sum. `left`: launches whose end was not waited for.
  void Sum(const Done& done, std::uint64_t left, const Latencies& latencies) const;

 private:
  [[nodiscard]] double Milliseconds(const Done& done) const;  // of kernels
  [[nodiscard]] double PerSecond(const Done& done) const;

  Options options_;
};

}  // namespace cgpu::burn

#endif  // CGPU_TESTS_LOAD_BURN_REPORT_H_
