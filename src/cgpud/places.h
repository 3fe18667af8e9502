// Decides how many requests of users cgpud serves at a time, and how many refusals it logs. Pure.
//
// A user that asks and says nothing, or that makes its server wait, must not keep others out. Root
// has places that no user gets. Other users have a share of the places that shrinks as more of them
// are taken, but is never nothing while there is one.
#ifndef CGPU_CGPUD_PLACES_H_
#define CGPU_CGPUD_PLACES_H_

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <utility>

namespace cgpu {

inline constexpr std::size_t kPlaces = 64;
inline constexpr std::size_t kPlacesOfRoot = 8;  // and more, as long as users leave them
inline constexpr std::size_t kPlacesOfOneUser = 8;

// Returns whether one more request of a user other than root is served. `own`: requests of that
// user that are served now, `of_users`: of all users. A user gets a quarter of what is free: five
// users who take all they can leave others a third of the places, twenty still some.
[[nodiscard]] constexpr bool HasPlace(std::size_t own, std::size_t of_users) {
  constexpr std::size_t kOfUsers = kPlaces - kPlacesOfRoot;
  const std::size_t free = kOfUsers - std::min(of_users, kOfUsers);
  return free != 0 && own < std::clamp<std::size_t>(free / 4, 1, kPlacesOfOneUser);
}

// Says whose refusals are worth a line in the log: kRefusalsAtOnce of a user, then one a second. A
// member of the group could else fill the journal, which limits the lines of a service and would
// drop others.
class RefusalPace {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr int kRefusalsAtOnce = 30;

  // Returns whether the user's next refusal is left out.
  [[nodiscard]] bool Silent(std::optional<unsigned> user, Time now) const {
    const auto found = users_.find(user);
    return found != users_.end() && found->second.until > now + (kRefusalsAtOnce - 1) * kApart;
  }

  // Notes a refusal. Returns true if the next is the first that is left out: say so.
  [[nodiscard]] bool Take(std::optional<unsigned> user, Time now) {
    std::erase_if(users_, [now](const auto& one) { return one.second.until <= now; });
    if (Silent(user, now)) {
      return false;
    }
    User& one = users_.try_emplace(user, User{now}).first->second;
    one.until += kApart;
    return Silent(user, now) && !std::exchange(one.said, true);
  }

 private:
  static constexpr std::chrono::seconds kApart{1};

  struct User {
    Time until;  // when the user has its whole allowance again
    bool said = false;
  };
  std::map<std::optional<unsigned>, User> users_;
};

}  // namespace cgpu

#endif  // CGPU_CGPUD_PLACES_H_
