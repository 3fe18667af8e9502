// Makes one ioctl to the driver, as it is, and says what came of it.
//
// The driver answers in two places: the errno of the ioctl itself (bad number, bad file, bad
// address) and, when that was 0, the status in the parameters. Tests need the two apart; the rest
// of this module turns them into a Result. Thread-safe: nothing here has state.
#ifndef CGPU_RMCLIENT_RAW_H_
#define CGPU_RMCLIENT_RAW_H_

#include <functional>
#include <string>

#include "base/fd.h"
#include "base/result.h"
#include "rm/nv_status.h"
#include "rm/nv_structs.h"

namespace cgpu::rmclient {

struct Outcome {
  int sys_errno = 0;  // 0: the driver answered, and `status` is its answer
  rm::NvStatus status = rm::NV_OK;

  [[nodiscard]] bool ok() const { return sys_errno == 0 && status == rm::NV_OK; }
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

// Returns "out of memory (NV_ERR_NO_MEMORY)", "Inappropriate ioctl for device", ...
[[nodiscard]] std::string Describe(const Outcome& outcome);
// Returns the error "WHAT: Describe(outcome)", with the code that fits: kExhausted for
// NV_ERR_NO_MEMORY, kPermission, kUnsupported, ... `outcome` must not be ok().
[[nodiscard]] Error CallError(const Outcome& outcome, const std::string& what);
// Returns that error, or none if `outcome` is ok().
[[nodiscard]] Result<> Checked(const Outcome& outcome, const std::string& what);

// The way into the driver. Tests of the shim put a driver of their own in its place. Thread-safe.
class GpuCalls {
 public:
  virtual ~GpuCalls() = default;
  // Makes the ioctl on `file`, with all 64 bits of `request` in the register and the parameters at
  // `params`. Returns its errno, or 0.
  [[nodiscard]] virtual int Call(int file, unsigned long request, void* params) = 0;
};

// Returns the kernel's.
[[nodiscard]] GpuCalls& KernelGpuCalls();

// Makes the call with the vendor's type and direction bits. Returns 0 or the errno.
[[nodiscard]] int Escape(int fd, rm::NvU8 nr, void* params, std::size_t size,
                         GpuCalls& calls = KernelGpuCalls());

// Make the RM calls. `handle` is in and out: 0 lets the driver choose.
[[nodiscard]] Outcome Alloc(int fd, rm::NvHandle client, rm::NvHandle parent, rm::NvHandle* handle,
                            rm::NvU32 class_number, void* params, rm::NvU32 params_size,
                            GpuCalls& calls = KernelGpuCalls());
[[nodiscard]] Outcome Free(int fd, rm::NvHandle client, rm::NvHandle parent, rm::NvHandle object,
                           GpuCalls& calls = KernelGpuCalls());
[[nodiscard]] Outcome Control(int fd, rm::NvHandle client, rm::NvHandle object, rm::NvU32 cmd,
                              void* params, rm::NvU32 params_size,
                              GpuCalls& calls = KernelGpuCalls());
[[nodiscard]] Outcome Dup(int fd, rm::NvHandle client, rm::NvHandle parent, rm::NvHandle* handle,
                          rm::NvHandle source_client, rm::NvHandle source_object, rm::NvU32 flags,
                          GpuCalls& calls = KernelGpuCalls());
[[nodiscard]] Outcome Share(int fd, rm::NvHandle client, rm::NvHandle object,
                            const rm::RS_SHARE_POLICY& policy);
// Maps memory. `params.fd` is the file that the mapping is made on; each mapping needs a new file
// of the GPU.
[[nodiscard]] Outcome MapMemory(int fd, rm::nv_ioctl_nvos33_parameters_with_fd* params);
[[nodiscard]] Outcome UnmapMemory(int fd, rm::NVOS34_PARAMETERS* params);

// Ties a GPU's file to the control file whose clients it serves. Returns 0 or the errno.
[[nodiscard]] int RegisterFd(int gpu_fd, int ctl_fd);

// Returns the driver's own version string ("550.163.01"), asked on an open control file.
[[nodiscard]] Result<std::string> QueryDriverVersion(int ctl_fd);

// Paths of the GPUs' files.
struct DevicePaths {
  std::string ctl;
  std::function<std::string(unsigned minor)> gpu;

  // Returns the usual names in a folder: "/dev".
  [[nodiscard]] static DevicePaths InFolder(const std::string& folder);
};

}  // namespace cgpu::rmclient

#endif  // CGPU_RMCLIENT_RAW_H_
