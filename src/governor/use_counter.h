// Counts for how long each process used a GPU's engine for graphics and compute. Pure.
//
// Two lists of the driver say it together. The list of context switches says whose context was on
// the engine when, to the microsecond. But a context that has nothing to do stays there until
// another comes. The samples say how busy the engine was in each window of less than a fifth of a
// second, but not by whom. So each window's busy time is divided among the processes whose contexts
// were on the engine in it. All together get what the sample says, and nobody gets more than the
// time for which its context was there; but where switches are missing, what is left is divided as
// the known stays are.
//
// In a window that is busy throughout, or that only one process was in, that leaves one answer.
// Else it is an estimate, by what was learnt of each process (habits.h).
#ifndef CGPU_GOVERNOR_USE_COUNTER_H_
#define CGPU_GOVERNOR_USE_COUNTER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "governor/habits.h"

namespace cgpu::governor {

// Times are nanoseconds of the GPU's clock.
class UseCounter {
 public:
  struct Sample {
    std::uint64_t end_ns = 0;
    std::uint64_t length_ns = 0;
    double busy = 0;        // part of the window, 0 to 1
    std::uint32_t pid = 0;  // a process that was active at its end, or 0
  };

  // Adds one switch, in order of time.
  void Add(std::uint32_t pid, std::uint64_t time_ns, bool begins);
  // Says that switches are missing.
  void Lost();
  // Adds a sample, in order of time. All switches up to its end must have been added. Where no
  // switch says who was there, it was the process that this sample names, or an earlier one did, or
  // else the next one that does.
  void AddSample(const Sample& sample);

  struct Use {
    // From the end of the last window of the time before, or from the beginning of the first, to
    // the end of the last.
    std::uint64_t span_ns = 0;
    std::uint64_t end_ns = 0;                        // of the span
    std::uint64_t busy_ns = 0;                       // sum of `used_ns`
    std::map<std::uint32_t, std::uint64_t> used_ns;  // by process
  };
  // Returns the use since the last call.
  [[nodiscard]] Use Take();

 private:
  struct Stay {
    std::uint32_t pid = 0;
    std::uint64_t begin_ns = 0;
    std::uint64_t end_ns = 0;
  };
  // A process in a window. Times are parts of the window.
  struct Share {
    Habits::Presence presence;
    double used = 0;
    double doubt = 0;  // how little is known of `used`
    std::vector<double> stays;
  };

  [[nodiscard]] std::vector<Share> SharesOf(const Sample& sample);
  void Expect(Share& share) const;
  static void Divide(std::vector<Share>& shares, double busy);
  static void Complete(std::vector<Share>& shares, double busy);

  std::vector<Stay> stays_;   // that have ended, and reach into windows still to come
  std::optional<Stay> open_;  // whose end is not known yet
  bool known_ = false;        // a switch was added, and none is missing since
  Habits habits_;
  std::uint32_t latest_ = 0;            // process that was there last; 0: not known
  std::uint64_t unclaimed_ns_ = 0;      // busy time from before anybody was known
  std::optional<std::uint64_t> until_;  // end of the last window
  std::uint64_t taken_until_ = 0;
  Use use_;
};

}  // namespace cgpu::governor

#endif  // CGPU_GOVERNOR_USE_COUNTER_H_
