// Pins an address space as a kernel object that outlives the process it was opened from.
//
// An open /proc/PID/mem keeps meaning the address space that the process had at that moment, even
// after the process executes another program or ends. A read returns nothing exactly when no
// process uses that address space any more (Linux fs/proc/base.c, mem_rw). An open /proc/PID/maps
// keeps meaning it too, but is readable only until the process has been waited for
// (fs/proc/task_mmu.c, m_start).
#ifndef CGPU_OS_ADDRESS_SPACE_H_
#define CGPU_OS_ADDRESS_SPACE_H_

#include <sys/types.h>

#include <optional>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "os/maps.h"

namespace cgpu::os {

struct AddressSpace {
  UniqueFd mem;
  UniqueFd maps;
};

// Opens the address space of thread `tid` of process `tgid`, both looked up by number in `proc`.
// The caller checks afterwards that the thread is still the one it meant. Tries the process's first
// thread before `tid`, because that may end sooner. Fails when the thread has no memory any more.
[[nodiscard]] Result<AddressSpace> OpenAddressSpace(int proc, pid_t tgid, pid_t tid);

// Returns true while any process uses the address space.
[[nodiscard]] bool IsUsed(const AddressSpace& space);

// Returns the shared mappings that lie at the address that is their offset (maps.h). Returns
// nothing when that is unknown: the process has been waited for, or no process uses the address
// space. One thread at a time.
[[nodiscard]] std::optional<std::vector<MappedRange>> ReadMappings(const AddressSpace& space);

}  // namespace cgpu::os

#endif  // CGPU_OS_ADDRESS_SPACE_H_
