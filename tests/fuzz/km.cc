// Paths that any user of the machine can ask cgpu-km for, and what is written to its files. What is
// understood of a path is all that it says.
#include <string>

#include "km/names.h"
#include "tests/fuzz/input.h"

using cgpu::fuzz::Require;
using cgpu::km::Kind;

namespace {

std::string Written(const cgpu::km::Place& place) {
  const std::string card = "/" + std::to_string(place.minor);
  switch (place.kind) {
    case Kind::kRoot:
      return "/";
    case Kind::kVersion:
      return "/version";
    case Kind::kCard:
      return card;
    case Kind::kPolicy:
      return card + "/policy";
    case Kind::kPrioRatio:
      return card + "/prio_ratio";
    case Kind::kMaxInst:
      return card + "/max_inst";
    case Kind::kContainer:
      return card + "/" + place.container;
    case Kind::kId:
      return card + "/" + place.container + "/id";
    case Kind::kMemsize:
      return card + "/" + place.container + "/memsize";
    case Kind::kMeminfo:
      break;
  }
  return card + "/" + place.container + "/meminfo";
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(data, data + size);
  if (const auto place = cgpu::km::ParsePath(text)) {
    Require(Written(*place) == text, "a path means what it says");
  }
  if (const auto value = cgpu::km::ParseValue(text)) {
    Require(text.find_first_not_of("0123456789\n") == std::string::npos, "a value is a number");
  }
  return 0;
}
