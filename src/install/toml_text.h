// Reads a TOML text that was written by hand, adds to it, and takes away again what was added;
// everything else stays as it was, byte by byte.
//
// Two comments enclose what is added. A line whose value changes stays there as a comment, so the
// text itself says what it was. Pure. Each change parses the text before and after, and is refused
// (kUnsupported) unless the two differ only in what was asked for, empty tables aside.
#ifndef CGPU_INSTALL_TOML_TEXT_H_
#define CGPU_INSTALL_TOML_TEXT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace cgpu::install {

// The way to a value in a configuration: the keys from the top.
using Path = std::vector<std::string>;

// A table to write: its keys with their values, which are TOML.
struct TomlSection {
  Path path;
  std::vector<std::pair<std::string, std::string>> values;
};

// Returns the sections as TOML, with this at the end of each line.
[[nodiscard]] std::string Written(const std::vector<TomlSection>& sections,
                                  const std::string& line_end = "\n");

class TomlText {
 public:
  struct Tree;  // tree that the text was parsed to

  // Parses a text. kInvalid, with the place, if it is not TOML.
  [[nodiscard]] static Result<TomlText> Parse(const std::string& text);

  // Returns the value as TOML.
  [[nodiscard]] static std::string Quoted(const std::string& value);

  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] bool Has(const Path& path) const;
  [[nodiscard]] std::optional<std::string> String(const Path& path) const;
  [[nodiscard]] std::optional<std::int64_t> Integer(const Path& path) const;
  [[nodiscard]] std::vector<std::string> Strings(const Path& path) const;  // of an array
  [[nodiscard]] std::vector<std::string> Keys(const Path& path) const;     // of a table
  // Returns those of a table's keys that have a value which says something: no "", 0, false, [].
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> Values(const Path& path) const;

  // Returns the text with these values: below the header line of their table, in the place of a
  // value that is there, or else at the end. `made`: there is no file yet. The hint of an error is
  // what to add by hand.
  [[nodiscard]] Result<std::string> Add(const std::vector<TomlSection>& sections, bool made) const;

  // Returns the text without all that Add() added, nothing for a text that was made by it.
  // `paths`: what may be different then.
  [[nodiscard]] Result<std::optional<std::string>> TakeAway(const std::vector<Path>& paths) const;

 private:
  TomlText(std::string text, std::shared_ptr<const Tree> tree)
      : text_(std::move(text)), tree_(std::move(tree)) {}

  // Returns the text if it is what adding these has to make of this one.
  [[nodiscard]] Result<std::string> Checked(const std::string& text,
                                            const std::vector<TomlSection>& sections) const;

  std::string text_;
  std::shared_ptr<const Tree> tree_;
};

}  // namespace cgpu::install

#endif  // CGPU_INSTALL_TOML_TEXT_H_
