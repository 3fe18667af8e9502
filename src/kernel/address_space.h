// An address space as a pinned kernel object, whatever becomes of the process it was opened by.
//
// An open /proc/PID/mem keeps meaning the address space that the process had when it was opened,
// also when that process has executed another program or ended: reading it gives nothing exactly
// when no process uses that address space any more (Linux fs/proc/base.c, mem_rw). An open
// /proc/PID/maps keeps meaning it too, but can be read only until the process has been waited for
// (fs/proc/task_mmu.c, m_start).
#ifndef CGPU_KERNEL_ADDRESS_SPACE_H_
#define CGPU_KERNEL_ADDRESS_SPACE_H_

#include <sys/types.h>

#include <optional>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "kernel/maps.h"

namespace cgpu::kernel {

struct AddressSpace {
  UniqueFd mem;
  UniqueFd maps;
};

// Of the thread `tid` of the process `tgid`, looked up by number in `proc`: the caller makes sure
// afterwards that the thread still was the one it meant. The process's first thread is preferred,
// for others may end sooner. Fails when the thread has no memory any more.
[[nodiscard]] Result<AddressSpace> OpenAddressSpace(int proc, pid_t tgid, pid_t tid);

// Does any process use it?
[[nodiscard]] bool IsUsed(const AddressSpace& space);

// Its mappings of `inodes` that lie where their offset says. Nothing: it cannot be told, since the
// process has been waited for or nobody uses the address space. Not for two threads at a time.
[[nodiscard]] std::optional<std::vector<MappedRange>> ReadMappings(const AddressSpace& space,
                                                                   const InodeSet& inodes);

}  // namespace cgpu::kernel

#endif  // CGPU_KERNEL_ADDRESS_SPACE_H_
