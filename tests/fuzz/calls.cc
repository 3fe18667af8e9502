// Whole sequences of calls that make sense, as a hostile program would choose them: clients,
// devices, memory, channels, copies, exports and frees, by all ways there are, with handles that
// are right and handles that are not, on every driver branch. Up to three calls are under way at
// once, where the shim would let them.
//
// After every step: no GPU has more charged and reserved than its limit, nor has the driver handed
// out more than that; with no call under way the ledger says what the driver says. Every byte is
// read once; what the driver follows leads into our copies; answers are as long as the questions,
// have the tenant's pointers back, and tell of no other GPU, process or of the whole GPU.
#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "rm/class_table.h"
#include "rm/control_table.h"
#include "rm/nv_classes.h"
#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"
#include "tests/fuzz/tenant.h"

namespace cgpu::fuzz {

void Tenant::Alloc(std::uint32_t cls, const void* params, std::size_t size) {
  rm::NVOS64_PARAMETERS alloc{};
  alloc.hRoot = std::exchange(next_client_, std::nullopt).value_or(0);
  if (alloc.hRoot == 0) {
    alloc.hRoot = PickClient();
  }
  alloc.hObjectParent = PickObject(alloc.hRoot);
  alloc.hObjectNew = NewHandle();
  alloc.hClass = cls;
  alloc.pAllocParms = size != 0 && U8() < 250 ? lent_.Add(params, size) : 0;
  alloc.paramsSize = static_cast<rm::NvU32>(size);
  if (U8() % 2 == 0) {
    rm::NVOS21_PARAMETERS old{alloc.hRoot,
                              alloc.hObjectParent,
                              alloc.hObjectNew,
                              cls,
                              alloc.pAllocParms,
                              alloc.paramsSize,
                              0};
    Issue(rm::NV_ESC_RM_ALLOC, old);
    return;
  }
  if (U8() % 4 == 0) {
    const rm::RS_ACCESS_MASK rights{};
    alloc.pRightsRequested = lent_.Add(rights);
  }
  Issue(rm::NV_ESC_RM_ALLOC, alloc);
}

void Tenant::AllocSomething() {
  switch (U8() % 6) {
    case 0: {
      rm::NVOS21_PARAMETERS alloc{};
      const std::uint8_t how = U8();
      (how % 2 == 0 ? alloc.hRoot : alloc.hObjectNew) = how < 128 ? 0 : Wrong();
      alloc.hClass = how % 3 == 0 ? rm::NV01_ROOT_CLIENT : rm::NV01_ROOT;
      Issue(rm::NV_ESC_RM_ALLOC, alloc);
      break;
    }
    case 1:
    case 2: {
      rm::NV0080_ALLOC_PARAMETERS device{};
      constexpr std::array<std::uint32_t, 4> kInstances = {0, 3, 0, kForeignInstance};
      device.deviceId = kInstances[U8() % kInstances.size()];
      device.hClientShare = U8() % 4 == 0 ? PickClient() : 0;
      Alloc(rm::NV01_DEVICE_0, device);
      break;
    }
    case 3:
      Alloc(rm::NV20_SUBDEVICE_0, rm::NV2080_ALLOC_PARAMETERS{});
      break;
    default:
      Memory();
      break;
  }
}

// Returns attributes of memory, most of it on the GPU, in pages of any size.
std::uint32_t Tenant::Attributes() {
  const std::uint32_t attr = U32();
  return attr % 8 == 0 ? attr : rm::NVOS32_ATTR_LOCATION.Set(attr, rm::NVOS32_ATTR_LOCATION_VIDMEM);
}

// Most inputs begin with a device, so that they come further.
void Tenant::Begin() {
  if (U8() % 8 == 0) {
    return;
  }
  rm::NVOS21_PARAMETERS client{};
  client.hClass = rm::NV01_ROOT_CLIENT;
  Issue(rm::NV_ESC_RM_ALLOC, client);
  Alloc(rm::NV01_DEVICE_0, rm::NV0080_ALLOC_PARAMETERS{});
  Alloc(rm::NV20_SUBDEVICE_0, rm::NV2080_ALLOC_PARAMETERS{});
}

void Tenant::Memory() {
  rm::NV_MEMORY_ALLOCATION_PARAMS memory{};
  memory.size = (U8() + std::uint64_t{1}) << (12 + U8() % 16);
  if (U8() % 4 == 0) {
    memory.attr = Attributes();
    memory.attr2 = U8();
    memory.flags = U8() % 4 == 0 ? U32() : 0;
    memory.alignment = U32();
    memory.size = U8() % 4 == 0 ? input_.Take<std::uint64_t>() : memory.size;
  }
  memory.hVASpace = U8() % 4 == 0 ? PickObject(PickClient()) : 0;
  constexpr std::array kClasses = {rm::NV01_MEMORY_SYSTEM, rm::NV50_MEMORY_VIRTUAL};
  const std::size_t which = U8() % 12;
  Alloc(which < kClasses.size() ? kClasses.at(which) : rm::NV01_MEMORY_LOCAL_USER, memory);
}

void Tenant::Channel() {
  const Handle client = PickClient();
  next_client_ = client;
  switch (U8() % 4) {
    case 0: {
      rm::NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS group{};
      group.hVASpace = U8() % 2 == 0 ? PickObject(client) : 0;
      Alloc(rm::KEPLER_CHANNEL_GROUP_A, group);
      break;
    }
    case 1: {
      Bytes space(rm::ClassParamSize(abi_, rm::FERMI_VASPACE_A));
      Alloc(rm::FERMI_VASPACE_A, space.data(), space.size());
      break;
    }
    case 2: {
      rm::NV_CTXSHARE_ALLOCATION_PARAMETERS share{};
      share.hVASpace = PickObject(client);
      Alloc(rm::FERMI_CONTEXT_SHARE_A, share);
      break;
    }
    default: {
      Bytes params(rm::ClassParamSize(abi_, rm::VOLTA_CHANNEL_GPFIFO_A));
      auto channel = Load<rm::NV_CHANNEL_ALLOC_PARAMS_V535>(params);
      channel.hVASpace = U8() % 2 == 0 ? PickObject(client) : 0;
      channel.hContextShare = U8() % 2 == 0 ? PickObject(client) : 0;
      boundary::Store(params, channel);
      Alloc(rm::VOLTA_CHANNEL_GPFIFO_A, params.data(), params.size());
      break;
    }
  }
}

void Tenant::HeapControl() {
  rm::NVOS32_PARAMETERS heap{};
  heap.hRoot = PickClient();
  heap.hObjectParent = PickObject(heap.hRoot);
  const std::uint8_t what = U8();
  if (what < 128) {
    heap.function = rm::NVOS32_FUNCTION_ALLOC_SIZE;
    heap.data.AllocSize.size = (U8() + std::uint64_t{1}) << (12 + U8() % 16);
    heap.data.AllocSize.hMemory = NewHandle();
    if (what % 4 == 0) {
      heap.data.AllocSize.attr = Attributes();
      heap.data.AllocSize.attr2 = U8();
      heap.data.AllocSize.flags = U8() % 4 == 0 ? U32() : 0;
      heap.data.AllocSize.alignment = U32();
      heap.hVASpace = U8() % 4 == 0 ? PickObject(heap.hRoot) : 0;
    }
  } else if (what < 220) {
    heap.function = rm::NVOS32_FUNCTION_FREE;
    heap.data.Free.hMemory = PickObject(heap.hRoot);
    heap.data.Free.flags = what % 2;
  } else {
    heap.function = what < 230 ? rm::NVOS32_FUNCTION_INFO : U8() % 32;
  }
  Issue(rm::NV_ESC_RM_VID_HEAP_CONTROL, heap);
}

void Tenant::Copy() {
  rm::NVOS55_PARAMETERS dup{};
  dup.hClient = PickClient();
  dup.hParent = PickObject(dup.hClient);
  dup.hObject = NewHandle();
  dup.hClientSrc = PickClient();
  dup.hObjectSrc = PickObject(dup.hClientSrc);
  Issue(rm::NV_ESC_RM_DUP_OBJECT, dup);
}

void Tenant::Free() {
  rm::NVOS00_PARAMETERS free{};
  free.hRoot = PickClient();
  free.hObjectOld = U8() % 16 == 0 ? free.hRoot : PickObject(free.hRoot);
  Issue(rm::NV_ESC_RM_FREE, free);
}

void Tenant::Control(std::uint32_t command, const void* params, std::size_t size) {
  rm::NVOS54_PARAMETERS control{};
  control.hClient = PickClient();
  control.hObject = PickObject(control.hClient);
  control.cmd = command;
  control.params = lent_.Add(params, size);
  control.paramsSize = U8() < 250 ? static_cast<rm::NvU32>(size) : U32();
  Issue(rm::NV_ESC_RM_CONTROL, control);
}

void Tenant::Transfer() {
  const Handle client = PickClient();
  if (U8() % 2 == 0) {
    rm::NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TO_FD_PARAMS params{};
    params.object.type = U8() < 250 ? rm::NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TYPE_RM : U8();
    params.object.data.rmObject = {PickObject(client), PickObject(client), PickObject(client)};
    Control(rm::NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECT_TO_FD, params);
  } else {
    rm::NV0000_CTRL_OS_UNIX_IMPORT_OBJECT_FROM_FD_PARAMS params{};
    params.object.type = rm::NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TYPE_RM;
    params.object.data.rmObject = {PickObject(client), PickObject(client), NewHandle()};
    Control(rm::NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECT_FROM_FD, params);
  }
}

void Tenant::Ask() {
  switch (U8() % 4) {
    case 0: {
      std::array<rm::NV2080_CTRL_FB_INFO, 4> list{};
      for (auto& entry : list) {
        entry.index = U8() % 64;
      }
      rm::NV2080_CTRL_FB_GET_INFO_PARAMS params{};
      params.fbInfoListSize = U8() < 240 ? 4 : U32();
      params.fbInfoList = lent_.Add(list);
      Control(rm::NV2080_CTRL_CMD_FB_GET_INFO, params);
      break;
    }
    case 1: {
      Bytes params(rm::ControlSize(abi_, rm::NV2080_CTRL_CMD_FB_GET_INFO_V2));
      boundary::Store(params, U8() < 250 ? std::uint32_t{8} : U32());
      for (std::size_t i = 0; i < 8; ++i) {
        boundary::Store(params, std::uint32_t{U8()} % 64, 4 + i * 8);
      }
      Control(rm::NV2080_CTRL_CMD_FB_GET_INFO_V2, params.data(), params.size());
      break;
    }
    case 2: {
      const std::vector<rm::nv_ioctl_card_info_t> gpus(1 + U8() % 32);
      Issue(rm::NV_ESC_CARD_INFO, gpus.data(), gpus.size() * sizeof(gpus[0]));
      break;
    }
    default: {
      constexpr std::array kLists = {
          rm::NV0000_CTRL_CMD_GPU_GET_ATTACHED_IDS, rm::NV0000_CTRL_CMD_GPU_GET_PROBED_IDS,
          rm::NV0000_CTRL_CMD_GPU_GET_ACTIVE_DEVICE_IDS, rm::NV2080_CTRL_CMD_GPU_GET_PIDS};
      const std::uint32_t command = kLists[U8() % kLists.size()];
      const Bytes params(rm::ControlSize(abi_, command));
      Control(command, params.data(), params.size());
      break;
    }
  }
}

void Tenant::AnyClass() {
  const auto rows = rm::ClassRows();
  const rm::ClassRow& row = rows[U8() % rows.size()];
  Bytes params(rm::ClassParamSize(abi_, row.number));
  input_.Take(params.data(), std::min<std::size_t>(params.size(), U8()));
  Alloc(row.number, params.data(), params.size());
}

void Tenant::AnyControl() {
  const auto rows = rm::ControlRows();
  const rm::ControlRow& row = rows[input_.Take<std::uint16_t>() % rows.size()];
  constexpr std::size_t kFirmwareBytes = 8;  // where no size is on record
  const std::size_t size = rm::ControlSize(abi_, row.cmd);
  Bytes params(size == 0 && row.most_bytes != 0 ? kFirmwareBytes : size);
  input_.Take(params.data(), std::min<std::size_t>(params.size(), U8()));
  Control(row.cmd, params.data(), params.size());
}

// Does what happens beside the calls.
void Tenant::Otherwise() {
  const std::uint8_t what = U8();
  if (what % 4 == 0) {
    const auto gpu = static_cast<ledger::Gpu>(what / 4 % 2);
    ceiling_[gpu] = std::max(ceiling_[gpu], ledger_.Used(gpu) + ledger_.Reserved(gpu));
    Require(ledger_.SetLimit(gpu, U8() * 4 * kMib).ok(), "a limit can be set");
    ceiling_[gpu] = std::max(ledger_.Limit(gpu), ledger_.Used(gpu) + ledger_.Reserved(gpu));
  } else if (what % 4 == 1) {
    // A call keeps open the files that it is made on and that it names.
    const std::uint64_t file = kFirstFile + what / 4 % 3;
    const bool busy = std::any_of(pending_.begin(), pending_.end(), [&](const auto& pending) {
      return pending->call.fd && pending->call.fd->tag == file;
    });
    if (!busy) {
      driver_.CloseExport(file);
      ledger_.CloseFile(file);
    }
  } else if (pending_.empty()) {
    const Handle client = PickClient();
    if (driver_.Free(client, client)) {
      const auto found = ledger_.FindClient(client);
      Require(found && ledger_.RemoveClient(found->ref), "the ledger knows every client");
    }
  }
}

void Tenant::Step() {
  constexpr std::array<void (Tenant::*)(), 16> kSteps = {&Tenant::AllocSomething,
                                                         &Tenant::AllocSomething,
                                                         &Tenant::Memory,
                                                         &Tenant::Memory,
                                                         &Tenant::Channel,
                                                         &Tenant::Channel,
                                                         &Tenant::HeapControl,
                                                         &Tenant::HeapControl,
                                                         &Tenant::Copy,
                                                         &Tenant::Free,
                                                         &Tenant::Transfer,
                                                         &Tenant::Transfer,
                                                         &Tenant::Ask,
                                                         &Tenant::AnyClass,
                                                         &Tenant::AnyControl,
                                                         &Tenant::Otherwise};
  (this->*kSteps[U8() % kSteps.size()])();
  Check();
}

}  // namespace cgpu::fuzz

namespace {

constexpr int kMostSteps = 96;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  cgpu::fuzz::Input input(data, size);
  cgpu::fuzz::Tenant tenant(input);
  tenant.Begin();
  for (int steps = 0; steps < kMostSteps && !input.empty(); ++steps) {
    tenant.Step();
  }
  tenant.FinishAll();
  return 0;
}
