#include "install/json_text.h"

#include <cstddef>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "runtime/json_depth.h"

namespace cgpu::install {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxDepth = 100;  // the parser's values are compared by recursion
constexpr const char* kBlanks = " \t\r\n";
constexpr const char* kByteOrderMark = "\xEF\xBB\xBF";

// One member of an object, by the places of its bytes in the text.
struct Member {
  std::string key;
  std::size_t begin = 0;  // begin of the key
  std::size_t value = 0;
  std::size_t end = 0;
};

// These walk a text that is known to be valid JSON.

std::size_t AfterBlanks(const std::string& text, std::size_t at) {
  const std::size_t next = text.find_first_not_of(kBlanks, at);
  return next == std::string::npos ? text.size() : next;
}

std::size_t AfterString(const std::string& text, std::size_t at) {
  for (++at; text[at] != '"'; ++at) {
    at += text[at] == '\\' ? 1 : 0;
  }
  return at + 1;
}

std::size_t AfterValue(const std::string& text, std::size_t at) {
  if (text[at] == '"') {
    return AfterString(text, at);
  }
  if (text[at] != '{' && text[at] != '[') {
    const std::size_t end = text.find_first_of(" \t\r\n,]}", at);
    return end == std::string::npos ? text.size() : end;
  }
  for (int depth = 0;;) {
    if (text[at] == '"') {
      at = AfterString(text, at);
      continue;
    }
    depth += text[at] == '{' || text[at] == '[' ? 1 : 0;
    depth -= text[at] == '}' || text[at] == ']' ? 1 : 0;
    ++at;
    if (depth == 0) {
      return at;
    }
  }
}

// `at`: the object's brace.
std::vector<Member> MembersOf(const std::string& text, std::size_t at) {
  std::vector<Member> members;
  for (at = AfterBlanks(text, at + 1); text[at] != '}';) {
    Member member;
    member.begin = at;
    at = AfterString(text, at);
    member.key = Json::parse(text.substr(member.begin, at - member.begin)).get<std::string>();
    at = AfterBlanks(text, at) + 1;  // the colon
    member.value = AfterBlanks(text, at);
    member.end = AfterValue(text, member.value);
    members.push_back(member);
    at = AfterBlanks(text, member.end);
    at = text[at] == ',' ? AfterBlanks(text, at + 1) : at;
  }
  return members;
}

std::size_t RootOf(const std::string& text) {
  return AfterBlanks(text, text.starts_with(kByteOrderMark) ? 3 : 0);
}

std::string LineEndOf(const std::string& text) {
  return text.find("\r\n") == std::string::npos ? "\n" : "\r\n";
}

// Returns what stands before `at` in its line, if that is nothing but blanks.
std::optional<std::string> IndentationAt(const std::string& text, std::size_t at) {
  const std::size_t line = at == 0 ? std::string::npos : text.rfind('\n', at - 1);
  if (line == std::string::npos) {
    return std::nullopt;
  }
  const std::string before = text.substr(line + 1, at - line - 1);
  return before.find_first_not_of(" \t") == std::string::npos ? std::optional(before)
                                                              : std::nullopt;
}

// Returns the indentation of the outermost object's members; four blanks if they have none.
std::string UnitOf(const std::string& text) {
  const auto members = MembersOf(text, RootOf(text));
  const auto first = members.empty() ? std::nullopt : IndentationAt(text, members.front().begin);
  return first.has_value() && !first->empty() ? *first : "    ";
}

std::string MemberText(const std::string& key, const Json& value, const std::string& unit,
                       const std::string& new_line) {
  const std::string name = Json(key).dump() + ": ";
  if (new_line.empty()) {
    return name + value.dump();
  }
  const int width = unit[0] == '\t' ? 1 : static_cast<int>(unit.size());
  std::string lines;
  for (const char c : value.dump(width, unit[0])) {
    lines += c == '\n' ? new_line : std::string(1, c);
  }
  return name + lines;
}

// Returns the text with one more member in the object at `object`. `own_line`: the indentation of
// the line, where the object stands in a line of its own.
std::string WithMember(const std::string& text, std::size_t object,
                       const std::optional<std::string>& own_line, const std::string& key,
                       const Json& value) {
  const std::string unit = UnitOf(text);
  const auto members = MembersOf(text, object);
  std::string result = text;
  if (members.empty()) {
    const std::size_t close = AfterBlanks(text, object + 1);
    const std::string outer = own_line.has_value() ? LineEndOf(text) + *own_line : "";
    const std::string inner = own_line.has_value() ? outer + unit : "";
    result.replace(object + 1, close - object - 1,
                   inner + MemberText(key, value, unit, inner) + outer);
    return result;
  }
  const Member& last = members.back();
  const auto indentation = IndentationAt(text, last.begin);
  const std::string new_line = indentation.has_value() ? LineEndOf(text) + *indentation : "";
  result.insert(last.end, "," + (indentation.has_value() ? new_line : " ") +
                              MemberText(key, value, unit, new_line));
  return result;
}

std::string WithoutMember(const std::string& text, const std::vector<Member>& members,
                          std::size_t index) {
  std::size_t begin = members[index].begin;
  std::size_t end = members[index].end;
  if (index > 0) {  // with the comma before it
    begin = members[index - 1].end;
  } else if (members.size() > 1) {  // with the comma after it
    end = members[1].begin;
  } else {  // and what is between the braces
    begin = text.rfind('{', begin) + 1;
    end = AfterBlanks(text, end);
  }
  return text.substr(0, begin) + text.substr(end);
}

// Returns the parsed text; nothing where Parse() would have refused it. nlohmann skips a byte order
// mark.
Json Parsed(const std::string& text) {
  return text.find_first_not_of(kBlanks) == std::string::npos ? Json::object() : Json::parse(text);
}

Json::json_pointer PointerTo(const Path& path) {
  Json::json_pointer pointer;
  for (const std::string& key : path) {
    pointer /= key;
  }
  return pointer;
}

// Returns a key that an object names twice, if there is one: readers differ in which one they take.
std::optional<std::string> NamedTwice(const std::string& text) {
  std::optional<std::string> twice;
  std::vector<std::set<std::string>> open;
  const auto see = [&](int /*depth*/, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start) {
      open.emplace_back();
    } else if (event == Json::parse_event_t::object_end) {
      open.pop_back();
    } else if (event == Json::parse_event_t::key &&
               !open.back().insert(value.get<std::string>()).second) {
      twice = value.get<std::string>();
    }
    return true;
  };
  const Json parsed = Json::parse(text, see);
  return parsed.is_discarded() ? std::nullopt : twice;
}

// JSON has no other strings.
bool IsText(const std::string& value) {
  using Handler = Json::error_handler_t;
  const Json json = value;
  return json.dump(-1, ' ', false, Handler::replace) == json.dump(-1, ' ', false, Handler::ignore);
}

// Returns the changed text, if it means what was meant.
Result<JsonText> Checked(const std::string& text, const Json& meant) {
  auto changed = JsonText::Parse(text);
  if (!changed.ok() || Parsed(text) != meant) {
    return Error{Code::kInternal, 0, "the text could not be changed without changing more", {}};
  }
  return changed;
}

}  // namespace

Result<JsonText> JsonText::Parse(const std::string& text) {
  if (text.find_first_not_of(kBlanks) == std::string::npos) {
    return JsonText(text);
  }
  if (NestsDeeper(text, kMaxDepth)) {
    return Error{Code::kInvalid, 0, "nests too deep to be a configuration", {}};
  }
  try {
    if (!Json::parse(text).is_object()) {
      return Error{Code::kInvalid, 0, "is not a JSON object", {}};
    }
    if (const auto twice = NamedTwice(text); twice.has_value()) {
      return Error{Code::kInvalid, 0, "names \"" + *twice + "\" twice", "leave one of them"};
    }
  } catch (const Json::exception& error) {
    std::string what = error.what();  // "[json.exception.parse_error.101] parse error at line ..."
    what.erase(0, what.find("] ") == std::string::npos ? 0 : what.find("] ") + 2);
    return Error{Code::kInvalid, 0, "is not valid JSON: " + what,
                 "JSON has no comments and no comma after the last member"};
  }
  return JsonText(text);
}

bool JsonText::Has(const Path& path) const {
  return Parsed(text_).contains(PointerTo(path));
}

bool JsonText::IsEmpty(const Path& path) const {
  const Json json = Parsed(text_);
  const auto pointer = PointerTo(path);
  return !json.contains(pointer) || (json[pointer].is_object() && json[pointer].empty());
}

std::optional<std::string> JsonText::String(const Path& path) const {
  const Json json = Parsed(text_);
  const auto pointer = PointerTo(path);
  return json.contains(pointer) && json[pointer].is_string()
             ? std::optional(json[pointer].get<std::string>())
             : std::nullopt;
}

Result<JsonText> JsonText::Set(const Path& path, const std::string& value) const {
  const std::string text = text_.find_first_not_of(kBlanks) == std::string::npos ? "{}\n" : text_;
  if (!IsText(value)) {
    return Error{Code::kInvalid, 0, "cannot have \"" + value + "\" in it: not UTF-8", {}};
  }
  Json meant = Parsed(text);
  std::size_t object = RootOf(text);
  std::optional<std::string> own_line = "";
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (text[object] != '{') {
      return Error{
          Code::kInvalid, 0, "has something else than an object as \"" + path[i - 1] + "\"", {}};
    }
    const auto members = MembersOf(text, object);
    std::size_t found = 0;
    while (found < members.size() && members[found].key != path[i]) {
      ++found;
    }
    if (found < members.size() && i + 1 < path.size()) {
      object = members[found].value;
      own_line = IndentationAt(text, members[found].begin);
      continue;
    }
    meant[PointerTo(path)] = value;
    if (found < members.size()) {
      std::string changed = text;
      changed.replace(members[found].value, members[found].end - members[found].value,
                      Json(value).dump());
      return Checked(changed, meant);
    }
    Json tree = value;
    for (std::size_t inner = path.size() - 1; inner > i; --inner) {
      tree = Json::object({{path[inner], tree}});
    }
    return Checked(WithMember(text, object, own_line, path[i], tree), meant);
  }
  return *this;
}

Result<JsonText> JsonText::Remove(const Path& path) const {
  if (!Has(path)) {
    return *this;
  }
  Json meant = Parsed(text_);
  meant[PointerTo(Path(path.begin(), path.end() - 1))].erase(path.back());
  std::size_t object = RootOf(text_);
  for (std::size_t i = 0;; ++i) {
    const auto members = MembersOf(text_, object);
    std::size_t found = 0;
    while (members[found].key != path[i]) {
      ++found;
    }
    if (i + 1 == path.size()) {
      return Checked(WithoutMember(text_, members, found), meant);
    }
    object = members[found].value;
  }
}

}  // namespace cgpu::install
