// Small things that the ledger's source files share. Private to src/ledger.
#ifndef CGPU_LEDGER_HELPERS_H_
#define CGPU_LEDGER_HELPERS_H_

#include <cstdint>
#include <string>

#include "ledger/ledger.h"

namespace cgpu::ledger {

inline Error Gone(const char* what, Handle handle) {
  return {Code::kNotFound, 0, std::string(what) + " " + std::to_string(handle) + " does not exist",
          ""};
}

inline Kind KindOf(std::uint8_t kind) {
  return static_cast<Kind>(kind);
}

// The counter of `counts` that `kind` is bounded by; nullptr if none.
inline std::uint32_t* CounterOf(Counts& counts, Kind kind) {
  switch (kind) {
    case Kind::kChannelGroup:
      return &counts.channel_groups;
    case Kind::kChannel:
      return &counts.channels;
    case Kind::kOther:
    case Kind::kMemory:
      return nullptr;
  }
  return nullptr;
}

}  // namespace cgpu::ledger

#endif  // CGPU_LEDGER_HELPERS_H_
