#include "apps/cgpu/smi/log.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <vector>

#include "apps/cgpu/smi/log_items.h"
#include "apps/cgpu/smi/text.h"
#include "base/printable.h"

namespace cgpu::smi {
namespace {

constexpr char kProcesses[] = "PIDS";

// Parts of which nothing is known here, and which have no line: they are taken, and empty.
constexpr const char* kEmptyParts[] = {"SUPPORTED_CLOCKS", "SUPPORTED_GPU_TARGET_TEMP"};

bool Has(const Parts& parts, const std::string& part) {
  return parts.empty() || parts.contains(part);
}

std::string ValueOf(const LogItem& item, const Gpu& gpu) {
  const auto value = item.value == nullptr ? std::nullopt : item.value(gpu);
  return value ? Printable(*value) : kNone;
}

std::string OrNone(const std::string& text) {
  return text.empty() ? kNone : text;
}

// Appends "    LABEL           : VALUE" with the colon in column 42, as release 550 has it.
void AppendLine(std::string& text, int indent, const std::string& label, const std::string& value) {
  constexpr int kColon = 42;
  Append(text, "%*s%-*s: %s\n", indent, "", kColon - indent, label.c_str(), value.c_str());
}

void AppendProcesses(std::string& text, const Gpu& gpu) {
  if (gpu.processes.empty()) {
    AppendLine(text, 4, "Processes", "None");
    return;
  }
  text += "    Processes\n";
  for (const Process& process : gpu.processes) {
    AppendLine(text, 8, "GPU instance ID", kNone);
    AppendLine(text, 8, "Compute instance ID", kNone);
    AppendLine(text, 8, "Process ID", std::to_string(process.pid));
    AppendLine(text, 12, "Type", process.type);
    AppendLine(text, 12, "Name", Printable(process.name));
    AppendLine(text, 12, "Used GPU Memory", std::to_string(process.bytes / kMiB) + " MiB");
  }
}

std::string Escaped(const std::string& value) {
  std::string text;
  for (const char c : Printable(value)) {
    switch (c) {
      case '&':
        text += "&amp;";
        break;
      case '<':
        text += "&lt;";
        break;
      case '>':
        text += "&gt;";
        break;
      case '"':
        text += "&quot;";
        break;
      default:
        text += c;
    }
  }
  return text;
}

void AppendElement(std::string& text, int depth, const std::string& name,
                   const std::string& value) {
  text += std::string(static_cast<std::size_t>(depth), '\t') + "<" + name + ">" + Escaped(value) +
          "</" + name + ">\n";
}

void AppendTag(std::string& text, int depth, const std::string& tag) {
  text += std::string(static_cast<std::size_t>(depth), '\t') + "<" + tag + ">\n";
}

void AppendXmlItems(std::string& text, const Gpu& gpu, const Parts& parts) {
  constexpr int kBelowGpu = 2;
  std::vector<std::string> open;
  const auto close = [&](int depth) {
    while (open.size() > static_cast<std::size_t>(depth)) {
      AppendTag(text, kBelowGpu + static_cast<int>(open.size()) - 1, "/" + open.back());
      open.pop_back();
    }
  };
  for (const LogItem& item : LogItems()) {
    if (!Has(parts, item.part)) {
      continue;
    }
    close(item.depth);
    if (item.heading) {
      AppendTag(text, kBelowGpu + item.depth, item.element);
      open.emplace_back(item.element);
    } else {
      AppendElement(text, kBelowGpu + item.depth, item.element, ValueOf(item, gpu));
    }
  }
  close(0);
}

void AppendXmlProcesses(std::string& text, const Gpu& gpu) {
  AppendTag(text, 2, "processes");
  for (const Process& process : gpu.processes) {
    AppendTag(text, 3, "process_info");
    AppendElement(text, 4, "gpu_instance_id", kNone);
    AppendElement(text, 4, "compute_instance_id", kNone);
    AppendElement(text, 4, "pid", std::to_string(process.pid));
    AppendElement(text, 4, "type", process.type);
    AppendElement(text, 4, "process_name", process.name);
    AppendElement(text, 4, "used_memory", std::to_string(process.bytes / kMiB) + " MiB");
    AppendTag(text, 3, "/process_info");
  }
  AppendTag(text, 2, "/processes");
}

}  // namespace

Result<Parts> ParseParts(const std::string& text) {
  Parts known(std::begin(kEmptyParts), std::end(kEmptyParts));
  known.insert(kProcesses);
  for (const LogItem& item : LogItems()) {
    known.insert(item.part);
  }
  known.erase("");
  Parts parts;
  for (std::string name : Split(text)) {
    std::ranges::transform(name, name.begin(),
                           [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    if (!known.contains(name)) {
      std::string names;
      for (const std::string& one : known) {
        names += (names.empty() ? "" : ", ") + one;
      }
      return Error{Code::kInvalid, 0, "\"" + name + "\" is no part of the report",
                   "-d takes these: " + names};
    }
    parts.insert(name);
  }
  return parts;
}

std::string RenderLog(const Report& report, const Moment& now, const Parts& parts) {
  std::string text = "\n==============NVSMI LOG==============\n\n";
  AppendLine(text, 0, "Timestamp", now.line);
  AppendLine(text, 0, "Driver Version", report.driver_version);
  AppendLine(text, 0, "CUDA Version", OrNone(report.cuda_version));
  text += "\n";
  AppendLine(text, 0, "Attached GPUs", std::to_string(report.attached));
  for (const Gpu& gpu : report.gpus) {
    text += "GPU " + gpu.bus_id + "\n";
    for (const LogItem& item : LogItems()) {
      if (!Has(parts, item.part)) {
        continue;
      }
      const int indent = 4 * (item.depth + 1);
      if (item.heading) {
        Append(text, "%*s%s\n", indent, "", item.label);
      } else {
        AppendLine(text, indent, item.label, ValueOf(item, gpu));
      }
    }
    if (Has(parts, kProcesses)) {
      AppendProcesses(text, gpu);
    }
    text += "\n";
  }
  return text;
}

std::string RenderXml(const Report& report, const Moment& now, const Parts& parts) {
  std::string text =
      "<?xml version=\"1.0\" ?>\n"
      "<!DOCTYPE nvidia_smi_log SYSTEM \"nvsmi_device_v12.dtd\">\n"
      "<nvidia_smi_log>\n";
  AppendElement(text, 1, "timestamp", now.line);
  AppendElement(text, 1, "driver_version", report.driver_version);
  AppendElement(text, 1, "cuda_version", OrNone(report.cuda_version));
  AppendElement(text, 1, "attached_gpus", std::to_string(report.attached));
  for (const Gpu& gpu : report.gpus) {
    AppendTag(text, 1, "gpu id=\"" + gpu.bus_id + "\"");
    AppendXmlItems(text, gpu, parts);
    if (Has(parts, kProcesses)) {
      AppendXmlProcesses(text, gpu);
    }
    AppendTag(text, 1, "/gpu");
  }
  return text + "</nvidia_smi_log>\n";
}

}  // namespace cgpu::smi
