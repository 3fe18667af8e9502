// Charges what UVM's address spaces hold (uvm_tracker.h).
#ifndef CGPU_BOUNDARY_SPACES_H_
#define CGPU_BOUNDARY_SPACES_H_

#include "boundary/container.h"
#include "boundary/decision.h"

namespace cgpu::boundary {

// Returns the number of range groups in all spaces.
[[nodiscard]] std::uint64_t RangeGroups(const Container& container);
// Returns the bytes of the semaphore pools in all spaces: at most kMaxPoolBytes.
[[nodiscard]] std::uint64_t PoolBytes(const Container& container);
// Charges what the plan of `decision` takes of each GPU, and the tables' root.
[[nodiscard]] Decision ReserveTables(Container& container, Call& call, Decision decision,
                                     UvmSpace& space);
// Gives the plan of `decision` back.
void DropPlan(Container& container, const Call& call, const Decision& decision, UvmSpace& space);
// Sets the ledger's charge to what the space's tracker says.
void SettleSpace(Container& container, ledger::FileKey key, UvmSpace& space);

}  // namespace cgpu::boundary

#endif  // CGPU_BOUNDARY_SPACES_H_
