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

// Says whose refused requests are worth a line in the log: kRefusalsAtOnce of a user, then one a
// second. Otherwise a member of the group could make the journal drop what it must not, since that
// bounds the lines of a service.
class RefusalPace {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr int kRefusalsAtOnce = 30;

  enum class Verdict { kLog, kFirstSilent, kSilent };  // kFirstSilent: say that some are left out

  // Takes a request of the user, whatever becomes of it.
  Verdict Take(std::optional<unsigned> user, Time now) {
    constexpr std::chrono::seconds kApart{1};
    std::erase_if(users_, [now](const auto& one) { return one.second.until <= now; });
    User& one = users_.try_emplace(user, User{now}).first->second;
    if (one.until <= now + (kRefusalsAtOnce - 1) * kApart) {
      one.until += kApart;
      return Verdict::kLog;
    }
    return std::exchange(one.silent, true) ? Verdict::kSilent : Verdict::kFirstSilent;
  }

 private:
  struct User {
    Time until;  // when nothing of what was taken counts any more
    bool silent = false;
  };
  std::map<std::optional<unsigned>, User> users_;
};

}  // namespace cgpu

#endif  // CGPU_CGPUD_PLACES_H_
