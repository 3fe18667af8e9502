// nvidia-smi's default table, as its 550 and later releases draw it: 89 columns between the bars.
#include <array>
#include <cstdarg>
#include <cstdio>

#include "apps/cgpu/smi/report.h"

namespace cgpu::smi {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr const char* kNone = "N/A";

constexpr char kWideLine[] =
    "+-----------------------------------------------------------------------------------------+\n";
constexpr char kCardColumns[] =
    "|-----------------------------------------+------------------------+----------------------+\n"
    "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |\n"
    "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |\n"
    "|                                         |                        |               MIG M. |\n"
    "|=========================================+========================+======================|\n";
constexpr char kCardLine[] =
    "+-----------------------------------------+------------------------+----------------------+\n";
constexpr char kProcessColumns[] =
    "| Processes:                                                                              |\n"
    "|  GPU   GI   CI        PID   Type   Process name                              GPU Memory |\n"
    "|        ID   ID                                                               Usage      |\n"
    "|=========================================================================================|\n";
constexpr char kNoProcesses[] =
    "|  No running processes found                                                             |\n";

__attribute__((format(printf, 2, 3))) void Append(std::string& text, const char* format, ...) {
  std::array<char, 256> line{};
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line.data(), line.size(), format, arguments);
  va_end(arguments);
  text += line.data();
}

std::string MiB(std::uint64_t bytes) {
  return std::to_string(bytes / kMiB) + "MiB";
}

// nvidia-smi keeps the end of a name that is too long.
std::string Shorten(const std::string& name, std::size_t width) {
  return name.size() <= width ? name : "..." + name.substr(name.size() - (width - 3));
}

void AppendCard(std::string& text, const Card& card) {
  Append(text, "|%4u  %-25.25s  %6s  |   %16s %3s |%21s |\n", card.index, card.name.c_str(), kNone,
         card.bus_id.c_str(), kNone, kNone);
  Append(text, "|%4s  %4s   %4s%15s / %4s  |%11s / %9s |%8s %12s |\n", kNone, kNone, kNone, kNone,
         kNone, MiB(card.used).c_str(), MiB(card.total).c_str(), kNone, kNone);
  Append(text, "|%41s|%24s|%21s |\n", "", "", kNone);
  text += kCardLine;
}

void AppendProcesses(std::string& text, const Report& report) {
  bool any = false;
  for (const Card& card : report.cards) {
    for (const Process& process : card.processes) {
      Append(text, "|%5u   %s  %s%10u      C   %-41s %10s |\n", card.index, kNone, kNone,
             process.pid, Shorten(process.name, 41).c_str(), MiB(process.bytes).c_str());
      any = true;
    }
  }
  if (!any) {
    text += kNoProcesses;
  }
}

}  // namespace

std::string RenderTable(const Report& report, const std::string& now, const std::string& version) {
  std::string text = now + "\n" + kWideLine;
  Append(text, "| %-34.34s%-31s%-23s|\n", ("cgpu smi " + version).c_str(),
         ("Driver Version: " + report.driver_version).c_str(), "CUDA Version: N/A");
  text += kCardColumns;
  for (const Card& card : report.cards) {
    AppendCard(text, card);
  }
  Append(text, "%91s\n", "");
  text += kWideLine;
  text += kProcessColumns;
  AppendProcesses(text, report);
  text += kWideLine;
  return text;
}

std::string RenderList(const Report& report) {
  std::string text;
  for (const Card& card : report.cards) {
    text += "GPU " + std::to_string(card.index) + ": " + card.name + " (UUID: " + card.uuid + ")\n";
  }
  return text;
}

}  // namespace cgpu::smi
