// Reads JSON that others print, which may have any shape.
#ifndef CGPU_DOCTOR_VALUE_H_
#define CGPU_DOCTOR_VALUE_H_

#include <memory>
#include <string>
#include <vector>

namespace cgpu::doctor {

// A value of a JSON text, or nothing. It is cheap to copy and keeps the text alive.
class Value {
 public:
  struct Tree;
  Value() = default;
  explicit Value(std::shared_ptr<const Tree> tree);
  // Parses a text; nothing where it is none.
  [[nodiscard]] static Value Parse(const std::string& text);

  [[nodiscard]] bool IsList() const;  // an array
  [[nodiscard]] bool IsObject() const;
  // Returns the member with this key; nothing where there is none.
  [[nodiscard]] Value operator[](const std::string& key) const;
  [[nodiscard]] std::vector<Value> Items() const;       // of an array
  [[nodiscard]] std::vector<std::string> Keys() const;  // of an object
  [[nodiscard]] std::string Text() const;               // "" where it is none
  [[nodiscard]] long Number(long otherwise = 0) const;
  [[nodiscard]] bool Flag() const;  // false where it is none

 private:
  std::shared_ptr<const Tree> tree_;
};

}  // namespace cgpu::doctor

#endif  // CGPU_DOCTOR_VALUE_H_
