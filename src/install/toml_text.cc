#include "install/toml_text.h"

#define TOML_EXCEPTIONS 0
// toml++ 3.3 asserts that a table's name begins well just before it refuses one that does not.
#define TOML_ASSERT(condition) static_assert(true)
#include <toml++/toml.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>
#include <sstream>

namespace cgpu::install {

struct TomlText::Tree {
  toml::table root;
};

namespace {

// Lines that are added are between the first two. Behind the third is a line that an added one
// takes the place of. The fourth says that the text before it has no end of line, or is empty.
constexpr const char* kBegin = "# `cgpu install` added this, `cgpu uninstall` takes it away again:";
constexpr const char* kEnd = "# This was added by `cgpu install`.";
constexpr const char* kInstead = "#-";
constexpr const char* kNoLineEnd = "# (There was no end of line before this.)";
constexpr const char* kBareKey = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";

std::string KeyText(const std::string& key) {
  const bool bare = !key.empty() && key.find_first_not_of(kBareKey) == std::string::npos;
  return bare ? key : TomlText::Quoted(key);
}

std::string Header(const Path& path) {
  std::string text;
  for (const std::string& key : path) {
    text += (text.empty() ? "[" : ".") + KeyText(key);
  }
  return text + "]";
}

// Returns what is at `path`; null if nothing.
const toml::node* Find(const toml::table& root, const Path& path) {
  const toml::node* node = &root;
  for (const std::string& key : path) {
    const toml::table* const table = node->as_table();
    node = table == nullptr ? nullptr : table->get(key);
    if (node == nullptr) {
      return nullptr;
    }
  }
  return node;
}

// Removes what is at the path from the table, and then each table on the way that has become empty.
void Erase(toml::table& table, const Path& path, std::size_t depth = 0) {
  if (depth + 1 == path.size()) {
    table.erase(path[depth]);
    return;
  }
  if (toml::node* const inner = table.get(path[depth]); inner != nullptr && inner->is_table()) {
    Erase(*inner->as_table(), path, depth + 1);
    if (inner->as_table()->empty()) {
      table.erase(path[depth]);
    }
  }
}

// Returns the lines with their ends.
std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    lines.push_back(text.substr(at, end - at));
    at = end;
  }
  return lines;
}

std::string LineEndOf(const std::string& text) {
  return text.find("\r\n") == std::string::npos ? "\n" : "\r\n";
}

// Returns the line without the blanks around it.
std::string Trimmed(const std::string& line) {
  const std::size_t begin = line.find_first_not_of(" \t\r\n");
  return begin == std::string::npos
             ? std::string()
             : line.substr(begin, line.find_last_not_of(" \t\r\n") + 1 - begin);
}

// Returns the line, from 0, that is the header of the table. A table that only the headers of
// others name has none.
std::optional<std::size_t> HeaderLine(const toml::table& root, const Path& path,
                                      const std::vector<std::string>& lines) {
  const toml::node* const table = path.empty() ? nullptr : Find(root, path);
  const std::size_t line = table == nullptr ? 0 : table->source().begin.line;
  if (line < 1 || line > lines.size()) {
    return std::nullopt;
  }
  const toml::parse_result header = toml::parse(lines[line - 1]);
  const toml::node* const named = header ? Find(header.table(), path) : nullptr;
  const bool empty = named != nullptr && named->is_table() && named->as_table()->empty();
  return empty ? std::optional(line - 1) : std::nullopt;
}

// Returns whether two trees differ at most in these places.
bool SameBut(toml::table one, toml::table other, const std::vector<Path>& paths) {
  for (const Path& path : paths) {
    Erase(one, path);
    Erase(other, path);
  }
  return one == other;
}

bool SaysSomething(const toml::node& node) {
  return node.visit([](const auto& value) {
    using Value = std::decay_t<decltype(value)>;
    if constexpr (toml::is_string<Value>) {
      return !value->empty();
    } else if constexpr (toml::is_boolean<Value> || toml::is_integer<Value>) {
      return static_cast<bool>(*value);
    } else if constexpr (toml::is_array<Value>) {
      return !value.empty() && value.template is_homogeneous<std::string>();
    } else {
      return false;
    }
  });
}

// Returns the value as TOML.
std::string Formatted(const toml::node& node) {
  std::ostringstream text;
  text << toml::toml_formatter(
      node, toml::toml_formatter::default_flags & ~toml::format_flags::allow_literal_strings);
  return text.str();
}

// Returns the text without the lines between the marks, and with those that they took the place of.
// Nothing: a mark has no end.
std::optional<std::string> Unmarked(const std::string& text, bool& made) {
  std::string rest;
  bool inside = false;
  std::optional<std::size_t> without_end;
  for (const std::string& line : LinesOf(text)) {
    const std::string words = Trimmed(line);
    if (words == kBegin || words == kEnd) {
      inside = words == kBegin;
      made = true;
    } else if (!inside) {
      rest += line;
    } else if (line.starts_with(kInstead)) {
      rest += line.substr(std::strlen(kInstead));
    } else if (words == kNoLineEnd) {
      without_end = rest.size();
    }
  }
  made = made && rest.empty() && !without_end.has_value();
  if (without_end == rest.size()) {  // nobody has added lines since
    rest.resize(rest.size() - std::min(rest.size(), LineEndOf(text).size()));
  }
  return inside ? std::nullopt : std::optional(rest);
}

}  // namespace

std::string Written(const std::vector<TomlSection>& sections, const std::string& line_end) {
  std::string text;
  for (const TomlSection& section : sections) {
    if (!section.path.empty()) {
      text += (text.empty() ? "" : line_end) + Header(section.path) + line_end;
    }
    for (const auto& [key, value] : section.values) {
      text += section.path.empty() ? "" : "  ";
      text.append(KeyText(key)).append(" = ").append(value).append(line_end);
    }
  }
  return text;
}

Result<TomlText> TomlText::Parse(const std::string& text) {
  toml::parse_result result = toml::parse(text);
  if (!result) {
    std::ostringstream what;
    what << "is not valid TOML: " << result.error().source().begin << ": "
         << result.error().description();
    return Error{Code::kInvalid, 0, what.str(), {}};
  }
  return TomlText(text, std::make_shared<const Tree>(Tree{std::move(result).table()}));
}

std::string TomlText::Quoted(const std::string& value) {
  return Formatted(toml::value<std::string>(value));
}

bool TomlText::Has(const Path& path) const {
  return Find(tree_->root, path) != nullptr;
}

std::optional<std::string> TomlText::String(const Path& path) const {
  const toml::node* const node = Find(tree_->root, path);
  return node == nullptr ? std::nullopt : node->value_exact<std::string>();
}

std::optional<std::int64_t> TomlText::Integer(const Path& path) const {
  const toml::node* const node = Find(tree_->root, path);
  return node == nullptr ? std::nullopt : node->value_exact<std::int64_t>();
}

std::vector<std::string> TomlText::Strings(const Path& path) const {
  std::vector<std::string> strings;
  const toml::node* const node = Find(tree_->root, path);
  if (node != nullptr && node->is_array()) {
    for (const toml::node& element : *node->as_array()) {
      if (auto text = element.value_exact<std::string>(); text.has_value()) {
        strings.push_back(std::move(*text));
      }
    }
  }
  return strings;
}

std::vector<std::string> TomlText::Keys(const Path& path) const {
  std::vector<std::string> keys;
  const toml::node* const node = Find(tree_->root, path);
  if (node != nullptr && node->is_table()) {
    for (const auto& [key, value] : *node->as_table()) {
      keys.emplace_back(key.str());
    }
  }
  return keys;
}

std::vector<std::pair<std::string, std::string>> TomlText::Values(const Path& path) const {
  std::vector<std::pair<std::string, std::string>> values;
  const toml::node* const node = Find(tree_->root, path);
  if (node != nullptr && node->is_table()) {
    for (const auto& [key, value] : *node->as_table()) {
      if (SaysSomething(value)) {
        values.emplace_back(key.str(), Formatted(value));
      }
    }
  }
  return values;
}

Result<std::string> TomlText::Add(const std::vector<TomlSection>& sections, bool made) const {
  const std::string end = LineEndOf(text_);
  const auto marked = [&](const std::string& lines) { return kBegin + end + lines + kEnd + end; };
  auto lines = LinesOf(text_);
  const bool without_end = !made && !text_.ends_with('\n');
  if (!lines.empty() && without_end) {
    lines.back() += end;
  }
  std::map<std::size_t, std::string> below;  // what lines get below them
  std::vector<TomlSection> rest;
  for (const TomlSection& section : sections) {
    const auto header = HeaderLine(tree_->root, section.path, lines);
    TomlSection left{section.path, {}};
    for (const auto& [key, value] : section.values) {
      const std::string line = Written({{{}, {{key, value}}}}, end);
      Path path = section.path;
      path.push_back(key);
      const toml::node* const old = Find(tree_->root, path);
      if (const std::size_t number = old == nullptr ? 0 : old->source().begin.line;
          number >= 1 && number <= lines.size()) {
        lines[number - 1] = marked(kInstead + lines[number - 1] + line);
      } else if (header.has_value()) {
        below[*header] += line;
      } else {
        left.values.emplace_back(key, value);
      }
    }
    if (!left.values.empty()) {
      rest.push_back(std::move(left));
    }
  }
  std::string text;
  for (std::size_t line = 0; line < lines.size(); ++line) {
    text += lines[line] + (below.contains(line) ? marked(below[line]) : "");
  }
  if (without_end || !rest.empty()) {
    text += marked((without_end ? kNoLineEnd + end : "") + Written(rest, end));
  }
  return Checked(text, sections);
}

Result<std::string> TomlText::Checked(const std::string& text,
                                      const std::vector<TomlSection>& sections) const {
  const auto after = Parse(text);
  bool right = after.ok();
  std::vector<Path> paths;
  for (const TomlSection& section : sections) {
    for (const auto& [key, value] : section.values) {
      paths.push_back(section.path);
      paths.back().push_back(key);
      const toml::node* const node = right ? Find(after->tree_->root, paths.back()) : nullptr;
      right = node != nullptr && Formatted(*node) == value;
    }
  }
  if (!right || !SameBut(tree_->root, after->tree_->root, paths)) {
    return Error{Code::kUnsupported, 0,
                 "is written in a way in which nothing can be added without changing more",
                 "add this by hand:\n" + Written(sections)};
  }
  return text;
}

Result<std::optional<std::string>> TomlText::TakeAway(const std::vector<Path>& paths) const {
  bool made = false;
  const auto rest = Unmarked(text_, made);
  const auto after = Parse(rest.value_or(""));
  if (!rest.has_value() || !after.ok() || !SameBut(tree_->root, after->tree_->root, paths)) {
    return Error{Code::kUnsupported, 0,
                 "has other settings between the marks of `cgpu install`, or not both marks",
                 "take the runtime cgpu away by hand"};
  }
  return made ? std::nullopt : rest;
}

}  // namespace cgpu::install
