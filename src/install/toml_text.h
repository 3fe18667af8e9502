// Changes few places of a TOML text that was written by hand; everything else stays as it was, byte
// by byte.
//
// Pure. Each change parses the text before and after, and is refused (kUnsupported) unless the two
// differ only in what was asked for, empty tables aside.
#ifndef CGPU_INSTALL_TOML_TEXT_H_
#define CGPU_INSTALL_TOML_TEXT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "install/path.h"

namespace cgpu::install {

// A table to write: its keys with their values, which are TOML.
struct TomlSection {
  Path path;
  std::vector<std::pair<std::string, std::string>> values;
};

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
  // Returns the strings of an array; leaves out what is no string.
  [[nodiscard]] std::vector<std::string> Strings(const Path& path) const;
  // Returns the keys of the table there; none without a table.
  [[nodiscard]] std::vector<std::string> Keys(const Path& path) const;
  // Returns the numbers, booleans, strings and arrays of strings of the table there, as TOML,
  // without those that are zero, false or empty.
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> Values(const Path& path) const;

  // Returns the text with these tables behind it, after a line that says that they are cgpu's. A
  // section with an empty path comes first.
  [[nodiscard]] Result<TomlText> Append(const std::vector<TomlSection>& sections) const;
  // Returns the text with this value (a string or an array of strings, as TOML) there: in place of
  // what was there, or as the first key of its table, or appended with its table.
  [[nodiscard]] Result<TomlText> Set(const Path& path, const std::string& value) const;
  // Returns the text without the key, or without the table, all tables in it and the line that
  // Append() wrote before them; itself if there is nothing.
  [[nodiscard]] Result<TomlText> Remove(const Path& path) const;

 private:
  TomlText(std::string text, std::shared_ptr<const Tree> tree)
      : text_(std::move(text)), tree_(std::move(tree)) {}

  // Returns `changed`, if it differs from this text at `paths` only.
  [[nodiscard]] Result<TomlText> Checked(const std::string& changed,
                                         const std::vector<Path>& paths) const;
  // Returns `changed`, if it has the value there.
  [[nodiscard]] static Result<TomlText> WithValue(Result<TomlText> changed, const Path& path,
                                                  const std::string& value);

  std::string text_;
  std::shared_ptr<const Tree> tree_;
};

}  // namespace cgpu::install

#endif  // CGPU_INSTALL_TOML_TEXT_H_
