// Corrects slices by what containers were seen to get. Pure.
//
// Slices in proportion give time in proportion only to those that fill them. A program that
// launches, waits and launches again gives up its turn at each wait, so beside one that keeps its
// queue full it gets a kernel a round, however long the other's slice. What helps is a shorter
// round: the slices of those that have more than they were promised are shortened until the one
// that lacks most has its part, or until shorter ones bring it nothing more: then it does not want
// more, and is left in peace for a while. Nobody's slice is ever longer than planned.
#ifndef CGPU_GOVERNOR_FEEDBACK_H_
#define CGPU_GOVERNOR_FEEDBACK_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace cgpu::governor {

// Below this a turn is nearly more switch than work; what was planned shorter stays as it is.
inline constexpr std::uint32_t kLeastCorrectedUs = 200;

// Of one card. Thread-compatible.
class Feedback {
 public:
  struct Seen {
    std::string id;
    double promised = 0;         // part of the card while all have work
    double used = 0;             // part of the time that was measured
    std::uint32_t slice_us = 0;  // as planned
  };
  // After each measurement, at `now_s` of any clock.
  void Step(const std::vector<Seen>& seen, double now_s);
  // What `id` has instead of `slice_us`, by the last Step().
  [[nodiscard]] std::uint32_t SliceOf(const std::string& id, std::uint32_t slice_us) const;

 private:
  struct Member {
    double last = 0;      // measurement
    double used = 0;      // mean of the last two
    double most = 0;      // and the greater one: what is missing once may be the machine's fault
    double factor = 1;    // of its slice
    bool active = false;  // it had the card at all
    double promised = 0;
    std::uint32_t slice_us = 0;
    double content_until = 0;  // shorter slices of others would bring it nothing
    double rest_s = 2;         // how long it is left in peace the next time
    double before = 1;         // its factor at the last look back
  };
  struct Turn {
    std::string id;
    Member* member = nullptr;
    double promised = 0;  // among those that have work
    [[nodiscard]] double Lack() const { return promised - member->most; }
    [[nodiscard]] double Ratio() const { return member->used / promised; }
  };

  [[nodiscard]] std::vector<Turn> Take(const std::vector<Seen>& seen);
  void Correct(std::vector<Turn>& turns, double now_s);
  void LookBack(std::vector<Turn>& turns, const Turn& needy, double now_s);
  void Forget();

  std::map<std::string, Member> members_;
  std::string helped_;      // whom the slices are shortened for; empty: nobody
  double helped_used_ = 0;  // its use at the last look back
  int steps_ = 0;           // since then
  int settling_ = 0;        // measurements that may tell of what was before
};

}  // namespace cgpu::governor

#endif  // CGPU_GOVERNOR_FEEDBACK_H_
