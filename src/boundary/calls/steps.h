// The steps of each family of calls, for the table of handlers (handler.h).
#ifndef CGPU_BOUNDARY_CALLS_STEPS_H_
#define CGPU_BOUNDARY_CALLS_STEPS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "boundary/call.h"
#include "boundary/calls/handler.h"
#include "boundary/container.h"
#include "boundary/decision.h"

namespace cgpu::boundary {

// alloc.cc
bool AcceptsAlloc(const Call& call);
void DecodeAlloc(const rm::Abi& abi, TenantMemory& memory, Call& call);
std::vector<std::uint32_t> ClientsOfAlloc(const Call& call);
std::optional<Decision> DecideAllocEarly(Container& container, Call& call);
Decision DecideAlloc(Container& container, Call& call, Decision decision);
void SettleAlloc(Container& container, Call& call, const Decision& decision,
                 const Outcome& outcome);
std::optional<Undo> AccountAlloc(Container& container, Call& call, Decision& decision);

// control.cc; control_handler.h has the steps of each effect
void DecodeControl(const rm::Abi& abi, TenantMemory& memory, Call& call);
bool ControlChangesState(const Call& call);
std::optional<Decision> DecideControlEarly(Container& container, Call& call);
Decision DecideControl(Container& container, Call& call, Decision decision);
void SettleControl(Container& container, Call& call, const Decision& decision,
                   const Outcome& outcome);
std::optional<Undo> AccountControl(Container& container, Call& call, Decision& decision);

// dup.cc
void DecodeDup(const rm::Abi& abi, TenantMemory& memory, Call& call);
std::vector<std::uint32_t> ClientsOfDup(const Call& call);
Decision DecideDup(Container& container, Call& call, Decision decision);
std::optional<Undo> AccountDup(Container& container, Call& call, Decision& decision);

// event.cc
void DecodeEventData(const rm::Abi& abi, TenantMemory& memory, Call& call);
std::optional<Undo> AccountEventData(Container& container, Call& call, Decision& decision);
Decision DecideAllocOsEvent(Container& container, Call& call, Decision decision);
void SettleFreeOsEvent(Container& container, Call& call, const Decision& decision,
                       const Outcome& outcome);

// free.cc
void DecodeFree(const rm::Abi& abi, TenantMemory& memory, Call& call);
std::vector<std::uint32_t> ClientsOfFree(const Call& call);
Decision DecideFree(Container& container, Call& call, Decision decision);
std::optional<Undo> AccountFree(Container& container, Call& call, Decision& decision);
// Decides to free `handle`, by whichever call.
Decision DecideFreeing(Container& container, Call& call, Decision decision, std::uint32_t handle);

// host.cc
void DecodeRegisterFd(const rm::Abi& abi, TenantMemory& memory, Call& call);
bool AcceptsWaitOpen(const Call& call);
Decision DecideStatusCode(Container& container, Call& call, Decision decision);
Decision DecideAttachFd(Container& container, Call& call, Decision decision);
Decision DecideRegisterFd(Container& container, Call& call, Decision decision);
std::optional<Undo> AccountCardInfo(Container& container, Call& call, Decision& decision);

// legacy.cc
void DecodeAllocMemory(const rm::Abi& abi, TenantMemory& memory, Call& call);
bool AllocMemoryChangesState(const Call& call);
Decision DecideAllocMemory(Container& container, Call& call, Decision decision);
std::optional<Undo> AccountAllocMemory(Container& container, Call& call, Decision& decision);
void DecodeAllocContextDma(const rm::Abi& abi, TenantMemory& memory, Call& call);
Decision DecideAllocContextDma(Container& container, Call& call, Decision decision);
std::optional<Undo> AccountAllocContextDma(Container& container, Call& call, Decision& decision);
void DecodeIdleChannels(const rm::Abi& abi, TenantMemory& memory, Call& call);
Decision DecideIdleChannels(Container& container, Call& call, Decision decision);
void SettleIdleChannels(Container& container, Call& call, const Decision& decision,
                        const Outcome& outcome);

// map.cc
void DecodeMapMemory(const rm::Abi& abi, TenantMemory& memory, Call& call);
Decision DecideMapMemory(Container& container, Call& call, Decision decision);
std::optional<Undo> AccountMapMemory(Container& container, Call& call, Decision& decision);
std::optional<Undo> AccountUnmapMemory(Container& container, Call& call, Decision& decision);
std::optional<Undo> AccountMovedMapping(Container& container, Call& call, Decision& decision);

// map_dma.cc
void DecodeMapDma(const rm::Abi& abi, TenantMemory& memory, Call& call);
Decision DecideMapDma(Container& container, Call& call, Decision decision);
void SettleMapDma(Container& container, Call& call, const Decision& decision,
                  const Outcome& outcome);
std::optional<Undo> AccountUnmapDma(Container& container, Call& call, Decision& decision);

// share.cc
std::optional<Decision> DecideShareEarly(Container& container, Call& call);
Decision DecideShare(Container& container, Call& call, Decision decision);

// uvm.cc; nvidia-uvm's requests are no escapes, and have a table of their own there
bool UvmChangesState(std::uint32_t request);
bool UvmReleases(std::uint32_t request);
Decision DecideUvm(Container& container, Call& call);
void AccountUvm(Container& container, Call& call, Decision& decision, bool done);

// vidheap.cc
void DecodeVidHeap(const rm::Abi& abi, TenantMemory& memory, Call& call);
bool VidHeapReleases(const Call& call);
std::optional<Decision> DecideVidHeapEarly(Container& container, Call& call);
Decision DecideVidHeap(Container& container, Call& call, Decision decision);
std::optional<Undo> AccountVidHeap(Container& container, Call& call, Decision& decision);

}  // namespace cgpu::boundary

#endif  // CGPU_BOUNDARY_CALLS_STEPS_H_
