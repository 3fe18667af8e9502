// The ioctl interface of the simulated driver: decodes a call, lets the model answer it, and
// encodes the answer. Thread-safe; the model is behind one lock, as RM is behind its API lock, and
// the lock is never held while a caller's memory is touched.
#ifndef CGPU_SIM_DRIVER_DRIVER_H_
#define CGPU_SIM_DRIVER_DRIVER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "rm/abi.h"
#include "rm/control_table.h"
#include "rm/nv_structs.h"
#include "sim/driver/caller.h"
#include "sim/model/driver_model.h"
#include "sim/model/uvm_model.h"

namespace cgpu::sim {

// The work that a call waits for before it is answered, without the driver's lock.
struct GpuWait {
  GpuTicket ticket = 0;
  rm::NvU64 timeout_us = 0;  // 0: for as long as it takes
};

// An ioctl whose parameters have been read, on its way through Execute() and Finish().
struct Call {
  FileId file = 0;
  rm::NvU8 nr = 0;        // of the inner call where NV_ESC_IOCTL_XFER_CMD wrapped it
  rm::NvP64 address = 0;  // where `bytes` came from and go back to
  std::vector<std::byte> bytes;
  // The bytes that the parameters of RM_ALLOC, RM_CONTROL and their like point to.
  struct Second {
    rm::NvP64 address = 0;
    std::vector<std::byte> bytes;
    bool write_back = false;
  };
  Second params;
  Second embedded;               // what `params` point to in turn
  rm::NvU32 control = 0;         // of RM_CONTROL
  rm::NvU32 cls = 0;             // of RM_ALLOC
  NvStatus copy_in = rm::NV_OK;  // a second level that could not be read
  bool null_params = false;
  bool done = false;             // answered by Prepare() already
  int error = 0;                 // errno of the ioctl, 0 for answered
  std::shared_ptr<Pages> pages;  // of the caller, for RM_ALLOC_MEMORY and its like
  GpuWait wait;
  // RM_MAP_MEMORY that succeeded: what an mmap of this file leads to.
  FileId mapped_file = 0;
  int mapped_fd = -1;
  NvStatus status = rm::NV_OK;  // in-band, for the accounting of refused calls
};

struct UvmHandler;

class Driver {
 public:
  Driver(std::vector<Gpu> gpus, rm::DriverVersion version, const rm::Abi& abi);

  // Sets the engines. Call it before anything else. `engines` outlives the driver.
  void SetEngines(GpuPort* engines);
  void SetHangRules(const HangRules& rules);
  // Gives `visit` what an address of one of its spaces leads to, and returns whether it leads
  // anywhere. Under the driver's lock, so that the block stays.
  [[nodiscard]] bool Translate(rm::NvU64 space, rm::NvU64 address,
                               const std::function<void(const GpuPlace&)>& visit);
  // Calls `visit` under the driver's lock if the block is still there.
  void WithBlock(const std::weak_ptr<Block>& block, const std::function<void(Block&)>& visit);

  FileId Open(FileKind kind, unsigned minor, std::optional<Identity> opener = std::nullopt);
  void Close(FileId file);

  // Execute an ioctl, in three parts. Prepare() and Finish() touch the caller's memory; Execute()
  // does not. Between the parts the call may wait as long as it likes.
  [[nodiscard]] Call Prepare(FileId file, rm::NvU32 request, rm::NvP64 argument, Caller& caller);
  void Execute(Call& call, Caller& caller);
  // Returns the errno of the ioctl, 0 when it was answered.
  [[nodiscard]] int Finish(Call& call, Caller& caller);

  // Executes an ioctl of /dev/nvidia-uvm, whole. Returns its errno.
  [[nodiscard]] int UvmIoctl(FileId file, rm::NvU32 request, rm::NvP64 argument, Caller& caller);

  // Mappings of nvidia-uvm files. Nothing needs to be looked at while UvmIsIdle().
  [[nodiscard]] bool UvmIsIdle();
  [[nodiscard]] std::set<std::uint32_t> UvmOwners(FileId file);
  // Returns whether the open file is an address space of nvidia-uvm's: whether it was initialised.
  [[nodiscard]] bool IsUvmSpace(FileId file);
  void SettleUvm(const UvmSeen& seen);
  // Returns whether the call asks how much memory is free.
  [[nodiscard]] static bool AsksForMemory(const Call& call);

  // Answers `call` as a fault wants it instead of executing it.
  void FailWithStatus(Call& call, NvStatus status);
  void FailWithErrno(Call& call, int error);

  // Takes the GPU with this index off the bus, or puts it back: controls on its objects fail.
  void SetLost(unsigned index, bool lost);

  // Adds errors of the GPU's memory to those that it has counted.
  void AddEccErrors(unsigned index, const EccErrors& errors);

  // Tells programs that wait for it of an error of the GPU, by the number of its Xid. Returns the
  // files whose poll has changed.
  [[nodiscard]] std::set<FileId> RaiseError(unsigned index, rm::NvU32 xid);
  // Returns what poll says of the file: POLLIN and POLLPRI where an event waits, POLLHUP on the
  // file of a GPU that is lost.
  [[nodiscard]] short PollFile(FileId file);

  // Returns a copy of what an mmap of `file` leads to; nullopt when nothing was mapped through it.
  [[nodiscard]] std::optional<MapContext> MapContextOf(FileId file);

  // Returns the present content of this GPU's page of RM_USER_SHARED_DATA.
  [[nodiscard]] std::vector<std::byte> SharedData(int gpu);
  // Returns another number whenever one of these pages says something else.
  [[nodiscard]] std::uint64_t SharedDataVersion();

  // Calls that came to the driver, and those of them that it did not answer with success.
  struct Count {
    std::uint64_t received = 0;
    std::uint64_t refused = 0;
  };
  using Counts = std::map<std::string, Count>;  // by CallName(), nvidia-uvm's by their names

  // One consistent look at everything.
  [[nodiscard]] Accounting GetAccounting(Counts* counts);
  [[nodiscard]] UvmAccounting GetUvmAccounting();
  [[nodiscard]] std::vector<ObjectName> Objects();
  [[nodiscard]] const std::vector<Gpu>& Gpus() const { return gpus_; }
  [[nodiscard]] std::string VersionText() const { return rm::ToString(version_); }

  // Returns "NV_ESC_RM_ALLOC 0x40", "NV2080_CTRL_CMD_FB_GET_INFO_V2", "NV_ESC_CARD_INFO".
  [[nodiscard]] static std::string CallName(const Call& call);

 private:
  [[nodiscard]] NvStatus RunUvm(const UvmHandler& handler, FileId file, Caller& caller,
                                std::span<std::byte> params);
  void RunEscape(Call& call, Caller& caller);
  // After anything that may have changed an address space.
  void TellGpu() CGPU_REQUIRES(mutex_);
  [[nodiscard]] GpuPort* Engines();
  void Await(Call& call);
  void CountCall(const std::string& name, bool refused);
  void ReadSecondLevel(Call& call, Caller& caller);
  [[nodiscard]] static bool IsReadable(Call& call, const rm::EmbeddedPointer& pointer,
                                       Caller& caller);
  void ReadControl(Call& call, Caller& caller);
  void ReadAlloc(Call& call, Caller& caller);
  static void ReadIdleChannels(Call& call, Caller& caller);
  static void TouchPages(Call& call, rm::NvP64 address, rm::NvU64 limit, Caller& caller);

  const rm::DriverVersion version_;
  const rm::Abi& abi_;

  Mutex mutex_;
  DriverModel model_ CGPU_GUARDED_BY(mutex_);
  UvmModel uvm_ CGPU_GUARDED_BY(mutex_){model_};         // after the model: it holds memory of it
  rm::NvU64 memblock_size_ CGPU_GUARDED_BY(mutex_) = 0;  // NV_ESC_SYS_PARAMS, settable once
  Counts counts_ CGPU_GUARDED_BY(mutex_);
  const std::vector<Gpu>& gpus_;  // of the model; constant
};

}  // namespace cgpu::sim

#endif  // CGPU_SIM_DRIVER_DRIVER_H_
