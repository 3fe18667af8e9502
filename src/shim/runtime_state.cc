#include "shim/runtime_state.h"

#include <utility>

namespace cgpu::shim {
namespace {

constexpr std::string_view kPidKey = "pid";
constexpr std::string_view kMetadataKey = "metadata";
constexpr std::uint32_t kNoAscii = 0x80;  // any character that no key of ours has

// Counts a character of a string of which `count` are those of `text` so far. What does not begin
// like `text` counts as longer.
void CountIn(std::string_view text, std::uint32_t character, std::size_t& count) {
  const bool fits =
      count < text.size() &&
      character == static_cast<std::uint32_t>(static_cast<unsigned char>(text[count]));
  count = fits ? count + 1 : text.size() + 1;
}

bool IsSpace(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

std::uint32_t HexDigit(char c) {
  if (IsDigit(c)) {
    return static_cast<std::uint32_t>(c - '0');
  }
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? static_cast<std::uint32_t>(lower - 'a' + 10) : kNoAscii;
}

}  // namespace

void RuntimeState::Read(std::string_view piece) {
  for (const char c : piece) {
    if (over_) {
      return;
    }
    if (in_string_) {
      ReadInString(c);
    } else if (!IsSpace(c)) {
      ReadOutside(c);
    } else if (number_ == Number::kDigits) {
      number_ = Number::kEnded;
    }
  }
}

// Reads a character of a string.
void RuntimeState::Spell(std::uint32_t character) {
  if (in_key_) {
    CountIn(kPidKey, character, spelled_);
    CountIn(kMetadataKey, character, spelled_other_);
  } else if (in_metadata_) {
    CountIn(metadata_, character, matched_);
  }
}

void RuntimeState::ReadInString(char c) {
  if (hex_left_ > 0) {
    hex_ = hex_ << 4 | HexDigit(c);  // a character that is no digit makes it a large number
    if (--hex_left_ == 0) {
      Spell(hex_);
    }
  } else if (escaped_) {
    escaped_ = false;
    if (c == 'u') {
      hex_left_ = 4;
      hex_ = 0;
    } else {
      Spell(kNoAscii);  // no letter of ours is escaped so
    }
  } else if (c == '\\') {
    escaped_ = true;
  } else if (c == '"') {
    in_string_ = false;
    if (std::exchange(in_metadata_, false)) {
      has_metadata_ = matched_ == metadata_.size();
    }
  } else {
    Spell(static_cast<unsigned char>(c));
  }
}

// Reads a character that is no space, outside of strings.
void RuntimeState::ReadOutside(char c) {
  if (depth_ == 0 && c != '{') {
    over_ = true;  // no object
    return;
  }
  if (depth_ == 1 && after_colon_ && c != ',' && c != '}') {
    ReadValue(c);
  }
  switch (c) {
    case '"':
      in_string_ = true;
      in_key_ = depth_ == 1 && !after_colon_;
      if (in_key_) {
        spelled_ = spelled_other_ = 0;
      } else if (depth_ == 1 && spelled_other_ == kMetadataKey.size()) {
        in_metadata_ = true;
        matched_ = 0;
      }
      break;
    case '{':
    case '[':
      ++depth_;
      break;
    case '}':
    case ']':
      if (depth_ == 1) {
        EndMember();
        over_ = true;
      }
      --depth_;
      break;
    case ',':
      if (depth_ == 1) {
        EndMember();
      }
      break;
    case ':':
      after_colon_ = after_colon_ || depth_ == 1;
      break;
    default:
      break;
  }
}

// Reads a character of a value in the outermost object, or the first one of a longer value.
void RuntimeState::ReadValue(char c) {
  const bool more = number_ == Number::kDigits && value_ != 0;
  if (!IsDigit(c) || (number_ != Number::kNone && !more)) {
    number_ = Number::kOther;
    return;
  }
  number_ = Number::kDigits;
  value_ = value_ * 10 + static_cast<std::uint64_t>(c - '0');
  if (value_ > kMaxProcess) {
    number_ = Number::kOther;
  }
}

void RuntimeState::EndMember() {
  if (after_colon_ && spelled_ == kPidKey.size()) {
    const bool number = number_ == Number::kDigits || number_ == Number::kEnded;
    process_.reset();
    if (number && value_ != 0) {
      process_ = static_cast<std::uint32_t>(value_);
    }
  }
  after_colon_ = false;
  number_ = Number::kNone;
  value_ = 0;
}

std::optional<std::uint32_t> ProcessOf(std::string_view text) {
  RuntimeState state;
  state.Read(text);
  return state.process();
}

}  // namespace cgpu::shim
