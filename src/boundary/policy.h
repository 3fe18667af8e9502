// The allow-list: the classes and controls that a tenant may use, and the special rule for each.
// All others are refused with the driver's own status.
#ifndef CGPU_BOUNDARY_POLICY_H_
#define CGPU_BOUNDARY_POLICY_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "rm/nv_status.h"

namespace cgpu::boundary {

enum class ClassEffect {
  kPlain,         // takes no GPU memory
  kDevice,        // chooses a GPU: only a granted one
  kVidmem,        // takes GPU memory by its parameters
  kChannelGroup,  // a context: the driver's own buffers are charged, the number has a quota
  kChannel,       // has a quota; outside of a group it makes a context of its own
  kDebugger,      // debugs an object of a client of the container's; has a quota
  kAddressSpace,  // charged with its first page tables
  kInterval,      // a VA range, with page tables of its own
  kHostMemory,    // keeps the memory it names alive, which is on no GPU
  kVideoEngine,   // executed without its flag that keeps others off the engine
  kSharedPage,  // RM_USER_SHARED_DATA: executed without the figures that it asks the driver to poll
  kUnsupported,  // refused as by a GPU that does not have it: programs know what to do then
  kRefuse,       // programs are known to ask for it; refused
};

struct ClassRule {
  std::uint32_t number;
  ClassEffect effect;
  std::string_view why{};  // what the user is told, where it is refused
};

enum class ControlEffect {
  kPass,         // harmless: executed as it is
  kView,         // executed, then its results are rewritten for this container (calls/view.cc)
  kSwallow,      // answered with success, not executed
  kEmpty,        // answered with success and zeros, not executed
  kGpuId,        // names a GPU by its id at `argument`: only a granted one
  kGpuIdList,    // names a list of GPUs at `argument`
  kPeerCaps,     // names lists of GPUs with their lengths
  kClient,       // names a client at `argument`: only one of the container's
  kSharePolicy,  // begins with an RS_SHARE_POLICY
  kExport,       // exports an object to a file
  kImport,       // imports an object from a file
  kExportMany,   // exports several at once
  kImportMany,
  kExportInfo,  // asks about an exported object
  // Executed only on an object of the container's that has the class in the command's number. This
  // also covers commands that the driver would take on other objects (rm/control_route.h).
  kOwn,
  kLedger,           // answered with what the ledger knows, not executed (calls/processes.cc)
  kSmErrors,         // answered with "no error"; the channel at `argument` is the container's, or 0
  kMemory,           // names memory at `argument`: none that all tenants share
  kOwnMemory,        // names memory at `argument`: none, or host memory that is the container's
  kBusInfo,          // a list of indices: none that resets what it reports
  kTakeEncoder,      // takes one of the GPU's encoder sessions
  kGiveEncoder,      // gives one back
  kDisableChannels,  // names channels: only the container's own; see shim/scheduler.h
  kPreemption,       // executed if it makes a context finer to preempt, else answered
  kReadings,         // a list of instructions to the firmware: only those that read
  kEntry,            // the driver may keep an entry for it while the client lives: has a quota
  kCacheFlush,       // empties a cache that all tenants share: answered as done, or refused
  kRefuse,           // programs are known to ask for it; refused
};

struct ControlRule {
  std::uint32_t command = 0;
  ControlEffect effect{};
  std::size_t argument = 0;  // offset of the checked field in the parameters
  // The driver's answer for a GPU that is not there, where the command names a GPU by its id.
  std::uint32_t no_such = rm::NV_ERR_INVALID_ARGUMENT;
  std::string_view why{};  // what the user is told; empty: WhyEffect()
};

// Returns null for a class without a rule: it makes a client (IsClientClass()), or is refused.
[[nodiscard]] const ClassRule* FindClassRule(std::uint32_t cls);
// Returns null for a control without a rule, which is refused.
[[nodiscard]] const ControlRule* FindControlRule(std::uint32_t command);

// Return in a few words why a control (class, escape) is treated as it is, whether it has a rule or
// not: for the user's log and for the table of decisions.
[[nodiscard]] std::string_view WhyControl(std::uint32_t command);
[[nodiscard]] std::string_view WhyEffect(ControlEffect effect);
[[nodiscard]] std::string_view WhyClass(std::uint32_t cls);
[[nodiscard]] std::string_view WhyEscape(std::uint32_t nr);

// Return the same for a request of nvidia-uvm's; its effect is "check", "answer" or "refuse".
[[nodiscard]] std::string_view WhyUvm(std::uint32_t request);
[[nodiscard]] std::string_view UvmEffectName(std::uint32_t request);

// Return names for the table of decisions.
[[nodiscard]] std::string_view EffectName(ClassEffect effect);
[[nodiscard]] std::string_view EffectName(ControlEffect effect);

// Returns true for NV01_ROOT and its kin: allocations that make a client.
[[nodiscard]] bool IsClientClass(std::uint32_t cls);

// Returns true for classes of GPU addresses that NV_ESC_RM_MAP_MEMORY_DMA maps memory into.
[[nodiscard]] bool IsRangeClass(std::uint32_t cls);

// Returns true for memory that every tenant of a GPU shares: RM_USER_SHARED_DATA, which a tenant
// may only read, and NV01_MEMORY_LOCAL_PRIVILEGED, a window onto registers. No call may name such
// an object where the driver or the GPU would write to it, or would give others a way to it.
[[nodiscard]] bool IsSharedMemory(std::uint32_t cls);

// Returns true if the driver chooses client handles like this one (rs_server.c
// CLIENT_ENCODEHANDLE).
[[nodiscard]] bool IsDriverChosenClient(std::uint32_t handle);

// Returns true for the functions of VID_HEAP_CONTROL that a tenant may use.
[[nodiscard]] bool IsListedHeapFunction(std::uint32_t function);

// Returns the class that VID_HEAP_CONTROL's ALLOC_SIZE makes (src/nvidia/interface/deprecated/
// rmapi_deprecated_vidheapctrl.c).
[[nodiscard]] std::uint32_t VidHeapClass(std::uint32_t flags, std::uint32_t attr,
                                         std::uint32_t attr2);

}  // namespace cgpu::boundary

#endif  // CGPU_BOUNDARY_POLICY_H_
