// The allow-list: which classes and controls a tenant may use, and what is special about each.
// What is not listed is refused with the driver's own status.
#ifndef CGPU_BOUNDARY_POLICY_H_
#define CGPU_BOUNDARY_POLICY_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "rm/nv_status.h"

namespace cgpu::boundary {

enum class ClassEffect {
  kPlain,         // takes no card memory
  kDevice,        // chooses a card: only a granted one
  kVidmem,        // card memory by its parameters
  kChannelGroup,  // a context: the driver's own buffers are charged, the number is bounded
  kChannel,       // bounded; outside of a group it makes a context of its own
  kDebugger,      // of an object of a client of the container's; bounded
  kAddressSpace,  // with the first page tables of it
  kInterval,      // addresses, with page tables of their own
  kHostMemory,    // keeps the memory it names alive: none of a card's
  kVideoEngine,   // executed without its flag that keeps others off the engine
  kUnsupported,   // refused as by a card that does not have it: programs know what to do then
  kRefuse,        // known to be asked, and refused
};

struct ClassRule {
  std::uint32_t number;
  ClassEffect effect;
  std::string_view why{};  // what a user is told, where it is refused
};

enum class ControlEffect {
  kPass,         // harmless: executed as it is
  kView,         // executed, then its results are rewritten for this container (view.cc)
  kSwallow,      // answered with success, not executed
  kEmpty,        // answered with success and zeros, not executed
  kGpuId,        // names a card by its id at `argument`: only a granted one
  kGpuIdList,    // names a list of cards at `argument`
  kPeerCaps,     // names lists of cards with their lengths
  kClient,       // names a client at `argument`: only one of the container's
  kSharePolicy,  // begins with an RS_SHARE_POLICY
  kExport,       // an object to a file
  kImport,       // an object from a file
  kExportMany,   // several at once
  kImportMany,
  kExportInfo,  // asks about an exported object
  // Executed on an object of the container's that has the class in the command's number, and on no
  // other: what the driver would take elsewhere, too (rm/control_route.h).
  kOwn,
  kLedger,           // answered with what the ledger knows, not executed (view.cc)
  kSmErrors,         // answered with no error, for the container's channel at `argument`, or 0
  kOwnMemory,        // names memory at `argument`: none, or the host's and the container's
  kBusInfo,          // a list of indices: none that resets what it tells of
  kTakeEncoder,      // one of the card's encoder sessions
  kGiveEncoder,      // gives one back
  kDisableChannels,  // names channels: only the container's own; see shim/scheduler.h
  kPreemption,       // executed if it makes a context finer to preempt, else answered
  kReadings,         // a list of instructions to the firmware: only those that read
  kEntry,            // the driver may keep an entry for it while the client lives: bounded
  kRefuse,           // known to be asked, and refused
};

struct ControlRule {
  std::uint32_t command = 0;
  ControlEffect effect{};
  std::size_t argument = 0;  // offset of the checked field in the parameters
  // Where it names a card by its id: what the driver answers for one that is not there.
  std::uint32_t no_such = rm::NV_ERR_INVALID_ARGUMENT;
  std::string_view why{};  // what a user is told; empty: WhyEffect()
};

// Null: not allowed.
[[nodiscard]] const ClassRule* FindClassRule(std::uint32_t cls);
// Null: not allowed either.
[[nodiscard]] const ControlRule* FindControlRule(std::uint32_t command);

// In a few words why a control gets what it gets, whether it has a rule or not: for the user's log
// and for the table of decisions.
[[nodiscard]] std::string_view WhyControl(std::uint32_t command);
[[nodiscard]] std::string_view WhyEffect(ControlEffect effect);
[[nodiscard]] std::string_view WhyClass(std::uint32_t cls);
[[nodiscard]] std::string_view WhyEscape(std::uint32_t nr);

// The same for a request of nvidia-uvm's; its effect is "check", "answer" or "refuse".
[[nodiscard]] std::string_view WhyUvm(std::uint32_t request);
[[nodiscard]] std::string_view UvmEffectName(std::uint32_t request);

// For the table of decisions.
[[nodiscard]] std::string_view EffectName(ClassEffect effect);
[[nodiscard]] std::string_view EffectName(ControlEffect effect);

// NV01_ROOT and its kin: allocations that make a client.
[[nodiscard]] bool IsClientClass(std::uint32_t cls);

// GPU addresses that NV_ESC_RM_MAP_MEMORY_DMA maps memory into.
[[nodiscard]] bool IsRangeClass(std::uint32_t cls);

// Does the driver choose client handles like this one (rs_server.c CLIENT_ENCODEHANDLE)?
[[nodiscard]] bool IsDriverChosenClient(std::uint32_t handle);

// The functions of VID_HEAP_CONTROL that a tenant may use.
[[nodiscard]] bool IsListedHeapFunction(std::uint32_t function);

// The class that VID_HEAP_CONTROL's ALLOC_SIZE makes (src/nvidia/interface/deprecated/
// rmapi_deprecated_vidheapctrl.c).
[[nodiscard]] std::uint32_t VidHeapClass(std::uint32_t flags, std::uint32_t attr,
                                         std::uint32_t attr2);

}  // namespace cgpu::boundary

#endif  // CGPU_BOUNDARY_POLICY_H_
