#include "apps/cgpu/smi/query.h"

#include <algorithm>
#include <vector>

#include "apps/cgpu/smi/fields.h"
#include "apps/cgpu/smi/text.h"
#include "base/printable.h"

namespace cgpu::smi {
namespace {

constexpr char kFormatHint[] = "--format=csv[,noheader][,nounits]";

const std::vector<Field>& FieldsOf(QueryKind kind) {
  return kind == QueryKind::kGpus ? GpuFields() : ProcessFields();
}

std::string_view OptionOf(QueryKind kind) {
  return kind == QueryKind::kGpus ? "query-gpu" : "query-compute-apps";
}

const Field* FindField(QueryKind kind, std::string_view name) {
  const std::vector<Field>& fields = FieldsOf(kind);
  const auto field = std::ranges::find_if(fields, [&](const Field& row) {
    return row.name == name || (!row.alias.empty() && row.alias == name);
  });
  return field == fields.end() ? nullptr : &*field;
}

std::string Join(const std::vector<std::string>& parts) {
  std::string line;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    line += (i == 0 ? "" : ", ") + parts[i];
  }
  return line + "\n";
}

std::string Quoted(const std::string& value) {
  if (value.find_first_of(",\"") == std::string::npos) {
    return value;
  }
  std::string text = "\"";
  for (const char c : value) {
    text += c == '"' ? "\"\"" : std::string(1, c);
  }
  return text + "\"";
}

std::string Row(const std::vector<const Field*>& columns, const Subject& subject, bool units) {
  std::vector<std::string> row;
  for (const Field* field : columns) {
    const auto value = field->value == nullptr ? std::nullopt : field->value(subject);
    const bool unit = value && units && !field->unit.empty();
    row.push_back(value ? Quoted(Printable(*value)) + (unit ? " " + field->unit : "") : "[N/A]");
  }
  return Join(row);
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
      return Error{Code::kInvalid, 0, "\"" + part + "\" is not a format", kFormatHint};
    }
  }
  if (std::ranges::find(parts, "csv") == parts.end()) {
    return Error{Code::kInvalid, 0, "the only format is csv", kFormatHint};
  }
  return format;
}

Result<std::string> RenderQuery(QueryKind kind, const Report& report, const Moment& now,
                                const std::string& fields, QueryFormat format) {
  std::vector<const Field*> columns;
  std::vector<std::string> header;
  for (const std::string& name : Split(fields)) {
    const Field* field = FindField(kind, name);
    if (field == nullptr) {
      return Error{Code::kInvalid, 0, "Field \"" + name + "\" is not a valid field to query.",
                   "`cgpu smi --help-" + std::string(OptionOf(kind)) + "` lists the fields"};
    }
    columns.push_back(field);
    header.push_back(field->unit.empty() ? field->name : field->name + " [" + field->unit + "]");
  }
  std::string text = format.header ? Join(header) : "";
  for (const Gpu& gpu : report.gpus) {
    if (kind == QueryKind::kGpus) {
      text += Row(columns, {report, now, gpu}, format.units);
      continue;
    }
    for (const Process& process : gpu.processes) {
      text += Row(columns, {report, now, gpu, &process}, format.units);
    }
  }
  return text;
}

std::string QueryHelp(QueryKind kind) {
  std::string text = "Fields of --" + std::string(OptionOf(kind)) +
                     "; those marked with * have no value here and print [N/A]:\n";
  for (const Field& field : FieldsOf(kind)) {
    if (!field.about.empty()) {
      text += "\n" + field.about + "\n";
    }
    text += std::string(field.value == nullptr ? "  * " : "    ") + field.name;
    text += field.alias.empty() ? "" : ", also " + field.alias;
    text += field.unit.empty() ? "\n" : " [" + field.unit + "]\n";
  }
  return text;
}

}  // namespace cgpu::smi
