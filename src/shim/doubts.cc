// The part of the server that asks UVM whether managed memory, of an address space that no process
// uses any more, still lies there.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <shared_mutex>
#include <utility>

#include "rm/nv_status.h"
#include "shim/own_call.h"
#include "shim/server.h"

namespace cgpu::shim {
namespace {

constexpr std::uint64_t kPage = 4096;
// Most questions in one settlement; the rest waits for the next.
constexpr std::size_t kMostQuestions = 4096;
// Timeout for a call that makes ranges. If it is in the driver for longer, the doubts stay.
constexpr std::chrono::milliseconds kPatience{50};

}  // namespace

// Excludes questions while a tenant's call makes or frees a range, until that is in the accounting.
std::shared_lock<std::shared_timed_mutex> Server::KeepQuestionsOut(
    const boundary::Decision& decision) {
  std::shared_lock lock(ranges_mutex_, std::defer_lock);
  if (decision.effects.changes_ranges) {
    lock.lock();
  }
  return lock;
}

// Asks UVM what is left. UVM destroys what an address space has while the kernel unmaps it: after
// its last user is gone. A tenant can delay that, for example by a page of a file system of its own
// that must be written first. Until then the ranges exist, and so does their memory.
//
// No request lists the ranges between two addresses. But UVM refuses an external range wherever any
// range is (kernel-open/nvidia-uvm/uvm_va_range.c, uvm_va_range_create_external() and
// uvm_range_tree.c, uvm_range_tree_add(), in 535.104.05 to 595.45.04), and one that could be made
// is freed at once. Meanwhile no other caller may make a range there: calls that do so wait, and
// where an mmap has been let through nothing is asked.
void Server::SettleDoubts() {
  {
    const MutexLock lock(accounting_.mutex);
    if (!accounting_.boundary.managed().HasDoubts()) {
      return;
    }
  }
  CleanUpMappings();
  const std::unique_lock alone(ranges_mutex_, kPatience);
  if (!alone.owns_lock()) {
    return;
  }
  std::vector<boundary::ManagedBook::Doubt> doubts;
  {
    const MutexLock lock(accounting_.mutex);
    doubts = accounting_.boundary.managed().Doubts();
  }
  std::size_t questions = kMostQuestions;
  std::vector<std::pair<boundary::ManagedBook::Doubt, std::size_t>> holders;
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
std::optional<std::size_t> Server::CountHolders(const boundary::AddressRange& range,
                                                const std::vector<KnownFile>& files,
                                                std::size_t* questions) {
  std::size_t held = 0;
  for (const KnownFile& one : files) {
    const auto parts = boundary::Without({range}, one.known);
    if (parts.size() > *questions) {
      return std::nullopt;
    }
    *questions -= parts.size();
    const bool holds = std::any_of(parts.begin(), parts.end(),
                                   [&](const auto& part) { return HasRange(*one.file, part); });
    held += holds ? 1 : 0;
  }
  return held;
}

// Cleans up managed ranges. With the sharing mode, the managed ranges of an address space that ends
// with its last process keep their memory until they are cleaned up (kernel-open/nvidia-uvm/uvm.c,
// uvm_vm_close_managed). A file where that fails keeps them, and the question finds them.
void Server::CleanUpMappings() {
  for (const auto& file : uvm_files_.All()) {
    boundary::Call call =
        OwnCall(file->key, rm::UVM_CLEAN_UP_ZOMBIE_RESOURCES, abi_, std::uint32_t{0});
    (void)executor_.ExecuteUvm(file->file.get(), call);
  }
}

std::vector<Server::KnownFile> Server::KnownFiles() {
  std::vector<KnownFile> files;
  for (auto& file : uvm_files_.All()) {
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
bool Server::HasRange(const UvmFile& file, const boundary::AddressRange& range) {
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
