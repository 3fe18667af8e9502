// Driver branches, and facts that changed from one to the next.
//
// A fact is what it was in the oldest branch plus the branches that changed it: one table serves
// all, and a new branch adds a change only where something did change.
#ifndef CGPU_RM_BY_BRANCH_H_
#define CGPU_RM_BY_BRANCH_H_

#include <array>
#include <cstddef>
#include <initializer_list>

#include "rm/nv_types.h"

namespace cgpu::rm {

// In the order of their releases.
enum class Branch : NvU8 { k535, k550, k570, k580, k590, k595 };

class ByBranch {
 public:
  struct Change {
    Branch since{};
    NvU32 value = 0;
  };
  static constexpr std::size_t kMaxChanges = 4;

  // The same in all branches.
  constexpr ByBranch(NvU32 value) : first_(value) {}  // NOLINT(google-explicit-constructor)
  // `first` in the oldest branch; then the changes, oldest first.
  constexpr ByBranch(NvU32 first, std::initializer_list<Change> changes) : first_(first) {
    for (const Change& change : changes) {
      changes_.at(count_++) = change;
    }
  }

  [[nodiscard]] constexpr NvU32 At(Branch branch) const {
    NvU32 value = first_;
    for (std::size_t i = 0; i < count_ && changes_[i].since <= branch; ++i) {
      value = changes_[i].value;
    }
    return value;
  }

 private:
  NvU32 first_;
  std::array<Change, kMaxChanges> changes_{};
  std::size_t count_ = 0;
};

}  // namespace cgpu::rm

#endif  // CGPU_RM_BY_BRANCH_H_
