#include "install/toml_text.h"

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include <algorithm>
#include <cstddef>
#include <set>
#include <sstream>

namespace cgpu::install {

struct TomlText::Tree {
  toml::table root;
};

namespace {

constexpr const char* kMark = "# `cgpu install` added this, `cgpu uninstall` takes it away again.";
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

std::string Joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) {
    text += line;
  }
  return text;
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

std::string IndentationOf(const std::string& line) {
  return line.substr(0, line.find_first_not_of(" \t"));
}

// Returns the byte at a column. The parser counts characters from 1, in UTF-8; a byte order mark is
// none.
std::size_t ByteOf(const std::string& line, std::size_t column) {
  std::size_t at = line.starts_with("\xEF\xBB\xBF") ? 3 : 0;
  for (std::size_t character = 1; character < column && at < line.size(); ++character) {
    do {
      ++at;
    } while (at < line.size() && (static_cast<unsigned char>(line[at]) & 0xC0) == 0x80);
  }
  return at;
}

// Collects the lines, from 0, in which tables of `table` (itself among them) have their headers.
void CollectHeaders(const toml::table& table, const std::vector<std::string>& lines,
                    std::set<std::size_t>& headers) {
  if (table.is_inline()) {
    return;
  }
  const std::size_t line = table.source().begin.line;
  if (line >= 1 && line <= lines.size() && Trimmed(lines[line - 1]).starts_with("[")) {
    headers.insert(line - 1);
  }
  for (const auto& [key, value] : table) {
    if (const toml::table* const inner = value.as_table(); inner != nullptr) {
      CollectHeaders(*inner, lines, headers);
    } else if (const toml::array* const array = value.as_array(); array != nullptr) {
      for (const toml::node& element : *array) {
        if (element.is_table()) {
          CollectHeaders(*element.as_table(), lines, headers);
        }
      }
    }
  }
}

// Returns one past the last line that belongs to `header`. Comments before the next header belong
// to that one.
std::size_t EndOfSection(const std::vector<std::string>& lines, const std::set<std::size_t>& all,
                         std::size_t header) {
  const auto next = all.upper_bound(header);
  std::size_t end = next == all.end() ? lines.size() : *next;
  while (end > header + 1) {
    const std::string line = Trimmed(lines[end - 1]);
    if (!line.empty() && !line.starts_with("#")) {
      break;
    }
    --end;
  }
  return end;
}

// Marks more lines for removal: those that Append() wrote before removed headers, and the blank
// lines before these. `gone`: which lines are to be removed, and one more that is not there.
void RemoveOurTraces(const std::vector<std::string>& lines, const std::set<std::size_t>& headers,
                     std::vector<bool>& gone) {
  for (const std::size_t header : headers) {  // cgpu's line, of a table of which nothing is left
    const auto begin = gone.begin() + static_cast<std::ptrdiff_t>(header);
    const auto end =
        gone.begin() + static_cast<std::ptrdiff_t>(EndOfSection(lines, headers, header));
    if (header > 0 && Trimmed(lines[header - 1]) == kMark &&
        std::find(begin + 1, end, false) == end) {
      *begin = true;
    }
  }
  bool blanks_too = false;
  for (std::size_t line = lines.size(); line-- > 0;) {
    const std::string text = Trimmed(lines[line]);
    if (gone[line]) {
      blanks_too = headers.contains(line);
    } else if (gone[line + 1] && (text == kMark || (text.empty() && blanks_too))) {
      gone[line] = true;
      blanks_too = true;
    }
  }
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

Error CannotChange(const Path& path) {
  return Error{
      Code::kUnsupported, 0,
      "is written in a way in which " + Header(path) + " cannot be changed without changing more",
      "change it by hand, or write its table with a header line of its own"};
}

}  // namespace

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

Result<TomlText> TomlText::Checked(const std::string& changed,
                                   const std::vector<Path>& paths) const {
  auto after = Parse(changed);
  if (after.ok()) {
    toml::table before_rest = tree_->root;
    toml::table after_rest = after->tree_->root;
    for (const Path& path : paths) {
      Erase(before_rest, path);
      Erase(after_rest, path);
    }
    if (before_rest == after_rest) {
      return after;
    }
  }
  return CannotChange(paths.front());
}

Result<TomlText> TomlText::WithValue(Result<TomlText> changed, const Path& path,
                                     const std::string& value) {
  if (changed.ok()) {
    const toml::node* const node = Find(changed->tree_->root, path);
    if (node == nullptr || Formatted(*node) != value) {
      return CannotChange(path);
    }
  }
  return changed;
}

Result<TomlText> TomlText::Append(const std::vector<TomlSection>& sections) const {
  const std::string end = LineEndOf(text_);
  std::string text = text_;
  if (!Trimmed(text).empty()) {
    text += text.ends_with('\n') ? end : end + end;
  }
  text += kMark + end;
  std::vector<Path> paths;
  bool first = true;
  for (const TomlSection& section : sections) {
    if (!section.path.empty()) {
      text += (first ? "" : end) + Header(section.path) + end;
    }
    for (const auto& [key, value] : section.values) {
      text += section.path.empty() ? "" : "  ";
      text.append(KeyText(key)).append(" = ").append(value).append(end);
      paths.push_back(section.path);
      paths.back().push_back(key);
    }
    first = false;
  }
  auto changed = Checked(text, paths);
  for (const Path& path : paths) {
    if (changed.ok() && (Has(path) || !changed->Has(path))) {
      return Error{Code::kInternal, 0, "already has " + Header(path), {}};
    }
  }
  return changed;
}

Result<TomlText> TomlText::Set(const Path& path, const std::string& value) const {
  auto lines = LinesOf(text_);
  const toml::node* const old = Find(tree_->root, path);
  if (old != nullptr) {
    const toml::source_region& place = old->source();
    if (place.begin.line != place.end.line || place.begin.line < 1 ||
        place.begin.line > lines.size()) {
      return CannotChange(path);
    }
    std::string& line = lines[place.begin.line - 1];
    const std::size_t begin = ByteOf(line, place.begin.column);
    std::string written = value;
    const bool plain = value.find_first_of("'\\") == std::string::npos && value.starts_with('"');
    if (plain && line[begin] == '\'') {  // as the file writes it
      written.front() = '\'';
      written.back() = '\'';
    }
    line.replace(begin, ByteOf(line, place.end.column) - begin, written);
    return WithValue(Checked(Joined(lines), {path}), path, value);
  }
  const Path parent(path.begin(), path.end() - 1);
  const toml::node* const table = Find(tree_->root, parent);
  if (table != nullptr && table->is_table()) {
    const std::size_t header = table->source().begin.line;
    if (header >= 1 && header <= lines.size() && Trimmed(lines[header - 1]).starts_with("[")) {
      const std::string end = LineEndOf(text_);
      if (!lines[header - 1].ends_with('\n')) {
        lines[header - 1] += end;
      }
      lines.insert(
          lines.begin() + static_cast<std::ptrdiff_t>(header),
          IndentationOf(lines[header - 1]) + "  " + KeyText(path.back()) + " = " + value + end);
      if (auto changed = WithValue(Checked(Joined(lines), {path}), path, value); changed.ok()) {
        return changed;
      }
    }
  }
  return Append({{parent, {{path.back(), value}}}});
}

Result<TomlText> TomlText::Remove(const Path& path) const {
  const toml::node* const node = Find(tree_->root, path);
  if (node == nullptr) {
    return *this;
  }
  const auto lines = LinesOf(text_);
  std::set<std::size_t> headers;
  std::set<std::size_t> all;
  CollectHeaders(tree_->root, lines, all);
  if (node->is_table()) {
    CollectHeaders(*node->as_table(), lines, headers);
  }
  std::vector<bool> gone(lines.size() + 1, false);
  for (const std::size_t header : headers) {
    std::fill(gone.begin() + static_cast<std::ptrdiff_t>(header),
              gone.begin() + static_cast<std::ptrdiff_t>(EndOfSection(lines, all, header)), true);
  }
  if (headers.empty()) {
    const toml::source_region& place = node->source();
    for (std::size_t line = place.begin.line; line >= 1 && line <= place.end.line; ++line) {
      gone[std::min<std::size_t>(line, lines.size()) - 1] = true;
    }
  }
  RemoveOurTraces(lines, all, gone);
  std::vector<std::string> rest;
  for (std::size_t line = 0; line < lines.size(); ++line) {
    if (!gone[line]) {
      rest.push_back(lines[line]);
    }
  }
  return Checked(Joined(rest), {path});
}

}  // namespace cgpu::install
