// A TOML text that somebody wrote by hand, changed in few places; everything else stays as it was
// byte by byte.
//
// Pure. A text is parsed before and after each change, and a change is refused (kUnsupported)
// unless what was asked for is all that differs, empty tables aside.
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

// A table as it is to be written: its keys with their values, which are TOML.
struct TomlSection {
  Path path;
  std::vector<std::pair<std::string, std::string>> values;
};

class TomlText {
 public:
  struct Tree;  // what the text was parsed to

  // kInvalid, with the place, if it is not TOML.
  [[nodiscard]] static Result<TomlText> Parse(const std::string& text);

  // The value as TOML.
  [[nodiscard]] static std::string Quoted(const std::string& value);

  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] bool Has(const Path& path) const;
  [[nodiscard]] std::optional<std::string> String(const Path& path) const;
  [[nodiscard]] std::optional<std::int64_t> Integer(const Path& path) const;
  // Of an array; what is no string in it is left out.
  [[nodiscard]] std::vector<std::string> Strings(const Path& path) const;
  // Of the table there; without one, none.
  [[nodiscard]] std::vector<std::string> Keys(const Path& path) const;
  // The numbers, booleans, strings and arrays of strings of the table there, as TOML, without those
  // that are zero, false or empty.
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> Values(const Path& path) const;

  // The text with these tables behind it, after a line that says whose they are. A section with an
  // empty path comes first.
  [[nodiscard]] Result<TomlText> Append(const std::vector<TomlSection>& sections) const;
  // The text with this value (a string or an array of strings, as TOML) there: in place of what was
  // there, or as the first key of its table, or appended with its table.
  [[nodiscard]] Result<TomlText> Set(const Path& path, const std::string& value) const;
  // The text without the key, or without the table, all tables in it and the line that Append()
  // wrote before them; itself if there is nothing.
  [[nodiscard]] Result<TomlText> Remove(const Path& path) const;

 private:
  TomlText(std::string text, std::shared_ptr<const Tree> tree)
      : text_(std::move(text)), tree_(std::move(tree)) {}

  // `changed`, if it differs from this text at `paths` only.
  [[nodiscard]] Result<TomlText> Checked(const std::string& changed,
                                         const std::vector<Path>& paths) const;
  // `changed`, if it has the value there.
  [[nodiscard]] static Result<TomlText> WithValue(Result<TomlText> changed, const Path& path,
                                                  const std::string& value);

  std::string text_;
  std::shared_ptr<const Tree> tree_;
};

}  // namespace cgpu::install

#endif  // CGPU_INSTALL_TOML_TEXT_H_
