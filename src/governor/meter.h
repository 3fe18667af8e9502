// Measures how a GPU's time was divided, from the driver's list of context switches. Pure.
//
// A process counts for as long as its context is on the GPU engine, also while the context has
// nothing to do there and nobody else wants the engine. Where several processes want the engine,
// the figures are what they got; use_counter.h counts what they used where some have pauses. A
// switch between two contexts of one process counts as the process's own time: it chose to have
// several.
#ifndef CGPU_GOVERNOR_METER_H_
#define CGPU_GOVERNOR_METER_H_

#include <cstdint>
#include <map>
#include <optional>

namespace cgpu::governor {

class Meter {
 public:
  // Adds one switch, in order of time, in nanoseconds of the GPU's clock. Skips an end without its
  // beginning.
  void Add(std::uint32_t pid, std::uint64_t time_ns, bool begins);
  // Says that switches are missing: what was counted since the last Take() is forgotten.
  void Lost();

  struct Part {
    double on = 0;       // fraction of the measured time
    double between = 0;  // fraction that others had between two time slices less than 0.1 s apart
    double turns = 0;    // time slices per second that began after another process's and ended
  };
  struct Use {
    std::uint64_t span_ns = 0;            // measured time
    std::map<std::uint32_t, Part> parts;  // by process
  };
  // Returns the use since the last call, up to the last switch; nothing while that is less than
  // `least_ns`.
  [[nodiscard]] std::optional<Use> Take(std::uint64_t least_ns);

 private:
  void CountTurn();
  void Close(std::uint64_t time_ns);

  std::optional<std::uint64_t> from_;  // start of what is counted
  std::uint64_t last_ = 0;
  std::optional<std::uint32_t> on_;      // process on the GPU engine, counted up to `since_`
  std::optional<std::uint32_t> latest_;  // process that was there last
  bool fresh_ = false;                   // its time slice is one that is to be counted
  std::uint64_t since_ = 0;
  struct Counted {
    std::uint64_t on = 0;
    std::uint64_t between = 0;
    std::uint64_t turns = 0;
  };
  std::map<std::uint32_t, Counted> counted_;
  struct Left {
    std::uint64_t time_ns = 0;
    std::uint64_t on_all = 0;
  };
  std::map<std::uint32_t, Left> left_;  // when each process left the GPU engine
  std::uint64_t on_all_ = 0;            // time for which any process was on it
};

}  // namespace cgpu::governor

#endif  // CGPU_GOVERNOR_METER_H_
