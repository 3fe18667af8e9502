// A JSON text that somebody wrote by hand, changed in few places: everything else keeps its order,
// its indentation, its line ends and the byte order mark it may begin with.
//
// Pure. A text is parsed before and after each change, and a change is refused (kInternal) unless
// what was asked for is all that differs. Comments and commas after the last member are not JSON.
#ifndef CGPU_INSTALL_JSON_TEXT_H_
#define CGPU_INSTALL_JSON_TEXT_H_

#include <optional>
#include <string>

#include "base/result.h"
#include "install/path.h"

namespace cgpu::install {

class JsonText {
 public:
  // Blank text counts as an empty object. kInvalid, with the place, if it is not JSON, not an
  // object, or an object names a key twice.
  [[nodiscard]] static Result<JsonText> Parse(const std::string& text);

  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] bool Has(const Path& path) const;
  // An object without members, or nothing there at all.
  [[nodiscard]] bool IsEmpty(const Path& path) const;
  [[nodiscard]] std::optional<std::string> String(const Path& path) const;

  // The text with this string there, in place of what was there or after what is in its object;
  // objects that are missing on the way are made. kInvalid if something else than an object is.
  [[nodiscard]] Result<JsonText> Set(const Path& path, const std::string& value) const;
  // The text without the member; itself if there is none.
  [[nodiscard]] Result<JsonText> Remove(const Path& path) const;

 private:
  explicit JsonText(std::string text) : text_(std::move(text)) {}

  std::string text_;
};

}  // namespace cgpu::install

#endif  // CGPU_INSTALL_JSON_TEXT_H_
