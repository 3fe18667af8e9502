// The last and the first step of a hot upgrade: this process executes another program, and that
// program finds the state that it was handed (handover.h).
#ifndef CGPU_SHIM_UPGRADE_H_
#define CGPU_SHIM_UPGRADE_H_

#include <cstdint>

#include "base/fd.h"
#include "base/result.h"
#include "shim/handover.h"

namespace cgpu::shim {

// The shim's own numbers for the two descriptors of a hot upgrade. It reserves them at its start,
// so that nothing else gets these numbers. kProgramFd is the only descriptor that it may execute.
inline constexpr int kStateFd = kShimCreatorFd + 1;
inline constexpr int kProgramFd = kShimCreatorFd + 2;
[[nodiscard]] Result<> ReserveDescriptors();

// Words behind the program's name that tell it what to do; without one it is a new shim.
inline constexpr char kResumeWord[] = "resume";  // take over the state in kStateFd
inline constexpr char kCheckWord[] = "check";    // say on stdout whether the state in fd 0 could be
                                                 // taken over

// Writes the state to a sealed file, has the process at `connection` check it by the rules of
// protocol/admin.h, and executes `program`. Returns only if that failed; then nothing has changed.
// The server is quiet.
[[nodiscard]] Error HandOver(const Handover& state, UniqueFd program, int connection);

// Return the state in the file, and make its descriptors close on exec again. kInvalid: one of them
// is not open.
[[nodiscard]] Result<Handover> ReadHandover(int file);
[[nodiscard]] Result<> TakeDescriptors(const Handover& state);

[[nodiscard]] std::int64_t MonotonicNs();

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_UPGRADE_H_
