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
#include "rm/abi.h"
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

// Calls ioctl(2) with all 64 bits of `request` in the register. Returns 0 or the errno.
[[nodiscard]] int RawIoctl(int fd, unsigned long request, void* params);
// Does the same with the vendor's type and direction bits.
[[nodiscard]] int Escape(int fd, rm::NvU8 nr, void* params, std::size_t size);

// Make the RM calls. `handle` is in and out: 0 lets the driver choose.
[[nodiscard]] Outcome Alloc(int fd, rm::NvHandle client, rm::NvHandle parent, rm::NvHandle* handle,
                            rm::NvU32 class_number, void* params, rm::NvU32 params_size);
[[nodiscard]] Outcome Free(int fd, rm::NvHandle client, rm::NvHandle parent, rm::NvHandle object);
[[nodiscard]] Outcome Control(int fd, rm::NvHandle client, rm::NvHandle object, rm::NvU32 cmd,
                              void* params, rm::NvU32 params_size);
[[nodiscard]] Outcome Dup(int fd, rm::NvHandle client, rm::NvHandle parent, rm::NvHandle* handle,
                          rm::NvHandle source_client, rm::NvHandle source_object, rm::NvU32 flags);
[[nodiscard]] Outcome Share(int fd, rm::NvHandle client, rm::NvHandle object,
                            const rm::RS_SHARE_POLICY& policy);
[[nodiscard]] Outcome VidHeap(int fd, rm::NVOS32_PARAMETERS* params);
// Maps memory. `params.fd` is the file that the mapping is made on; each mapping needs a new file
// of the GPU.
[[nodiscard]] Outcome MapMemory(int fd, rm::nv_ioctl_nvos33_parameters_with_fd* params);
[[nodiscard]] Outcome UnmapMemory(int fd, rm::NVOS34_PARAMETERS* params);

// Maps the first `length` bytes of `memory` into a VA range, at an address that the driver chooses.
[[nodiscard]] Outcome MapMemoryDma(int fd, const rm::Abi& abi, rm::NvHandle client,
                                   rm::NvHandle device, rm::NvHandle range, rm::NvHandle memory,
                                   rm::NvU64 length, rm::NvU64* address);

// Ties a GPU's file to the control file whose clients it serves. Returns 0 or the errno.
[[nodiscard]] int RegisterFd(int card_fd, int ctl_fd);

// Returns the driver's own version string ("550.163.01"), asked on an open control file.
[[nodiscard]] Result<std::string> QueryDriverVersion(int ctl_fd);

// Paths of the GPUs' files.
struct DevicePaths {
  std::string ctl;
  std::function<std::string(unsigned minor)> card;

  // Returns the usual names in a folder: "/dev".
  [[nodiscard]] static DevicePaths InFolder(const std::string& folder);
  // Returns the paths of a simulated node seen from outside: each file in a folder of its own under
  // MOUNT/dev.
  [[nodiscard]] static DevicePaths OfSimulatedMount(const std::string& mount);
};

}  // namespace cgpu::rmclient

#endif  // CGPU_RMCLIENT_RAW_H_
