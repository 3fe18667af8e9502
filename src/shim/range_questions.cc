#include "shim/range_questions.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "rm/nv_status.h"
#include "shim/own_call.h"

namespace cgpu::shim {
namespace {

constexpr std::uint64_t kPage = 4096;
// Most questions in one settlement; the rest waits for the next.
constexpr std::size_t kMostQuestions = 4096;
// Timeout for a call that makes ranges. If it is in the driver for longer, the doubts stay.
constexpr std::chrono::milliseconds kDriverTimeout{50};

}  // namespace

void RangeQuestions::SettleDoubts() {
  {
    const MutexLock lock(accounting_.mutex);
    if (!accounting_.boundary.managed().HasDoubts()) {
      return;
    }
  }
  CleanUpMappings();
  const std::unique_lock alone(mutex_, kDriverTimeout);
  if (!alone.owns_lock()) {
    return;
  }
  std::vector<boundary::ManagedTracker::Doubt> doubts;
  {
    const MutexLock lock(accounting_.mutex);
    doubts = accounting_.boundary.managed().Doubts();
  }
  std::size_t questions = kMostQuestions;
  std::vector<std::pair<boundary::ManagedTracker::Doubt, std::size_t>> holders;
  const auto files = KnownFiles();
  for (const auto& doubt : doubts) {
    const auto held = CountHolders(doubt.range, files, &questions);
    if (!held) {
      break;
    }
    holders.emplace_back(doubt, *held);
  }
  const MutexLock lock(accounting_.mutex);
  accounting_.boundary.managed().Resolve(holders);
}

// Returns in how many files UVM has an unknown range there, and deducts from `questions`. Returns
// nothing if that would take more questions than are left.
std::optional<std::size_t> RangeQuestions::CountHolders(const boundary::AddressRange& range,
                                                        const std::vector<KnownFile>& files,
                                                        std::size_t* questions) {
  std::size_t held = 0;
  for (const KnownFile& one : files) {
    const auto parts = boundary::Without({range}, one.known);
    if (parts.size() > *questions) {
      return std::nullopt;
    }
    *questions -= parts.size();
    const bool holds =
        std::ranges::any_of(parts, [&](const auto& part) { return HasRange(*one.file, part); });
    held += holds ? 1 : 0;
  }
  return held;
}

// Cleans up managed ranges. With the sharing mode, the managed ranges of an address space that ends
// with its last process keep their memory until they are cleaned up (kernel-open/nvidia-uvm/uvm.c,
// uvm_vm_close_managed). A file where that fails keeps them, and the question finds them.
void RangeQuestions::CleanUpMappings() {
  for (const auto& file : files_.All()) {
    boundary::Call call =
        OwnCall(file->key, rm::UVM_CLEAN_UP_ZOMBIE_RESOURCES, abi_, std::uint32_t{0});
    (void)executor_.ExecuteUvm(file->file.get(), call);
  }
}

std::vector<RangeQuestions::KnownFile> RangeQuestions::KnownFiles() {
  std::vector<KnownFile> files;
  for (auto& file : files_.All()) {
    boundary::AddressRanges known;
    const MutexLock lock(accounting_.mutex);
    if (const boundary::UvmSpace* space = accounting_.boundary.FindSpace(file->key);
        space != nullptr) {
      for (const auto& [base, length] : space->Ranges()) {
        known.push_back({base, base + length});
      }
    }
    files.push_back({std::move(file), boundary::Ordered(std::move(known))});
  }
  return files;
}

// Returns true also where it cannot be told.
bool RangeQuestions::HasRange(const KeptFile& file, const boundary::AddressRange& range) {
  const std::uint64_t start = range.start / kPage * kPage;
  const std::uint64_t end = (range.end + kPage - 1) / kPage * kPage;
  const rm::UVM_RANGE_HEAD head{start, end - start};
  boundary::Call made = OwnCall(file.key, rm::UVM_CREATE_EXTERNAL_RANGE, abi_, head);
  const int error = executor_.ExecuteUvm(file.file.get(), made);
  if (error != 0) {
    return error != ENOTCONN;  // a simulated driver is gone, with everything it had
  }
  if (boundary::StatusOf(made) != rm::NV_OK) {
    return true;
  }
  boundary::Call freed = OwnCall(file.key, rm::UVM_FREE, abi_, head);
  (void)executor_.ExecuteUvm(file.file.get(), freed);
  return false;
}

}  // namespace cgpu::shim
