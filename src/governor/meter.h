// How a card's time was divided, from the driver's list of context switches. Pure.
//
// A process is counted for as long as its context was on the engine, also while it had nothing to
// do there and nobody else wanted it: so a card with one busy process says nothing, and where
// several want it the figures are what they got. A switch from one of its contexts to another is
// the process's own time: it chose to have several.
#ifndef CGPU_GOVERNOR_METER_H_
#define CGPU_GOVERNOR_METER_H_

#include <cstdint>
#include <map>
#include <optional>

namespace cgpu::governor {

class Meter {
 public:
  // In order of time, in nanoseconds of the card's clock. An end without its beginning is passed
  // over.
  void Add(std::uint32_t pid, std::uint64_t time_ns, bool begins);
  // Some are missing: what was counted since the last Take() is forgotten.
  void Lost();

  struct Part {
    double on = 0;       // of the time measured
    double between = 0;  // others', between two turns less than a tenth of a second apart
    double turns = 0;    // that began after somebody else's, a second
  };
  struct Use {
    std::uint64_t span_ns = 0;            // over which it was measured
    std::map<std::uint32_t, Part> parts;  // by process
  };
  // Since the last time, up to the last switch; none while that is less than `least_ns`.
  [[nodiscard]] std::optional<Use> Take(std::uint64_t least_ns);

 private:
  void Close(std::uint64_t time_ns);

  std::optional<std::uint64_t> from_;  // of what is counted
  std::uint64_t last_ = 0;
  std::optional<std::uint32_t> on_;      // who is on the engine, counted up to `since_`
  std::optional<std::uint32_t> latest_;  // who was the last to be
  std::uint64_t since_ = 0;
  struct Counted {
    std::uint64_t on = 0;
    std::uint64_t between = 0;
    std::uint64_t turns = 0;
  };
  std::map<std::uint32_t, Counted> counted_;
  std::map<std::uint32_t, std::uint64_t> left_;  // when it left the engine
};

}  // namespace cgpu::governor

#endif  // CGPU_GOVERNOR_METER_H_
