#include <algorithm>
#include <array>
#include <string_view>

#include "apps/cgpu/smi/report.h"

namespace cgpu::smi {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

std::vector<std::string> Split(const std::string& text) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  while (true) {
    const std::size_t comma = text.find(',', begin);
    std::string part = text.substr(begin, comma == std::string::npos ? comma : comma - begin);
    part.erase(0, part.find_first_not_of(' '));
    part.erase(part.find_last_not_of(' ') + 1);
    parts.push_back(std::move(part));
    if (comma == std::string::npos) {
      return parts;
    }
    begin = comma + 1;
  }
}

struct Field {
  std::string_view name;
  std::string_view alias;  // another name that nvidia-smi accepts for it; may be empty
  std::string_view unit;   // may be empty
  std::string (*value)(const Report& report, const Card& card);  // nullptr: no value is known here
};

std::string Number(std::uint64_t value) {
  return std::to_string(value);
}

constexpr auto kFields = std::to_array<Field>({
    {"index", "", "", [](const Report&, const Card& card) { return Number(card.index); }},
    {"count", "", "",
     [](const Report& report, const Card&) { return Number(report.cards.size()); }},
    {"uuid", "gpu_uuid", "", [](const Report&, const Card& card) { return card.uuid; }},
    {"name", "gpu_name", "", [](const Report&, const Card& card) { return card.name; }},
    {"driver_version", "", "",
     [](const Report& report, const Card&) { return report.driver_version; }},
    {"pci.bus_id", "gpu_bus_id", "", [](const Report&, const Card& card) { return card.bus_id; }},
    {"memory.total", "", "MiB",
     [](const Report&, const Card& card) { return Number(card.total / kMiB); }},
    {"memory.used", "", "MiB",
     [](const Report&, const Card& card) { return Number(card.used / kMiB); }},
    {"memory.free", "", "MiB",
     [](const Report&, const Card& card) { return Number(card.free / kMiB); }},
    {"memory.reserved", "", "MiB", nullptr},
    {"utilization.gpu", "", "%", nullptr},
    {"utilization.memory", "", "%", nullptr},
    {"temperature.gpu", "", "", nullptr},
    {"temperature.memory", "", "", nullptr},
    {"power.draw", "", "W", nullptr},
    {"power.limit", "enforced.power.limit", "W", nullptr},
    {"pstate", "", "", nullptr},
    {"fan.speed", "", "%", nullptr},
    {"persistence_mode", "", "", nullptr},
    {"compute_mode", "", "", nullptr},
    {"compute_cap", "", "", nullptr},
    {"display_active", "", "", nullptr},
    {"display_mode", "", "", nullptr},
    {"mig.mode.current", "", "", nullptr},
    {"ecc.mode.current", "", "", nullptr},
    {"clocks.current.graphics", "clocks.gr", "MHz", nullptr},
    {"clocks.current.sm", "clocks.sm", "MHz", nullptr},
    {"clocks.current.memory", "clocks.mem", "MHz", nullptr},
    {"serial", "gpu_serial", "", nullptr},
    {"vbios_version", "", "", nullptr},
});

const Field* FindField(std::string_view name) {
  const auto* field = std::ranges::find_if(kFields, [&](const Field& row) {
    return row.name == name || (!row.alias.empty() && row.alias == name);
  });
  return field == kFields.end() ? nullptr : field;
}

std::string Join(const std::vector<std::string>& parts) {
  std::string line;
  for (const std::string& part : parts) {
    line += (line.empty() ? "" : ", ") + part;
  }
  return line + "\n";
}

}  // namespace

Result<QueryFormat> ParseQueryFormat(const std::string& text) {
  QueryFormat format;
  const std::vector<std::string> parts = Split(text);
  for (const std::string& part : parts) {
    if (part == "noheader") {
      format.header = false;
    } else if (part == "nounits") {
      format.units = false;
    } else if (part != "csv") {
      return Error{Code::kInvalid, 0, "\"" + part + "\" is not a format",
                   "--format=csv[,noheader][,nounits]"};
    }
  }
  if (std::ranges::find(parts, "csv") == parts.end()) {
    return Error{Code::kInvalid, 0, "the only format is csv", "--format=csv[,noheader][,nounits]"};
  }
  return format;
}

Result<std::string> RenderQuery(const Report& report, const std::string& fields,
                                QueryFormat format) {
  std::vector<const Field*> columns;
  std::vector<std::string> header;
  for (const std::string& name : Split(fields)) {
    const Field* field = FindField(name);
    if (field == nullptr) {
      std::string known;
      for (const Field& row : kFields) {
        known += (known.empty() ? "" : ", ") + std::string(row.name);
      }
      return Error{Code::kInvalid, 0, "Field \"" + name + "\" is not a valid field to query.",
                   "the fields are " + known};
    }
    columns.push_back(field);
    header.push_back(field->unit.empty() ? name : name + " [" + std::string(field->unit) + "]");
  }
  std::string text = format.header ? Join(header) : "";
  for (const Card& card : report.cards) {
    std::vector<std::string> row;
    for (const Field* field : columns) {
      std::string value = field->value == nullptr ? "[N/A]" : field->value(report, card);
      if (field->value != nullptr && !field->unit.empty() && format.units) {
        value += " " + std::string(field->unit);
      }
      row.push_back(std::move(value));
    }
    text += Join(row);
  }
  return text;
}

}  // namespace cgpu::smi
