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
// Most gaps in one search for unknown ranges: some milliseconds, in which no range can be made.
constexpr std::size_t kMostGaps = 512;
// All addresses that a process can map a file of UVM at: its offset is its address, and a page is
// there below (mmap_min_addr).
constexpr boundary::AddressRange kAddresses{kPage, std::uint64_t{1} << 57};
// Allowance for ranges of channels: they are counted in whole blocks.
constexpr std::uint64_t kRounding = std::uint64_t{64} << 20U;
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
    const bool holds = std::ranges::any_of(
        parts, [&](const auto& part) { return Ask(*one.file, part) != Answer::kFree; });
    held += holds ? 1 : 0;
  }
  return held;
}

bool RangeQuestions::FindsUnknown() {
  const std::unique_lock alone(mutex_, kDriverTimeout);
  if (!alone.owns_lock()) {
    return false;
  }
  boundary::AddressRanges charged;
  std::uint64_t used = 0;
  {
    const MutexLock lock(accounting_.mutex);
    charged = accounting_.boundary.managed().Charged();
    for (ledger::Gpu gpu = 0; gpu < accounting_.boundary.gpus().size(); ++gpu) {
      used += accounting_.ledger.Used(gpu);
    }
  }
  std::vector<KnownFile> files = KnownFiles();
  std::erase_if(files, [](const KnownFile& one) { return !one.has_gpu; });
  return FindsInGaps(files, charged) || FindsTooMuchInWindows(files, charged, used + kRounding);
}

bool RangeQuestions::FindsInGaps(const std::vector<KnownFile>& files,
                                 const boundary::AddressRanges& charged) {
  std::vector<std::pair<std::shared_ptr<KeptFile>, boundary::AddressRange>> gaps;
  for (const KnownFile& one : files) {
    const auto known = Union(Union(one.known, one.windows), charged);
    for (const auto& gap : boundary::Without({kAddresses}, known)) {
      gaps.emplace_back(one.file, gap);
    }
  }
  for (std::size_t asked = 0; asked < std::min(gaps.size(), kMostGaps); ++asked) {
    next_gap_ %= gaps.size();
    if (Ask(*gaps[next_gap_].first, gaps[next_gap_].second) == Answer::kTaken) {
      return true;  // asked about first the next time
    }
    ++next_gap_;
  }
  return false;
}

bool RangeQuestions::FindsTooMuchInWindows(const std::vector<KnownFile>& files,
                                           const boundary::AddressRanges& charged,
                                           std::uint64_t most) {
  std::vector<std::pair<std::shared_ptr<KeptFile>, boundary::AddressRange>> windows;
  std::uint64_t bytes = 0;
  for (const KnownFile& one : files) {
    for (const auto& window : boundary::Without(one.windows, Union(one.known, charged))) {
      windows.emplace_back(one.file, window);
      bytes += window.end - window.start;
    }
  }
  if (bytes <= most) {
    return false;
  }
  std::size_t questions = kMostQuestions;
  std::uint64_t occupied = 0;
  for (const auto& [file, window] : windows) {
    occupied += Occupied(*file, window, most - occupied, &questions);
    if (occupied > most) {
      return true;
    }
  }
  return false;
}

// Returns how much of the range is in blocks that hold anything; no more than just over `most`, nor
// than can be found by so many questions.
std::uint64_t RangeQuestions::Occupied(const KeptFile& file, const boundary::AddressRange& range,
                                       std::uint64_t most, std::size_t* questions) {
  constexpr std::uint64_t kBlock = std::uint64_t{2} << 20U;
  std::uint64_t occupied = 0;
  std::vector<boundary::AddressRange> parts = {range};
  while (!parts.empty() && *questions > 0 && occupied <= most) {
    const boundary::AddressRange part = parts.back();
    parts.pop_back();
    --*questions;
    if (Ask(file, part) != Answer::kTaken) {
      continue;
    }
    if (part.end - part.start <= kBlock) {
      occupied += part.end - part.start;
      continue;
    }
    const std::uint64_t middle = (part.start + (part.end - part.start) / 2) / kPage * kPage;
    parts.push_back({middle, part.end});
    parts.push_back({part.start, middle});
  }
  return occupied;
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
    boundary::AddressRanges known;
    boundary::AddressRanges windows;
    bool has_gpu = false;
    const MutexLock lock(accounting_.mutex);
    if (const boundary::UvmSpace* space = accounting_.boundary.FindSpace(file->key);
        space != nullptr) {
      for (const auto& [base, length] : space->Ranges()) {
        known.push_back({base, base + length});
      }
      windows = space->Windows();
      has_gpu = !space->gpus().empty();
    }
    files.push_back(
        {std::move(file), boundary::Ordered(std::move(known)), std::move(windows), has_gpu});
  }
  return files;
}

// kUnclear: the driver had no memory, or the like.
RangeQuestions::Answer RangeQuestions::Ask(const KeptFile& file,
                                           const boundary::AddressRange& range) {
  const std::uint64_t start = range.start / kPage * kPage;
  const std::uint64_t end = (range.end + kPage - 1) / kPage * kPage;
  const rm::UVM_RANGE_HEAD head{start, end - start};
  boundary::Call made = OwnCall(file.key, rm::UVM_CREATE_EXTERNAL_RANGE, abi_, head);
  const int error = executor_.ExecuteUvm(file.file.get(), made);
  if (error != 0) {
    // A simulated driver may be gone, with everything it had.
    return error == ENOTCONN ? Answer::kFree : Answer::kUnclear;
  }
  const auto status = boundary::StatusOf(made);
  if (status != rm::NV_OK) {
    return status == rm::NV_ERR_UVM_ADDRESS_IN_USE ? Answer::kTaken : Answer::kUnclear;
  }
  boundary::Call freed = OwnCall(file.key, rm::UVM_FREE, abi_, head);
  (void)executor_.ExecuteUvm(file.file.get(), freed);
  return Answer::kFree;
}

}  // namespace cgpu::shim
