#include "exporter/dcgm.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <string>

namespace cgpu::exporter {
namespace {

// Values of DCGM_CUSTOM_ALLOCATE_MODE: 0 none, 1 exclusive, 2 share.
constexpr int kNoMode = 0;
constexpr int kShare = 2;

double Mib(std::uint64_t bytes) {
  return static_cast<double>(bytes) / (std::uint64_t{1} << 20);
}

// Figures of a series.
struct Figures {
  double utilisation = 0;  // percent
  double used = 0;         // MiB
  double free = 0;         // MiB
};

struct Series {
  Labels labels;         // dcgm-exporter's
  Labels custom_labels;  // of DCGM_CUSTOM_PROCESS_*; none: the series is of no container
  Figures figures;
};

double Percent(double now, double before, double seconds) {
  return seconds > 0 ? std::clamp(100 * (now - before) / seconds, 0.0, 100.0) : 0;
}

// "0000:0a:00.0" as NVIDIA's tools write it: "00000000:0A:00.0".
std::string BusId(std::string bdf) {
  std::ranges::transform(bdf, bdf.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return "0000" + bdf;
}

Labels LabelsOf(const Snapshot& host, const GpuSample& gpu) {
  return {{"gpu", std::to_string(gpu.index)}, {"UUID", gpu.uuid},
          {"pci_bus_id", BusId(gpu.pci)},     {"device", "nvidia" + std::to_string(gpu.minor)},
          {"modelName", gpu.model},           {"Hostname", host.host_name}};
}

Series SeriesOf(const Snapshot& host, const GpuSample& gpu, const ContainerSample& container,
                const GpuStatus& slice) {
  Series series{LabelsOf(host, gpu), {}, {}};
  const ContainerStatus& status = container.status;
  // A container of no pod is known by its own name.
  const std::string& name = status.container.empty() ? status.name : status.container;
  for (auto& label : Labels{{"container", name},
                            {"namespace", container.name_space},
                            {"pod", container.pod_name},
                            {"pod_uid", status.pod}}) {
    series.labels.push_back(std::move(label));
  }
  series.custom_labels = {{"AllocateMode", "share"},
                          {"ContainerName", name},
                          {"NamespaceName", container.name_space},
                          {"NodeName", host.host_name},
                          {"PodName", container.pod_name},
                          {"UUID", gpu.uuid},
                          {"device", "nvidia" + std::to_string(gpu.minor)},
                          {"gpu", std::to_string(gpu.index)},
                          {"modelName", gpu.model}};
  series.figures = {
      Percent(gpu.seconds.Of(status.id).busy, gpu.before.Of(status.id).busy, host.before_seconds),
      Mib(slice.used_bytes),
      Mib(slice.limit_bytes - std::min(slice.limit_bytes, slice.used_bytes))};
  return series;
}

Series SeriesOf(const Snapshot& host, const GpuSample& gpu) {
  const GpuMemory memory = gpu.memory.value_or(GpuMemory{});
  return {LabelsOf(host, gpu),
          {},
          {Percent(gpu.seconds.busy, gpu.before.busy, host.before_seconds), Mib(memory.used),
           Mib(memory.free)}};
}

std::vector<Series> AllSeries(const Snapshot& host) {
  std::vector<Series> all;
  for (const GpuSample& gpu : host.gpus) {
    if (gpu.slices == 0 && gpu.memory) {
      all.push_back(SeriesOf(host, gpu));
    }
    for (const ContainerSample& container : host.containers) {
      for (const GpuStatus& slice : container.status.gpus) {
        if (slice.uuid == gpu.uuid && container.answers) {
          all.push_back(SeriesOf(host, gpu, container, slice));
        }
      }
    }
  }
  return all;
}

// Adds a figure of each series that has such labels.
void AddFigure(const std::vector<Series>& all, const char* name, const char* help,
               Labels Series::* labels, double Figures::* figure, Families& families) {
  families.Begin(Kind::kGauge, name, help);
  for (const Series& series : all) {
    if (!(series.*labels).empty()) {
      families.Add(series.*labels, series.figures.*figure);
    }
  }
}

}  // namespace

void AddDcgm(const Snapshot& host, Families& families) {
  const auto all = AllSeries(host);
  AddFigure(all, "DCGM_FI_DEV_GPU_UTIL", "GPU utilization (in %).", &Series::labels,
            &Figures::utilisation, families);
  AddFigure(all, "DCGM_FI_DEV_FB_USED", "Framebuffer memory used (in MiB).", &Series::labels,
            &Figures::used, families);
  AddFigure(all, "DCGM_FI_DEV_FB_FREE", "Framebuffer memory free (in MiB).", &Series::labels,
            &Figures::free, families);
  families.Begin(Kind::kGauge, "DCGM_FI_DEV_XID_ERRORS",
                 "Value of the last XID error encountered.");
  for (const GpuSample& gpu : host.gpus) {
    if (gpu.last_xid) {
      families.Add(LabelsOf(host, gpu), *gpu.last_xid);
    }
  }
  AddFigure(all, "DCGM_CUSTOM_PROCESS_SM_UTIL", "Utilization of the GPU by a container (in %).",
            &Series::custom_labels, &Figures::utilisation, families);
  AddFigure(all, "DCGM_CUSTOM_PROCESS_MEM_USED", "Framebuffer memory used by a container (in MiB).",
            &Series::custom_labels, &Figures::used, families);
  families.Begin(Kind::kGauge, "DCGM_CUSTOM_ALLOCATE_MODE",
                 "How the GPUs of this host are given: none 0, exclusive 1, share 2.");
  families.Add({}, host.containers.empty() ? kNoMode : kShare);
  families.Begin(Kind::kGauge, "DCGM_CUSTOM_DEV_FB_TOTAL", "Framebuffer memory (in MiB).");
  for (const GpuSample& gpu : host.gpus) {
    families.Add(LabelsOf(host, gpu), Mib(gpu.total_bytes));
  }
  families.Begin(Kind::kGauge, "DCGM_CUSTOM_DEV_FB_ALLOCATED",
                 "Part of the framebuffer memory that containers are given, 0 to 1.");
  for (const GpuSample& gpu : host.gpus) {
    families.Add(LabelsOf(host, gpu),
                 gpu.total_bytes == 0 ? 0 : Mib(gpu.granted_bytes) / Mib(gpu.total_bytes));
  }
}

}  // namespace cgpu::exporter
