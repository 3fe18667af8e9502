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

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <utility>
#include <vector>

#include "base/shared_lock.h"
#include "boundary/address_ranges.h"
#include "boundary/decision.h"
#include "boundary/range_search.h"
#include "rm/abi.h"
#include "shim/accounting.h"
#include "shim/executor.h"
#include "shim/kept_files.h"

namespace cgpu::shim {

// Thread-safe, with a lock of its own that comes before the accounting's.
class RangeQuestions {
 public:
  // Excludes questions while it is held.
  using NoQuestions = std::shared_lock<SharedLock>;

  // All outlive this.
  RangeQuestions(const rm::Abi& abi, Accounting& accounting, Executor& executor,
                 const UvmFiles& files);

  // Excludes questions while a tenant makes or frees a range, until that is in the accounting.
  [[nodiscard]] NoQuestions KeepOut() { return NoQuestions(lock_); }
  // Excludes them if a call with this decision does so; else holds nothing.
  [[nodiscard]] NoQuestions KeepOut(const boundary::Decision& decision) {
    return decision.effects.changes_ranges ? KeepOut() : NoQuestions();
  }

  // Asks what is left of the ranges in doubt, and takes the rest off the ledger. One settlement of
  // managed memory at a time. Gives up, and leaves doubts, where a call takes long.
  void SettleDoubts();

  // Returns true if the container has files.
  [[nodiscard]] bool HasFiles() const { return files_.size() != 0; }
  // Looks for ranges that are not in the accounting (boundary/range_search.h), for some
  // milliseconds and until `enough` returns true. Goes on where the last look stopped; kUnfinished
  // also where nobody could look, because calls take long. One caller at a time.
  [[nodiscard]] boundary::RangeSearch::Found FindUnknown(const std::function<bool()>& enough);
  // Cleans up managed ranges. With the sharing mode, the managed ranges of an address space that
  // ends with its last process keep their memory until they are cleaned up
  // (kernel-open/nvidia-uvm/uvm.c, uvm_vm_close_managed). A file where that fails keeps them.
  void CleanUpMappings();

 private:
  struct KnownFile {
    std::shared_ptr<KeptFile> file;
    boundary::AddressRanges known;  // ranges in it that are not managed, by the accounting
  };
  [[nodiscard]] std::vector<KnownFile> KnownFiles();
  [[nodiscard]] boundary::RangeSearch::View Accounted();
  [[nodiscard]] std::optional<std::size_t> CountHolders(const boundary::AddressRange& range,
                                                        const std::vector<KnownFile>& files,
                                                        std::size_t* questions);
  [[nodiscard]] boundary::RangeSearch::Answer Ask(const std::shared_ptr<KeptFile>& file,
                                                  const boundary::AddressRange& range);
  [[nodiscard]] bool FreeLeftOvers();

  const rm::Abi& abi_;
  Accounting& accounting_;
  Executor& executor_;
  const UvmFiles& files_;
  boundary::RangeSearch search_;
  std::chrono::milliseconds patience_;  // of FindUnknown() for calls that take long
  // Shared by calls that put a range into UVM, or are about to; held alone to ask what lies there.
  // No other member but `left_over_` is its own.
  SharedLock lock_;
  // Ranges of our own that could not be freed: UVM answers EAGAIN to all while the machine goes to
  // sleep (NVIDIA/open-gpu-kernel-modules 595.45.04 kernel-open/nvidia-uvm/uvm.c:1058).
  std::vector<std::pair<std::shared_ptr<KeptFile>, boundary::AddressRange>> left_over_;
};

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_RANGE_QUESTIONS_H_
