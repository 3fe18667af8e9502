// How many requests of users cgpud sees to at a time. Pure.
//
// Whoever asks and says nothing, or has the process that sees to him wait, shall keep nobody else
// out: not root, whose places no user gets, and not other users, whose share of the places shrinks
// as more of them are taken but is never nothing while there is one.
#ifndef CGPU_NODE_PLACES_H_
#define CGPU_NODE_PLACES_H_

#include <algorithm>
#include <cstddef>

namespace cgpu {

inline constexpr std::size_t kPlaces = 64;
inline constexpr std::size_t kPlacesOfRoot = 8;  // and more, as long as users leave them
inline constexpr std::size_t kPlacesOfOneUser = 8;

// Whether one more request of a user who is not root is seen to; `own`: of that user's, `of_users`:
// of all users', those that are seen to now. A user gets a quarter of what is free: five who take
// all they can leave others a third of the places, twenty still some.
[[nodiscard]] constexpr bool HasPlace(std::size_t own, std::size_t of_users) {
  constexpr std::size_t kOfUsers = kPlaces - kPlacesOfRoot;
  const std::size_t free = kOfUsers - std::min(of_users, kOfUsers);
  return free != 0 && own < std::clamp<std::size_t>(free / 4, 1, kPlacesOfOneUser);
}

}  // namespace cgpu

#endif  // CGPU_NODE_PLACES_H_
