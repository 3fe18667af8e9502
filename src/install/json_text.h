// Changes few places of a JSON text that was written by hand: everything else keeps its order, its
// indentation, its line ends and the byte order mark it may begin with.
//
// Pure. Each change parses the text before and after, and is refused (kInternal) unless the two
// differ only in what was asked for. Comments and commas after the last member are not JSON.
#ifndef CGPU_INSTALL_JSON_TEXT_H_
#define CGPU_INSTALL_JSON_TEXT_H_

#include <optional>
#include <string>

#include "base/result.h"
#include "install/path.h"

namespace cgpu::install {

class JsonText {
 public:
  // Parses a text; blank text counts as an empty object. kInvalid, with the place: it is not JSON,
  // not an object, or an object names a key twice.
  [[nodiscard]] static Result<JsonText> Parse(const std::string& text);

  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] bool Has(const Path& path) const;
  // Returns whether there is an object without members, or nothing at all.
  [[nodiscard]] bool IsEmpty(const Path& path) const;
  [[nodiscard]] std::optional<std::string> String(const Path& path) const;

  // Returns the text with this string there, in place of what was there or after what is in its
  // object. Makes objects that are missing on the way. kInvalid: something else than an object is
  // on the way.
  [[nodiscard]] Result<JsonText> Set(const Path& path, const std::string& value) const;
  // Returns the text without the member; itself if there is none.
  [[nodiscard]] Result<JsonText> Remove(const Path& path) const;

 private:
  explicit JsonText(std::string text) : text_(std::move(text)) {}

  std::string text_;
};

}  // namespace cgpu::install

#endif  // CGPU_INSTALL_JSON_TEXT_H_
