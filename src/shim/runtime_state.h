// Reads the text that an OCI runtime sends with a seccomp listener: the "container process state"
// of opencontainers/runtime-spec config-linux.md, a JSON text that comes in pieces. A shim needs
// two values of the outermost object: "pid", the process under the filter, and "metadata", the
// profile's own text. (The container's own process is another "pid", one object further in.)
//
// So this is no JSON parser. It finds these in every well-formed text, as a parser would, and
// something or nothing in others; it refuses none. The sender is trusted, but the text also holds
// what a container's user chose. Pure.
#ifndef CGPU_SHIM_RUNTIME_STATE_H_
#define CGPU_SHIM_RUNTIME_STATE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cgpu::shim {

inline constexpr std::uint32_t kMaxProcess = 1U << 22;  // the kernel's PID_MAX_LIMIT

class RuntimeState {
 public:
  RuntimeState() = default;
  // `metadata`: the text to look for, without characters that JSON escapes.
  explicit RuntimeState(std::string_view metadata) : metadata_(metadata) {}

  // Reads the next piece, of any size.
  void Read(std::string_view piece);

  // Returns the process, once its number has been read to its end. Returns nothing if that is not a
  // whole number from 1 to kMaxProcess, written as one. The last of several counts.
  [[nodiscard]] std::optional<std::uint32_t> process() const { return process_; }

  // Returns true if the metadata was the text. The last of several counts.
  [[nodiscard]] bool has_metadata() const { return has_metadata_; }

  // Returns true once the outermost value is complete, or is no object.
  [[nodiscard]] bool over() const { return over_; }

 private:
  void ReadOutside(char c);
  void ReadInString(char c);
  void ReadValue(char c);
  void EndMember();
  void Spell(std::uint32_t character);

  // The progress of a member of the outermost object whose key is "pid", and whether its value is a
  // number.
  enum class Number { kNone, kDigits, kEnded, kOther };

  std::size_t depth_ = 0;  // of objects and arrays around the next character
  bool over_ = false;
  bool in_string_ = false;
  bool escaped_ = false;           // the last character was a backslash
  int hex_left_ = 0;               // digits of a \u still to come
  std::uint32_t hex_ = 0;          // their value so far
  bool in_key_ = false;            // the string is a key of the outermost object
  bool after_colon_ = false;       // in the outermost object, in a member's value
  std::size_t spelled_ = 0;        // characters of the key that are those of "pid"
  std::size_t spelled_other_ = 0;  // and of "metadata"
  bool in_metadata_ = false;       // the string is the value of "metadata"
  std::size_t matched_ = 0;        // its characters that are those of the text
  Number number_ = Number::kNone;  // the value, if the key is "pid"
  std::uint64_t value_ = 0;
  std::optional<std::uint32_t> process_;
  std::string metadata_;
  bool has_metadata_ = false;
};

// Returns the process in a whole text.
[[nodiscard]] std::optional<std::uint32_t> ProcessOf(std::string_view text);

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_RUNTIME_STATE_H_
