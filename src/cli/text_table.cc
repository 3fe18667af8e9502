#include "cli/text_table.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

namespace cgpu::cli {
namespace {

constexpr std::size_t kGap = 2;
constexpr std::size_t kLeastName = 8;
constexpr char kCut[] = "...";

}  // namespace

std::string TextTable::Text(std::size_t width) const {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  std::size_t all = 0;
  for (const std::size_t one : widths) {
    all += one + (all == 0 ? 0 : kGap);
  }
  if (width != 0 && all > width && widths[cut] > kLeastName) {
    widths[cut] = std::max(kLeastName, widths[cut] - std::min(widths[cut], all - width));
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      std::string cell = row[i];
      if (cell.size() > widths[i]) {
        cell = cell.substr(0, widths[i] - (sizeof(kCut) - 1)) + kCut;
      }
      const std::string space(widths[i] - cell.size(), ' ');
      const bool at_right = std::ranges::find(right, i) != right.end();
      line += (i == 0 ? "" : std::string(kGap, ' ')) + (at_right ? space + cell : cell + space);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::size_t TerminalWidth() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

}  // namespace cgpu::cli
