// The shim's own small RM client. It asks questions that must not depend on anything of the
// tenant's.
//
// It has a control file and an RM client of its own, and keeps one open file per GPU while tenants
// have clients: the driver lets a process use a GPU only if that process itself holds an open file
// of it (osIsGpuAccessible, src/nvidia/arch/nvalloc/unix/src/os.c). Thread-safe.
#ifndef CGPU_SHIM_DRIVER_H_
#define CGPU_SHIM_DRIVER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/mutex.h"
#include "base/result.h"
#include "boundary/boundary.h"
#include "rm/abi.h"
#include "rm/nv_ctrl.h"
#include "rmclient/raw.h"
#include "shim/handover.h"
#include "shim/interleave.h"
#include "shim/scheduler.h"

namespace cgpu::shim {

class Driver : public GpuControls {
 public:
  // Opens the control file. `calls` and `abi` outlive this. `gpu_paths`: the GPU files in the
  // order of the grant.
  static Result<std::unique_ptr<Driver>> Open(rmclient::GpuCalls& calls, const rm::Abi& abi,
                                              const std::string& control_path,
                                              std::vector<std::string> gpu_paths);

  // Resumes the driver that saved `state`, with the descriptors in it; the same number of GPUs.
  static std::unique_ptr<Driver> Resume(rmclient::GpuCalls& calls, const rm::Abi& abi,
                                        std::vector<std::string> gpu_paths,
                                        const DriverState& state);
  // Returns the state without the GPUs' instances, which are the boundary's.
  [[nodiscard]] DriverState Save() const;

  // Returns the driver's number of a GPU, for NV01_DEVICE_0.
  [[nodiscard]] Result<std::uint32_t> DeviceInstance(std::uint32_t gpu_id) const;

  // Returns false only if the driver says that this client does not exist, or has ended itself,
  // which only a simulated driver does.
  [[nodiscard]] bool ClientExists(std::uint32_t client) const;

  // Tags `file`, an open control file of the tenant's, by making a client of ours on it. The client
  // ends with the file and cannot be used on any other, so it distinguishes this open file from all
  // others.
  [[nodiscard]] Result<std::uint32_t> TagFile(int file) const;
  [[nodiscard]] bool HasTag(int file, std::uint32_t tag) const;

  // Makes `table.fd`, an open control file, hold exported objects, as `client`, which lies on
  // `file`. Returns false if the driver refuses, for example because the file holds some already.
  [[nodiscard]] bool SetUpTable(
      int file, std::uint32_t client,
      rm::NV0000_CTRL_OS_UNIX_CREATE_EXPORT_OBJECT_FD_PARAMS& table) const;

  // Returns whether the driver has a client's object, below this parent and of this class, by calls
  // on the client's file (client_resource.c cliresCtrlCmdClientGetHandleInfo_IMPL(), the same in
  // 535.43.02 and 595.45.04).
  [[nodiscard]] bool HasObject(int file, std::uint32_t client, std::uint32_t object,
                               std::uint32_t parent, std::uint32_t cls) const;

  // Frees a client's object, or a client (its own object), by a call on its file. Failure means
  // that it is gone.
  void Free(int file, std::uint32_t client, std::uint32_t object) const;

  // Opens the GPU's file if it is not open. At the first open, also asks for the GPU's sizes.
  [[nodiscard]] Result<> OpenGpu(std::size_t gpu, std::uint32_t device_instance);
  [[nodiscard]] boundary::GpuSizes SizesOf(std::size_t gpu) const;
  // Act through a device of ours on an opened GPU.
  Result<std::uint64_t> SetSlice(std::size_t gpu, ledger::Handle client, ledger::Handle group,
                                 std::uint64_t us) override;
  void Switch(std::size_t gpu, const std::vector<ledger::ChannelInfo>& channels, bool on) override;
  Result<> SetInterleave(std::size_t gpu, ledger::Handle client, ledger::Handle group,
                         bool high) override;
  Result<> Pull(std::size_t gpu, const ledger::ChannelInfo& channel,
                governor::Trigger trigger) override;
  // Sets how a restart finds the file of a client of the container's. Once, before any call.
  using FileOf = std::function<UniqueFd(ledger::Handle client)>;
  void FindFilesBy(FileOf file_of) { file_of_ = std::move(file_of); }
  // Makes SetInterleave() and restarts ask this helper from now on; -1: no helper.
  void UseHelper(UniqueFd socket);
  // Frees those devices: the shim cannot hand them over.
  void FreeDevices();

  // Returns how often OpenGpu() was called.
  [[nodiscard]] std::uint64_t opens() const;
  // Returns the GPUs' files, if OpenGpu() was not called since `opens` calls: a caller of that
  // needs them. The last close of a GPU can take long.
  [[nodiscard]] std::vector<UniqueFd> TakeGpuFiles(std::uint64_t opens);

 private:
  struct Gpu {
    std::string path;
    UniqueFd file;
    bool asked = false;
    boundary::GpuSizes sizes;
    std::uint32_t instance = 0;  // the driver's number of it, once it is open
    bool device = false;         // we have a device on it
  };
  Driver(rmclient::GpuCalls& calls, const rm::Abi& abi) : calls_(calls), abi_(abi) {}
  // Make calls as our own client.
  template <class Params>
  [[nodiscard]] Result<> Alloc(std::uint32_t parent, std::uint32_t handle, std::uint32_t cls,
                               Params params) const;
  [[nodiscard]] rmclient::Outcome Control(std::uint32_t object, std::uint32_t command, void* params,
                                          std::size_t size) const;
  // Asks about our own subdevice.
  rmclient::Outcome QueryList(std::uint32_t command, std::uint32_t index,
                              std::uint32_t* value) const;
  Result<std::uint64_t> QueryContextBytes() const;
  Result<std::uint64_t> QuerySpaceBytes() const;
  Result<std::uint64_t> QueryBar1Bytes() const;
  [[nodiscard]] Result<> MakeDevice(std::size_t gpu) CGPU_REQUIRES(mutex_);
  [[nodiscard]] Result<> Restart(const ledger::ChannelInfo& channel);
  [[nodiscard]] Result<> CopyGroup(std::size_t gpu, ledger::Handle client, ledger::Handle group)
      CGPU_REQUIRES(mutex_);
  void FreeDevice(std::size_t gpu) CGPU_REQUIRES(mutex_);
  [[nodiscard]] bool SwitchSome(std::size_t gpu, std::span<const ledger::ChannelInfo> some,
                                bool on) const;
  Result<boundary::GpuSizes> AskSizes(std::uint32_t device_instance) const;

  rmclient::GpuCalls& calls_;
  const rm::Abi& abi_;
  FileOf file_of_;
  UniqueFd control_;
  std::uint32_t client_ = 0;
  mutable Mutex mutex_;  // guards the rest
  std::vector<Gpu> gpus_ CGPU_GUARDED_BY(mutex_);
  std::uint64_t opens_ CGPU_GUARDED_BY(mutex_) = 0;
  Interleaver interleaver_ CGPU_GUARDED_BY(mutex_);
};

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_DRIVER_H_
