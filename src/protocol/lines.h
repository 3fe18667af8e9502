// Writes a struct as lines of words (text.h) and reads it again. One function says both: it visits
// the fields in the order in which they are written, each with the key of its line.
//
//   void Fields(LineCodec& io, Box& box) {
//     io.One("name", box.name);                         // "name BIG"
//     io.Each("side", box.sides, 6, [&](Side& side) {   // "side 3 red", up to 6 times
//       io.Values(side.number, side.colour);
//     });
//   }
//   constexpr LineFormat<Box> kBox{"a box", Fields};
//
// Reading takes lines of different keys in any order. It is bounded, and refuses a line that is
// there twice, lacks a word or holds a bad one; and, unless the format says otherwise, a line or
// word that it does not know. Pure.
#ifndef CGPU_PROTOCOL_LINES_H_
#define CGPU_PROTOCOL_LINES_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/result.h"
#include "protocol/text.h"

namespace cgpu {

// End of a text. kDot: its last line is ".", so that a cut-off text is noticed.
enum class TextEnd { kDot, kNone };
// Lines and words that the reader does not know. kSkipped: a later version has added them.
enum class UnknownLines { kRefused, kSkipped };

class LineCodec {
 public:
  // Writes.
  LineCodec() = default;
  // Reads `text`.
  LineCodec(std::string_view text, TextEnd end, UnknownLines unknown);

  // --- Lines

  // Visits a line that comes once; writes it if `present`. Returns whether it is there.
  template <class Body>
  bool Line(const std::string& key, bool present, Body body) {
    const bool there = Begin(key, present);
    if (there) {
      body();
      End();
      Check(!unread_.contains(key));
    }
    return there;
  }

  // Visits a line of these values, which must be there.
  template <class... T>
  void One(const std::string& key, T&... values) {
    Require(Line(key, true, [&] { Values(values...); }), key);
  }

  // Visits a line with one value, which is left out where the text is empty.
  void Maybe(const std::string& key, std::string& value) {
    Line(key, !value.empty(), [&] { Word(value); });
  }
  void Maybe(const std::string& key, std::optional<std::string>& value) {
    std::string text = value.value_or("");
    if (Line(key, !text.empty(), [&] { Word(text); })) {
      value = text;
    }
  }
  // The same for a number, within these bounds; it is left out where there is none.
  template <class T>
  void Maybe(const std::string& key, std::optional<T>& value, std::uint64_t least,
             std::uint64_t most) {
    Line(key, value.has_value(), [&] {
      value = value.value_or(0);
      Word(*value, least, most);
    });
  }

  // Visits a line for each item. Reading refuses more than `most`.
  template <class Item, class Body>
  void Each(const std::string& key, std::vector<Item>& items, std::size_t most, Body body) {
    for (std::size_t i = 0; Begin(key, i < items.size()); ++i) {
      if (reads_) {
        Check(i < most);
        items.emplace_back();
      }
      body(items[i]);
      End();
    }
  }
  template <class Item>
  void Each(const std::string& key, std::vector<Item>& items, std::size_t most) {
    Each(key, items, most, [&](Item& item) { Word(item); });
  }

  // --- Words of a line

  void Word(std::string& value);
  void Word(bool& value) { Choice(value, {"0", "1"}); }
  template <class T, class = std::enable_if_t<std::is_unsigned_v<T>>>
  void Word(T& value, std::uint64_t least = 0, std::uint64_t most = std::numeric_limits<T>::max()) {
    value = static_cast<T>(Number(value, 10, least, most));
  }
  void Hex(std::uint64_t& value) { value = Number(value, 16, 0, ~std::uint64_t{0}); }
  // Visits a word that is always the same.
  void Fixed(const std::string& word);
  // Visits the name of a value: the names of 0, 1, ... in their order.
  template <class T>
  void Choice(T& value, std::initializer_list<const char*> names) {
    value = static_cast<T>(Index(static_cast<std::size_t>(value), names));
  }
  template <class... T>
  void Values(T&... values) {
    (Word(values), ...);
  }
  // Returns whether another word follows: when writing, whether `present`.
  [[nodiscard]] bool More(bool present) const { return reads_ ? at_ < words_.size() : present; }

  // Refuses, when reading, the line unless it is sound.
  void Check(bool sound);
  // Refuses, when reading, a text that lacks something.
  void Require(bool there, const std::string& what);

  // --- Results

  [[nodiscard]] std::string Written(TextEnd end) const;
  // Returns what is wrong with the text that was read, as "lacks id"; nothing: it is sound.
  [[nodiscard]] std::optional<std::string> Fault();

 private:
  // Goes to the next line of this key, or begins to write one if `present`. Returns false where
  // there is none.
  bool Begin(const std::string& key, bool present);
  void End();
  [[nodiscard]] std::uint64_t Number(std::uint64_t value, int base, std::uint64_t least,
                                     std::uint64_t most);
  [[nodiscard]] std::size_t Index(std::size_t index, std::initializer_list<const char*> names);
  // Returns the next word that was read; "", and refuses the line, where there is none.
  [[nodiscard]] std::string Next();
  // Keeps the first fault.
  void Fail(const std::string& fault);

  const bool reads_ = false;
  const UnknownLines unknown_ = UnknownLines::kRefused;
  std::string text_;                          // what was written
  std::multimap<std::string, Words> unread_;  // by key
  Words words_;                               // the line that is visited
  std::size_t at_ = 0;                        // the word in it that is read next
  std::optional<std::string> fault_;
};

// How a T is written as text. `what` names it in errors; all are kInvalid.
template <class T>
struct LineFormat {
  const char* what = "";
  void (*fields)(LineCodec& io, T& value) = nullptr;
  TextEnd end = TextEnd::kDot;
  UnknownLines unknown = UnknownLines::kRefused;
  const char* hint = "";

  [[nodiscard]] std::string Encode(T value) const {
    LineCodec io;
    fields(io, value);
    return io.Written(end);
  }
  [[nodiscard]] Result<T> Decode(std::string_view text) const {
    LineCodec io(text, end, unknown);
    T value{};
    fields(io, value);
    if (const auto fault = io.Fault()) {
      return Error{Code::kInvalid, 0, std::string(what) + " " + *fault, hint};
    }
    return value;
  }
};

}  // namespace cgpu

#endif  // CGPU_PROTOCOL_LINES_H_
