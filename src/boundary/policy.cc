#include "boundary/policy.h"

#include <algorithm>
#include <array>

#include "boundary/reasons.h"
#include "rm/class_table.h"
#include "rm/nv_alloc.h"
#include "rm/nv_classes.h"
#include "rm/nv_escape.h"
#include "rm/nv_structs.h"

namespace cgpu::boundary {
namespace {

constexpr auto kClasses = std::to_array<ClassRule>({
    {rm::NV01_MEMORY_LOCAL_USER, ClassEffect::kVidmem},
    {rm::NV01_MEMORY_SYSTEM, ClassEffect::kPlain},
    {rm::NV01_MEMORY_VIRTUAL, ClassEffect::kPlain},
    {rm::NV01_EVENT, ClassEffect::kPlain},
    {rm::NV01_EVENT_OS_EVENT, ClassEffect::kPlain},
    {rm::NV01_DEVICE_0, ClassEffect::kDevice},
    {rm::NV20_SUBDEVICE_0, ClassEffect::kPlain},
    {rm::FERMI_VASPACE_A, ClassEffect::kAddressSpace},
    {rm::FERMI_CONTEXT_SHARE_A, ClassEffect::kPlain},
    {rm::KEPLER_CHANNEL_GROUP_A, ClassEffect::kChannelGroup},
    {rm::VOLTA_CHANNEL_GPFIFO_A, ClassEffect::kChannel},
    {rm::TURING_CHANNEL_GPFIFO_A, ClassEffect::kChannel},
    {rm::AMPERE_CHANNEL_GPFIFO_A, ClassEffect::kChannel},
    {rm::HOPPER_CHANNEL_GPFIFO_A, ClassEffect::kChannel},
    {rm::VOLTA_USERMODE_A, ClassEffect::kPlain},
    {rm::TURING_USERMODE_A, ClassEffect::kPlain},
    {rm::AMPERE_USERMODE_A, ClassEffect::kPlain},
    {rm::HOPPER_USERMODE_A, ClassEffect::kPlain},
    {rm::BLACKWELL_CHANNEL_GPFIFO_A, ClassEffect::kChannel},
    {rm::BLACKWELL_CHANNEL_GPFIFO_B, ClassEffect::kChannel},
    {rm::NV01_CONTEXT_DMA, ClassEffect::kPlain},
    {rm::NV50_MEMORY_VIRTUAL, ClassEffect::kInterval},
    // Between granted GPUs: it names their objects in the same client.
    {rm::NV50_P2P, ClassEffect::kPlain},
    // CUDA makes one for each context. It may mask the exceptions of its own session and read the
    // errors of the container's channels. Commands that stop contexts or read their memory are
    // refused (policy_controls.cc).
    {rm::GT200_DEBUGGER, ClassEffect::kDebugger},
    // Gives back registrations before the memory goes (video_mem.c vidmemDestruct()).
    {rm::NV50_THIRD_PARTY_P2P, ClassEffect::kPlain},
    // A duplicate in a client of the driver's own keeps its memory (semaphore_surface.c).
    {rm::NV_SEMAPHORE_SURFACE, ClassEffect::kHostMemory},
    // A page of the driver's with figures of the whole GPU (class/cl00de.h). On Hopper cuInit fails
    // without it (docs/hardware/h200-580.159.04.md). SECURITY.md says what a tenant reads there.
    {rm::RM_USER_SHARED_DATA, ClassEffect::kSharedPage},
    // Need a fabric manager, and keep objects that are attached to them.
    {rm::NV_MEMORY_FABRIC, ClassEffect::kUnsupported, kWhyFabric},
    {rm::NV_MEMORY_MULTICAST_FABRIC, ClassEffect::kUnsupported, kWhyMulticast},
    {rm::NV_MEMORY_EXPORT, ClassEffect::kRefuse, kWhyFabric},
    {rm::NV_IMEX_SESSION, ClassEffect::kRefuse, kWhyFabric},
    {rm::NV_MEMORY_FABRIC_IMPORTED_REF, ClassEffect::kRefuse, kWhyFabric},
    // Below a subdevice: its commands go to the GPU's firmware (rm/control_route.h).
    {rm::NV2081_BINAPI, ClassEffect::kPlain},
    // A window onto registers. Only administrators may map it (mapping_cpu.c); no tenant is one.
    {rm::NV01_MEMORY_LOCAL_PRIVILEGED, ClassEffect::kPlain},
    // Names memory that it uses, in the client's own handles. Its code is not public.
    {rm::NV_MEMORY_MAPPER, ClassEffect::kHostMemory},
    {rm::NVENC_SW_SESSION, ClassEffect::kHostMemory},
    // Programs that do not run in a slice, or that go on without it, are known to ask for these.
    {rm::NV04_DISPLAY_COMMON, ClassEffect::kRefuse, kWhyDisplays},
    {rm::GF100_DISP_SW, ClassEffect::kRefuse, kWhyDisplays},
    {rm::NV20_SUBDEVICE_DIAG, ClassEffect::kRefuse, "nvidia-smi asks: diagnosis of the whole card"},
    {rm::MPS_COMPUTE, ClassEffect::kRefuse,
     "an MPS server does not run in a slice; give each program its slice instead"},
    {rm::GF100_PROFILER, ClassEffect::kRefuse, kWhyProfilers},
    {rm::MAXWELL_PROFILER_DEVICE, ClassEffect::kRefuse, kWhyProfilers},
    {rm::NV_COUNTER_COLLECTION_UNIT, ClassEffect::kRefuse, kWhyProfilers},
    // Engines
    {rm::BLACKWELL_USERMODE_A, ClassEffect::kPlain},
    {rm::VOLTA_DMA_COPY_A, ClassEffect::kPlain},
    {rm::VOLTA_COMPUTE_A, ClassEffect::kPlain},
    {rm::TURING_DMA_COPY_A, ClassEffect::kPlain},
    {rm::TURING_COMPUTE_A, ClassEffect::kPlain},
    {rm::AMPERE_DMA_COPY_A, ClassEffect::kPlain},
    {rm::AMPERE_COMPUTE_A, ClassEffect::kPlain},
    {rm::AMPERE_DMA_COPY_B, ClassEffect::kPlain},
    {rm::AMPERE_COMPUTE_B, ClassEffect::kPlain},
    {rm::HOPPER_DMA_COPY_A, ClassEffect::kPlain},
    {rm::ADA_COMPUTE_A, ClassEffect::kPlain},
    {rm::HOPPER_COMPUTE_A, ClassEffect::kPlain},
    {rm::FERMI_TWOD_A, ClassEffect::kPlain},
    {rm::GF100_ZBC_CLEAR, ClassEffect::kPlain},
    {rm::GF100_SUBDEVICE_MASTER, ClassEffect::kPlain},
    {rm::GF100_SUBDEVICE_INFOROM, ClassEffect::kPlain},
    {rm::KEPLER_INLINE_TO_MEMORY_B, ClassEffect::kPlain},
    {rm::MAXWELL_DMA_COPY_A, ClassEffect::kPlain},
    {rm::NVB4B7_VIDEO_ENCODER, ClassEffect::kVideoEngine},
    {rm::NVB8B0_VIDEO_DECODER, ClassEffect::kVideoEngine},
    {rm::NVB8D1_VIDEO_NVJPG, ClassEffect::kVideoEngine},
    {rm::NVB8FA_VIDEO_OFA, ClassEffect::kVideoEngine},
    {rm::PASCAL_DMA_COPY_A, ClassEffect::kPlain},
    {rm::NVC4B0_VIDEO_DECODER, ClassEffect::kVideoEngine},
    {rm::NVC4B7_VIDEO_ENCODER, ClassEffect::kVideoEngine},
    {rm::NVC4D1_VIDEO_NVJPG, ClassEffect::kVideoEngine},
    {rm::TURING_A, ClassEffect::kPlain},
    {rm::AMPERE_A, ClassEffect::kPlain},
    {rm::NVC6B0_VIDEO_DECODER, ClassEffect::kVideoEngine},
    {rm::NVC6FA_VIDEO_OFA, ClassEffect::kVideoEngine},
    {rm::AMPERE_B, ClassEffect::kPlain},
    {rm::NVC7B0_VIDEO_DECODER, ClassEffect::kVideoEngine},
    {rm::NVC7B7_VIDEO_ENCODER, ClassEffect::kVideoEngine},
    {rm::NVC7FA_VIDEO_OFA, ClassEffect::kVideoEngine},
    {rm::ADA_A, ClassEffect::kPlain},
    {rm::NVC9B0_VIDEO_DECODER, ClassEffect::kVideoEngine},
    {rm::BLACKWELL_DMA_COPY_A, ClassEffect::kPlain},
    {rm::NVC9B7_VIDEO_ENCODER, ClassEffect::kVideoEngine},
    {rm::NVC9D1_VIDEO_NVJPG, ClassEffect::kVideoEngine},
    {rm::NVC9FA_VIDEO_OFA, ClassEffect::kVideoEngine},
    {rm::BLACKWELL_DMA_COPY_B, ClassEffect::kPlain},
    {rm::NV_CONFIDENTIAL_COMPUTE, ClassEffect::kPlain},
    {rm::HOPPER_A, ClassEffect::kPlain},
    {rm::HOPPER_SEC2_WORK_LAUNCH_A, ClassEffect::kPlain},
    {rm::BLACKWELL_INLINE_TO_MEMORY_A, ClassEffect::kPlain},
    {rm::BLACKWELL_A, ClassEffect::kPlain},
    {rm::NVCDB0_VIDEO_DECODER, ClassEffect::kVideoEngine},
    {rm::BLACKWELL_COMPUTE_A, ClassEffect::kPlain},
    {rm::NVCDD1_VIDEO_NVJPG, ClassEffect::kVideoEngine},
    {rm::NVCDFA_VIDEO_OFA, ClassEffect::kVideoEngine},
    {rm::BLACKWELL_B, ClassEffect::kPlain},
    {rm::NVCEB0_VIDEO_DECODER, ClassEffect::kVideoEngine},
    {rm::NVCEB7_VIDEO_ENCODER, ClassEffect::kVideoEngine},
    {rm::BLACKWELL_COMPUTE_B, ClassEffect::kPlain},
    {rm::NVCED0_VIDEO_NVJPG, ClassEffect::kVideoEngine},
    {rm::NVCEFA_VIDEO_OFA, ClassEffect::kVideoEngine},
    {rm::NVCFB0_VIDEO_DECODER, ClassEffect::kVideoEngine},
    {rm::NVCFB7_VIDEO_ENCODER, ClassEffect::kVideoEngine},
    {rm::NVCFD1_VIDEO_NVJPG, ClassEffect::kVideoEngine},
    {rm::NVCFFA_VIDEO_OFA, ClassEffect::kVideoEngine},
    {rm::NVD1B0_VIDEO_DECODER, ClassEffect::kVideoEngine},
    {rm::NVD1B7_VIDEO_ENCODER, ClassEffect::kVideoEngine},
    {rm::NVD1FA_VIDEO_OFA, ClassEffect::kVideoEngine},
});

}  // namespace

const ClassRule* FindClassRule(std::uint32_t cls) {
  const auto* found = std::ranges::find(kClasses, cls, &ClassRule::number);
  return found == kClasses.end() ? nullptr : found;
}

std::string_view EffectName(ClassEffect effect) {
  constexpr std::string_view kNames[] = {
      "plain",       "device",        "vidmem",   "channel-group", "channel",
      "debugger",    "address-space", "interval", "host-memory",   "video-engine",
      "shared-page", "unsupported",   "refuse"};
  static_assert(std::size(kNames) == static_cast<std::size_t>(ClassEffect::kRefuse) + 1);
  return kNames[static_cast<std::size_t>(effect)];
}

std::string_view WhyClass(std::uint32_t cls) {
  const ClassRule* rule = FindClassRule(cls);
  if (rule == nullptr) {
    return IsClientClass(cls)              ? "a client of the container's"
           : rm::FindClass(cls) != nullptr ? kWhyNotNeeded
                                           : kWhyNotKnown;
  }
  if (!rule->why.empty()) {
    return rule->why;
  }
  switch (rule->effect) {
    case ClassEffect::kPlain:
      return "takes no card memory";
    case ClassEffect::kVideoEngine:
      return "takes no card memory; nobody has an engine for himself";
    case ClassEffect::kSharedPage:
      return "a page to read: the driver is not asked to poll for it, and nothing may write to it";
    case ClassEffect::kDevice:
      return "chooses a card: only a granted one";
    case ClassEffect::kHostMemory:
      return "names memory: only of the host";
    case ClassEffect::kDebugger:
      return "of an object of the container's; bounded";
    default:
      return "what it takes of the card is charged";
  }
}

std::string_view WhyEscape(std::uint32_t nr) {
  switch (nr) {
    case rm::NV_ESC_RM_ALLOC_OBJECT:
      return "the older RM_ALLOC, without parameters";
    case rm::NV_ESC_RM_I2C_ACCESS:
      return "buses of the board";
    case rm::NV_ESC_RM_IDLE_CHANNELS:
      return "waits for the client's own channels, and for no time: the card is locked meanwhile";
    case rm::NV_ESC_RM_ACCESS_REGISTRY:
      return "settings of the node";
    case rm::NV_ESC_RM_ALLOC_CONTEXT_DMA2:
      return "makes a context DMA of the client's own memory";
    case rm::NV_ESC_RM_LOCKLESS_DIAGNOSTIC:
    case rm::NV_ESC_QUERY_DEVICE_INTR:
      return "diagnosis of the whole card";
    case rm::NV_ESC_NUMA_INFO:
    case rm::NV_ESC_SET_NUMA_STATUS:
      return "where the whole card's memory lies; programs go on without";
    case rm::NV_ESC_EXPORT_TO_DMABUF_FD:
      return "the driver does not ask whose the client is (GPUDirect RDMA by dma-buf)";
    default:
      return "of the container's own clients, cards and files alone";
  }
}

bool IsClientClass(std::uint32_t cls) {
  return cls == rm::NV01_ROOT || cls == rm::NV01_ROOT_NON_PRIV || cls == rm::NV01_ROOT_CLIENT;
}

bool IsRangeClass(std::uint32_t cls) {
  return cls == rm::NV01_MEMORY_VIRTUAL || cls == rm::NV50_MEMORY_VIRTUAL;
}

bool IsSharedMemory(std::uint32_t cls) {
  return cls == rm::RM_USER_SHARED_DATA || cls == rm::NV01_MEMORY_LOCAL_PRIVILEGED;
}

bool IsDriverChosenClient(std::uint32_t handle) {
  return handle >= rm::RS_CLIENT_HANDLE_BASE &&
         handle < rm::RS_CLIENT_INTERNAL_HANDLE_BASE + rm::RS_CLIENT_HANDLE_MAX;
}

bool IsListedHeapFunction(std::uint32_t function) {
  return function == rm::NVOS32_FUNCTION_ALLOC_SIZE || function == rm::NVOS32_FUNCTION_FREE ||
         function == rm::NVOS32_FUNCTION_INFO;
}

std::uint32_t VidHeapClass(std::uint32_t flags, std::uint32_t attr, std::uint32_t attr2) {
  if ((flags & rm::NVOS32_ALLOC_FLAGS_VIRTUAL) != 0) {
    return rm::NV50_MEMORY_VIRTUAL;
  }
  if (rm::NVOS32_ATTR2_USE_EGM.Get(attr2) != 0) {
    return rm::NV_MEMORY_EXTENDED_USER;
  }
  return rm::NVOS32_ATTR_LOCATION.Get(attr) == rm::NVOS32_ATTR_LOCATION_VIDMEM
             ? rm::NV01_MEMORY_LOCAL_USER
             : rm::NV01_MEMORY_SYSTEM;
}

}  // namespace cgpu::boundary
