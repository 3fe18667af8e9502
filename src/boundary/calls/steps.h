// The steps of each family of calls, for the table of handlers (handler.h).
#ifndef CGPU_BOUNDARY_CALLS_STEPS_H_
#define CGPU_BOUNDARY_CALLS_STEPS_H_

#include <cstdint>

#include "boundary/call.h"
#include "boundary/calls/handler.h"
#include "boundary/container.h"
#include "boundary/decision.h"

namespace cgpu::boundary {

// alloc.cc
AskStep AcceptsAlloc;
DecodeStep DecodeAlloc;
ClientsStep ClientsOfAlloc;
EarlyStep DecideAllocEarly;
DecideStep DecideAlloc;
SettleStep SettleAlloc;
AccountStep AccountAlloc;

// control.cc; control_handler.h has the steps of each effect
DecodeStep DecodeControl;
AskStep ControlChangesState;
EarlyStep DecideControlEarly;
DecideStep DecideControl;
SettleStep SettleControl;
AccountStep AccountControl;

// dup.cc
DecodeStep DecodeDup;
ClientsStep ClientsOfDup;
DecideStep DecideDup;
AccountStep AccountDup;

// event.cc
DecodeStep DecodeEventData;
AccountStep AccountEventData;
DecideStep DecideAllocOsEvent;
SettleStep SettleFreeOsEvent;

// free.cc
DecodeStep DecodeFree;
ClientsStep ClientsOfFree;
DecideStep DecideFree;
AccountStep AccountFree;
// Decides to free `handle`, by whichever call.
Decision DecideFreeing(Container& container, Call& call, Decision decision, std::uint32_t handle);

// host.cc
DecodeStep DecodeRegisterFd;
AskStep AcceptsWaitOpen;
DecideStep DecideStatusCode;
DecideStep DecideAttachFd;
DecideStep DecideRegisterFd;
AccountStep AccountCardInfo;

// legacy.cc
DecodeStep DecodeAllocMemory;
AskStep AllocMemoryChangesState;
DecideStep DecideAllocMemory;
AccountStep AccountAllocMemory;
DecodeStep DecodeAllocContextDma;
DecideStep DecideAllocContextDma;
AccountStep AccountAllocContextDma;
DecodeStep DecodeIdleChannels;
DecideStep DecideIdleChannels;
SettleStep SettleIdleChannels;

// map.cc
DecodeStep DecodeMapMemory;
DecideStep DecideMapMemory;
AccountStep AccountMapMemory;
AccountStep AccountUnmapMemory;
AccountStep AccountMovedMapping;

// map_dma.cc
DecodeStep DecodeMapDma;
DecideStep DecideMapDma;
SettleStep SettleMapDma;
AccountStep AccountUnmapDma;

// share.cc
EarlyStep DecideShareEarly;
DecideStep DecideShare;

// uvm.cc; nvidia-uvm's requests are no escapes, and have a table of their own there
bool UvmChangesState(std::uint32_t request);
bool UvmReleases(std::uint32_t request);
Decision DecideUvm(Container& container, Call& call);
void AccountUvm(Container& container, Call& call, Decision& decision, bool done);

// vidheap.cc
DecodeStep DecodeVidHeap;
AskStep VidHeapReleases;
EarlyStep DecideVidHeapEarly;
DecideStep DecideVidHeap;
AccountStep AccountVidHeap;

}  // namespace cgpu::boundary

#endif  // CGPU_BOUNDARY_CALLS_STEPS_H_
