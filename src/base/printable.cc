#include "base/printable.h"

#include <algorithm>

namespace cgpu {

std::string Printable(std::string text) {
  std::ranges::replace_if(text, [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

}  // namespace cgpu
