// The task whose ioctl is being answered, as the driver sees it through `current`.
#ifndef CGPU_SIM_DRIVER_CALLER_H_
#define CGPU_SIM_DRIVER_CALLER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>

#include "rm/nv_types.h"
#include "sim/model/object.h"

namespace cgpu::sim {

// One call's caller. The task waits in its ioctl as long as this object lives, so that what is read
// of it cannot belong to another. Used by one thread.
class Caller {
 public:
  Caller() = default;
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;
  virtual ~Caller() = default;

  // Access its memory. Return false if it is not mapped or not allowed, as for EFAULT. May wait for
  // as long as the caller's own page faults do, so never under a lock.
  [[nodiscard]] virtual bool Read(rm::NvP64 address, std::span<std::byte> bytes) = 0;
  [[nodiscard]] virtual bool Write(rm::NvP64 address, std::span<const std::byte> bytes) = 0;

  // Returns its pages at [address, address + length), for as long as its memory is there; nullptr
  // when they cannot be had. Memory that is gone reads as nothing.
  [[nodiscard]] virtual std::shared_ptr<Pages> PagesAt(rm::NvP64 address, rm::NvU64 length) = 0;

  // None of the following waits for the caller or for any file it has open.
  [[nodiscard]] virtual std::uint32_t Tgid() = 0;
  [[nodiscard]] virtual std::uint32_t Euid() = 0;
  // Returns capable(CAP_SYS_ADMIN), which asks about the initial user namespace.
  [[nodiscard]] virtual bool IsAdmin() = 0;
  // Returns capable(CAP_SYS_NICE).
  [[nodiscard]] virtual bool IsNice() = 0;
  // Returns the open file of this node behind a descriptor of the caller; 0 when it is none.
  [[nodiscard]] virtual FileId ResolveFd(int fd) = 0;
  // Returns the open files of this node in the caller's descriptor table.
  [[nodiscard]] virtual std::map<int, FileId> FilesByFd() = 0;
  // Returns the minors of the GPUs' files in the caller's descriptor table.
  [[nodiscard]] virtual std::set<unsigned> OpenMinors() = 0;
  // Finds out what the next calls of Tgid(), Euid() and, with `files`, OpenMinors() will return.
  // Call it before taking a lock: the driver reads them of `current` in no time, and a simulated
  // one may take long.
  virtual void LookAhead(bool files) = 0;
  // Returns the number of process `tgid` in the caller's pid namespace; nullopt when it is not
  // there.
  [[nodiscard]] virtual std::optional<std::uint32_t> PidAsSeen(std::uint32_t tgid) = 0;
};

}  // namespace cgpu::sim

#endif  // CGPU_SIM_DRIVER_CALLER_H_
