#include "sim/model/class_rules.h"

#include "rm/nv_classes.h"

namespace cgpu::sim {
namespace {

constexpr unsigned kUnderClient = ParentBit(ObjectKind::kClient);
constexpr unsigned kUnderDevice = ParentBit(ObjectKind::kDevice);
constexpr unsigned kUnderSubdevice = ParentBit(ObjectKind::kSubdevice);
constexpr unsigned kUnderEither = kUnderDevice | kUnderSubdevice;
constexpr unsigned kUnderGroup = ParentBit(ObjectKind::kChannelGroup);
constexpr unsigned kUnderChannel = ParentBit(ObjectKind::kChannel);

using enum ObjectKind;
constexpr ClassRule kRules[] = {
    {rm::NV01_DEVICE_0, kDevice, kUnderClient, false, true},
    {rm::NV20_SUBDEVICE_0, kSubdevice, kUnderDevice, false, true},
    {rm::NV01_MEMORY_LOCAL_USER, kMemory, kUnderEither, false, true},
    {rm::NV01_MEMORY_SYSTEM, kMemory, kUnderDevice, false, true},
    {rm::NV01_MEMORY_VIRTUAL, kVirtualMemory, kUnderDevice, false, true},
    {rm::NV50_MEMORY_VIRTUAL, kVirtualMemory, kUnderDevice, false, true},
    {rm::FERMI_VASPACE_A, kVaSpace, kUnderEither, false, true},
    {rm::KEPLER_CHANNEL_GROUP_A, kChannelGroup, kUnderDevice, false, true},
    {rm::FERMI_CONTEXT_SHARE_A, kContextShare, kUnderGroup, false, true},
    {rm::VOLTA_CHANNEL_GPFIFO_A, kChannel, kUnderDevice | kUnderGroup, false, true},
    {rm::TURING_CHANNEL_GPFIFO_A, kChannel, kUnderDevice | kUnderGroup, false, true},
    {rm::AMPERE_CHANNEL_GPFIFO_A, kChannel, kUnderDevice | kUnderGroup, false, true},
    {rm::HOPPER_CHANNEL_GPFIFO_A, kChannel, kUnderDevice | kUnderGroup, false, true},
    {rm::VOLTA_USERMODE_A, kUserMode, kUnderSubdevice, false, true},
    {rm::TURING_USERMODE_A, kUserMode, kUnderSubdevice, false, true},
    {rm::AMPERE_USERMODE_A, kUserMode, kUnderSubdevice, false, true},
    {rm::HOPPER_USERMODE_A, kUserMode, kUnderSubdevice, false, true},
    {rm::VOLTA_COMPUTE_A, kEngine, kUnderChannel, false, true},
    {rm::TURING_COMPUTE_A, kEngine, kUnderChannel, false, true},
    {rm::AMPERE_COMPUTE_A, kEngine, kUnderChannel, false, true},
    {rm::AMPERE_COMPUTE_B, kEngine, kUnderChannel, false, true},
    {rm::ADA_COMPUTE_A, kEngine, kUnderChannel, false, true},
    {rm::HOPPER_COMPUTE_A, kEngine, kUnderChannel, false, true},
    {rm::VOLTA_DMA_COPY_A, kEngine, kUnderChannel, false, true},
    {rm::TURING_DMA_COPY_A, kEngine, kUnderChannel, false, true},
    {rm::AMPERE_DMA_COPY_A, kEngine, kUnderChannel, false, true},
    {rm::AMPERE_DMA_COPY_B, kEngine, kUnderChannel, false, true},
    {rm::HOPPER_DMA_COPY_A, kEngine, kUnderChannel, false, true},
    {rm::NV01_EVENT, kEvent, kAnyParent, false, true},
    {rm::NV01_EVENT_OS_EVENT, kEvent, kAnyParent, false, true},
    {rm::NV01_EVENT_KERNEL_CALLBACK, kEvent, kAnyParent, false, true},
    {rm::NV01_EVENT_KERNEL_CALLBACK_EX, kEvent, kAnyParent, false, true},
    {rm::NV01_CONTEXT_DMA, kContextDma, kAnyParent, false, true},
    {rm::NV01_MEMORY_LOCAL_PHYSICAL, kMemory, kUnderDevice, true, false},
    {rm::NV01_MEMORY_LIST_SYSTEM, kMemory, kUnderEither, true, false},
    {rm::NV01_MEMORY_LIST_FBMEM, kMemory, kUnderEither, true, false},
    {rm::NV01_MEMORY_LIST_OBJECT, kMemory, kUnderEither, true, false},
    {rm::NV01_MEMORY_LOCAL_PRIVILEGED, kMemory, kUnderDevice, false, false},
    {rm::NV01_MEMORY_SYSTEM_OS_DESCRIPTOR, kMemory, kUnderDevice, false, false},
    {rm::NV01_MEMORY_HW_RESOURCES, kMemory, kUnderEither, false, false},
    {rm::NV_SEMAPHORE_SURFACE, kMemory, kUnderSubdevice, false, false},
    {rm::RM_USER_SHARED_DATA, kMemory, kUnderSubdevice, false, false},
    {rm::NV_MEMORY_FABRIC, kMemory, kUnderDevice, false, false},
    {rm::NV_MEMORY_MULTICAST_FABRIC, kMemory, kUnderClient, false, false},
};

}  // namespace

const ClassRule* FindClassRule(rm::NvU32 cls) {
  for (const ClassRule& rule : kRules) {
    if (rule.cls == cls) {
      return &rule;
    }
  }
  return nullptr;
}

}  // namespace cgpu::sim
