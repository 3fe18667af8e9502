// How a container shows that its seccomp filter hands its calls to its own shim.
//
// What the OCI runtime makes of a configuration nobody else sees: a filter that somebody put in
// place of cgpu's may let everything pass and have a listener all the same. So one call is made in
// the container, before the first program of its image runs, that only a cgpu filter hands over: an
// ioctl on no file. The shim answers it by its registers with a number that is the container's own;
// a kernel answers EBADF, and no filter answers a number.
#ifndef CGPU_KERNEL_PROOF_H_
#define CGPU_KERNEL_PROOF_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "kernel/filter.h"
#include "kernel/notify.h"

namespace cgpu::kernel {

// _IOR('c', 0x70, 8 bytes): with a size, so handed over.
inline constexpr std::uint32_t kProofRequest = 0x80086370;
static_assert(IsTrapped(kProofRequest));

[[nodiscard]] bool IsProof(const Notification& call);

// What the shim of the container `id` answers: 1 to 2^31 - 1.
[[nodiscard]] std::int64_t ProofAnswer(std::string_view id);

// Makes the call. kPermission: it was not answered by the shim of the container `id`.
[[nodiscard]] Result<> ProveFilter(std::string_view id);

// The program that a process runs, as far as it tells a runtime's from an image's.
struct Program {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  // It lies in a mount that the process's mount namespace has: an OCI runtime's own does not, once
  // it has left the node's mounts behind.
  bool of_image = false;

  bool operator==(const Program&) const = default;
};

// Of the process `pid`, by an open /proc; nothing if it has ended. Asks no file system of
// anybody's.
[[nodiscard]] std::optional<Program> ProgramOf(int proc, pid_t pid);

}  // namespace cgpu::kernel

#endif  // CGPU_KERNEL_PROOF_H_
