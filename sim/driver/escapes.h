// The handlers of single escapes.
#ifndef CGPU_SIM_DRIVER_ESCAPES_H_
#define CGPU_SIM_DRIVER_ESCAPES_H_

#include <optional>

#include "rm/escape_table.h"
#include "sim/driver/control.h"
#include "sim/driver/driver.h"

namespace cgpu::sim {

// Executes one prepared call. Lives for that call, under the driver's lock.
class Escapes {
 public:
  Escapes(DriverModel& model, const rm::DriverVersion& version, rm::NvU64& memblock_size,
          Call& call, Caller& caller)
      : model_(model),
        version_(version),
        memblock_size_(memblock_size),
        call_(call),
        caller_(caller) {}

  // Lets the caller read ahead what Run() may ask of it. Without the lock.
  static void LookAhead(const Call& call, Caller& caller);
  void Run();

  // Writes `status` where the call's structure has it. A call without such a field keeps its errno.
  static void PutStatus(Call& call, NvStatus status);

 private:
  // Tells whether the driver takes the call on a file of this kind.
  [[nodiscard]] bool IsOnRightFile(const OpenFile& file, const rm::EscapeRow& row) const;

  // Return the errno; 0 with PutStatus() done.
  [[nodiscard]] int CardInfo();
  [[nodiscard]] int AttachGpus();
  [[nodiscard]] int CheckVersion();
  [[nodiscard]] int SysParams();
  [[nodiscard]] int StatusCode();
  [[nodiscard]] int NumaInfo();
  [[nodiscard]] int WaitOpenComplete();
  [[nodiscard]] int RegisterFd();
  [[nodiscard]] int OsEvent();
  [[nodiscard]] int EventData();
  [[nodiscard]] int Alloc();
  [[nodiscard]] int Free();
  [[nodiscard]] int Control();
  [[nodiscard]] int VidHeapControl();
  [[nodiscard]] int Dup();
  [[nodiscard]] int Share();
  [[nodiscard]] int MapMemory();
  [[nodiscard]] int UnmapMemory();
  [[nodiscard]] int UpdateMapping();
  [[nodiscard]] int AllocMemory();
  [[nodiscard]] int MapDma();
  [[nodiscard]] int UnmapDma();
  [[nodiscard]] int AllocContextDma();
  [[nodiscard]] int BindContextDma();
  [[nodiscard]] int IdleChannels();
  [[nodiscard]] int ExportDmaBuf();

  [[nodiscard]] NvStatus AllocRoot(rm::NvHandle* handle, rm::NvHandle wanted);
  [[nodiscard]] NvStatus RunControl(const rm::NVOS54_PARAMETERS& api);
  // Returns nullopt for a control that goes by the driver's own tables.
  [[nodiscard]] std::optional<NvStatus> RunPastTheTables(const rm::NVOS54_PARAMETERS& api);
  [[nodiscard]] NvStatus RunOnObject(ControlCall& control);
  [[nodiscard]] ControlCall MakeControl(Client& client, Object& object, rm::NvU32 cmd);
  [[nodiscard]] NvStatus AllocFor(rm::NvHandle client, rm::NvHandle parent, rm::NvU32 cls,
                                  std::span<std::byte> params, rm::NvHandle* handle);
  [[nodiscard]] NvStatus AllocLegacyMemory(rm::NVOS02_PARAMETERS& api);
  [[nodiscard]] NvStatus AllocDynamic(rm::NVOS02_PARAMETERS& api);
  [[nodiscard]] NvStatus AllocLocalUser(rm::NVOS02_PARAMETERS& api);
  [[nodiscard]] NvStatus PinPages(rm::NvHandle client, rm::NvHandle parent, rm::NvP64 address,
                                  rm::NvU64 limit, rm::NvHandle* handle);
  [[nodiscard]] NvStatus RunVidHeapControl(rm::NVOS32_PARAMETERS& api);
  [[nodiscard]] NvStatus VidHeapAllocCommon(rm::NVOS32_PARAMETERS& api,
                                            rm::NV_MEMORY_ALLOCATION_PARAMS& params,
                                            rm::NvHandle* handle);
  [[nodiscard]] NvStatus VidHeapAlloc(rm::NVOS32_PARAMETERS& api);
  [[nodiscard]] NvStatus VidHeapInfo(rm::NVOS32_PARAMETERS& api);
  // Returns what RM_ALLOC of `cls` asks of the caller. It looks only at what the class needs.
  [[nodiscard]] CallerView ViewForAlloc(rm::NvU32 cls);
  [[nodiscard]] CallerView ViewForMapping();
  // Returns -1 when there is none.
  [[nodiscard]] int GpuOfMinor(unsigned minor) const;

  DriverModel& model_;
  const rm::DriverVersion& version_;
  rm::NvU64& memblock_size_;  // NV_ESC_SYS_PARAMS
  Call& call_;
  Caller& caller_;
};

}  // namespace cgpu::sim

#endif  // CGPU_SIM_DRIVER_ESCAPES_H_
