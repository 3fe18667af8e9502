// The names and texts of the tree that cgpu-km serves, in the shape of cGPU's /proc/cgpu_km:
//
//   version                    of cgpu
//   <N>/                       a card: N is that of /dev/nvidia<N>
//     policy                   how compute time is shared out: 0 to 5 (governor/policy.h)
//     prio_ratio               percent of it that containers of high priority may take
//     max_inst                 slices that the card may have at a time
//     <container>/
//       id                     as `cgpu ps` has it
//       memsize                bytes that it may have of this card
//       meminfo                "Free: BYTES", then "PID: N Mem: BYTES" per process
//
// Pure.
#ifndef CGPU_KM_NAMES_H_
#define CGPU_KM_NAMES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "registry/admin.h"
#include "registry/reservation.h"

namespace cgpu::km {

enum class Kind {
  kRoot,
  kVersion,
  kCard,
  kPolicy,
  kPrioRatio,
  kMaxInst,
  kContainer,
  kId,
  kMemsize,
  kMeminfo
};

// What a path can mean; whether there is such a card or container is not asked here.
struct Place {
  Kind kind = Kind::kRoot;
  unsigned minor = 0;     // of the card, for all but kRoot and kVersion
  std::string container;  // the name of its folder
};

// `path` begins with '/'. Nothing for what no path of the tree is like.
[[nodiscard]] std::optional<Place> ParsePath(std::string_view path);

[[nodiscard]] bool IsFolder(Kind kind);
[[nodiscard]] bool IsWritable(Kind kind);

// The names of a card's files, and of a container's.
[[nodiscard]] std::vector<std::string> FilesOfCard();
[[nodiscard]] std::vector<std::string> FilesOfContainer();

// The folders of `live` containers, in their order and all different: their names, which `cgpu ps`
// shows; of one that is named as a card's file is, its id, with its name where that is taken too.
[[nodiscard]] std::vector<std::string> FolderNames(const std::vector<Reservation>& live);

[[nodiscard]] std::string MeminfoText(const CardMemory& memory);

// The number that was written, a newline after it or not; nothing for other text.
[[nodiscard]] std::optional<std::uint64_t> ParseValue(std::string_view text);

}  // namespace cgpu::km

#endif  // CGPU_KM_NAMES_H_
