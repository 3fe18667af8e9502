#include "fleet/selector.h"

#include <algorithm>
#include <utility>

namespace cgpu::fleet {
namespace {

constexpr std::string_view kSpace = " \t\n";

std::string_view Trim(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) {
    return {};
  }
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

bool IsWord(std::string_view text) {
  return std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.' || c == '/';
  });
}

// Splits at commas that are in no parentheses.
std::vector<std::string_view> Split(std::string_view text) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  bool inside = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    inside = text[at] == '(' || (inside && text[at] != ')');
    if (text[at] == ',' && !inside) {
      parts.push_back(Trim(text.substr(begin, at - begin)));
      begin = at + 1;
    }
  }
  parts.push_back(Trim(text.substr(begin)));
  return parts;
}

}  // namespace

Result<Selector::Requirement> Selector::ParseOne(std::string_view text) {
  const Error wrong{Code::kInvalid, 0, "\"" + std::string(text) + "\" selects no labels",
                    "for example app=trainer,tier in (a,b),!test"};
  Requirement one;
  std::string_view key = text;
  std::string_view values;
  const std::size_t sign = text.find('=');
  if (sign == std::string_view::npos && text.ends_with(')')) {
    const std::size_t open = text.find('(');
    values = text.substr(0, text.size() - 1).substr(std::min(open, text.size() - 1));
    key = Trim(text.substr(0, std::min(open, text.size())));
    const std::size_t space = key.find_last_of(kSpace);
    const std::string_view word = space == std::string_view::npos ? "" : key.substr(space + 1);
    if (values.empty() || (word != "in" && word != "notin")) {
      return wrong;
    }
    values.remove_prefix(1);
    one.kind = word == "in" ? Kind::kIn : Kind::kNotIn;
    key = Trim(key.substr(0, space));
  } else if (sign != std::string_view::npos) {
    const bool differs = sign > 0 && text[sign - 1] == '!';
    one.kind = differs ? Kind::kNotIn : Kind::kIn;
    key = Trim(text.substr(0, sign - (differs ? 1 : 0)));
    values = text.substr(sign + 1);
    values.remove_prefix(!differs && values.starts_with('=') ? 1 : 0);
    if (values.find(',') != std::string_view::npos) {
      return wrong;
    }
  } else if (text.starts_with('!')) {
    one.kind = Kind::kMissing;
    key = Trim(text.substr(1));
  }
  if (one.kind == Kind::kIn || one.kind == Kind::kNotIn) {
    for (const std::string_view value : Split(values)) {
      one.values.insert(std::string(value));
    }
  }
  one.key = key;
  return !key.empty() && IsWord(key) && std::ranges::all_of(one.values, IsWord)
             ? Result<Requirement>(std::move(one))
             : wrong;
}

Result<Selector> Selector::Parse(std::string_view text) {
  Selector selector;
  if (Trim(text).empty()) {
    return selector;
  }
  for (const std::string_view part : Split(text)) {
    CGPU_ASSIGN_OR_RETURN(auto one, ParseOne(part));
    selector.requirements_.push_back(std::move(one));
  }
  return selector;
}

bool Selector::Selects(const Labels& labels) const {
  return std::ranges::all_of(requirements_, [&](const Requirement& one) {
    const auto label = labels.find(one.key);
    const bool there = label != labels.end();
    switch (one.kind) {
      case Kind::kIn:
        return there && one.values.contains(label->second);
      case Kind::kNotIn:
        return !there || !one.values.contains(label->second);
      case Kind::kThere:
        return there;
      case Kind::kMissing:
        return !there;
    }
    return false;
  });
}

}  // namespace cgpu::fleet
