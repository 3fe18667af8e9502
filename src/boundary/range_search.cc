#include "boundary/range_search.h"

#include <algorithm>

namespace cgpu::boundary {
namespace {

constexpr std::uint64_t kPageBytes = 4096;
// All addresses that a process can map a file of UVM at: its offset is its address, and the first
// page is nobody's (mmap_min_addr). UVM has no upper limit of its own (NVIDIA/
// open-gpu-kernel-modules 595.45.04 kernel-open/nvidia-uvm/uvm_api.h,
// uvm_api_range_invalid_aligned()).
constexpr AddressRange kAddresses{kPageBytes, std::uint64_t{1} << 57};
// Unit in which windows are searched, and the allowance for it: channels have some ranges each.
constexpr std::uint64_t kBlockBytes = std::uint64_t{2} << 20U;
constexpr std::uint64_t kRoundingBytes = std::uint64_t{64} << 20U;

AddressRanges KnownOf(const RangeSearch::File& file) {
  AddressRanges known = file.known;
  for (const AddressRanges& windows : file.windows) {
    known = Union(known, windows);
  }
  return known;
}

AddressRanges AllCharged(const RangeSearch::View& view) {
  AddressRanges all;
  all.reserve(view.charges.size());
  for (const ChargedRange& charged : view.charges) {
    all.push_back(charged.range);
  }
  return Ordered(std::move(all));
}

}  // namespace

struct RangeSearch::Round {
  const View& view;
  const Ask& ask;
  const std::function<bool()>& enough;
  AddressRanges charged;
  std::vector<AddressRanges> known;  // of each file, with its windows

  Round(const View& of, const Ask& with, const std::function<bool()>& until)
      : view(of), ask(with), enough(until), charged(AllCharged(of)) {
    known.reserve(of.files.size());
    for (const File& file : of.files) {
      known.push_back(KnownOf(file));
    }
  }
  // Returns whether the file has something in one of the parts.
  [[nodiscard]] bool Holds(std::uint64_t file, const AddressRanges& parts) const {
    return std::ranges::any_of(
        parts, [&](const AddressRange& part) { return ask(file, part) == Answer::kTaken; });
  }
};

RangeSearch::Found RangeSearch::Find(const View& view, const Ask& ask,
                                     const std::function<bool()>& enough) {
  const Round round(view, ask, enough);
  if (suspect_) {
    if (IsStillThere(round)) {
      return Found::kUnknown;
    }
    suspect_.reset();
  }
  const bool from_start = place_.part == Part::kGaps && place_.file == 0 && place_.address == 0;
  while (place_.part != Part::kEnd) {
    const Found found = place_.part == Part::kGaps      ? InGaps(round)
                        : place_.part == Part::kCharged ? InCharged(round)
                                                        : InWindows(round);
    if (found != Found::kNothing) {
      return found;
    }
    place_ = {static_cast<Part>(static_cast<int>(place_.part) + 1), 0, 0, 0, 0};
    occupied_ = 0;
  }
  place_ = {};
  return from_start ? Found::kNothing : Found::kUnfinished;
}

bool RangeSearch::IsStillThere(const Round& round) const {
  const auto& files = round.view.files;
  const auto file = std::ranges::find(files, suspect_->file, &File::key);
  if (file == files.end()) {
    return false;
  }
  const auto& known = round.known[static_cast<std::size_t>(file - files.begin())];
  return round.Holds(file->key, Without({suspect_->range}, Union(known, round.charged)));
}

RangeSearch::Found RangeSearch::InGaps(const Round& round) {
  for (std::size_t i = 0; i < round.view.files.size(); ++i) {
    const File& file = round.view.files[i];
    if (file.key < place_.file) {
      continue;
    }
    if (file.key > place_.file) {
      place_ = {Part::kGaps, 0, file.key, 0, 0};
    }
    for (const auto& gap : Without({kAddresses}, Union(round.known[i], round.charged))) {
      if (gap.end <= place_.address) {
        continue;
      }
      if (round.enough()) {
        return Found::kUnfinished;
      }
      if (round.ask(file.key, gap) == Answer::kTaken) {
        suspect_ = Suspect{file.key, gap};
        return Found::kUnknown;
      }
      place_.address = gap.end;
    }
  }
  return Found::kNothing;
}

RangeSearch::Found RangeSearch::InCharged(const Round& round) {
  for (const ChargedRange& charged : round.view.charges) {
    if (charged.range.end <= place_.address || round.view.files.size() <= charged.charges) {
      continue;
    }
    if (round.enough()) {
      return Found::kUnfinished;
    }
    std::size_t holders = 0;
    for (std::size_t i = 0; i < round.view.files.size(); ++i) {
      const auto parts = Without({charged.range}, round.known[i]);
      holders += round.Holds(round.view.files[i].key, parts) ? 1 : 0;
    }
    if (holders > charged.charges) {
      return Found::kUnknown;
    }
    place_.address = charged.range.end;
  }
  return Found::kNothing;
}

RangeSearch::Found RangeSearch::InWindows(const Round& round) {
  for (; place_.gpu < round.view.used.size(); place_ = {Part::kWindows, place_.gpu + 1, 0, 0, 0}) {
    const std::uint64_t most = round.view.used[place_.gpu] + kRoundingBytes;
    std::vector<Suspect> windows;
    std::uint64_t bytes = 0;
    for (const File& file : round.view.files) {
      for (const auto& window :
           Without(file.windows[place_.gpu], Union(file.known, round.charged))) {
        windows.push_back({file.key, window});
        bytes += window.end - window.start;
      }
    }
    for (const auto& [file, window] : windows) {
      const bool done = file < place_.file || (file == place_.file && window.end <= place_.address);
      if (bytes <= most || done) {
        continue;
      }
      if (file > place_.file) {
        place_ = {Part::kWindows, place_.gpu, file, 0, 0};
      }
      if (const Found found = InWindow(round, file, window, most); found != Found::kNothing) {
        return found;
      }
    }
    occupied_ = 0;
  }
  return Found::kNothing;
}

// Asks about the rest of the window: about ever more at once while it is free, and block by block
// where it is taken.
RangeSearch::Found RangeSearch::InWindow(const Round& round, std::uint64_t file,
                                         const AddressRange& window, std::uint64_t most) {
  std::uint64_t at = std::max(window.start, place_.address);
  std::uint64_t length = place_.length == 0 ? window.end - at : place_.length;
  while (at < window.end) {
    if (round.enough()) {
      place_.address = at;
      place_.length = length;
      return Found::kUnfinished;
    }
    length = std::min(length, window.end - at);
    if (round.ask(file, {at, at + length}) != Answer::kTaken) {
      at += length;
      length *= 2;
    } else if (length > kBlockBytes) {
      length = std::max(kBlockBytes, length / 2 / kPageBytes * kPageBytes);
    } else {
      occupied_ += length;
      at += length;
    }
    if (occupied_ > most) {
      place_ = {Part::kWindows, place_.gpu, 0, 0, 0};  // counts anew the next time
      occupied_ = 0;
      return Found::kUnknown;
    }
  }
  place_.address = window.end;
  place_.length = 0;
  return Found::kNothing;
}

}  // namespace cgpu::boundary
