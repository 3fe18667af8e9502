// The lines of `cgpu smi -q`. Pure.
//
// Witnesses of labels, their order, the names of parts and of XML elements: outputs of releases 535
// to 555 in public issues (NVIDIA/DCGM #152, fastfetch-cli/fastfetch #1029, netdata/netdata
// #10362), and the manual page.
#ifndef CGPU_APPS_CGPU_SMI_LOG_ITEMS_H_
#define CGPU_APPS_CGPU_SMI_LOG_ITEMS_H_

#include <optional>
#include <span>
#include <string>

#include "apps/cgpu/smi/report.h"

namespace cgpu::smi {

// One line: a heading, or a label with its value. The lines below a heading are one deeper.
struct LogItem {
  int depth = 0;  // 0: directly below the GPU
  bool heading = false;
  const char* part = "";  // the part of the report that -d names; empty: of the whole alone
  const char* label = "";
  const char* element = "";  // its name in XML
  // Returns the value; nothing, or nullptr: it is not known.
  std::optional<std::string> (*value)(const Gpu& gpu) = nullptr;
};

// Returns all lines of a GPU but those of its processes, which come last.
[[nodiscard]] std::span<const LogItem> LogItems();

}  // namespace cgpu::smi

#endif  // CGPU_APPS_CGPU_SMI_LOG_ITEMS_H_
