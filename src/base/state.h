// The state that a program hands to its successor, as bytes that older and newer versions read too.
//
// A state is a tree of records. A record has a tag and either fields or further records. The code
// that writes and the code that reads a tag agree on which, and on the fields' order. Two versions
// agree by these rules, which every addition to a state keeps:
// * A field is only ever added at a record's end. A reader that finds none takes it as 0 or empty;
//   a reader that does not know it skips it. So 0 must mean what held before the field existed.
// * A reader skips a record that it does not know. If the tag forbids that (kRequired), the reader
//   fails and says so.
// * Tags and fields never get another meaning.
//
// Numbers are of variable length, so that a state is small. Pure.
#ifndef CGPU_BASE_STATE_H_
#define CGPU_BASE_STATE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cgpu {

using StateTag = std::uint32_t;

// Bit added to a tag: a reader that does not know the tag must not go on.
inline constexpr StateTag kRequired = 0x8000;

class StateWriter {
 public:
  // Begins a record within the open one, or at the outermost level.
  void Begin(StateTag tag);
  void End();

  void Number(std::uint64_t value);
  void Text(std::string_view bytes);

  // Writes a record of numbers.
  template <class... Numbers>
  void Row(StateTag tag, Numbers... numbers) {
    Begin(tag);
    (Number(static_cast<std::uint64_t>(numbers)), ...);
    End();
  }

  // Returns the bytes. All records must have ended.
  [[nodiscard]] std::string Take();

 private:
  struct Open {
    StateTag tag = 0;
    std::string body;
    bool fields = false;  // it has fields, so it holds no records
  };
  std::string& body() { return open_.empty() ? all_ : open_.back().body; }

  std::string all_;
  std::vector<Open> open_;
};

// Reads from `bytes`, which outlive it. A reader never fails midway: a missing field reads as 0,
// and at the end Finish() says whether the bytes were sound.
class StateReader {
 public:
  explicit StateReader(std::string_view bytes) : rest_(bytes) {}

  // Opens the next record within the open one, until Leave(). Returns nothing where there is none.
  // The caller reports a record that it leaves unread with Unknown().
  [[nodiscard]] std::optional<StateTag> Enter();
  void Leave();
  // Calls `read` with the tag of each record within the open one; false: it does not know the tag.
  template <class Read>
  void ForEach(const Read& read) {
    while (const auto tag = Enter()) {
      if (!read(*tag)) {
        Unknown(*tag);
      }
      Leave();
    }
  }

  [[nodiscard]] std::uint64_t Number();
  // Returns the number as T. A number that T cannot hold reads as 0, and Finish() fails.
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
  // Returns whether no field is left in the open record.
  [[nodiscard]] bool AtEnd() const { return rest_.empty(); }
  [[nodiscard]] std::string Text();

  // Reports that the reader does not know the open record's tag.
  void Unknown(StateTag tag);
  // Reports that what was read makes no sense. The first reason is kept.
  void Fail(std::string_view why);
  [[nodiscard]] bool failed() const { return !why_.empty(); }

  // Returns kUnsupported if a required record was not known, kInvalid if the bytes make no sense.
  [[nodiscard]] Result<> Finish() const;

 private:
  [[nodiscard]] std::optional<std::uint64_t> Take();

  std::string_view rest_;                // bytes left of the open record
  std::vector<std::string_view> outer_;  // bytes after each open record, outermost first
  std::string why_;
  bool unsupported_ = false;
};

}  // namespace cgpu

#endif  // CGPU_BASE_STATE_H_
