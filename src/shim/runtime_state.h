// What an OCI runtime says beside a seccomp listener it hands over: the "container process state"
// of opencontainers/runtime-spec config-linux.md, a JSON text that comes in pieces. Of all that
// stands in it a shim needs one number, the process under the filter: "pid" of the outermost
// object. (The container's own is another "pid", one object further in.)
//
// So this is no JSON parser: it finds that number in every well-formed text, as a parser would, and
// something or nothing in others; it refuses none. The sender is trusted, but what a container's
// user chose stands in the text too. Keeps nothing of the text. Pure.
#ifndef CGPU_SHIM_RUNTIME_STATE_H_
#define CGPU_SHIM_RUNTIME_STATE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace cgpu::shim {

inline constexpr std::uint32_t kMaxProcess = 1U << 22;  // the kernel's PID_MAX_LIMIT

class RuntimeState {
 public:
  // The next piece, of any size.
  void Read(std::string_view piece);

  // The process, once its number has been read to its end. Nothing where that is not a whole number
  // from 1 to kMaxProcess, written as one. Of several the last counts.
  [[nodiscard]] std::optional<std::uint32_t> process() const { return process_; }

  // True once the outermost value is complete, or is no object.
  [[nodiscard]] bool over() const { return over_; }

 private:
  void ReadOutside(char c);
  void ReadInString(char c);
  void ReadValue(char c);
  void EndMember();
  void Spell(std::uint32_t character);

  // How far the key of a member of the outermost object is "pid", and its value a number.
  enum class Number { kNone, kDigits, kEnded, kOther };

  std::size_t depth_ = 0;  // of objects and arrays around the next character
  bool over_ = false;
  bool in_string_ = false;
  bool escaped_ = false;           // the last character was a backslash
  int hex_left_ = 0;               // digits of a \u that are still to come
  std::uint32_t hex_ = 0;          // what they are so far
  bool in_key_ = false;            // the string is a key of the outermost object
  bool after_colon_ = false;       // in the outermost object, in a member's value
  std::size_t spelled_ = 0;        // characters of the key that are those of "pid"
  Number number_ = Number::kNone;  // the value, if the key is "pid"
  std::uint64_t value_ = 0;
  std::optional<std::uint32_t> process_;
};

// The process in a whole text.
[[nodiscard]] std::optional<std::uint32_t> ProcessOf(std::string_view text);

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_RUNTIME_STATE_H_
