#include "protocol/lines.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace cgpu {
namespace {

std::string BadLine(const Words& words) {
  std::string line = JoinLine(words);
  line.pop_back();
  return "has a bad line: " + line;
}

}  // namespace

LineCodec::LineCodec(std::string_view text, TextEnd end, UnknownLines unknown)
    : reads_(true), unknown_(unknown) {
  auto lines = SplitLines(text);
  if (!lines.ok()) {
    Fail("cannot be read: " + lines.error().what);
    return;
  }
  if (end == TextEnd::kDot) {
    if (!text.ends_with('\n') || lines->empty() || lines->back() != Words{"."}) {
      Fail("is cut off");
      return;
    }
    lines->pop_back();
  }
  for (Words& line : *lines) {
    std::string key = line[0];
    unread_.emplace(std::move(key), std::move(line));
  }
}

void LineCodec::Word(std::string& value) {
  if (reads_) {
    value = Next();
  } else {
    words_.push_back(value);
  }
}

void LineCodec::Fixed(const std::string& word) {
  std::string read = word;
  Word(read);
  Check(read == word);
}

void LineCodec::Check(bool sound) {
  if (reads_ && !sound) {
    Fail(BadLine(words_));
  }
}

void LineCodec::Require(bool there, const std::string& what) {
  if (reads_ && !there) {
    Fail("lacks " + what);
  }
}

std::string LineCodec::Written(TextEnd end) const {
  return end == TextEnd::kDot ? text_ + ".\n" : text_;
}

std::optional<std::string> LineCodec::Fault() {
  if (!unread_.empty() && unknown_ == UnknownLines::kRefused) {
    Fail(BadLine(unread_.begin()->second));
  }
  return fault_;
}

bool LineCodec::Begin(const std::string& key, bool present) {
  if (!reads_) {
    words_ = {key};
    return present;
  }
  const auto found = unread_.lower_bound(key);
  if (fault_ || found == unread_.end() || found->first != key) {
    return false;
  }
  words_ = std::move(found->second);
  unread_.erase(found);
  at_ = 1;
  return true;
}

void LineCodec::End() {
  if (!reads_) {
    text_ += JoinLine(words_);
  }
  Check(at_ == words_.size() || unknown_ == UnknownLines::kSkipped);
}

std::uint64_t LineCodec::Number(std::uint64_t value, int base, std::uint64_t least,
                                std::uint64_t most) {
  if (reads_) {
    std::uint64_t read = 0;
    Check(ToNumber(Next(), base, most, read) && read >= least);
    return read;
  }
  char buffer[20];  // digits of the greatest number
  const auto [tail, ec] = std::to_chars(std::begin(buffer), std::end(buffer), value, base);
  words_.emplace_back(buffer, tail);
  return value;
}

std::size_t LineCodec::Index(std::size_t index, std::initializer_list<const char*> names) {
  std::string name = reads_ ? "" : names.begin()[index];
  Word(name);
  const auto* const found = std::ranges::find(names, name);
  Check(found != names.end());
  return found == names.end() ? 0 : static_cast<std::size_t>(found - names.begin());
}

std::string LineCodec::Next() {
  Check(at_ < words_.size());
  return at_ < words_.size() ? words_[at_++] : std::string();
}

void LineCodec::Fail(const std::string& fault) {
  if (!fault_) {
    fault_ = fault;
  }
}

}  // namespace cgpu
