// A histogram of durations. It has constant size, so that a load may go on for days.
#ifndef CGPU_TESTS_LOAD_BURN_LATENCIES_H_
#define CGPU_TESTS_LOAD_BURN_LATENCIES_H_

#include <array>
#include <cstdint>

namespace cgpu::burn {

class Latencies {
 public:
  void Add(std::uint64_t ns);

  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] std::uint64_t most() const { return most_; }
  // Returns the time that `percent` of all took at most: at most 1 % above the true one and never
  // above most(). Returns 0 when there are none.
  [[nodiscard]] std::uint64_t Percentile(double percent) const;

 private:
  // Numbers below 2^kFine have a bucket each; from there each power of two has 2^kFine buckets of
  // the same width.
  static constexpr unsigned kFine = 7;
  static constexpr std::size_t kBuckets = (64 - kFine + 1) << kFine;

  static std::size_t BucketOf(std::uint64_t ns);
  static std::uint64_t LastOf(std::size_t bucket);

  std::array<std::uint64_t, kBuckets> buckets_{};
  std::uint64_t count_ = 0;
  std::uint64_t most_ = 0;
};

}  // namespace cgpu::burn

#endif  // CGPU_TESTS_LOAD_BURN_LATENCIES_H_
