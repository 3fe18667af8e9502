// Prints a table for people: columns as wide as what is in them.
#ifndef CGPU_CLI_TEXT_TABLE_H_
#define CGPU_CLI_TEXT_TABLE_H_

#include <cstddef>
#include <string>
#include <vector>

namespace cgpu::cli {

struct TextTable {
  std::vector<std::vector<std::string>> rows;  // the first has the titles; all are equally long
  std::size_t cut = 0;             // column whose cells end in "..." where a line is too long
  std::vector<std::size_t> right;  // columns that are aligned to the right

  // Returns the lines. `width`: columns of the terminal, 0 for no bound. A line may be longer where
  // the other columns alone are.
  [[nodiscard]] std::string Text(std::size_t width) const;
};

// Returns the columns of the terminal that standard output leads to; 0: it leads to none.
[[nodiscard]] std::size_t TerminalWidth();

}  // namespace cgpu::cli

#endif  // CGPU_CLI_TEXT_TABLE_H_
