// Searches UVM's address spaces for ranges that no call of the container has made, by questions
// whether UVM has anything between two addresses.
//
// Three kinds of places are asked about. *Gaps*, where a file has no range by the accounting, must
// be free. Managed memory is charged, but it is not known to which file: so *charged* addresses may
// be taken in as many files as charges are made for them. And in *windows*, the addresses that were
// named for channels of a GPU, UVM has ranges at places that it does not tell. They hold no other
// memory than what is charged on that GPU, so there may be as much there.
//
// Pure; thread-compatible.
#ifndef CGPU_BOUNDARY_RANGE_SEARCH_H_
#define CGPU_BOUNDARY_RANGE_SEARCH_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "boundary/address_ranges.h"

namespace cgpu::boundary {

// Addresses for which managed memory is charged, and how often.
struct ChargedRange {
  AddressRange range;
  std::size_t charges = 0;
};

class RangeSearch {
 public:
  // An open file of nvidia-uvm on which a GPU is registered.
  struct File {
    std::uint64_t key = 0;
    AddressRanges known;                 // ranges that the accounting has, but for managed ones
    std::vector<AddressRanges> windows;  // of each GPU
  };
  // The accounting. All ranges are in order and made of pages.
  struct View {
    std::vector<File> files;            // in the order of their keys
    std::vector<ChargedRange> charges;  // in order
    std::vector<std::uint64_t> used;    // bytes charged on each GPU
  };
  enum class Answer : std::uint8_t { kFree, kTaken, kUnclear };
  enum class Found : std::uint8_t {
    kNothing,     // in any place
    kUnknown,     // a range that the accounting does not have
    kUnfinished,  // nothing so far
  };
  // Returns what the file of that key has there.
  using Ask = std::function<Answer(std::uint64_t file, const AddressRange& range)>;

  // Goes on where the last call stopped, once around all places at most, until `enough` returns
  // true or something is found. What was found is asked about first the next time.
  [[nodiscard]] Found Find(const View& view, const Ask& ask, const std::function<bool()>& enough);

 private:
  enum class Part : std::uint8_t { kGaps, kCharged, kWindows, kEnd };
  struct Place {
    Part part = Part::kGaps;
    std::size_t gpu = 0;        // of kWindows
    std::uint64_t file = 0;     // of kGaps and kWindows
    std::uint64_t address = 0;  // what ends here, or before, is done
    std::uint64_t length = 0;   // of kWindows: of the next question; 0: all that is left
  };
  struct Suspect {
    std::uint64_t file = 0;
    AddressRange range;
  };
  struct Round;  // the arguments of Find(), and what follows from them

  [[nodiscard]] bool IsStillThere(const Round& round) const;
  [[nodiscard]] Found InGaps(const Round& round);
  [[nodiscard]] Found InCharged(const Round& round);
  [[nodiscard]] Found InWindows(const Round& round);
  [[nodiscard]] Found InWindow(const Round& round, std::uint64_t file, const AddressRange& window,
                               std::uint64_t most);

  Place place_;
  std::uint64_t occupied_ = 0;  // in the windows of the GPU that were searched
  std::optional<Suspect> suspect_;
};

}  // namespace cgpu::boundary

#endif  // CGPU_BOUNDARY_RANGE_SEARCH_H_
