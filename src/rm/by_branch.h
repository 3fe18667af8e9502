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

// The branches in the order of their releases.
enum class Branch : NvU8 { k535, k550, k570, k580, k590, k595, k610 };

inline constexpr std::array kBranches = {Branch::k535, Branch::k550, Branch::k570, Branch::k580,
                                         Branch::k590, Branch::k595, Branch::k610};

template <class T>
class ByBranchOf {
 public:
  struct Change {
    Branch since{};
    T value{};
  };
  static constexpr std::size_t kMaxChanges = 4;

  // Makes a fact that is the same in all branches.
  constexpr ByBranchOf(T value) : first_(value) {}  // NOLINT(google-explicit-constructor)
  // Makes a fact that is `first` in the oldest branch; then come the changes, oldest first.
  constexpr ByBranchOf(T first, std::initializer_list<Change> changes) : first_(first) {
    for (const Change& change : changes) {
      changes_.at(count_++) = change;
    }
  }

  [[nodiscard]] constexpr T At(Branch branch) const {
    T value = first_;
    for (std::size_t i = 0; i < count_ && changes_[i].since <= branch; ++i) {
      value = changes_[i].value;
    }
    return value;
  }

 private:
  T first_;
  std::array<Change, kMaxChanges> changes_{};
  std::size_t count_ = 0;
};

// A size, a count or a yes (1) or no (0).
using ByBranch = ByBranchOf<NvU32>;

// Returns a fact that is 0 in the branches before `branch`, then `value`.
constexpr ByBranch Since(Branch branch, NvU32 value = 1) {
  return {0, {{branch, value}}};
}
// Returns a fact that is `value`, and 0 from `branch` on.
constexpr ByBranch Until(Branch branch, NvU32 value = 1) {
  return {value, {{branch, 0}}};
}
// Returns a fact that is `value` from `first` on, and 0 before it and from `end` on.
constexpr ByBranch Between(Branch first, NvU32 value, Branch end) {
  return {0, {{first, value}, {end, 0}}};
}

}  // namespace cgpu::rm

#endif  // CGPU_RM_BY_BRANCH_H_
