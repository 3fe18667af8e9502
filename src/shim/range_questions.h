// Asks UVM what lies in the address spaces of the container's files.
//
// UVM destroys managed memory while the kernel unmaps it: after it is shown no more, and after the
// last user of an address space is gone. A tenant can delay that, for example by a page of a file
// system of its own that must be written first. Until then the ranges exist, and so does their
// memory.
//
// A tenant can also send its file to a process that is in no slice. What that process maps is
// managed memory in the tenant's address space, and no call of it comes to this shim.
//
// No request lists the ranges between two addresses. But UVM refuses an external range wherever any
// range is (kernel-open/nvidia-uvm/uvm_va_range.c, uvm_va_range_create_external() and
// uvm_range_tree.c, uvm_range_tree_add(), in 535.104.05 to 595.45.04), and one that could be made
// is freed at once. Meanwhile no other caller may make a range there: calls that do so wait, and
// where an mmap has been let through nothing is asked.
#ifndef CGPU_SHIM_RANGE_QUESTIONS_H_
#define CGPU_SHIM_RANGE_QUESTIONS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <vector>

#include "boundary/address_ranges.h"
#include "boundary/decision.h"
#include "rm/abi.h"
#include "shim/accounting.h"
#include "shim/executor.h"
#include "shim/kept_files.h"

namespace cgpu::shim {

// Thread-safe, with a lock of its own that comes before the accounting's.
class RangeQuestions {
 public:
  // Excludes questions while it is held.
  using NoQuestions = std::shared_lock<std::shared_timed_mutex>;

  // All outlive this.
  RangeQuestions(const rm::Abi& abi, Accounting& accounting, Executor& executor,
                 const UvmFiles& files)
      : abi_(abi), accounting_(accounting), executor_(executor), files_(files) {}

  // Excludes questions while a tenant makes or frees a range, until that is in the accounting.
  [[nodiscard]] NoQuestions KeepOut() { return NoQuestions(mutex_); }
  // Excludes them if a call with this decision does so; else holds nothing.
  [[nodiscard]] NoQuestions KeepOut(const boundary::Decision& decision) {
    return decision.effects.changes_ranges ? KeepOut() : NoQuestions();
  }

  // Asks what is left of the ranges in doubt, and takes the rest off the ledger. One settlement of
  // managed memory at a time. Gives up, and leaves doubts, where a call takes long.
  void SettleDoubts();

  // Returns true if the container has files.
  [[nodiscard]] bool HasFiles() const { return files_.size() != 0; }
  // Returns whether one of the files, with a GPU, has a range that is not in the accounting. Asks
  // about no more than some hundreds of gaps between known ranges, and the next time about others.
  // Where UVM may have put ranges for channels there may be as much as the container is charged
  // for: these hold no other memory than what is charged. Returns false where a call takes long.
  // One caller at a time.
  [[nodiscard]] bool FindsUnknown();
  // Cleans up managed ranges. With the sharing mode, the managed ranges of an address space that
  // ends with its last process keep their memory until they are cleaned up
  // (kernel-open/nvidia-uvm/uvm.c, uvm_vm_close_managed). A file where that fails keeps them.
  void CleanUpMappings();

 private:
  struct KnownFile {
    std::shared_ptr<KeptFile> file;
    boundary::AddressRanges known;    // ranges in it that are not managed, by the accounting
    boundary::AddressRanges windows;  // where it may have ranges for channels
    bool has_gpu = false;
  };
  [[nodiscard]] std::vector<KnownFile> KnownFiles();
  [[nodiscard]] bool FindsInGaps(const std::vector<KnownFile>& files,
                                 const boundary::AddressRanges& charged);
  [[nodiscard]] bool FindsTooMuchInWindows(const std::vector<KnownFile>& files,
                                           const boundary::AddressRanges& charged,
                                           std::uint64_t most);
  [[nodiscard]] std::uint64_t Occupied(const KeptFile& file, const boundary::AddressRange& range,
                                       std::uint64_t most, std::size_t* questions);
  [[nodiscard]] std::optional<std::size_t> CountHolders(const boundary::AddressRange& range,
                                                        const std::vector<KnownFile>& files,
                                                        std::size_t* questions);
  enum class Answer : std::uint8_t { kFree, kTaken, kUnclear };
  [[nodiscard]] Answer Ask(const KeptFile& file, const boundary::AddressRange& range);

  const rm::Abi& abi_;
  Accounting& accounting_;
  Executor& executor_;
  const UvmFiles& files_;
  std::size_t next_gap_ = 0;  // where FindsUnknown() begins
  // Shared by calls that put a range into UVM, or are about to; held alone to ask what lies there.
  // No member is its own.
  std::shared_timed_mutex mutex_;
};

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_RANGE_QUESTIONS_H_
