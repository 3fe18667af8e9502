// nvidia-uvm: the address spaces of its open files. Pure, as DriverModel is; every answer is the
// status the driver gives (NVIDIA/open-gpu-kernel-modules kernel-open/nvidia-uvm).
//
// Thread-compatible: serialised by the same lock as the DriverModel.
#ifndef CGPU_SIM_MODEL_UVM_MODEL_H_
#define CGPU_SIM_MODEL_UVM_MODEL_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "sim/model/driver_model.h"
#include "sim/model/uvm_accounting.h"
#include "sim/model/uvm_space.h"

namespace cgpu::sim {

// Where a mapping of memory comes from and goes to.
struct UvmMapRequest {
  rm::NvU64 base = 0;
  rm::NvU64 length = 0;
  rm::NvU64 offset = 0;
  rm::NvHandle client = 0;
  rm::NvHandle memory = 0;
};

struct UvmChannelRequest {
  rm::NvHandle client = 0;
  rm::NvHandle channel = 0;
  rm::NvU64 base = 0;  // where in the space its context buffers may go
  rm::NvU64 length = 0;
};

class UvmModel {
 public:
  // `driver` outlives the model.
  explicit UvmModel(DriverModel& driver) : driver_(driver) {}

  void Close(FileId file);
  // Returns nullptr for a file that is not initialised.
  [[nodiscard]] UvmSpace* Find(FileId file);

  [[nodiscard]] NvStatus Initialize(FileId file, std::uint32_t tgid, rm::NvU64 flags);
  // `target` is the file named by the descriptor, 0 for none of this driver's.
  [[nodiscard]] NvStatus InitializeMm(FileId file, FileId target);

  // GPUs. `open_minors`: the GPU files open in the caller's own descriptor table.
  [[nodiscard]] NvStatus RegisterGpu(UvmSpace& space, const rm::NvProcessorUuid& uuid,
                                     const std::set<unsigned>& open_minors);
  [[nodiscard]] NvStatus UnregisterGpu(UvmSpace& space, const rm::NvProcessorUuid& uuid);
  [[nodiscard]] NvStatus RegisterVaSpace(UvmSpace& space, const rm::NvProcessorUuid& uuid,
                                         std::uint32_t tgid, rm::NvHandle client,
                                         rm::NvHandle vaspace);
  [[nodiscard]] NvStatus UnregisterVaSpace(UvmSpace& space, const rm::NvProcessorUuid& uuid);

  [[nodiscard]] NvStatus EnablePeers(UvmSpace& space, const rm::NvProcessorUuid& a,
                                     const rm::NvProcessorUuid& b);
  [[nodiscard]] NvStatus DisablePeers(UvmSpace& space, const rm::NvProcessorUuid& a,
                                      const rm::NvProcessorUuid& b);

  // Ranges.
  [[nodiscard]] static NvStatus CreateExternal(UvmSpace& space, rm::NvU64 base, rm::NvU64 length);
  [[nodiscard]] NvStatus MapExternal(UvmSpace& space, std::uint32_t tgid,
                                     const UvmMapRequest& request,
                                     std::span<const rm::UvmGpuMappingAttributes> gpus);
  [[nodiscard]] NvStatus MapSparse(UvmSpace& space, rm::NvU64 base, rm::NvU64 length,
                                   const rm::NvProcessorUuid& uuid);
  [[nodiscard]] NvStatus UnmapExternal(UvmSpace& space, rm::NvU64 base, rm::NvU64 length,
                                       const rm::NvProcessorUuid& uuid);
  [[nodiscard]] static NvStatus Free(UvmSpace& space, rm::NvU64 base, rm::NvU64 length);
  // Frees as from 590 on, where FREE names the base alone.
  [[nodiscard]] static NvStatus FreeAt(UvmSpace& space, rm::NvU64 base);
  [[nodiscard]] static NvStatus Validate(const UvmSpace& space, rm::NvU64 base, rm::NvU64 length);

  [[nodiscard]] static NvStatus AllocSemaphorePool(UvmSpace& space, rm::NvU64 base,
                                                   rm::NvU64 length);
  [[nodiscard]] NvStatus MapDynamicParallelism(UvmSpace& space, rm::NvU64 base, rm::NvU64 length,
                                               const rm::NvProcessorUuid& uuid);
  [[nodiscard]] NvStatus AllocDeviceP2p(UvmSpace& space, const rm::NvProcessorUuid& uuid,
                                        std::uint32_t tgid, const UvmMapRequest& request);

  // Channels. One that is registered keeps its context buffers.
  [[nodiscard]] NvStatus RegisterChannel(UvmSpace& space, const rm::NvProcessorUuid& uuid,
                                         std::uint32_t tgid, const UvmChannelRequest& request);
  [[nodiscard]] static NvStatus UnregisterChannel(UvmSpace& space, rm::NvHandle client,
                                                  rm::NvHandle channel);

  // Returns whether managed ranges fill [base, base + length).
  [[nodiscard]] static bool IsManaged(const UvmSpace& space, rm::NvU64 base, rm::NvU64 length);

  // Managed memory. Settle() takes in what is mapped now; the tgids of a file's owners are those
  // that a look at the file's mappings must not leave out.
  void Settle(const UvmSeen& seen);
  [[nodiscard]] std::set<std::uint32_t> OwnersOf(FileId file) const;
  [[nodiscard]] bool Empty() const { return spaces_.empty() && refused_.empty(); }
  void CleanUpZombies(UvmSpace& space);

  // Returns the registered GPU of this uuid, -1 for none.
  [[nodiscard]] int Registered(const UvmSpace& space, const rm::NvProcessorUuid& uuid) const;

  [[nodiscard]] rm::NvProcessorUuid UuidOf(int gpu) const;

  // Returns where an address of this address space leads to on the GPU.
  [[nodiscard]] std::optional<GpuPlace> Find(const VaSpace& vaspace, int gpu, rm::NvU64 address);

  [[nodiscard]] UvmAccounting GetAccounting() const;

 private:
  using Pieces = std::map<rm::NvU64, UvmPiece>;
  static constexpr int kAnyMemory = -2;

  [[nodiscard]] int GpuOf(const rm::NvProcessorUuid& uuid) const;
  [[nodiscard]] static UvmGpuVaSpace* VaSpaceOf(UvmSpace& space, int gpu);
  // Returns whether nvidia-uvm may duplicate the object for a caller in process `tgid`.
  [[nodiscard]] bool MayDuplicate(const Client& source, const Object& object,
                                  std::uint32_t tgid) const;
  // Returns the range that holds `at`; end() for none.
  [[nodiscard]] static std::map<rm::NvU64, UvmRange>::iterator FindRange(UvmSpace& space,
                                                                         rm::NvU64 at);
  [[nodiscard]] static UvmRange* FindExternal(UvmSpace& space, rm::NvU64 base, rm::NvU64 length);
  [[nodiscard]] static NvStatus CheckFree(const UvmSpace& space, rm::NvU64 base, rm::NvU64 length);
  [[nodiscard]] NvStatus MapOnGpu(UvmSpace& space, UvmRange& range, int gpu, std::uint32_t tgid,
                                  const UvmMapRequest& request);
  [[nodiscard]] NvStatus Duplicate(const UvmSpace& space, int gpu, std::uint32_t tgid,
                                   const UvmMapRequest& request, std::shared_ptr<Block>* block);
  [[nodiscard]] static NvStatus UnmapPieces(UvmSpace& space, UvmRange& range, int gpu,
                                            rm::NvU64 base, rm::NvU64 length);
  static void DropPieces(UvmSpace& space, UvmRange& range, int gpu, int memory_gpu);
  static void DropRange(UvmSpace& space, std::map<rm::NvU64, UvmRange>::iterator range);
  static void StopChannels(UvmSpace& space, int gpu);
  void DropVaSpace(UvmSpace& space, int gpu);
  [[nodiscard]] static bool OverlapsManaged(const UvmSpace& space, rm::NvU64 base,
                                            rm::NvU64 length);
  void KeepRefused(const UvmSeen& seen);
  [[nodiscard]] std::vector<UvmSpan> RefusedIn(const UvmMapping& mapping) const;
  static void DropUnseen(FileId file, UvmSpace& space, const UvmSeen& seen);
  void AddSeen(const UvmMapping& mapping);
  void Recharge(UvmSpace& space);
  void Uncharge(UvmSpace& space);
  [[nodiscard]] static NvStatus AddChannelRange(UvmSpace& space, int gpu,
                                                const UvmChannelRequest& request,
                                                const Group& group, UvmChannel* channel);
  static void DropChannel(UvmSpace& space, UvmGpuVaSpace& vaspace, const UvmChannel& channel);
  static void DropPeers(UvmSpace& space, int a, int b);
  void DropGpu(UvmSpace& space, int gpu);

  DriverModel& driver_;
  std::map<FileId, UvmSpace> spaces_;
  std::map<UvmMapping, std::string> refused_;  // mmaps that the driver would have refused, and why
  std::map<FileId, FileId> mm_files_;          // a file of MM_INITIALIZE and the space's own
};

}  // namespace cgpu::sim

#endif  // CGPU_SIM_MODEL_UVM_MODEL_H_
