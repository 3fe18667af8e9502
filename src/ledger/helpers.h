// Small functions that the ledger's source files share. Private to src/ledger.
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

// Adds `by` to the counts that have a quota for `kind`. Unsigned: works for -1 too.
inline void CountKind(Counts& counts, Kind kind, std::uint32_t by) {
  if (kind == Kind::kChannelGroup || kind == Kind::kLoneChannel) {
    counts.channel_groups += by;
  }
  if (kind == Kind::kChannel || kind == Kind::kLoneChannel) {
    counts.channels += by;
  }
  if (kind == Kind::kDebugger) {
    counts.debuggers += by;
  }
}

}  // namespace cgpu::ledger

#endif  // CGPU_LEDGER_HELPERS_H_
