// What a live container holds of the node, as its launcher wrote it into <registry>/<id>.grant. The
// sums of grants are made from these files, so that they count even while a shim cannot answer.
// Pure.
#ifndef CGPU_REGISTRY_RESERVATION_H_
#define CGPU_REGISTRY_RESERVATION_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "grant/grant.h"

namespace cgpu {

struct Reservation {
  std::string id;
  std::string name;
  unsigned user = 0;        // uid of whoever started it
  unsigned shim_uid = 0;    // uid its shim runs under
  std::uint64_t since = 0;  // seconds of Unix time
  std::string engine_id;    // what a container engine calls it; empty for `cgpu run`
  std::string origin;  // where the grant came from, one word: "flags", "environment", "default"
  // Whether its shim holds it to its parts of the cards. If not it has the cards whole, and the
  // parts only count towards what others can be given.
  bool isolated = true;
  ComputeRequest compute;
  std::vector<CardGrant> cards;
};

[[nodiscard]] std::string EncodeReservation(const Reservation& reservation);
[[nodiscard]] Result<Reservation> DecodeReservation(std::string_view text);

// For each of `cards`, what `live` containers have of it, but for the one named by `except` (an id;
// may be empty). `max_inst` is not theirs to say.
[[nodiscard]] std::vector<CardUse> CardUses(const std::vector<Card>& cards,
                                            const std::vector<Reservation>& live,
                                            std::string_view except = {});

// The index in `live` of the one with this name, id, or beginning of an id, an id
// going before a name. kNotFound, or kInvalid when the beginning fits several.
[[nodiscard]] Result<std::size_t> FindReservation(std::string_view reference,
                                                  const std::vector<Reservation>& live);

}  // namespace cgpu

#endif  // CGPU_REGISTRY_RESERVATION_H_
