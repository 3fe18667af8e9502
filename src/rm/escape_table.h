// The ioctls that the driver accepts: one row per escape number.
//
// Pure data and look-ups; thread-safe.
#ifndef CGPU_RM_ESCAPE_TABLE_H_
#define CGPU_RM_ESCAPE_TABLE_H_

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "rm/abi.h"
#include "rm/by_branch.h"
#include "rm/nv_escape.h"

namespace cgpu::rm {

// The parameter sizes that reach a handler. The driver answers EINVAL to other sizes.
struct SizeRule {
  enum class Kind : NvU8 {
    kNever,     // the branch has no such escape
    kExact,     // a
    kEither,    // a or b
    kMultiple,  // n * a, n > 0
    kAtLeast,   // a and more
    kAny,
  };
  Kind kind = Kind::kNever;
  NvU32 a = 0;
  NvU32 b = 0;

  friend constexpr bool operator==(const SizeRule&, const SizeRule&) = default;

  [[nodiscard]] constexpr bool Accepts(NvU32 size) const {
    switch (kind) {
      case Kind::kExact:
        return size == a;
      case Kind::kEither:
        return size == a || size == b;
      case Kind::kMultiple:
        return size != 0 && size % a == 0;
      case Kind::kAtLeast:
        return size >= a;
      case Kind::kAny:
        return true;
      case Kind::kNever:
        break;
    }
    return false;
  }
};

// The files that take it; on the others the driver answers EINVAL.
enum class EscapeFiles : NvU8 { kCtl, kGpu, kBoth };

struct EscapeRow {
  NvU8 nr;
  std::string_view name;
  std::string_view source;  // where the driver handles it
  EscapeFiles files;
  ByBranchOf<SizeRule> rule;

  [[nodiscard]] constexpr SizeRule Rule(Branch branch) const { return rule.At(branch); }
};

// Returns the rows in ascending order of nr: only escapes that some supported driver handles.
[[nodiscard]] std::span<const EscapeRow> EscapeRows();
[[nodiscard]] const EscapeRow* FindEscape(NvU8 nr);
// Returns true if this driver handles (nr, size). For NV_ESC_IOCTL_XFER_CMD, ask again for the
// inner command, with the size in its parameters; an XFER inside an XFER is never handled.
[[nodiscard]] bool EscapeAcceptsSize(const Abi& abi, NvU8 nr, NvU32 size);
// Returns where the in-band NV_STATUS lies in parameters of an accepted size; nullopt: they have
// none.
[[nodiscard]] std::optional<std::size_t> StatusOffset(NvU8 nr, std::size_t size);

// Returns true if any supported driver handles an ioctl with this request number on any of its
// files. The answer depends on the low 32 bits alone, as the kernel's does; for RM escapes the type
// and direction bits are ignored. Conservative: true even if only one branch handles it.
[[nodiscard]] bool AnyDriverAccepts(NvU32 request);

}  // namespace cgpu::rm

#endif  // CGPU_RM_ESCAPE_TABLE_H_
