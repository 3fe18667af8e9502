// What a program hands to its successor, as bytes that older and newer versions read too.
//
// A state is a tree of records. A record has a tag and either fields or further records; which, and
// which fields in which order, is agreed on by whoever writes and reads that tag. Two versions
// agree by these rules, which the code that adds to a state keeps:
//   * a field is only ever added at a record's end. To a reader that finds none it is 0 or empty;
//     one that does not know it passes it over. So 0 must mean what was so before the field was.
//   * a record that a reader does not know is passed over, unless its tag says that nobody may
//     (kRequired): then the reader fails and says so.
//   * tags and fields are never given another meaning.
//
// Numbers are of variable length, so that a state is small. Pure.
#ifndef CGPU_BASE_STATE_H_
#define CGPU_BASE_STATE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cgpu {

using StateTag = std::uint32_t;

// Added to a tag: a reader that does not know it must not go on.
inline constexpr StateTag kRequired = 0x8000;

class StateWriter {
 public:
  // A record within the one that is open now, or at the outermost level.
  void Begin(StateTag tag);
  void End();

  void Number(std::uint64_t value);
  void Text(std::string_view bytes);

  // All records must be at their end.
  [[nodiscard]] std::string Take();

 private:
  struct Open {
    StateTag tag = 0;
    std::string body;
    bool fields = false;  // it has some: it is no record of records
  };
  std::string& body() { return open_.empty() ? all_ : open_.back().body; }

  std::string all_;
  std::vector<Open> open_;
};

// Reads from `bytes`, which outlive it. A reader never fails midway: what is not there is 0, and at
// the end Finish() says whether all of it was what it should be.
class StateReader {
 public:
  explicit StateReader(std::string_view bytes) : rest_(bytes) {}

  // The next record within the one that is open, which is open from then on until Leave(). Nothing:
  // there is none. Required ones that are left unread are to be reported with Unknown().
  [[nodiscard]] std::optional<StateTag> Enter();
  void Leave();

  [[nodiscard]] std::uint64_t Number();
  // Nothing in `type` can hold the number that is there: 0, and Finish() fails.
  template <class T>
  [[nodiscard]] T As() {
    const std::uint64_t value = Number();
    const T narrow = static_cast<T>(value);
    if (static_cast<std::uint64_t>(narrow) != value) {
      Fail("a number is too large");
      return T{};
    }
    return narrow;
  }
  [[nodiscard]] bool Flag() { return Number() != 0; }
  // No field is left in the open record.
  [[nodiscard]] bool AtEnd() const { return rest_.empty(); }
  [[nodiscard]] std::string Text();

  // The open record has a tag that the reader does not know.
  void Unknown(StateTag tag);
  // What was read cannot be so. The first reason is kept.
  void Fail(std::string_view why);
  [[nodiscard]] bool failed() const { return !why_.empty(); }

  // kUnsupported, if a required record was not known; kInvalid, if the bytes make no sense.
  [[nodiscard]] Result<> Finish() const;

 private:
  [[nodiscard]] std::optional<std::uint64_t> Take();

  std::string_view rest_;                // of the open record
  std::vector<std::string_view> outer_;  // what comes after it, outermost first
  std::string why_;
  bool unsupported_ = false;
};

}  // namespace cgpu

#endif  // CGPU_BASE_STATE_H_
