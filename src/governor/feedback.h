// Corrects time slices by what containers were seen to get. Pure.
//
// Time slices in proportion give time in proportion only to containers that fill them. A program
// that launches, waits and launches again gives up its time slice at each wait. Beside a container
// that keeps its queue full, it gets one kernel a round, however long the other's time slice is. A
// shorter round helps it: Feedback shortens the time slices of containers that have more than they
// were promised. It stops when the container that lacks most has its share, or when shorter time
// slices bring that container nothing more. Then the container does not want more, and Feedback
// leaves it alone for a while. No time slice is ever longer than planned.
//
// A container that was off the GPU while the others had more than a time slice each had no work
// when its own time slice came. From this Feedback learns how much it wants at the most. It does
// not shorten the others' time slices for a container that wants less than its share, such as
// an online service. Where that shows only once they are short, they stay short only if that brings
// the container as much as all together lose by switching more often.
#ifndef CGPU_GOVERNOR_FEEDBACK_H_
#define CGPU_GOVERNOR_FEEDBACK_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "governor/order.h"

namespace cgpu::governor {

// Shortest corrected time slice: below it, switches take a fifth of the time and more. One that was
// planned shorter stays as it is.
inline constexpr std::uint32_t kLeastCorrectedUs = 4 * kSwitchUs;

// The feedback of one GPU. Thread-compatible.
class Feedback {
 public:
  struct Seen {
    std::string id;
    double promised = 0;         // share of the GPU while all have work, 0 to 1
    double used = 0;             // fraction of the measured time
    std::uint32_t slice_us = 0;  // planned time slice
    double turns = 0;            // time slices per second that followed another container's
  };
  // Takes one measurement, made at `now_s` of any clock.
  void Step(const std::vector<Seen>& seen, double now_s);
  // Returns the time slice that `id` has instead of `slice_us`, by the last Step().
  [[nodiscard]] std::uint32_t SliceOf(const std::string& id, std::uint32_t slice_us) const;

 private:
  // Means over some measurements.
  struct Evidence {
    int steps = 0;
    double used = 0;
    double idle = 0;  // fraction of the time in which it surely had no work
    double all = 0;   // use of all together
    void Add(double used_now, double idle_now, double all_now);
    [[nodiscard]] double MostWanted() const { return steps == 0 ? 1 : used / (used + idle); }
  };
  struct Member {
    double last = 0;    // last measurement
    double used = 0;    // mean of the last two
    double most = 0;    // the greater of the last two: what is missing once may be the host's fault
    double factor = 1;  // factor on its time slice
    bool active = false;  // it had the GPU not long ago
    int without = 0;      // measurements since then
    double promised = 0;
    std::uint32_t slice_us = 0;
    std::uint32_t before_us = 0;   // time slice after the step before
    std::uint32_t longest_us = 0;  // time slice that it may have had in the next measurement
    double content_until = 0;      // until then, shorter time slices of others bring it nothing
    double rest_s = 2;             // seconds for which it is left alone the next time
    double before = 1;             // its factor at the last look back
    Evidence evidence;
  };
  struct Turn {
    std::string id;
    Member* member = nullptr;
    double promised = 0;  // share among those that have work
    // Returns whether it was seen to want less than its share.
    [[nodiscard]] bool WantsLess() const { return member->evidence.MostWanted() < promised; }
    [[nodiscard]] double Part() const {
      return WantsLess() ? member->evidence.MostWanted() : promised;
    }
    [[nodiscard]] double Lack() const { return Part() - member->most; }
    [[nodiscard]] double Ratio() const { return member->used / Part(); }
  };

  [[nodiscard]] std::vector<Turn> Take(const std::vector<Seen>& seen);
  void Weigh(const std::vector<Turn>& turns, const std::vector<Seen>& seen);
  [[nodiscard]] bool MayBeHelped(const Turn& turn, double now_s) const;
  void Correct(std::vector<Turn>& turns, double now_s);
  void Help(const Turn& needy);
  void LeaveInPeace(Member& member, double now_s);
  bool IsWorthIt(const std::vector<Turn>& turns, double now_s);
  void LookBack(std::vector<Turn>& turns, const Turn& needy, double now_s);
  void Forget();

  std::map<std::string, Member> members_;
  std::string helped_;      // container that the time slices are shortened for; empty: none
  double helped_used_ = 0;  // its use at the last look back
  Evidence planned_;        // its evidence before time slices were shortened for it
  int steps_ = 0;           // steps since then
  int settling_ = 0;        // measurements that may still show the time before
};

}  // namespace cgpu::governor

#endif  // CGPU_GOVERNOR_FEEDBACK_H_
