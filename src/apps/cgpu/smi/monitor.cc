#include "apps/cgpu/smi/monitor.h"

#include <algorithm>
#include <optional>
#include <span>

#include "apps/cgpu/smi/text.h"
#include "base/printable.h"

namespace cgpu::smi {
namespace {

using Amount = std::optional<std::uint64_t>;

// Subject of a line: a GPU, and for pmon a process or a container on it.
struct Line {
  const Gpu& gpu;
  const Use& use;
  std::uint64_t bytes = 0;
};

struct Column {
  char group = 0;
  const char* name = "";
  const char* unit = "";
  // Returns the value; nothing, or nullptr: it is not known.
  Amount (*value)(const Line& line) = nullptr;
};

Amount Graphics(const Line& line) {
  return line.use.graphics;
}
Amount MemoryUse(const Line& line) {
  return line.use.memory;
}
Amount Encoder(const Line& line) {
  return line.use.encoder;
}
Amount Decoder(const Line& line) {
  return line.use.decoder;
}
Amount GpuUsed(const Line& line) {
  return line.gpu.memory.used / kMiB;
}
Amount Bar1Used(const Line& line) {
  return line.gpu.bar1 ? Amount(line.gpu.bar1->used / kMiB) : std::nullopt;
}
Amount Bytes(const Line& line) {
  return line.bytes / kMiB;
}

constexpr Column kGpuColumns[] = {
    {'p', "pwr", "W"},
    {'p', "gtemp", "C"},
    {'p', "mtemp", "C"},
    {'u', "sm", "%", Graphics},
    {'u', "mem", "%", MemoryUse},
    {'u', "enc", "%", Encoder},
    {'u', "dec", "%", Decoder},
    {'u', "jpg", "%"},
    {'u', "ofa", "%"},
    {'c', "mclk", "MHz"},
    {'c', "pclk", "MHz"},
    {'v', "pviol", "%"},
    {'v', "tviol", "bool"},
    {'m', "fb", "MB", GpuUsed},
    {'m', "bar1", "MB", Bar1Used},
    {'m', "ccpm", "MB"},
    {'e', "sbecc", "errs"},
    {'e', "dbecc", "errs"},
    {'e', "pci", "errs"},
    {'t', "rxpci", "MB/s"},
    {'t', "txpci", "MB/s"},
};
constexpr Column kProcessColumns[] = {
    {'u', "sm", "%", Graphics}, {'u', "mem", "%", MemoryUse},
    {'u', "enc", "%", Encoder}, {'u', "dec", "%", Decoder},
    {'u', "jpg", "%"},          {'u', "ofa", "%"},
    {'m', "fb", "MB", Bytes},   {'m', "ccpm", "MB"},
};

std::span<const Column> ColumnsOf(MonitorKind kind) {
  return kind == MonitorKind::kGpus ? std::span<const Column>(kGpuColumns)
                                    : std::span<const Column>(kProcessColumns);
}

// Calls `act` for the chosen columns, in the order of the user's letters.
template <class Act>
void ForColumns(const MonitorOptions& options, Act act) {
  for (const char group : options.groups) {
    for (const Column& column : ColumnsOf(options.kind)) {
      if (column.group == group) {
        act(column);
      }
    }
  }
}

// Returns what comes before the first column: date and time.
std::string Lead(const MonitorOptions& options, const std::string& date, const std::string& time) {
  std::string text;
  if (options.date) {
    Append(text, "%-13s", date.c_str());
  }
  if (options.time) {
    Append(text, "%-*s", options.date ? 8 : 9, time.c_str());
  }
  return text;
}

// Returns one line over the table; `mark` is "#".
std::string HeaderLine(const MonitorOptions& options, bool units) {
  const bool leads = options.date || options.time;
  const std::string date = units ? "#YYYYMMDD" : "#Date";
  const std::string clock = units ? "HH:MM:SS" : "Time";
  std::string text = Lead(options, date, options.date ? clock : "#" + clock);
  Append(text, leads ? "%*s" : "# %*s", leads ? (options.time ? 8 : 5) : 3, units ? "Idx" : "gpu");
  if (options.kind == MonitorKind::kProcesses) {
    Append(text, "%12s%7s", units ? "#" : "pid", units ? "C/G" : "type");
  }
  ForColumns(options,
             [&](const Column& column) { Append(text, "%7s", units ? column.unit : column.name); });
  if (options.kind == MonitorKind::kProcesses) {
    text += units ? "    name" : "    command";
  }
  return text + " \n";
}

std::string LineStart(const MonitorOptions& options, const Moment& now, unsigned index) {
  std::string text = Lead(options, " " + now.date, options.date ? now.clock : " " + now.clock);
  Append(text, "%*u", options.time ? 8 : 5, index);
  return text;
}

void AppendValues(std::string& text, const MonitorOptions& options, const Line* line) {
  ForColumns(options, [&](const Column& column) {
    const Amount value =
        line == nullptr || column.value == nullptr ? std::nullopt : column.value(*line);
    Append(text, "%7s", value ? std::to_string(*value).c_str() : "-");
  });
}

// Returns the name of a program for the last column: without its folder, at most 15 characters.
std::string Command(const std::string& path) {
  return Printable(path.substr(path.rfind('/') + 1)).substr(0, 15);
}

void AppendProcess(std::string& text, const MonitorOptions& options, const Moment& now,
                   const Gpu& gpu, const Process& process) {
  const Line line{gpu, process.use, process.bytes};
  text += LineStart(options, now, gpu.index);
  Append(text, "%11u%6s", process.pid, process.type.c_str());
  AppendValues(text, options, &line);
  Append(text, "    %-15s\n", Command(process.name).c_str());
}

std::string ProcessLines(const MonitorOptions& options, const Gpu& gpu, const Moment& now) {
  std::string text;
  for (const Process& process : gpu.processes) {
    AppendProcess(text, options, now, gpu, process);
  }
  for (const Container& container : gpu.containers) {
    if (container.divided && container.use.graphics.value_or(0) != 0) {
      AppendProcess(text, options, now, gpu,
                    {container.shim, "cgpu-shim", container.type, 0, container.use});
    }
  }
  if (text.empty()) {
    text += LineStart(options, now, gpu.index);
    Append(text, "%11s%6s", "-", "-");
    AppendValues(text, options, nullptr);
    Append(text, "    %-15s\n", "-");
  }
  return text;
}

Error NoSuch(char letter, const char* option, const std::string& known) {
  return {Code::kInvalid, 0, "-" + std::string(option) + " has no \"" + letter + "\"",
          "it takes letters of these: " + known};
}

}  // namespace

Result<MonitorOptions> ParseMonitor(MonitorKind kind, std::string_view groups,
                                    std::string_view options) {
  MonitorOptions parsed;
  parsed.kind = kind;
  std::string known;
  for (const Column& column : ColumnsOf(kind)) {
    known += known.find(column.group) == std::string::npos ? std::string(1, column.group) : "";
  }
  parsed.groups = !groups.empty() ? std::string(groups) : kind == MonitorKind::kGpus ? "puc" : "u";
  for (const char group : parsed.groups) {
    if (known.find(group) == std::string::npos) {
      return NoSuch(group, "s", known);
    }
  }
  for (const char option : options) {
    if (option != 'D' && option != 'T') {
      return NoSuch(option, "o", "DT");
    }
    (option == 'D' ? parsed.date : parsed.time) = true;
  }
  return parsed;
}

std::string MonitorHeader(const MonitorOptions& options) {
  return HeaderLine(options, false) + HeaderLine(options, true);
}

std::string RenderMonitor(const MonitorOptions& options, const Report& report, const Moment& now) {
  std::string text;
  for (const Gpu& gpu : report.gpus) {
    if (options.kind == MonitorKind::kProcesses) {
      text += ProcessLines(options, gpu, now);
      continue;
    }
    const Line line{gpu, gpu.use};
    text += LineStart(options, now, gpu.index);
    AppendValues(text, options, &line);
    text += " \n";
  }
  return text;
}

}  // namespace cgpu::smi
