#include "grant/request.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <iterator>
#include <system_error>

namespace cgpu {
namespace {

// Most MiB: far above any GPU, and small enough that its bytes fit into 64 bits.
constexpr std::uint64_t kMaxMib = std::uint64_t{1} << 40;
constexpr std::uint64_t kMaxUnits = 1'000'000;
constexpr std::uint64_t kMaxGpus = 4096;

struct Suffix {
  std::string_view text;  // lower case
  std::uint64_t mib;
};
constexpr std::uint64_t kGib = 1024;
constexpr std::uint64_t kTib = 1024 * kGib;
// Docker takes GB for GiB, too (units.RAMInBytes() of docker/go-units).
constexpr Suffix kSuffixes[] = {
    {"", 1},      {"m", 1},      {"mi", 1},     {"mib", 1},   {"mb", 1},
    {"g", kGib},  {"gi", kGib},  {"gib", kGib}, {"gb", kGib}, {"t", kTib},
    {"ti", kTib}, {"tib", kTib}, {"tb", kTib},
};
constexpr std::string_view kSizeHint = "write it as 4096MiB, 4GiB, 4G or 25%; a bare number is MiB";
// A bare number below this was meant to be of another unit: no program fits into so few MiB.
constexpr std::uint64_t kLeastBare = 64;

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  });
  return lower;
}

// Returns user text for a message: quoted, shortened, and without anything that a terminal would
// interpret.
std::string Quote(std::string_view text) {
  constexpr std::size_t kLongest = 64;
  std::string quoted = "\"";
  for (const char c : text.substr(0, kLongest)) {
    quoted += c < ' ' || c > '~' ? '?' : c;
  }
  return quoted + (text.size() > kLongest ? "...\"" : "\"");
}

Error Invalid(std::string what, std::string_view hint) {
  return Error{Code::kInvalid, 0, std::move(what), std::string(hint)};
}

// The leading digits of a text as a number; `rest` is what follows them.
struct Digits {
  std::uint64_t value = 0;
  bool any = false;
  bool overflow = false;
  std::string_view rest;
};

Digits TakeDigits(std::string_view text) {
  Digits digits;
  const auto [tail, ec] = std::from_chars(text.data(), text.data() + text.size(), digits.value);
  digits.any = ec != std::errc::invalid_argument;
  digits.overflow = ec == std::errc::result_out_of_range;
  digits.rest = text.substr(static_cast<std::size_t>(tail - text.data()));
  return digits;
}

bool HasFraction(const Digits& digits) {
  return digits.rest.size() > 1 && (digits.rest[0] == '.' || digits.rest[0] == ',') &&
         IsDigit(digits.rest[1]);
}

// Digits behind a decimal point: `value` of `whole`.
struct Fraction {
  std::uint64_t value = 0;
  std::uint64_t whole = 1;
};

// Takes the decimal point and what belongs to it from `text`. Nothing: it is none, or too long.
std::optional<Fraction> TakeFraction(std::string_view& text) {
  constexpr std::size_t kMostDigits = 6;
  const Digits digits = TakeDigits(text.substr(1));
  const std::size_t count = text.size() - 1 - digits.rest.size();
  if (text.front() != '.' || count > kMostDigits) {
    return std::nullopt;
  }
  text = digits.rest;
  Fraction fraction{digits.value, 1};
  for (std::size_t i = 0; i < count; ++i) {
    fraction.whole *= 10;
  }
  return fraction;
}

// Returns what is wrong with a number before its unit is looked at; "" if nothing.
std::string NumberFault(std::string_view text, const Digits& digits) {
  if (text.empty()) {
    return "is empty";
  }
  if (text.front() == '-' && TakeDigits(text.substr(1)).any) {
    return "is negative";
  }
  if (!digits.any) {
    return "is not a number";
  }
  if (digits.overflow) {
    return "is too large";
  }
  return {};
}

}  // namespace

Result<MemoryRequest> ParseSize(std::string_view text) {
  const std::string name = "the size " + Quote(text);
  Digits digits = TakeDigits(text);
  if (const std::string fault = NumberFault(text, digits); !fault.empty()) {
    return Invalid(name + " " + fault, kSizeHint);
  }
  Fraction fraction;
  if (HasFraction(digits)) {
    const auto taken = TakeFraction(digits.rest);
    if (!taken || digits.rest.empty() || digits.rest == "%") {
      return Invalid(name + " is a fraction", "a fraction may stand before a unit, as 3.5GiB");
    }
    fraction = *taken;
  }
  if (digits.rest == "%") {
    if (digits.value < 1 || digits.value > 100) {
      return Invalid(name + " is not from 1% to 100%", kSizeHint);
    }
    return MemoryRequest{MemoryRequest::Kind::kPercent, digits.value, 0};
  }
  const std::string unit = Lower(digits.rest);
  const auto* suffix = std::ranges::find(kSuffixes, unit, &Suffix::text);
  if (suffix == std::end(kSuffixes)) {
    return Invalid(name + " has an unknown unit " + Quote(digits.rest), kSizeHint);
  }
  if (digits.value > kMaxMib / suffix->mib) {
    return Invalid(name + " is too large", kSizeHint);
  }
  const std::uint64_t parts = fraction.value * suffix->mib;
  const std::uint64_t mib = digits.value * suffix->mib + parts / fraction.whole;
  if (parts % fraction.whole != 0) {
    return Invalid(name + " is no whole number of MiB", "write " + std::to_string(mib) + "MiB");
  }
  if (mib == 0) {
    return Invalid(name + " is zero", "100% is the whole GPU");
  }
  if (unit.empty() && mib < kLeastBare) {
    const std::string number = std::to_string(mib);
    return Invalid(name + " is " + number + " MiB, in which no program can start",
                   "did you mean " + number + "GiB?");
  }
  return MemoryRequest{MemoryRequest::Kind::kMib, mib, 0};
}

Result<MemoryRequest> ParseUnits(std::string_view text) {
  CGPU_ASSIGN_OR_RETURN(auto units, ParseNumber(text, "the number of units", 1, kMaxUnits));
  return MemoryRequest{MemoryRequest::Kind::kUnits, units, 0};
}

Result<std::uint64_t> ParseNumber(std::string_view text, std::string_view what, std::uint64_t low,
                                  std::uint64_t high) {
  const std::string name = std::string(what) + " " + Quote(text);
  const std::string hint =
      "give a whole number from " + std::to_string(low) + " to " + std::to_string(high);
  const Digits digits = TakeDigits(text);
  if (const std::string fault = NumberFault(text, digits); !fault.empty()) {
    return Invalid(name + " " + fault, hint);
  }
  if (HasFraction(digits)) {
    return Invalid(name + " is a fraction; only whole numbers are taken", hint);
  }
  if (!digits.rest.empty()) {
    return Invalid(name + " is not a whole number", hint);
  }
  if (digits.value < low || digits.value > high) {
    return Invalid(name + (digits.value == 0 ? " is zero" : " is out of range"), hint);
  }
  return digits.value;
}

Result<std::uint64_t> ParsePercent(std::string_view text, std::string_view what) {
  text.remove_suffix(text.ends_with('%') ? 1 : 0);
  return ParseNumber(text, what, 1, 100);
}

Result<GpuRequest> ParseDeviceList(std::string_view text) {
  constexpr std::string_view kHint = "name GPUs by index or UUID, as 0,2 or GPU-8a56...";
  if (text == "all") {
    return GpuRequest{};
  }
  GpuRequest request;
  request.kind = GpuRequest::Kind::kDevices;
  std::string_view rest = text;
  while (true) {
    const std::size_t comma = rest.find(',');
    const std::string_view device = rest.substr(0, comma);
    if (device.empty()) {
      return Invalid("the list of GPUs " + Quote(text) + " has an empty entry", kHint);
    }
    const bool plain = std::ranges::all_of(device, [](char c) {
      return IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-';
    });
    if (!plain || device.front() == '-') {
      return Invalid(Quote(device) + " is neither a GPU's index nor its UUID", kHint);
    }
    if (request.devices.size() == kMaxGpus) {
      return Invalid("the list of GPUs is too long", kHint);
    }
    request.devices.emplace_back(device);
    if (comma == std::string_view::npos) {
      return request;
    }
    rest.remove_prefix(comma + 1);
  }
}

Result<GpuRequest> ParseGpus(std::string_view text) {
  constexpr std::string_view kHint = "write --gpus 2, all, device=0,2 or device=GPU-8a56...";
  // Docker needs the quotation marks inside the shell's: --gpus '"device=0,2"'.
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"') {
    text = text.substr(1, text.size() - 2);
  }
  if (text == "all") {
    return GpuRequest{};
  }
  if (text.starts_with("device=")) {
    return ParseDeviceList(text.substr(7));
  }
  if (text.find('=') != std::string_view::npos) {
    return Invalid("--gpus " + Quote(text) + " is not understood", kHint);
  }
  auto count = ParseNumber(text, "the number of GPUs", 1, kMaxGpus);
  if (!count.ok()) {
    Error error = count.error();
    error.hint = kHint;
    return error;
  }
  GpuRequest request;
  request.kind = GpuRequest::Kind::kCount;
  request.count = *count;
  return request;
}

std::string SentenceOf(const ComputeRequest& request) {
  std::string share = request.percent ? std::to_string(*request.percent) + " %" : "";
  if (request.max_percent) {
    share += (share.empty() ? "to " : " to ") + std::to_string(*request.max_percent) + " %";
  }
  const std::string weight = request.weight ? "weight " + std::to_string(*request.weight) : "";
  std::string text;
  for (const std::string& part :
       {share, weight, std::string(request.high_priority ? "high priority" : "")}) {
    text += (text.empty() || part.empty() ? "" : ", ") + part;
  }
  return text.empty() ? "an equal part" : text;
}

}  // namespace cgpu
