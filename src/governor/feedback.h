// Corrects slices by what containers were seen to get. Pure.
//
// Slices in proportion give time in proportion only to those that fill them. A program that
// launches, waits and launches again gives up its turn at each wait, so beside one that keeps its
// queue full it gets a kernel a round, however long the other's slice. What helps is a shorter
// round: the slices of those that have more than they were promised are shortened until the one
// that lacks most has its part, or until shorter ones bring it nothing more: then it does not want
// more, and is left in peace for a while. Nobody's slice is ever longer than planned.
//
// Who was away while the others had more than a slice each had no work when its turn came. So its
// turns tell how much it wants at the most. Slices are not shortened for one that wants less than
// its part, an online service for one; where that is seen only once they are short, they stay so
// only if it brings that one as much as all together lose by switching more often.
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
    double turns = 0;            // that it had after somebody else's, a second
  };
  // After each measurement, at `now_s` of any clock.
  void Step(const std::vector<Seen>& seen, double now_s);
  // What `id` has instead of `slice_us`, by the last Step().
  [[nodiscard]] std::uint32_t SliceOf(const std::string& id, std::uint32_t slice_us) const;

 private:
  // Means over some measurements.
  struct Evidence {
    int steps = 0;
    double used = 0;
    double idle = 0;  // part of the time in which it surely had no work
    double all = 0;   // what all together used
    void Add(double used_now, double idle_now, double all_now);
    [[nodiscard]] double MostWanted() const { return steps == 0 ? 1 : used / (used + idle); }
  };
  struct Member {
    double last = 0;      // measurement
    double used = 0;      // mean of the last two
    double most = 0;      // and the greater one: what is missing once may be the machine's fault
    double factor = 1;    // of its slice
    bool active = false;  // it had the card, not long ago
    int without = 0;      // measurements since then
    double promised = 0;
    std::uint32_t slice_us = 0;
    std::uint32_t before_us = 0;   // slice after the step before
    std::uint32_t longest_us = 0;  // slice that it may have had in the next measurement
    double content_until = 0;      // shorter slices of others would bring it nothing
    double rest_s = 2;             // how long it is left in peace the next time
    double before = 1;             // its factor at the last look back
    Evidence evidence;
  };
  struct Turn {
    std::string id;
    Member* member = nullptr;
    double promised = 0;  // among those that have work
    // It wants less than its part, by what its turns tell.
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
  std::string helped_;      // whom the slices are shortened for; empty: nobody
  double helped_used_ = 0;  // its use at the last look back
  Evidence planned_;        // of it, before slices were shortened for it
  int steps_ = 0;           // since then
  int settling_ = 0;        // measurements that may tell of what was before
};

}  // namespace cgpu::governor

#endif  // CGPU_GOVERNOR_FEEDBACK_H_
