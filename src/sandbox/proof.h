// Proves that a container's seccomp filter hands its calls to the container's own shim.
//
// Only the OCI runtime knows what it makes of a configuration. A filter that somebody put in place
// of cgpu's may let everything pass and still have a listener. So the container makes one call,
// before the first program of its image runs, that only a cgpu filter hands over: an ioctl on no
// file. The shim answers it by its registers, with a number that is the container's own. A kernel
// answers EBADF, and no filter answers a number.
#ifndef CGPU_SANDBOX_PROOF_H_
#define CGPU_SANDBOX_PROOF_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "os/notify.h"
#include "sandbox/filter.h"

namespace cgpu::sandbox {

// _IOR('c', 0x70, 8 bytes): it has a size, so the filter hands it over.
inline constexpr std::uint32_t kProofRequest = 0x80086370;
static_assert(IsTrapped(kProofRequest));

[[nodiscard]] bool IsProof(const os::Notification& call);

// Returns the answer of the shim of container `id`: 1 to 2^31 - 1.
[[nodiscard]] std::int64_t ProofAnswer(std::string_view id);

// Makes the call. kPermission: the shim of the container `id` did not answer it.
[[nodiscard]] Result<> ProveFilter(std::string_view id);

// A process's program, as far as it tells a runtime's program from an image's.
struct Program {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  // True if the program lies in a mount of the process's mount namespace. An OCI runtime's own
  // program does not, once the runtime has left the host's mounts.
  bool of_image = false;

  bool operator==(const Program&) const = default;
};

// Returns the program of process `pid`, by an open /proc; nothing if it has ended. Asks no file
// system.
[[nodiscard]] std::optional<Program> ProgramOf(int proc, pid_t pid);

}  // namespace cgpu::sandbox

#endif  // CGPU_SANDBOX_PROOF_H_
