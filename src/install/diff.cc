#include "install/diff.h"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

namespace cgpu::install {
namespace {

using Lines = std::vector<std::string_view>;

constexpr std::size_t kContext = 3;
constexpr std::size_t kMaxTable = std::size_t{1} << 22;  // larger ones: a whole new text

struct Row {
  char kind = ' ';  // ' ' in both, '-' before, '+' after
  std::string_view line;
};

Lines LinesOf(const std::string& text) {
  Lines lines;
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size() - 1) + 1;
    lines.push_back(rest.substr(0, end));
    rest.remove_prefix(end);
  }
  return lines;
}

// Adds the rows between the common beginning and the common end, by the longest common subsequence.
void CompareMiddle(const Lines& before, const Lines& after, std::vector<Row>& rows) {
  const std::size_t width = after.size() + 1;
  const bool small = (before.size() + 1) * width <= kMaxTable;
  std::vector<unsigned> longest(small ? (before.size() + 1) * width : 0);
  for (std::size_t i = before.size(); small && i-- > 0;) {
    for (std::size_t j = after.size(); j-- > 0;) {
      longest[i * width + j] = before[i] == after[j] ? longest[(i + 1) * width + j + 1] + 1
                                                     : std::max(longest[(i + 1) * width + j],
                                                                longest[i * width + j + 1]);
    }
  }
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < before.size() || j < after.size()) {
    if (small && i < before.size() && j < after.size() && before[i] == after[j]) {
      rows.push_back({' ', before[i]});
      ++i;
      ++j;
    } else if (i < before.size() && (j == after.size() || !small ||
                                     longest[(i + 1) * width + j] >= longest[i * width + j + 1])) {
      rows.push_back({'-', before[i++]});
    } else {
      rows.push_back({'+', after[j++]});
    }
  }
}

std::vector<Row> Compare(const Lines& before, const Lines& after) {
  std::size_t head = 0;
  while (head < std::min(before.size(), after.size()) && before[head] == after[head]) {
    ++head;
  }
  std::size_t tail = 0;
  while (tail < std::min(before.size(), after.size()) - head &&
         before[before.size() - 1 - tail] == after[after.size() - 1 - tail]) {
    ++tail;
  }
  const auto middle = [&](const Lines& lines) {
    return Lines(lines.begin() + static_cast<std::ptrdiff_t>(head),
                 lines.end() - static_cast<std::ptrdiff_t>(tail));
  };
  std::vector<Row> rows;
  rows.reserve(before.size() + after.size());
  for (std::size_t i = 0; i < head; ++i) {
    rows.push_back({' ', before[i]});
  }
  CompareMiddle(middle(before), middle(after), rows);
  for (std::size_t i = before.size() - tail; i < before.size(); ++i) {
    rows.push_back({' ', before[i]});
  }
  return rows;
}

// Returns "12,3": the first line and the number of lines; "12" for one line; for none, the line
// before.
std::string Range(std::size_t first, std::size_t count) {
  const std::string start = std::to_string(count == 0 ? first : first + 1);
  return count == 1 ? start : start + "," + std::to_string(count);
}

// Returns rows[begin, end) with its heading. `line` and `new_line`: those before the first row.
std::string Hunk(const std::vector<Row>& rows, std::size_t begin, std::size_t end, std::size_t line,
                 std::size_t new_line) {
  std::string body;
  std::size_t old_count = 0;
  std::size_t new_count = 0;
  for (std::size_t i = begin; i < end; ++i) {
    old_count += rows[i].kind != '+' ? 1 : 0;
    new_count += rows[i].kind != '-' ? 1 : 0;
    body += rows[i].kind;
    body += rows[i].line;
    body += rows[i].line.ends_with('\n') ? "" : "\n\\ No newline at end of file\n";
  }
  return "@@ -" + Range(line, old_count) + " +" + Range(new_line, new_count) + " @@\n" + body;
}

}  // namespace

std::string UnifiedDiff(const std::string& file, const std::optional<std::string>& before,
                        const std::optional<std::string>& after) {
  if (before == after) {
    return {};
  }
  const std::string old_text = before.value_or("");
  const std::string new_text = after.value_or("");
  const auto rows = Compare(LinesOf(old_text), LinesOf(new_text));
  std::string diff = "--- " + (before.has_value() ? file : "/dev/null") + "\n+++ " +
                     (after.has_value() ? file : "/dev/null") + "\n";
  std::size_t line = 0;
  std::size_t new_line = 0;
  std::size_t done = 0;  // rows that `line` and `new_line` count
  for (std::size_t i = 0; i < rows.size();) {
    if (rows[i].kind == ' ') {
      ++i;
      continue;
    }
    const std::size_t begin = std::max(done, i - std::min(i, kContext));
    std::size_t end = i + 1;  // one past the last change that is near enough to the one before it
    for (std::size_t at = i; at < rows.size() && at <= end + 2 * kContext; ++at) {
      end = rows[at].kind != ' ' ? at + 1 : end;
    }
    i = end;
    end = std::min(end + kContext, rows.size());
    line += begin - done;
    new_line += begin - done;
    diff += Hunk(rows, begin, end, line, new_line);
    for (done = begin; done < end; ++done) {
      line += rows[done].kind != '+' ? 1 : 0;
      new_line += rows[done].kind != '-' ? 1 : 0;
    }
  }
  return diff;
}

}  // namespace cgpu::install
