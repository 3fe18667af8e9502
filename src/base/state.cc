#include "base/state.h"

#include <utility>

namespace cgpu {
namespace {

constexpr unsigned kBits = 7;
constexpr std::uint8_t kMore = 0x80;

void Append(std::string& to, std::uint64_t value) {
  while (value >= kMore) {
    to.push_back(static_cast<char>(value | kMore));
    value >>= kBits;
  }
  to.push_back(static_cast<char>(value));
}

// Adds, in a build for tests, what a later version may add to every record.
#ifdef CGPU_STATE_OF_NEXT_VERSION
constexpr bool kNextVersion = true;
#else
constexpr bool kNextVersion = false;
#endif
constexpr StateTag kAddedRecord = 0x7fff;
constexpr std::uint64_t kAddedField = 0x5a5a5a5a5a;

}  // namespace

void StateWriter::Begin(StateTag tag) {
  open_.push_back({tag, {}});
}

void StateWriter::End() {
  Open done = std::move(open_.back());
  open_.pop_back();
  if (kNextVersion && done.fields) {
    Append(done.body, kAddedField);
  } else if (kNextVersion && !done.body.empty()) {
    Append(done.body, kAddedRecord);
    Append(done.body, 0);
  }
  Append(body(), done.tag);
  Append(body(), done.body.size());
  body() += done.body;
}

void StateWriter::Number(std::uint64_t value) {
  open_.back().fields = true;
  Append(body(), value);
}

void StateWriter::Text(std::string_view bytes) {
  open_.back().fields = true;
  Append(body(), bytes.size());
  body() += bytes;
}

std::string StateWriter::Take() {
  return std::exchange(all_, {});
}

std::optional<std::uint64_t> StateReader::Take() {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && !rest_.empty(); shift += kBits) {
    const auto byte = static_cast<std::uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    const std::uint64_t part = byte & (kMore - 1);
    if (shift == 63 && part > 1) {
      break;
    }
    value |= part << shift;
    if ((byte & kMore) == 0) {
      return value;
    }
  }
  Fail("it ends within a number");
  return std::nullopt;
}

std::optional<StateTag> StateReader::Enter() {
  if (rest_.empty() || failed()) {
    return std::nullopt;
  }
  const auto tag = As<StateTag>();
  const auto size = Take();
  if (!size || *size > rest_.size()) {
    Fail("it ends within a record");
    return std::nullopt;
  }
  outer_.push_back(rest_.substr(*size));
  rest_ = rest_.substr(0, *size);
  return tag;
}

void StateReader::Leave() {
  rest_ = outer_.back();
  outer_.pop_back();
}

std::uint64_t StateReader::Number() {
  return rest_.empty() || failed() ? 0 : Take().value_or(0);
}

std::string StateReader::Text() {
  if (rest_.empty() || failed()) {
    return {};
  }
  const auto size = Take();
  if (!size || *size > rest_.size()) {
    Fail("it ends within a text");
    return {};
  }
  std::string text(rest_.substr(0, *size));
  rest_.remove_prefix(*size);
  return text;
}

void StateReader::Unknown(StateTag tag) {
  if ((tag & kRequired) != 0 && why_.empty()) {
    unsupported_ = true;
    Fail("record " + std::to_string(tag & ~kRequired) + " is of a newer version of cgpu");
  }
}

void StateReader::Fail(std::string_view why) {
  if (why_.empty()) {
    why_ = why;
  }
}

Result<> StateReader::Finish() const {
  if (!failed()) {
    return {};
  }
  return Error{unsupported_ ? Code::kUnsupported : Code::kInvalid,
               0,
               "a state that was handed over cannot be read: " + why_,
               {}};
}

}  // namespace cgpu
