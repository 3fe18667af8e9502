// The registry's record of a grant: what a live container holds of the host, as its launcher wrote
// it into <registry>/<id>.grant. The sums of grants are made from these files, so that they count
// even while a shim cannot answer. Pure.
#ifndef CGPU_HOST_RESERVATION_H_
#define CGPU_HOST_RESERVATION_H_

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
  unsigned user = 0;        // uid of the user that started it
  unsigned shim_uid = 0;    // uid that its shim runs under
  std::uint64_t since = 0;  // seconds of Unix time
  std::string engine_id;    // the container engine's name for it; empty for `cgpu run`
  // File of the container engine that has the name by which its user knows the container; empty: it
  // is not known.
  std::string names_file;
  std::string pod;        // uid of its pod; empty: it is of none
  std::string container;  // its name in the pod
  std::string origin;     // source of the grant, one word: "flags", "environment", "default"
  // Whether its shim holds it to its slices. If not, it has the GPUs whole, and the slices only
  // count towards what others can be given.
  bool isolated = true;
  ComputeRequest compute;
  std::vector<GpuGrant> gpus;
};

[[nodiscard]] std::string EncodeReservation(const Reservation& reservation);
[[nodiscard]] Result<Reservation> DecodeReservation(std::string_view text);

// Returns for each of `gpus` what `live` containers hold of it, without the container `except` (an
// id; may be empty). The caller fills in `max_inst`.
[[nodiscard]] std::vector<GpuUse> GpuUses(const std::vector<Gpu>& gpus,
                                          const std::vector<Reservation>& live,
                                          std::string_view except = {});

// Returns the index in `live` of the container with this name, id or beginning of an id; an id goes
// before a name. kNotFound. kInvalid: the beginning fits several.
[[nodiscard]] Result<std::size_t> FindReservation(std::string_view reference,
                                                  const std::vector<Reservation>& live);

}  // namespace cgpu

#endif  // CGPU_HOST_RESERVATION_H_
