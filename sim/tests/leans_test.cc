// Refusals that cgpu's boundary leaves to the driver, as the simulated driver makes them.
// docs/reference/driver-leans.md lists each with the driver's source and with the test here, or
// elsewhere, that asserts it.
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <memory>

#include "rm/channel_params.h"
#include "rm/class_table.h"
#include "rm/control_table.h"
#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"
#include "sim/driver/control.h"
#include "sim/tests/uvm_process.h"

namespace cgpu::sim {
namespace {

constexpr rm::NvU64 kAt = rm::NvU64{1} << 41;
constexpr rm::NvU64 kHuge = rm::NvU64{2} << 20;

class Lean : public testing::Test {
 protected:
  std::unique_ptr<Driver> driver = MakeDriver("a10:2");
  UvmProcess mine{*driver, 100};
  UvmProcess other{*driver, 101};

  // Asks how many GPUs are attached as `client`, by an ioctl of `process` on `file`.
  static rm::NvStatus Ask(Process& process, FileId file, rm::NvHandle client) {
    rm::NV0000_CTRL_GPU_GET_PROBED_IDS_PARAMS_V535 ids{};
    rm::NVOS54_PARAMETERS api{};
    api.hClient = client;
    api.hObject = client;
    api.cmd = rm::NV0000_CTRL_CMD_GPU_GET_PROBED_IDS;
    api.params = reinterpret_cast<rm::NvP64>(&ids);
    api.paramsSize = sizeof(ids);
    EXPECT_EQ(0, process.Ioctl(file, rm::NV_ESC_RM_CONTROL, api));
    return api.status;
  }
  template <class T>
  static rm::NvStatus TryAlloc(Process& process, rm::NvHandle parent, rm::NvU32 cls, T params) {
    rm::NvHandle handle = 0;
    return process.TryAlloc(parent, cls, params, &handle);
  }
  rm::NvStatus Command(rm::NvHandle object, rm::NvU32 cmd, std::vector<std::byte>& params) {
    rm::NVOS54_PARAMETERS api{};
    api.hClient = mine.client;
    api.hObject = object;
    api.cmd = cmd;
    api.params = params.empty() ? 0 : reinterpret_cast<rm::NvP64>(params.data());
    api.paramsSize = static_cast<rm::NvU32>(params.size());
    EXPECT_EQ(0, mine.Ioctl(mine.ctl, rm::NV_ESC_RM_CONTROL, api));
    return api.status;
  }
  rm::NvStatus TryChannel(rm::NvHandle parent, rm::NvHandle share, rm::NvHandle space) {
    rm::NV_CHANNEL_ALLOC_PARAMS_V570 params{};
    params.v535.hContextShare = share;
    params.v535.hVASpace = space;
    return TryAlloc(mine, parent, rm::AMPERE_CHANNEL_GPFIFO_A, params);
  }
};

// client.c rmclientValidate_IMPL()
TEST_F(Lean, AClientIsUsedThroughItsOwnFileAlone) {
  EXPECT_EQ(rm::NV_OK, Ask(mine, mine.ctl, mine.client));
  EXPECT_EQ(rm::NV_ERR_INVALID_CLIENT, Ask(other, other.ctl, mine.client));
  const FileId second = driver->Open(FileKind::kCtl, 255);
  EXPECT_EQ(rm::NV_ERR_INVALID_CLIENT, Ask(mine, second, mine.client)) << "of the same process";
}

// The driver compares no user and no process as long as clients are validated strictly, which is
// its default: so nothing leans on them.
TEST_F(Lean, WhoeverHasTheFileUsesItsClients) {
  other.caller.euid = 4711;
  EXPECT_EQ(rm::NV_OK, Ask(other, mine.ctl, mine.client));
}

// osapi.c rm_cleanup_file_private()
TEST_F(Lean, ClientsEndWithTheirFile) {
  mine.AllocVidmem(64 * kHuge);
  driver->Close(mine.ctl);
  EXPECT_EQ(0, other.Used());
  EXPECT_EQ(rm::NV_ERR_INVALID_CLIENT, Ask(other, other.ctl, mine.client));
}

// rs_client.c clientValidateNewResourceHandle_IMPL(), rs_server.c serverAllocClient()
TEST_F(Lean, AHandleNamesOneObject) {
  rm::NV2080_ALLOC_PARAMETERS params{};
  rm::NvHandle handle = mine.device;
  EXPECT_EQ(rm::NV_ERR_INSERT_DUPLICATE_NAME,
            mine.TryAlloc(mine.device, rm::NV20_SUBDEVICE_0, params, &handle));
  rm::NVOS21_PARAMETERS root{};
  root.hRoot = mine.client;
  root.hObjectNew = mine.client;
  EXPECT_EQ(0, other.Ioctl(other.ctl, rm::NV_ESC_RM_ALLOC, root));
  EXPECT_EQ(rm::NV_ERR_INSERT_DUPLICATE_NAME, root.status);
}

// vaspace.c vaspaceGetByHandleOrDeviceDefault(), as kernel_channel_group_api.c, kernel_ctxshare.c,
// kernel_channel.c and virtual_mem.c call it
TEST_F(Lean, AnAddressSpaceIsNamedByAnAddressSpace) {
  const rm::NvHandle memory = mine.AllocVidmem(kHuge);
  const rm::NvHandle space = mine.AllocVaSpace();
  const rm::NvHandle group = mine.AllocGroup();
  for (const auto& [named, group_says] : {std::pair{space, rm::NV_OK},
                                          {memory, rm::NV_ERR_INVALID_OBJECT_HANDLE},
                                          {mine.device, rm::NV_ERR_INVALID_OBJECT_HANDLE},
                                          {rm::NvHandle{0xdead}, rm::NV_ERR_OBJECT_NOT_FOUND}}) {
    rm::NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS of_group{};
    of_group.hVASpace = named;
    of_group.engineType = rm::NV2080_ENGINE_TYPE_COPY0;
    EXPECT_EQ(group_says, TryAlloc(mine, mine.device, rm::KEPLER_CHANNEL_GROUP_A, of_group));
    rm::NV_CTXSHARE_ALLOCATION_PARAMETERS of_share{};
    of_share.hVASpace = named;
    EXPECT_EQ(group_says, TryAlloc(mine, group, rm::FERMI_CONTEXT_SHARE_A, of_share));
    rm::NV_MEMORY_VIRTUAL_ALLOCATION_PARAMS of_range{};
    of_range.hVASpace = named;
    EXPECT_EQ(group_says, TryAlloc(mine, mine.device, rm::NV01_MEMORY_VIRTUAL, of_range));
    EXPECT_EQ(group_says, TryChannel(mine.device, 0, named));
  }
}

// kernel_channel.c kchannelConstruct_IMPL()
TEST_F(Lean, AChannelNamesAContextShareOfItsGroup) {
  const rm::NvHandle space = mine.AllocVaSpace();
  const rm::NvHandle memory = mine.AllocVidmem(kHuge);
  const rm::NvHandle group = mine.AllocGroup();
  const rm::NvHandle second = mine.AllocGroup();
  rm::NV_CTXSHARE_ALLOCATION_PARAMETERS params{};
  params.hVASpace = space;
  const rm::NvHandle share = mine.Alloc(group, rm::FERMI_CONTEXT_SHARE_A, params);
  EXPECT_EQ(rm::NV_OK, TryChannel(group, share, 0));
  EXPECT_EQ(rm::NV_ERR_INVALID_OBJECT_PARENT, TryChannel(second, share, 0));
  EXPECT_EQ(rm::NV_ERR_INVALID_OBJECT_HANDLE, TryChannel(group, memory, 0));
  EXPECT_EQ(rm::NV_ERR_OBJECT_NOT_FOUND, TryChannel(group, 0xdead, 0));
  EXPECT_EQ(rm::NV_ERR_INVALID_ARGUMENT, TryChannel(group, 0, space));
  EXPECT_EQ(rm::NV_ERR_INVALID_ARGUMENT, TryChannel(group, share, space));
  EXPECT_EQ(rm::NV_ERR_INVALID_ARGUMENT, TryChannel(mine.device, share, 0));
}

// alloc_free.c serverAllocResourceUnderLock(), by the parents in resource_list.h
TEST_F(Lean, AnObjectLiesBelowWhatItsClassSays) {
  for (const auto& [parent, cls] : {std::pair{mine.device, rm::NV2081_BINAPI},
                                    {mine.client, rm::NV01_MEMORY_LOCAL_USER},
                                    {mine.subdevice, rm::KEPLER_CHANNEL_GROUP_A},
                                    {mine.subdevice, rm::AMPERE_CHANNEL_GPFIFO_A},
                                    {mine.device, rm::FERMI_CONTEXT_SHARE_A},
                                    {mine.device, rm::NV01_DEVICE_0}}) {
    std::array<std::byte, 1024> params{};
    EXPECT_EQ(rm::NV_ERR_INVALID_OBJECT_PARENT, TryAlloc(mine, parent, cls, params)) << cls;
  }
}

// alloc_free.c _serverAllocValidatePrivilege(), by the flags in resource_list.h
TEST_F(Lean, ClassesOfAdministratorsAreTheirs) {
  unsigned asked = 0;
  for (const rm::ClassRow& row : rm::ClassRows()) {
    if (row.access == rm::ClassAccess::kAny || !row.Known(rm::Branch::k550)) {
      continue;
    }
    std::array<std::byte, 4096> params{};
    EXPECT_EQ(rm::NV_ERR_INSUFFICIENT_PERMISSIONS, TryAlloc(mine, mine.device, row.number, params))
        << row.name;
    ++asked;
  }
  EXPECT_LT(20U, asked);
}

// control.c rmControlValidateClientPrivilegeAccess(), by the flags in generated/g_*_nvoc.c
TEST_F(Lean, CommandsOfAdministratorsAreTheirs) {
  unsigned asked = 0;
  for (const auto& [object, cls] : {std::pair{mine.client, rm::NvU32{0}},
                                    {mine.device, rm::NV01_DEVICE_0},
                                    {mine.subdevice, rm::NV20_SUBDEVICE_0}}) {
    for (rm::NvU32 number = 0; number < 0x8000; ++number) {
      const rm::NvU32 cmd = cls << 16U | number;
      if (!IsRootControl(cmd) && !IsKernelControl(cmd)) {
        continue;
      }
      const rm::ControlRow* row = rm::FindControl(cmd);
      std::vector<std::byte> params(row == nullptr ? 0 : row->Size(rm::Branch::k550));
      EXPECT_EQ(rm::NV_ERR_INSUFFICIENT_PERMISSIONS, Command(object, cmd, params)) << cmd;
      ++asked;
    }
  }
  EXPECT_LT(100U, asked);
}

// control.c _rmapiRmControl()
TEST_F(Lean, ACommandTakesParametersOfOneSize) {
  std::array<std::byte, sizeof(rm::NV0000_CTRL_GPU_GET_PROBED_IDS_PARAMS_V535) + 4> params{};
  EXPECT_EQ(rm::NV_ERR_INVALID_ARGUMENT,
            mine.Control(mine.client, rm::NV0000_CTRL_CMD_GPU_GET_PROBED_IDS, params));
}

// nv.c nvidia_ioctl(), escape.c RmIoctl()
TEST_F(Lean, UnknownNumbersAndOtherSizesAreRefused) {
  std::array<std::byte, 16> params{};
  EXPECT_EQ(EINVAL, mine.Ioctl(mine.ctl, 0x10, params));
  EXPECT_EQ(EINVAL, mine.Ioctl(mine.ctl, rm::NV_ESC_RM_DUP_OBJECT, params));
  EXPECT_EQ(EINVAL, mine.Ioctl(mine.ctl, rm::NV_ESC_RM_ALLOC, params));
}

// nv.c and escape.c; runtime/others_filter.cc has the five
TEST_F(Lean, RequestsOfOtherDevicesDoNothing) {
  const rm::NvU64 used = mine.Used();
  std::array<std::byte, sizeof(rm::nv_ioctl_card_info_t) - 1> cards{};
  EXPECT_EQ(EINVAL, mine.Ioctl(mine.ctl, rm::NV_ESC_CARD_INFO, cards));
  std::array<std::byte, 9> longer{};
  EXPECT_EQ(EINVAL, mine.Ioctl(mine.gpu_file, rm::NV_ESC_QUERY_DEVICE_INTR, longer));
  rm::NvU32 status = 0;
  EXPECT_EQ(EINVAL, mine.Ioctl(mine.gpu_file, rm::NV_ESC_SET_NUMA_STATUS, status));
  std::array<std::byte, 8> diagnosis{};
  EXPECT_EQ(EINVAL, mine.Ioctl(mine.ctl, rm::NV_ESC_RM_LOCKLESS_DIAGNOSTIC, diagnosis));
  rm::NvU32 nothing = 0;
  EXPECT_EQ(0, mine.Ioctl(mine.ctl, rm::NV_ESC_ATTACH_GPUS_TO_FD, nothing));
  EXPECT_EQ(EINVAL, mine.Ioctl(mine.ctl, rm::NV_ESC_ATTACH_GPUS_TO_FD, nothing)) << "once";
  EXPECT_EQ(used, mine.Used());
}

// escape.c NV_ESC_REGISTER_FD
TEST_F(Lean, AFileIsRegisteredToOneControlFile) {
  rm::nv_ioctl_register_fd_t api{Process::kGpuFd};
  EXPECT_EQ(EINVAL, mine.Ioctl(mine.gpu_file, rm::NV_ESC_REGISTER_FD, api)) << "no control file";
  api.ctl_fd = Process::kCtlFd;
  EXPECT_EQ(EINVAL, mine.Ioctl(mine.ctl, rm::NV_ESC_REGISTER_FD, api)) << "itself";
  EXPECT_EQ(0, mine.Ioctl(mine.gpu_file, rm::NV_ESC_REGISTER_FD, api));
  EXPECT_EQ(EINVAL, mine.Ioctl(mine.gpu_file, rm::NV_ESC_REGISTER_FD, api)) << "again";
}

// device.c deviceConstruct_IMPL(), nv.c nv_is_gpu_accessible()
TEST_F(Lean, AGpuIsForProcessesThatHaveItsFileOpen) {
  rm::NV0080_ALLOC_PARAMETERS params{};
  params.deviceId = 1;
  params.hClientShare = mine.client;
  EXPECT_EQ(rm::NV_ERR_INSUFFICIENT_PERMISSIONS,
            TryAlloc(mine, mine.client, rm::NV01_DEVICE_0, params));
  mine.caller.minors = {0, 1};
  EXPECT_EQ(rm::NV_OK, TryAlloc(mine, mine.client, rm::NV01_DEVICE_0, params));
}

// os.c _initializeExportObjectFd()
TEST_F(Lean, AFileHoldsOneTableOfExports) {
  constexpr int kTarget = 9;
  mine.caller.fds[kTarget] = driver->Open(FileKind::kCtl, 255);
  rm::NV0000_CTRL_OS_UNIX_CREATE_EXPORT_OBJECT_FD_PARAMS params{};
  params.maxObjects = 4;
  params.fd = kTarget;
  constexpr rm::NvU32 kCreate = rm::NV0000_CTRL_CMD_OS_UNIX_CREATE_EXPORT_OBJECT_FD;
  EXPECT_EQ(rm::NV_OK, mine.Control(mine.client, kCreate, params));
  EXPECT_EQ(rm::NV_ERR_STATE_IN_USE, mine.Control(mine.client, kCreate, params));
  params.fd = Process::kGpuFd;
  EXPECT_EQ(rm::NV_ERR_INVALID_PARAMETER, mine.Control(mine.client, kCreate, params));
}

// os.c cliresCtrlCmdOsUnixImportObjectsFromFd_IMPL()
TEST_F(Lean, NothingComesOfAFileThatHoldsNoExports) {
  rm::NV0000_CTRL_OS_UNIX_IMPORT_OBJECTS_FROM_FD_PARAMS params{};
  params.fd = Process::kCtlFd;
  params.hParent = mine.device;
  params.numObjects = 1;
  EXPECT_EQ(rm::NV_ERR_INVALID_PARAMETER,
            mine.Control(mine.client, rm::NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECTS_FROM_FD, params));
}

// osapi.c allocate_os_event()
TEST_F(Lean, AnEventOfTheSystemExistsOnce) {
  rm::nv_ioctl_alloc_os_event_t api{mine.client, 0, 7, 0};
  EXPECT_EQ(0, mine.Ioctl(mine.ctl, rm::NV_ESC_ALLOC_OS_EVENT, api));
  EXPECT_EQ(rm::NV_OK, api.Status);
  EXPECT_EQ(0, mine.Ioctl(mine.ctl, rm::NV_ESC_ALLOC_OS_EVENT, api));
  EXPECT_NE(rm::NV_OK, api.Status);
}

// nv-mmap.c nvidia_mmap_helper()
TEST_F(Lean, AFileMapsWhatRmMapMemoryNamed) {
  EXPECT_FALSE(driver->MapContextOf(mine.gpu_file));
  rm::nv_ioctl_nvos33_parameters_with_fd api{};
  api.params.hClient = mine.client;
  api.params.hDevice = mine.device;
  api.params.hMemory = mine.AllocVidmem(kHuge);
  api.params.length = 4096;
  api.fd = Process::kGpuFd;
  EXPECT_EQ(0, mine.Ioctl(mine.ctl, rm::NV_ESC_RM_MAP_MEMORY, api));
  EXPECT_EQ(rm::NV_OK, api.params.status);
  EXPECT_EQ(4096, driver->MapContextOf(mine.gpu_file)->length);
}

// osapi.c RmCreateMmapContextLocked(), nv-mmap.c nvidia_mmap_helper(), mapping_cpu.c memMap_IMPL()
TEST_F(Lean, TheDriversPageIsReadAndRegistersAreNotMapped) {
  rm::nv_ioctl_nvos33_parameters_with_fd api{};
  api.params.hClient = mine.client;
  api.params.hDevice = mine.subdevice;
  std::array<std::byte, 64> params{};
  api.params.hMemory = mine.Alloc(mine.subdevice, rm::RM_USER_SHARED_DATA, params);
  api.params.length = 4096;
  api.fd = Process::kCtlFd;
  EXPECT_EQ(0, mine.Ioctl(mine.ctl, rm::NV_ESC_RM_MAP_MEMORY, api));
  EXPECT_EQ(rm::NV_OK, api.params.status);
  EXPECT_FALSE(driver->MapContextOf(mine.ctl)->writable) << "though the caller asked for both";
  api.params.hDevice = mine.device;
  api.params.hMemory = mine.Alloc(mine.device, rm::NV01_MEMORY_LOCAL_PRIVILEGED, params);
  api.fd = Process::kGpuFd;
  EXPECT_EQ(0, mine.Ioctl(mine.ctl, rm::NV_ESC_RM_MAP_MEMORY, api));
  EXPECT_NE(rm::NV_OK, api.params.status);
  EXPECT_FALSE(driver->MapContextOf(mine.gpu_file));
}

// third_party_p2p_ctrl.c thirdpartyp2pCtrlCmdRegisterVidmem_IMPL()
TEST_F(Lean, ThirdPartiesGetMemoryOfTheGpuAlone) {
  std::array<std::byte, 64> params{};
  const rm::NvHandle p2p = mine.Alloc(mine.subdevice, rm::NV50_THIRD_PARTY_P2P, params);
  std::vector<std::byte> request(
      rm::FindControl(rm::NV503C_CTRL_CMD_REGISTER_VIDMEM)->Size(rm::Branch::k550));
  rm::NV_MEMORY_ALLOCATION_PARAMS host{};
  host.size = 4096;
  host.attr = rm::NVOS32_ATTR_LOCATION.Set(0, rm::NVOS32_ATTR_LOCATION_PCI);
  for (const auto& [memory, given] :
       {std::pair{mine.AllocVidmem(kHuge), true},
        {mine.Alloc(mine.device, rm::NV01_MEMORY_SYSTEM, host), false},
        {mine.device, false}}) {
    Store(std::span(request), memory);
    EXPECT_EQ(given, Command(p2p, rm::NV503C_CTRL_CMD_REGISTER_VIDMEM, request) == rm::NV_OK);
  }
}

// uvm_api.h uvm_api_range_invalid()
TEST_F(Lean, RangesOfNothingAndBeyondAllAddressesAreRefused) {
  mine.Start();
  EXPECT_EQ(rm::NV_ERR_INVALID_ADDRESS, mine.CreateRange(kAt, 0));
  EXPECT_EQ(rm::NV_ERR_INVALID_ADDRESS, mine.CreateRange(kAt, ~rm::NvU64{4095}));
  EXPECT_EQ(rm::NV_ERR_INVALID_ADDRESS, mine.CreateRange(kAt + 1, 4096));
}

// uvm_range_group.c uvm_range_group_create()
TEST_F(Lean, ARangeGroupIsNeverNamedTwice) {
  mine.Start();
  std::set<rm::NvU64> names;
  for (int i = 0; i < 3; ++i) {
    std::vector<std::byte> params(rm::UvmParamSize(rm::Branch::k550, rm::UVM_CREATE_RANGE_GROUP));
    ASSERT_EQ(rm::NV_OK, mine.Uvm(rm::UVM_CREATE_RANGE_GROUP, std::span(params)));
    EXPECT_TRUE(names.insert(Load<rm::NvU64>(params)).second);
    ASSERT_EQ(rm::NV_OK, mine.Uvm(rm::UVM_DESTROY_RANGE_GROUP, std::span(params)));
  }
}

// uvm.c uvm_vm_open_managed(): what a fork or mremap(2) makes is no managed memory.
TEST_F(Lean, CopiesAndMovedMappingsOfUvmAreNotManaged) {
  mine.Start();
  const UvmOwner parent{100, 7};
  const UvmOwner child{102, 7};
  const auto used = [this] { return driver->GetUvmAccounting().gpus[0].managed_bytes; };
  UvmSeen seen;
  seen.alive = {parent, child};
  seen.mappings = {{mine.uvm, parent, kAt, kAt + kHuge, kAt, true}};
  driver->SettleUvm(seen);
  EXPECT_EQ(kHuge, used());
  seen.mappings.push_back({mine.uvm, child, kAt, kAt + kHuge, kAt, true});
  driver->SettleUvm(seen);
  EXPECT_EQ(kHuge, used()) << "a fork's";
  seen.mappings = {{mine.uvm, parent, 2 * kAt, 2 * kAt + kHuge, kAt, true}};
  driver->SettleUvm(seen);
  EXPECT_EQ(0, used()) << "moved away";
}

}  // namespace
}  // namespace cgpu::sim
