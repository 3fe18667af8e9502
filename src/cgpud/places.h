// Decides how many requests of users cgpud serves at a time. Pure.
//
// A user that asks and says nothing, or that makes its server wait, must not keep others out. Root
// has places that no user gets. Other users have a share of the places that shrinks as more of them
// are taken, but is never nothing while there is one.
#ifndef CGPU_CGPUD_PLACES_H_
#define CGPU_CGPUD_PLACES_H_

#include <algorithm>
#include <cstddef>

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

}  // namespace cgpu

#endif  // CGPU_CGPUD_PLACES_H_
