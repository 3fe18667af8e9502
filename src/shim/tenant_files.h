// Takes the files behind the descriptors of the tenants' processes, and gets rid of those that turn
// out to be no GPU's.
//
// A taken file has to be closed, and its file system takes part in every close: a FUSE server of
// the tenant's own answers that when it likes. So a file is looked at before it is taken, which
// asks no such server, and is taken only if it is a GPU's. A number that led to one before is taken
// without the look, which costs more than the taking. If a tenant puts another file there
// afterwards, numbers are no longer trusted in its whole container, and the file that came is not
// closed.
#ifndef CGPU_SHIM_TENANT_FILES_H_
#define CGPU_SHIM_TENANT_FILES_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>

#include "base/fd.h"
#include "base/result.h"
#include "boundary/call.h"
#include "os/process.h"
#include "protocol/config.h"
#include "shim/processes.h"
#include "shim/reaper.h"

namespace cgpu::shim {

// Thread-safe.
class TenantFiles {
 public:
  // A file of a GPU that was taken: ours to close.
  struct Taken {
    UniqueFd file;
    boundary::File known;
  };

  // All outlive this. `proc`: an open /proc.
  TenantFiles(const ShimConfig& config, int proc, ContainerProcesses& processes)
      : config_(config), proc_(proc), processes_(processes) {}

  // Starts the thread that closes files. Call once, before the first file is taken.
  void Start();

  // Looks at the caller's file under the number; nothing: it is not a GPU's. ESRCH: the thread is
  // gone. EBADF: it has no such descriptor.
  [[nodiscard]] Result<std::optional<boundary::File>> LookAt(const os::Caller& caller,
                                                             int number) const;
  // Takes the caller's file under the number. ENOTTY: it is no GPU's. EMFILE: this process has no
  // room. Otherwise as LookAt().
  [[nodiscard]] Result<Taken> Take(const os::Caller& caller, int number);

  // Closes a file that may be anything, without waiting for it. Ends the container if too many of
  // its files cannot be closed: no program has as many of those.
  void Discard(UniqueFd file);
  // Returns true if Discard() of so many files needs no wait for room.
  [[nodiscard]] bool CanDiscard(std::size_t files) { return reaper_->HasRoomFor(files); }
  // Returns true if no discarded file is still open.
  [[nodiscard]] bool Idle() { return reaper_->Idle(); }

 private:
  [[nodiscard]] std::optional<boundary::File> Recognise(const os::FileIdentity& identity) const;

  const ShimConfig& config_;
  const int proc_;
  ContainerProcesses& processes_;
  const std::shared_ptr<Reaper> reaper_ = std::make_shared<Reaper>();
  std::atomic<bool> wary_{false};  // a tenant has put another file where a GPU's was
};

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_TENANT_FILES_H_
