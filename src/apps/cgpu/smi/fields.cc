#include "apps/cgpu/smi/fields.h"

#include <initializer_list>
#include <string_view>

#include "apps/cgpu/smi/text.h"

namespace cgpu::smi {
namespace {

using Value = std::optional<std::string>;

std::string InMiB(std::uint64_t bytes) {
  return std::to_string(bytes / kMiB);
}

Value Number(const std::optional<unsigned>& value) {
  return value ? Value(std::to_string(*value)) : std::nullopt;
}

BusNumbers BusOf(const Subject& subject) {
  return ParseBus(subject.gpu.bus_id).value_or(BusNumbers{});
}

// Fields that both queries have.
Value Timestamp(const Subject& subject) {
  return subject.now.timestamp;
}
Value GpuName(const Subject& subject) {
  return subject.gpu.name;
}
Value GpuUuid(const Subject& subject) {
  return subject.gpu.uuid;
}
Value GpuBusId(const Subject& subject) {
  return subject.gpu.bus_id;
}

Value EccMode(const Subject& subject, bool Ecc::* mode) {
  const std::optional<Ecc>& ecc = subject.gpu.ecc;
  return ecc ? Enabled((*ecc).*mode) : std::nullopt;
}
Value Corrected(const Subject& subject) {
  const std::optional<Ecc>& ecc = subject.gpu.ecc;
  return ecc && ecc->enabled ? Value(std::to_string(ecc->corrected)) : std::nullopt;
}
Value Uncorrected(const Subject& subject) {
  const std::optional<Ecc>& ecc = subject.gpu.ecc;
  return ecc && ecc->enabled ? Value(std::to_string(ecc->uncorrected)) : std::nullopt;
}

std::vector<Field> Identity() {
  return {
      {"timestamp", "", "", "When the GPUs were asked, local time.", Timestamp},
      {"driver_version", "", "", "The release of the driver.",
       [](const Subject& subject) { return Value(subject.report.driver_version); }},
      {"count", "", "", "Number of GPUs that there are.",
       [](const Subject& subject) { return Value(std::to_string(subject.report.attached)); }},
      {"name", "gpu_name", "", "The product.", GpuName},
      {"serial", "gpu_serial", "", "", nullptr},
      {"uuid", "gpu_uuid", "", "The GPU's own name, the same in every container.", GpuUuid},
      {"pci.bus_id", "gpu_bus_id", "", "The PCI address, its parts, and the numbers of the chip.",
       GpuBusId},
      {"pci.domain", "", "", "",
       [](const Subject& subject) { return Value(HexText(BusOf(subject).domain, 4)); }},
      {"pci.bus", "", "", "",
       [](const Subject& subject) { return Value(HexText(BusOf(subject).bus, 2)); }},
      {"pci.device", "", "", "",
       [](const Subject& subject) { return Value(HexText(BusOf(subject).device, 2)); }},
      {"pci.device_id", "", "", "",
       [](const Subject& subject) { return HexText(subject.gpu.pci_device, 8); }},
      {"pci.sub_device_id", "", "", "",
       [](const Subject& subject) { return HexText(subject.gpu.pci_subsystem, 8); }},
      {"pcie.link.gen.current", "", "", "The link to the host."},
      {"pcie.link.gen.gpucurrent", "", "", ""},
      {"pcie.link.gen.max", "", "", ""},
      {"pcie.link.gen.gpumax", "", "", ""},
      {"pcie.link.gen.hostmax", "", "", ""},
      {"pcie.link.width.current", "", "", ""},
      {"pcie.link.width.max", "", "", ""},
      {"index", "", "", "Counts the GPUs from 0, in order of their PCI addresses.",
       [](const Subject& subject) { return Value(std::to_string(subject.gpu.index)); }},
  };
}

std::vector<Field> Modes() {
  return {
      {"display_mode", "", "", "Modes, versions and the state of the board."},
      {"display_attached", "", "", ""},
      {"display_active", "", "", ""},
      {"persistence_mode", "", "", "",
       [](const Subject& subject) { return Enabled(subject.gpu.persistence); }},
      {"addressing_mode", "", "", ""},
      {"accounting.mode", "", "", ""},
      {"accounting.buffer_size", "", "", ""},
      {"driver_model.current", "", "", ""},
      {"driver_model.pending", "", "", ""},
      {"vbios_version", "", "", "", [](const Subject& subject) { return subject.gpu.bios; }},
      {"inforom.img", "inforom.image", "", "",
       [](const Subject& subject) { return subject.gpu.inforom; }},
      {"inforom.oem", "", "", "", [](const Subject& subject) { return subject.gpu.inforom_oem; }},
      {"inforom.ecc", "", "", "", [](const Subject& subject) { return subject.gpu.inforom_ecc; }},
      {"inforom.pwr", "inforom.power", "", ""},
      {"gom.current", "gpu_operation_mode.current", "", ""},
      {"gom.pending", "gpu_operation_mode.pending", "", ""},
      {"fan.speed", "", "%", ""},
      {"pstate", "", "", "The performance state: P0 is the fastest.",
       [](const Subject& subject) { return subject.gpu.pstate; }},
  };
}

std::vector<Field> ClockReasons() {
  std::vector<Field> fields;
  const char* about = "Why the clocks are as they are.";
  for (const char* name : {"supported", "active", "gpu_idle", "applications_clocks_setting",
                           "sw_power_cap", "hw_slowdown", "hw_thermal_slowdown",
                           "hw_power_brake_slowdown", "sw_thermal_slowdown", "sync_boost"}) {
    fields.push_back({"clocks_event_reasons." + std::string(name),
                      "clocks_throttle_reasons." + std::string(name), "", about});
    about = "";
  }
  return fields;
}

std::vector<Field> MemoryAndUse() {
  return {
      {"memory.total", "", "MiB", "Memory of the GPU: in a slice, what the slice was given.",
       [](const Subject& subject) { return Value(InMiB(subject.gpu.memory.total)); }},
      {"memory.reserved", "", "MiB", ""},
      {"memory.used", "", "MiB", "",
       [](const Subject& subject) { return Value(InMiB(subject.gpu.memory.used)); }},
      {"memory.free", "", "MiB", "",
       [](const Subject& subject) { return Value(InMiB(subject.gpu.memory.free)); }},
      {"compute_mode", "", "", "Who may make compute contexts.",
       [](const Subject& subject) { return subject.gpu.compute_mode; }},
      {"compute_cap", "", "", "The compute capability.",
       [](const Subject& subject) { return subject.gpu.compute_cap; }},
      {"utilization.gpu", "", "%",
       "Part of the last second in which the GPU's engines were busy. Not told in a slice.",
       [](const Subject& subject) { return Number(subject.gpu.use.graphics); }},
      {"utilization.memory", "", "%", "",
       [](const Subject& subject) { return Number(subject.gpu.use.memory); }},
      {"utilization.encoder", "", "%", "",
       [](const Subject& subject) { return Number(subject.gpu.use.encoder); }},
      {"utilization.decoder", "", "%", "",
       [](const Subject& subject) { return Number(subject.gpu.use.decoder); }},
      {"utilization.jpeg", "", "%", ""},
      {"utilization.ofa", "", "%", ""},
      {"encoder.stats.sessionCount", "", "", ""},
      {"encoder.stats.averageFps", "", "", ""},
      {"encoder.stats.averageLatency", "", "", ""},
      {"ecc.mode.current", "", "", "Errors of memory, and their correction.",
       [](const Subject& subject) { return EccMode(subject, &Ecc::enabled); }},
      {"ecc.mode.pending", "", "", "",
       [](const Subject& subject) { return EccMode(subject, &Ecc::next); }},
  };
}

std::string Joined(std::initializer_list<std::string_view> parts) {
  std::string name;
  for (const std::string_view part : parts) {
    name.append(name.empty() ? "" : ".").append(part);
  }
  return name;
}

// Counters by the unit of the GPU; only their sums since the driver began are known.
std::vector<Field> EccCounters() {
  std::vector<Field> fields;
  for (const std::string kind : {"corrected", "uncorrected"}) {
    for (const std::string since : {"volatile", "aggregate"}) {
      for (const char* place : {"device_memory", "dram", "register_file", "l1_cache", "l2_cache",
                                "texture_memory", "cbu", "sram"}) {
        fields.push_back({Joined({"ecc.errors", kind, since, place}), "", "", ""});
      }
      fields.push_back({Joined({"ecc.errors", kind, since, "total"}), "", "", ""});
      if (since == "volatile") {
        fields.back().value = kind == "corrected" ? &Corrected : &Uncorrected;
      }
    }
  }
  return fields;
}

std::vector<Field> Board() {
  return {
      {"retired_pages.single_bit_ecc.count", "retired_pages.sbe", "", ""},
      {"retired_pages.double_bit.count", "retired_pages.dbe", "", ""},
      {"retired_pages.pending", "", "", ""},
      {"remapped_rows.correctable", "", "", ""},
      {"remapped_rows.uncorrectable", "", "", ""},
      {"remapped_rows.pending", "", "", ""},
      {"remapped_rows.failure", "", "", ""},
      {"temperature.gpu", "", "", "Temperatures in degrees Celsius."},
      {"temperature.gpu.tlimit", "", "", ""},
      {"temperature.memory", "", "", ""},
      {"power.management", "", "", "Power."},
      {"power.draw", "", "W", ""},
      {"power.draw.average", "", "W", ""},
      {"power.draw.instant", "", "W", ""},
      {"power.limit", "", "W", ""},
      {"enforced.power.limit", "", "W", ""},
      {"power.default_limit", "", "W", ""},
      {"power.min_limit", "", "W", ""},
      {"power.max_limit", "", "W", ""},
      {"clocks.current.graphics", "clocks.gr", "MHz", "Clocks."},
      {"clocks.current.sm", "clocks.sm", "MHz", ""},
      {"clocks.current.memory", "clocks.mem", "MHz", ""},
      {"clocks.current.video", "clocks.video", "MHz", ""},
      {"clocks.applications.graphics", "clocks.applications.gr", "MHz", ""},
      {"clocks.applications.memory", "clocks.applications.mem", "MHz", ""},
      {"clocks.default_applications.graphics", "clocks.default_applications.gr", "MHz", ""},
      {"clocks.default_applications.memory", "clocks.default_applications.mem", "MHz", ""},
      {"clocks.max.graphics", "clocks.max.gr", "MHz", ""},
      {"clocks.max.sm", "", "MHz", ""},
      {"clocks.max.memory", "clocks.max.mem", "MHz", ""},
      {"mig.mode.current", "", "", "Division of the GPU by its hardware, and by firmware.",
       [](const Subject& subject) { return Enabled(subject.gpu.mig); }},
      {"mig.mode.pending", "", "", ""},
      {"gsp.mode.current", "", "", ""},
      {"gsp.mode.default", "", "", ""},
  };
}

}  // namespace

const std::vector<Field>& GpuFields() {
  static const std::vector<Field> fields = [] {
    std::vector<Field> all;
    for (const auto& part :
         {Identity(), Modes(), ClockReasons(), MemoryAndUse(), EccCounters(), Board()}) {
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }();
  return fields;
}

const std::vector<Field>& ProcessFields() {
  static const std::vector<Field> fields = {
      {"timestamp", "", "", "When the GPUs were asked, local time.", Timestamp},
      {"gpu_name", "", "", "The GPU.", GpuName},
      {"gpu_bus_id", "", "", "", GpuBusId},
      {"gpu_serial", "", "", ""},
      {"gpu_uuid", "", "", "", GpuUuid},
      {"pid", "", "", "The process that holds memory of it, and how much.",
       [](const Subject& subject) { return Value(std::to_string(subject.process->pid)); }},
      {"process_name", "name", "", "",
       [](const Subject& subject) { return Value(subject.process->name); }},
      {"used_gpu_memory", "used_memory", "MiB", "",
       [](const Subject& subject) { return Value(InMiB(subject.process->bytes)); }},
  };
  return fields;
}

}  // namespace cgpu::smi
