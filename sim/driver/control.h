// RM_CONTROL: which object a command is for, who may issue it, and what answers it.
#ifndef CGPU_SIM_DRIVER_CONTROL_H_
#define CGPU_SIM_DRIVER_CONTROL_H_

#include <span>

#include "rm/abi.h"
#include "rm/nv_ctrl.h"
#include "sim/driver/bytes.h"
#include "sim/driver/caller.h"
#include "sim/driver/driver.h"
#include "sim/model/driver_model.h"

namespace cgpu::sim {

// The data that a handler works on. Handlers run under the driver's lock.
struct ControlCall {
  DriverModel& model;
  rm::DriverVersion version;
  FileId file;
  Client& client;
  Object& object;
  Caller& caller;
  rm::NvU32 cmd;
  std::span<std::byte> params;    // as many bytes as the command's table says
  std::span<std::byte> embedded;  // what the row's embedded pointer led to
  rm::NvP64& embedded_target;     // where `embedded` is written back to
  GpuWait& wait;

  [[nodiscard]] const Gpu& GetGpu() const {
    return model.Gpus()[static_cast<std::size_t>(object.gpu)];
  }
  template <class T>
  [[nodiscard]] T Get() const {
    return Load<T>(params);
  }
  template <class T>
  void Put(const T& value) const {
    Store(params, value);
  }
};

using ControlHandler = NvStatus (*)(ControlCall& call);

enum class Privilege { kAny, kAdmin, kNice };

// One pointer in the parameters: `count` elements of `stride` bytes at the address in `pointer`.
struct EmbeddedPointer {
  unsigned pointer_offset;
  unsigned count_offset;
  unsigned stride;  // 0: the row has no pointer
  unsigned max_count;
};

struct ControlEntry {
  rm::NvU32 cmd = 0;
  ObjectKind target{};
  ControlHandler handler = nullptr;
  Privilege privilege = Privilege::kAny;
  EmbeddedPointer embedded{};
};

// Return each module's rows. FindControlEntry() returns nullptr for NV_ERR_NOT_SUPPORTED.
[[nodiscard]] std::span<const ControlEntry> SystemControls();
[[nodiscard]] std::span<const ControlEntry> ExportControls();
[[nodiscard]] std::span<const ControlEntry> DeviceControls();
[[nodiscard]] std::span<const ControlEntry> BoardControls();
[[nodiscard]] std::span<const ControlEntry> MemoryControls();
[[nodiscard]] std::span<const ControlEntry> ChannelControls();
[[nodiscard]] std::span<const ControlEntry> GraphicsControls();
[[nodiscard]] std::span<const ControlEntry> TenantControls();
[[nodiscard]] std::span<const ControlEntry> EventControls();
[[nodiscard]] std::span<const ControlEntry> StartControls();
[[nodiscard]] std::span<const ControlEntry> ErrorControls();
[[nodiscard]] const ControlEntry* FindControlEntry(rm::NvU32 cmd);

// Handle many commands: the parameters come back as they went, or all zero.
[[nodiscard]] NvStatus Accept(ControlCall& call);
[[nodiscard]] NvStatus AnswerZeros(ControlCall& call);

// Answer controls that the kernel driver hands on without a look at them. The first answers those
// that go by their number, on any object of a GPU. The second answers all that are sent to an
// object of NV2081_BINAPI or NV2082_BINAPI_PRIVILEGED, without the checks of the kernel driver.
[[nodiscard]] NvStatus RunByFirmware(ControlCall& call);
[[nodiscard]] NvStatus RunByFirmwareOfObject(ControlCall& call);

// Return whether a command is for administrators, and whether no process may issue it.
[[nodiscard]] bool IsRootControl(rm::NvU32 cmd);
[[nodiscard]] bool IsKernelControl(rm::NvU32 cmd);

// Writes the UUID of `gpu`, as flags ask for it, to `out`. Returns the bytes written, 0 when they
// do not fit.
[[nodiscard]] rm::NvU32 PutUuid(const Gpu& gpu, rm::NvU32 flags, std::span<rm::NvU8> out);

}  // namespace cgpu::sim

#endif  // CGPU_SIM_DRIVER_CONTROL_H_
