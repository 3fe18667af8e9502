// nvidia-smi's default table, as its releases 570 and 580 draw it: 91 columns. Witnesses: their
// outputs for real GPUs in public repositories; no document gives the widths. The table of
// containers below it is cgpu's own.
#include <algorithm>

#include "apps/cgpu/smi/report.h"
#include "apps/cgpu/smi/text.h"
#include "base/printable.h"

namespace cgpu::smi {
namespace {

constexpr char kWideLine[] =
    "+-----------------------------------------------------------------------------------------+\n";
constexpr char kWideDoubleLine[] =
    "|=========================================================================================|\n";
constexpr char kGpuHead[] =
    "+-----------------------------------------+------------------------+----------------------+\n"
    "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |\n"
    "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |\n"
    "|                                         |                        |               MIG M. |\n"
    "|=========================================+========================+======================|\n";
constexpr char kGpuLine[] =
    "+-----------------------------------------+------------------------+----------------------+\n";
constexpr char kProcessHead[] =
    "| Processes:                                                                              |\n"
    "|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |\n"
    "|        ID   ID                                                               Usage      |\n";
constexpr char kNoProcesses[] =
    "|  No running processes found                                                             |\n";
constexpr char kContainerHead[] =
    "| Containers:                                                                             |\n"
    "|  GPU   Container ID   Name                              GPU-Util           Memory-Usage |\n";

std::string MiB(std::uint64_t bytes) {
  return std::to_string(bytes / kMiB) + "MiB";
}

// Returns "USED / TOTAL" in nvidia-smi's widths, and without the blanks if it is too long.
std::string Usage(std::uint64_t used, std::uint64_t total) {
  std::string wide;
  Append(wide, "%11s / %9s", MiB(used).c_str(), MiB(total).c_str());
  constexpr std::size_t kWidth = 23;
  return wide.size() <= kWidth ? wide : MiB(used) + "/" + MiB(total);
}

std::string PercentOrNone(const std::optional<unsigned>& value) {
  return value ? std::to_string(*value) + "%" : kNone;
}

std::string Uncorrected(const std::optional<Ecc>& ecc) {
  return !ecc ? kNone : ecc->enabled ? std::to_string(ecc->uncorrected) : "Off";
}

void AppendGpu(std::string& text, const Gpu& gpu) {
  Append(text, "|%4u  %-27s    %-3s |   %16.16s %3s |%21.20s |\n", gpu.index,
         Cut(gpu.name, 27).c_str(), OnOff(gpu.persistence).value_or(kNone).c_str(),
         gpu.bus_id.c_str(), kNone, Uncorrected(gpu.ecc).c_str());
  Append(text, "|%4s  %4s    %-3s%15s / %4s  |%23s |%8s %12.12s |\n", kNone, kNone,
         gpu.pstate.value_or(kNone).c_str(), kNone, kNone,
         Usage(gpu.memory.used, gpu.memory.total).c_str(), PercentOrNone(gpu.use.graphics).c_str(),
         gpu.compute_mode.value_or(kNone).c_str());
  Append(text, "|%41s|%24s|%21s |\n", "", "", Enabled(gpu.mig).value_or(kNone).c_str());
  text += kGpuLine;
}

void AppendProcesses(std::string& text, const Report& report) {
  constexpr std::size_t kBoth = 46;  // columns of a name, a blank and its memory
  bool any = false;
  for (const Gpu& gpu : report.gpus) {
    for (const Process& process : gpu.processes) {
      const std::string memory = MiB(process.bytes);
      const std::size_t width = kBoth - std::max<std::size_t>(memory.size() + 1, 11);
      Append(text, "|%5u   N/A  N/A%16u%7s   %-*s%*s |\n", gpu.index, process.pid,
             process.type.c_str(), static_cast<int>(width),
             Shorten(Printable(process.name), width).c_str(), static_cast<int>(kBoth - width),
             memory.c_str());
      any = true;
    }
  }
  if (!any) {
    text += kNoProcesses;
  }
}

void AppendContainers(std::string& text, const Report& report) {
  std::string rows;
  for (const Gpu& gpu : report.gpus) {
    for (const Container& container : gpu.containers) {
      const std::string name = container.name == container.id ? "" : Printable(container.name);
      Append(rows, "|%5u   %-12.12s   %-33s%9s%23s |\n", gpu.index, container.id.c_str(),
             Cut(name, 32).c_str(), PercentOrNone(container.use.graphics).c_str(),
             Usage(container.used, container.limit).c_str());
    }
  }
  if (!rows.empty()) {
    text += kContainerHead;
    text += kWideDoubleLine;
    text += rows;
    text += kWideLine;
  }
}

}  // namespace

std::string RenderTable(const Report& report, const Moment& now, const std::string& version) {
  std::string text = now.line + "\n" + kWideLine;
  const std::string cuda = report.cuda_version.empty() ? kNone : report.cuda_version;
  Append(text, "| %-33.33s %-30.30s CUDA Version: %-8.8s |\n", ("cgpu smi " + version).c_str(),
         ("Driver Version: " + report.driver_version).c_str(), cuda.c_str());
  text += kGpuHead;
  for (const Gpu& gpu : report.gpus) {
    AppendGpu(text, gpu);
  }
  Append(text, "%91s\n", "");
  text += kWideLine;
  text += kProcessHead;
  text += kWideDoubleLine;
  AppendProcesses(text, report);
  text += kWideLine;
  AppendContainers(text, report);
  return text;
}

std::string RenderList(const Report& report) {
  std::string text;
  for (const Gpu& gpu : report.gpus) {
    text += "GPU " + std::to_string(gpu.index) + ": " + gpu.name + " (UUID: " + gpu.uuid + ")\n";
  }
  return text;
}

}  // namespace cgpu::smi
