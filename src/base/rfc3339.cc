#include "base/rfc3339.h"

#include <cstdio>
#include <ctime>

namespace cgpu {
namespace {

constexpr std::uint64_t kMsOfSecond = 1000;

// Returns the time without the letter of its zone.
std::string DateAndTime(std::uint64_t seconds) {
  const auto time = static_cast<std::time_t>(seconds);
  std::tm utc{};
  char text[64];
  (void)gmtime_r(&time, &utc);
  return {text, std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &utc)};
}

}  // namespace

std::string Rfc3339(std::uint64_t seconds) {
  return DateAndTime(seconds) + "Z";
}

std::string Rfc3339Ms(std::uint64_t milliseconds) {
  char fraction[sizeof(".999Z")];
  std::snprintf(fraction, sizeof(fraction), ".%03uZ",
                static_cast<unsigned>(milliseconds % kMsOfSecond));
  return DateAndTime(milliseconds / kMsOfSecond) + fraction;
}

}  // namespace cgpu
