#include "shim/range_questions.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "rm/nv_status.h"
#include "shim/own_call.h"

namespace cgpu::shim {
namespace {

using boundary::RangeSearch;

constexpr std::uint64_t kPage = 4096;
// Most questions in one settlement; the rest waits for the next.
constexpr std::size_t kMostQuestions = 4096;
// Timeout for a call that makes ranges. If it is in the driver for longer, the doubts stay.
constexpr std::chrono::milliseconds kDriverTimeout{50};
// Limit of the time that a search waits for such calls. Others wait meanwhile; a tenant that never
// lets it look would wait so long each time.
constexpr std::chrono::milliseconds kMostPatience{1'600};
// Time of one search. No range can be made meanwhile.
constexpr std::chrono::milliseconds kSearchTime{10};

// Returns the ranges that the accounting has in the space, but for managed ones.
boundary::AddressRanges AccountedIn(const boundary::UvmSpace& space) {
  boundary::AddressRanges ranges;
  for (const auto& [base, length] : space.Ranges()) {
    ranges.push_back({base, base + length});
  }
  return boundary::Ordered(std::move(ranges));
}

}  // namespace

RangeQuestions::RangeQuestions(const rm::Abi& abi, Accounting& accounting, Executor& executor,
                               const UvmFiles& files)
    : abi_(abi),
      accounting_(accounting),
      executor_(executor),
      files_(files),
      patience_(kDriverTimeout) {}

void RangeQuestions::SettleDoubts() {
  {
    const MutexLock lock(accounting_.mutex);
    if (!accounting_.boundary.managed().HasDoubts()) {
      return;
    }
  }
  CleanUpMappings();
  const std::unique_lock alone(lock_, kDriverTimeout);
  if (!alone.owns_lock() || !FreeLeftOvers()) {
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
    const bool holds = std::ranges::any_of(
        parts, [&](const auto& part) { return Ask(one.file, part) != RangeSearch::Answer::kFree; });
    held += holds ? 1 : 0;
  }
  return held;
}

RangeSearch::Found RangeQuestions::FindUnknown(const std::function<bool()>& enough) {
  const std::unique_lock alone(lock_, patience_);
  patience_ = alone.owns_lock() ? kDriverTimeout : std::min(2 * patience_, kMostPatience);
  if (!alone.owns_lock() || !FreeLeftOvers()) {
    return RangeSearch::Found::kUnfinished;
  }
  const RangeSearch::View view = Accounted();
  const auto ask = [&](std::uint64_t key, const boundary::AddressRange& range) {
    const auto file = files_.Get(key);  // null: its space has just ended
    return file == nullptr ? RangeSearch::Answer::kUnclear : Ask(file, range);
  };
  const auto until = std::chrono::steady_clock::now() + kSearchTime;
  return search_.Find(view, ask, [&] {
    return enough() || !left_over_.empty() || std::chrono::steady_clock::now() >= until;
  });
}

// Returns what the accounting has of those files that have a GPU.
RangeSearch::View RangeQuestions::Accounted() {
  RangeSearch::View view;
  const auto files = files_.All();
  const MutexLock lock(accounting_.mutex);
  const std::size_t gpus = accounting_.boundary.gpus().size();
  for (ledger::Gpu gpu = 0; gpu < gpus; ++gpu) {
    view.used.push_back(accounting_.ledger.Used(gpu));
  }
  view.charges = accounting_.boundary.managed().Charges();
  for (const auto& one : files) {
    const boundary::UvmSpace* space = accounting_.boundary.FindSpace(one->key);
    if (space == nullptr || space->gpus().empty()) {
      continue;
    }
    RangeSearch::File& file = view.files.emplace_back();
    file.key = one->key;
    file.known = AccountedIn(*space);
    for (ledger::Gpu gpu = 0; gpu < gpus; ++gpu) {
      file.windows.push_back(space->Windows(gpu));
    }
  }
  std::ranges::sort(view.files, {}, &RangeSearch::File::key);
  return view;
}

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
    const MutexLock lock(accounting_.mutex);
    const boundary::UvmSpace* space = accounting_.boundary.FindSpace(file->key);
    files.push_back(
        {std::move(file), space == nullptr ? boundary::AddressRanges{} : AccountedIn(*space)});
  }
  return files;
}

// Returns kUnclear where the driver has no memory, or the like.
RangeSearch::Answer RangeQuestions::Ask(const std::shared_ptr<KeptFile>& file,
                                        const boundary::AddressRange& range) {
  const boundary::AddressRange pages{range.start / kPage * kPage,
                                     (range.end + kPage - 1) / kPage * kPage};
  const rm::UVM_RANGE_HEAD head{pages.start, pages.end - pages.start};
  boundary::Call made = OwnCall(file->key, rm::UVM_CREATE_EXTERNAL_RANGE, abi_, head);
  const int error = executor_.ExecuteUvm(file->file.get(), made);
  if (error != 0) {
    // A simulated driver may be gone, with everything it had.
    return error == ENOTCONN ? RangeSearch::Answer::kFree : RangeSearch::Answer::kUnclear;
  }
  const auto status = boundary::StatusOf(made);
  if (status != rm::NV_OK) {
    return status == rm::NV_ERR_UVM_ADDRESS_IN_USE ? RangeSearch::Answer::kTaken
                                                   : RangeSearch::Answer::kUnclear;
  }
  left_over_.emplace_back(file, pages);
  (void)FreeLeftOvers();
  return RangeSearch::Answer::kFree;
}

// Frees the ranges that questions have made. Returns false if one stays: nothing may be asked then.
bool RangeQuestions::FreeLeftOvers() {
  std::erase_if(left_over_, [&](const auto& entry) {
    const auto& [file, range] = entry;
    const rm::UVM_RANGE_HEAD head{range.start, range.end - range.start};
    boundary::Call freed = OwnCall(file->key, rm::UVM_FREE, abi_, head);
    const int error = executor_.ExecuteUvm(file->file.get(), freed);
    return error == ENOTCONN || (error == 0 && boundary::StatusOf(freed) == rm::NV_OK);
  });
  return left_over_.empty();
}

}  // namespace cgpu::shim
