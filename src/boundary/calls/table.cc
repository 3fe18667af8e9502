// The handlers of RM's escapes. An escape without a row is refused: WhyEscape() (policy.cc) says
// why.
#include <algorithm>
#include <array>

#include "boundary/calls/handler.h"
#include "boundary/calls/steps.h"
#include "rm/nv_escape.h"

namespace cgpu::boundary {
namespace {

constexpr auto kCallHandlers = std::to_array<Handler>({
    {.nr = rm::NV_ESC_RM_ALLOC_MEMORY,
     .kind = CallKind::kAlloc,
     .decode = DecodeAllocMemory,
     .changes_state = AllocMemoryChangesState,
     .decide = DecideAllocMemory,
     .account = AccountAllocMemory},
    {.nr = rm::NV_ESC_RM_FREE,
     .kind = CallKind::kFree,
     .decode = DecodeFree,
     .changes_state = Always,
     .releases = Always,
     .clients = ClientsOfFree,
     .no_such_client = rm::NV_ERR_INVALID_OBJECT_HANDLE,
     .decide = DecideFree,
     .account = AccountFree},
    {.nr = rm::NV_ESC_RM_CONTROL,
     .kind = CallKind::kControl,
     .decode = DecodeControl,
     .changes_state = ControlChangesState,
     .decide_early = DecideControlEarly,
     .decide = DecideControl,
     .settle = SettleControl,
     .account = AccountControl},
    {.nr = rm::NV_ESC_RM_ALLOC,
     .kind = CallKind::kAlloc,
     .accepts = AcceptsAlloc,
     .decode = DecodeAlloc,
     .changes_state = Always,
     .clients = ClientsOfAlloc,
     .decide_early = DecideAllocEarly,
     .no_such_client = rm::NV_ERR_INVALID_OBJECT_HANDLE,
     .decide = DecideAlloc,
     .settle = SettleAlloc,
     .account = AccountAlloc},
    {.nr = rm::NV_ESC_RM_DUP_OBJECT,
     .kind = CallKind::kDup,
     .decode = DecodeDup,
     .changes_state = Always,
     .clients = ClientsOfDup,
     .no_such_client = rm::NV_ERR_INVALID_OBJECT_HANDLE,
     .decide = DecideDup,
     .account = AccountDup},
    {.nr = rm::NV_ESC_RM_SHARE,
     .decode = DecodeClient,
     .decide_early = DecideShareEarly,
     .no_such_client = rm::NV_ERR_INVALID_OBJECT_HANDLE,
     .decide = DecideShare},
    {.nr = rm::NV_ESC_RM_IDLE_CHANNELS,
     .decode = DecodeIdleChannels,
     .decide = DecideIdleChannels,
     .settle = SettleIdleChannels},
    {.nr = rm::NV_ESC_RM_VID_HEAP_CONTROL,
     .kind = CallKind::kAlloc,
     .decode = DecodeVidHeap,
     .changes_state = Always,
     .releases = VidHeapReleases,
     .decide_early = DecideVidHeapEarly,
     .no_such_client = rm::NV_ERR_INVALID_OBJECT_HANDLE,
     .decide = DecideVidHeap,
     .account = AccountVidHeap},
    {.nr = rm::NV_ESC_RM_MAP_MEMORY,
     .kind = CallKind::kMap,
     .decode = DecodeMapMemory,
     .changes_state = Always,
     .no_such_client = rm::NV_ERR_INVALID_OBJECT_HANDLE,
     .decide = DecideMapMemory,
     .account = AccountMapMemory},
    {.nr = rm::NV_ESC_RM_UNMAP_MEMORY,
     .kind = CallKind::kMap,
     .decode = DecodeClient,
     .changes_state = Always,
     .releases = Always,
     .no_such_client = rm::NV_ERR_INVALID_OBJECT_HANDLE,
     .account = AccountUnmapMemory},
    {.nr = rm::NV_ESC_RM_GET_EVENT_DATA,
     .decode = DecodeEventData,
     .changes_state = Always,
     .for_client = false,
     .account = AccountEventData},
    {.nr = rm::NV_ESC_RM_ALLOC_CONTEXT_DMA2,
     .kind = CallKind::kAlloc,
     .decode = DecodeAllocContextDma,
     .changes_state = Always,
     .decide = DecideAllocContextDma,
     .account = AccountAllocContextDma},
    {.nr = rm::NV_ESC_RM_MAP_MEMORY_DMA,
     .kind = CallKind::kMap,
     .decode = DecodeMapDma,
     .changes_state = Always,
     .no_such_client = rm::NV_ERR_INVALID_OBJECT_HANDLE,
     .decide = DecideMapDma,
     .settle = SettleMapDma},
    {.nr = rm::NV_ESC_RM_UNMAP_MEMORY_DMA,
     .kind = CallKind::kMap,
     .decode = DecodeMapDma,
     .changes_state = Always,
     .releases = Always,
     .no_such_client = rm::NV_ERR_INVALID_OBJECT_HANDLE,
     .account = AccountUnmapDma},
    {.nr = rm::NV_ESC_RM_BIND_CONTEXT_DMA, .decode = DecodeClient, .changes_state = Always},
    {.nr = rm::NV_ESC_RM_UPDATE_DEVICE_MAPPING_INFO,
     .kind = CallKind::kMap,
     .decode = DecodeClient,
     .changes_state = Always,
     .account = AccountMovedMapping},
    {.nr = rm::NV_ESC_CARD_INFO, .for_client = false, .account = AccountCardInfo},
    {.nr = rm::NV_ESC_REGISTER_FD,
     .decode = DecodeRegisterFd,
     .for_client = false,
     .decide = DecideRegisterFd},
    {.nr = rm::NV_ESC_ALLOC_OS_EVENT,
     .decode = DecodeClient,
     .changes_state = Always,
     .decide = DecideAllocOsEvent},
    {.nr = rm::NV_ESC_FREE_OS_EVENT,
     .decode = DecodeClient,
     .changes_state = Always,
     .settle = SettleFreeOsEvent},
    {.nr = rm::NV_ESC_STATUS_CODE, .for_client = false, .decide = DecideStatusCode},
    {.nr = rm::NV_ESC_CHECK_VERSION_STR, .for_client = false},
    {.nr = rm::NV_ESC_ATTACH_GPUS_TO_FD, .for_client = false, .decide = DecideAttachFd},
    {.nr = rm::NV_ESC_SYS_PARAMS, .for_client = false},
    {.nr = rm::NV_ESC_WAIT_OPEN_COMPLETE, .accepts = AcceptsWaitOpen, .for_client = false},
});

constexpr bool kCallHandlersAscend = std::ranges::is_sorted(kCallHandlers, {}, &Handler::nr);
static_assert(kCallHandlersAscend);

}  // namespace

const Handler* FindHandler(std::uint32_t nr) {
  const auto* found = std::ranges::lower_bound(kCallHandlers, nr, {}, &Handler::nr);
  return found != kCallHandlers.end() && found->nr == nr ? found : nullptr;
}

std::uint32_t NoSuchClient(const Call& call) {
  const Handler* handler = FindHandler(call.nr);
  return handler != nullptr ? handler->no_such_client : rm::NV_ERR_INVALID_CLIENT;
}

}  // namespace cgpu::boundary
