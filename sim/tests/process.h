// A process of a test: a control file, a GPU's file, a client, its device and subdevice.
#ifndef CGPU_SIM_TESTS_PROCESS_H_
#define CGPU_SIM_TESTS_PROCESS_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "rm/nv_alloc.h"
#include "rm/nv_classes.h"
#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"
#include "rm/nv_escape.h"
#include "rm/nv_structs.h"
#include "sim/driver/driver.h"
#include "sim/tests/fake_caller.h"

namespace cgpu::sim {

inline std::unique_ptr<Driver> MakeDriver(const std::string& gpus,
                                          rm::Branch branch = rm::Branch::k550) {
  const rm::Abi& abi = rm::GetAbi(branch);
  return std::make_unique<Driver>(ParseGpus(gpus, "test").value(), abi.reference, abi);
}

class Process {
 public:
  static constexpr int kCtlFd = 3;
  static constexpr int kGpuFd = 4;

  explicit Process(Driver& driver, std::uint32_t tgid, unsigned gpu = 0) : driver_(driver) {
    caller.tgid = tgid;
    ctl = driver.Open(FileKind::kCtl, 255);
    gpu_file = driver.Open(FileKind::kGpu, gpu);
    caller.fds = {{kCtlFd, ctl}, {kGpuFd, gpu_file}};
    caller.minors = {gpu};
    client = AllocRoot();
    rm::NV0080_ALLOC_PARAMETERS params{};
    params.deviceId = gpu;
    params.hClientShare = client;
    device = Alloc(client, rm::NV01_DEVICE_0, params);
    subdevice = Alloc(device, rm::NV20_SUBDEVICE_0, rm::NV2080_ALLOC_PARAMETERS{});
  }

  // An ioctl through `file`; returns its errno.
  template <class T>
  int Ioctl(FileId file, rm::NvU8 nr, T& params) {
    const rm::NvU32 request =
        3U << 30 | static_cast<rm::NvU32>(sizeof(T)) << 16 | rm::NvU32{'F'} << 8 | nr;
    Call call = driver_.Prepare(file, request, reinterpret_cast<rm::NvP64>(&params), caller);
    driver_.Execute(call, caller);
    return driver_.Finish(call, caller);
  }

  template <class T>
  rm::NvStatus TryAlloc(rm::NvHandle parent, rm::NvU32 cls, T& params, rm::NvHandle* handle) {
    rm::NVOS21_PARAMETERS api{};
    api.hRoot = client;
    api.hObjectParent = parent;
    api.hObjectNew = *handle;
    api.hClass = cls;
    api.pAllocParms = reinterpret_cast<rm::NvP64>(&params);
    EXPECT_EQ(0, Ioctl(ctl, rm::NV_ESC_RM_ALLOC, api));
    *handle = api.hObjectNew;
    return api.status;
  }
  rm::NvStatus TryAllocPlain(rm::NvHandle parent, rm::NvU32 cls, rm::NvHandle* handle) {
    rm::NVOS21_PARAMETERS api{};
    api.hRoot = client;
    api.hObjectParent = parent;
    api.hClass = cls;
    EXPECT_EQ(0, Ioctl(ctl, rm::NV_ESC_RM_ALLOC, api));
    *handle = api.hObjectNew;
    return api.status;
  }
  template <class T>
  rm::NvHandle Alloc(rm::NvHandle parent, rm::NvU32 cls, T params) {
    rm::NvHandle handle = 0;
    EXPECT_EQ(rm::NV_OK, TryAlloc(parent, cls, params, &handle)) << std::hex << cls;
    return handle;
  }
  rm::NvHandle AllocVidmem(rm::NvU64 size) {
    rm::NV_MEMORY_ALLOCATION_PARAMS params{};
    params.size = size;
    return Alloc(device, rm::NV01_MEMORY_LOCAL_USER, params);
  }
  rm::NvHandle AllocGroup(rm::NvU32 engine = rm::NV2080_ENGINE_TYPE_GRAPHICS,
                          rm::NvHandle vaspace = 0) {
    rm::NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS params{};
    params.hVASpace = vaspace;
    params.engineType = engine;
    return Alloc(device, rm::KEPLER_CHANNEL_GROUP_A, params);
  }
  rm::NvHandle AllocChannel(rm::NvHandle parent, rm::NvU32 cls) {
    return Alloc(parent, cls, rm::NV_CHANNEL_ALLOC_PARAMS_V610{});
  }

  rm::NvStatus Free(rm::NvHandle object) {
    rm::NVOS00_PARAMETERS api{};
    api.hRoot = client;
    api.hObjectOld = object;
    EXPECT_EQ(0, Ioctl(ctl, rm::NV_ESC_RM_FREE, api));
    return api.status;
  }

  template <class T>
  rm::NvStatus Control(rm::NvHandle object, rm::NvU32 cmd, T& params) {
    rm::NVOS54_PARAMETERS api{};
    api.hClient = client;
    api.hObject = object;
    api.cmd = cmd;
    api.params = reinterpret_cast<rm::NvP64>(&params);
    api.paramsSize = sizeof(T);
    EXPECT_EQ(0, Ioctl(ctl, rm::NV_ESC_RM_CONTROL, api));
    return api.status;
  }
  // FIFO_DISABLE_CHANNELS of one channel, whosever it is, sent to `object`.
  rm::NvStatus SwitchChannel(rm::NvHandle object, rm::NvHandle owner, rm::NvHandle channel,
                             bool on) {
    rm::NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS params{};
    params.bDisable = on ? 0 : 1;
    params.numChannels = 1;
    params.hClientList[0] = owner;
    params.hChannelList[0] = channel;
    return Control(object, rm::NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS, params);
  }

  Accounting GetAccounting() {
    Driver::Counts counts;
    return driver_.GetAccounting(&counts);
  }

  FakeCaller caller;
  FileId ctl = 0;
  FileId gpu_file = 0;
  rm::NvHandle client = 0;
  rm::NvHandle device = 0;
  rm::NvHandle subdevice = 0;

 private:
  rm::NvHandle AllocRoot() {
    rm::NVOS21_PARAMETERS api{};
    EXPECT_EQ(0, Ioctl(ctl, rm::NV_ESC_RM_ALLOC, api));
    EXPECT_EQ(rm::NV_OK, api.status);
    return api.hObjectNew;
  }

  Driver& driver_;
};

}  // namespace cgpu::sim

#endif  // CGPU_SIM_TESTS_PROCESS_H_
