// Sets the interleave level of a channel group, its place between others on its runlist, and
// restarts runlists. The driver lets only a process with CAP_SYS_NICE do that
// (NVA06C_CTRL_CMD_SET_INTERLEAVE_LEVEL, NVA06F_CTRL_CMD_RESTART_RUNLIST: their rights in
// src/nvidia/generated/g_kernel_channel_group_api_nvoc.c and g_kernel_channel_nvoc.c; judged at
// each call, cliresAccessCallback in src/nvidia/src/kernel/rmapi/client_resource.c).
//
// The shim must not have that capability, since the driver makes tenants' calls with the shim's
// rights. So a helper makes these two calls: `cgpu-shim interleave`, a process with CAP_SYS_NICE
// and no other capability, few system calls, and one escape as its only ioctl. It talks to the shim
// alone and keeps nothing. A request for a level brings the control file that the shim's own client
// lies on. One for a restart brings the file of a tenant's client, because the driver duplicates no
// channels: the tenant can make the call fail, and no other call of it. The process that gives an
// order of high priority, or one with restart, starts the helper (host/shim_process.h) and hands
// its socket over with the order. The helper ends when the other end of its socket is closed
// everywhere.
#ifndef CGPU_SHIM_INTERLEAVE_H_
#define CGPU_SHIM_INTERLEAVE_H_

#include <cstdint>
#include <string>

#include "base/fd.h"
#include "base/result.h"

namespace cgpu::shim {

// The shim's end. Thread-compatible.
class Interleaver {
 public:
  Interleaver() = default;
  // `helper`: its socket; not valid: there is none.
  explicit Interleaver(UniqueFd helper) : helper_(std::move(helper)) {}

  // Sets the interleave level of `group`, an object of `client`, which lies on `control`:
  // NVA06C_CTRL_INTERLEAVE_LEVEL_*. Returns the driver's status. kUnavailable: there is no helper,
  // or it gave no answer; then there is none from now on. kExhausted: nothing can be sent to it
  // now, see unix(7) on ETOOMANYREFS, which counts for a uid; try again.
  [[nodiscard]] Result<std::uint32_t> Set(int control, std::uint32_t client, std::uint32_t group,
                                          std::uint32_t level);

  // Restarts the runlist of `channel`, an object of `client`, which lies on `file`. Returns as
  // Set().
  [[nodiscard]] Result<std::uint32_t> Restart(int file, std::uint32_t client,
                                              std::uint32_t channel);

  [[nodiscard]] int fd() const { return helper_.get(); }  // -1: there is no helper

 private:
  [[nodiscard]] Result<std::uint32_t> Ask(const std::string& request, int file);

  UniqueFd helper_;
};

// Does the helper's work, over `socket`, until the other side is gone.
void ServeInterleaver(int socket);

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_INTERLEAVE_H_
