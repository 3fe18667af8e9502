#include "exporter/exposition.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <optional>

#include "exporter/dcgm.h"
#include "exporter/families.h"

namespace cgpu::exporter {
namespace {

using Value = std::optional<double>;  // nothing: the series is left out

constexpr int kNoPolicy = -1;

double Number(std::uint64_t value) {
  return static_cast<double>(value);
}

double Seconds(std::uint64_t ns) {
  return Number(ns) / 1e9;
}

// A container on one of its GPUs.
struct Place {
  const ContainerSample& container;
  const GpuStatus& slice;
  std::optional<ShareSample> share;
  UsedSeconds seconds;
};

template <typename Of>
struct Metric {
  Kind kind;
  const char* name;
  const char* help;
  Value (*value)(const Of&);
};

constexpr Metric<Snapshot> kHostMetrics[] = {
    {Kind::kGauge, "cgpu_containers", "Containers with a slice of a GPU.",
     [](const Snapshot& host) -> Value { return Number(host.containers.size()); }},
    {Kind::kGauge, "cgpu_containers_unresponsive",
     "Containers whose shim gave no answer: their own figures are missing.",
     [](const Snapshot& host) -> Value {
       return Number(static_cast<std::uint64_t>(
           std::ranges::count_if(host.containers, [](const auto& one) { return !one.answers; })));
     }},
};

constexpr Metric<GpuSample> kGpuMetrics[] = {
    {Kind::kGauge, "cgpu_gpu_memory_total_bytes", "Memory of the GPU.",
     [](const GpuSample& gpu) -> Value { return Number(gpu.total_bytes); }},
    {Kind::kGauge, "cgpu_gpu_memory_used_bytes", "Memory in use, as the driver counts it.",
     [](const GpuSample& gpu) {
       return gpu.memory ? Value(Number(gpu.memory->used)) : std::nullopt;
     }},
    {Kind::kGauge, "cgpu_gpu_memory_granted_bytes", "Sum of the containers' memory limits.",
     [](const GpuSample& gpu) -> Value { return Number(gpu.granted_bytes); }},
    {Kind::kCounter, "cgpu_gpu_busy_seconds_total", "Time for which the GPU worked.",
     [](const GpuSample& gpu) -> Value { return gpu.seconds.busy; }},
    {Kind::kCounter, "cgpu_gpu_measuring_gaps_total",
     "How often the driver's lists of its use were read too late, and a part was missed.",
     [](const GpuSample& gpu) -> Value { return Number(gpu.seconds.gaps); }},
    {Kind::kGauge, "cgpu_gpu_share_granted_ratio",
     "Sum of what the containers are promised of the compute time.",
     [](const GpuSample& gpu) -> Value { return gpu.granted_share; }},
    {Kind::kGauge, "cgpu_gpu_slices", "Containers that have a slice.",
     [](const GpuSample& gpu) -> Value { return Number(gpu.slices); }},
    {Kind::kGauge, "cgpu_gpu_slices_max", "Most slices that it may have at a time.",
     [](const GpuSample& gpu) -> Value { return gpu.most_slices; }},
    {Kind::kGauge, "cgpu_gpu_policy",
     "How its compute time is shared: 0 fair, 1 preempt, 2 weight, 3 fixed, 4 soft, 5 native; -1: "
     "neither set nor chosen yet.",
     [](const GpuSample& gpu) -> Value { return gpu.policy.value_or(kNoPolicy); }},
    {Kind::kGauge, "cgpu_gpu_healthy", "1: the GPU answers; 0: it does not.",
     [](const GpuSample& gpu) -> Value { return gpu.healthy ? 1 : 0; }},
    {Kind::kGauge, "cgpu_gpu_last_xid",
     "Number of the last error that the driver logged of the GPU (Xid); 0: none.",
     [](const GpuSample& gpu) { return gpu.last_xid ? Value(*gpu.last_xid) : std::nullopt; }},
    {Kind::kGauge, "cgpu_unmanaged_memory_used_bytes",
     "Memory of processes that are in no container of cgpu.",
     [](const GpuSample& gpu) {
       return gpu.memory ? Value(Number(gpu.memory->unmanaged)) : std::nullopt;
     }},
    {Kind::kCounter, "cgpu_unmanaged_busy_seconds_total",
     "Time for which the GPU worked for processes that are in no container of cgpu.",
     [](const GpuSample& gpu) -> Value { return gpu.seconds.unmanaged; }},
    {Kind::kGauge, "cgpu_unmanaged_processes",
     "Processes that hold memory and are in no container of cgpu.",
     [](const GpuSample& gpu) {
       return gpu.memory ? Value(Number(gpu.memory->unmanaged_processes)) : std::nullopt;
     }},
};

constexpr Metric<Place> kPlaceMetrics[] = {
    {Kind::kGauge, "cgpu_container_memory_limit_bytes", "Most memory that the container gets.",
     [](const Place& at) -> Value { return Number(at.slice.limit_bytes); }},
    {Kind::kGauge, "cgpu_container_memory_used_bytes", "Memory that the container holds.",
     [](const Place& at) {
       return at.container.answers ? Value(Number(at.slice.used_bytes)) : std::nullopt;
     }},
    {Kind::kGauge, "cgpu_container_memory_peak_bytes", "Most memory that it held at a time.",
     [](const Place& at) {
       return at.container.answers ? Value(Number(at.slice.peak_bytes)) : std::nullopt;
     }},
    {Kind::kCounter, "cgpu_container_memory_refused_total",
     "Allocations that were refused at the limit.",
     [](const Place& at) {
       return at.container.answers ? Value(Number(at.slice.denied)) : std::nullopt;
     }},
    {Kind::kGauge, "cgpu_container_share_ratio", "Promised part of the compute time.",
     [](const Place& at) { return at.share ? Value(at.share->promised) : std::nullopt; }},
    {Kind::kGauge, "cgpu_container_share_max_ratio",
     "Most of the compute time that it may have; 1: no cap.",
     [](const Place& at) { return at.share ? Value(at.share->most) : std::nullopt; }},
    {Kind::kCounter, "cgpu_container_busy_seconds_total", "Time for which the GPU worked for it.",
     [](const Place& at) -> Value { return at.seconds.busy; }},
    {Kind::kCounter, "cgpu_container_waiting_seconds_total",
     "Time for which others had the GPU while it came back for more.",
     [](const Place& at) -> Value { return at.seconds.waiting; }},
    {Kind::kCounter, "cgpu_container_throttled_seconds_total",
     "Time for which the clock kept it off the GPU.",
     [](const Place& at) {
       return at.container.answers ? Value(Seconds(at.slice.throttled_ns)) : std::nullopt;
     }},
    {Kind::kGauge, "cgpu_container_weight", "Weight of its share.",
     [](const Place& at) -> Value {
       return Number(at.container.status.compute.weight.value_or(1));
     }},
    {Kind::kGauge, "cgpu_container_high_priority", "1: it goes before those of normal priority.",
     [](const Place& at) -> Value { return at.container.status.compute.high_priority ? 1 : 0; }},
};

// Labels that each series of a container has.
Labels LabelsOf(const ContainerSample& container) {
  return {{"container_id", container.status.id},
          {"namespace", container.name_space},
          {"pod", container.pod_name},
          {"container", container.status.container}};
}

Labels With(Labels labels, const char* name, const std::string& value) {
  labels.emplace_back(name, value);
  return labels;
}

struct LabelledPlace {
  Labels labels;
  Place place;
};

std::vector<LabelledPlace> PlacesIn(const Snapshot& host) {
  std::vector<LabelledPlace> places;
  for (const ContainerSample& container : host.containers) {
    const Labels labels = LabelsOf(container);
    for (const GpuStatus& slice : container.status.gpus) {
      Place place{container, slice, std::nullopt, host.SecondsOf(container.status.id, slice.uuid)};
      if (const auto share = container.shares.find(slice.uuid); share != container.shares.end()) {
        place.share = share->second;
      }
      places.push_back({With(labels, "uuid", slice.uuid), place});
    }
  }
  return places;
}

// Adds a counter for each of `names`.
template <std::size_t kCount>
void AddCounts(const Labels& labels, const char* label,
               const std::array<const char*, kCount>& names,
               const std::array<std::uint64_t, kCount>& counts, Families& families) {
  for (std::size_t i = 0; i < kCount; ++i) {
    families.Add(With(labels, label, names[i]), Number(counts[i]));
  }
}

void AddDurations(const Labels& labels, const CallCounters& counters, Families& families) {
  std::vector<std::pair<double, std::uint64_t>> buckets;
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < kDurations; ++i) {
    count += counters.durations[i];
    const bool last = i == kDurationBoundsNs.size();
    buckets.emplace_back(
        last ? std::numeric_limits<double>::infinity() : Seconds(kDurationBoundsNs[i]), count);
  }
  families.AddHistogram(labels, buckets, count, Seconds(counters.duration_ns));
}

// Adds what the containers' shims count of their calls. One of an earlier version does not say.
void AddCalls(const Snapshot& host, Families& families) {
  const auto for_each = [&host](const auto& add) {
    for (const ContainerSample& container : host.containers) {
      if (container.status.counters) {
        add(LabelsOf(container), *container.status.counters);
      }
    }
  };
  families.Begin(Kind::kCounter, "cgpu_container_calls_total", "Driver calls that were answered.");
  for_each([&](const Labels& labels, const CallCounters& counters) {
    AddCounts(labels, "kind", kCallKinds, counters.calls, families);
  });
  families.Begin(Kind::kCounter, "cgpu_container_refused_calls_total",
                 "Driver calls that were refused.");
  for_each([&](const Labels& labels, const CallCounters& counters) {
    AddCounts(labels, "reason", kRefusalReasons, counters.refused, families);
  });
  families.Begin(Kind::kHistogram, "cgpu_container_call_duration_seconds",
                 "Time from the receipt of a driver call to its answer.");
  for_each([&](const Labels& labels, const CallCounters& counters) {
    AddDurations(labels, counters, families);
  });
  families.Begin(Kind::kCounter, "cgpu_container_upgrades_total", "Hot upgrades of its shim.");
  for_each([&](const Labels& labels, const CallCounters& counters) {
    families.Add(labels, Number(counters.upgrades));
  });
}

template <typename Of>
void AddTo(Families& families, const Metric<Of>& metric, const Labels& labels, const Of& of) {
  if (const Value value = metric.value(of)) {
    families.Add(labels, *value);
  }
}

void AddGpus(const Snapshot& host, Families& families) {
  families.Begin(Kind::kGauge, "cgpu_gpu_info", "A GPU of the host; always 1.");
  for (const GpuSample& gpu : host.gpus) {
    families.Add({{"uuid", gpu.uuid},
                  {"gpu", std::to_string(gpu.index)},
                  {"model", gpu.model},
                  {"pci", gpu.pci}},
                 1);
  }
  for (const auto& metric : kGpuMetrics) {
    families.Begin(metric.kind, metric.name, metric.help);
    for (const GpuSample& gpu : host.gpus) {
      AddTo(families, metric, {{"uuid", gpu.uuid}}, gpu);
    }
  }
}

void AddContainers(const Snapshot& host, Families& families) {
  families.Begin(Kind::kGauge, "cgpu_container_info", "A container with a slice; always 1.");
  for (const ContainerSample& container : host.containers) {
    Labels labels = LabelsOf(container);
    labels.emplace_back("name", container.status.name);
    labels.emplace_back("engine_id", container.status.engine_id);
    labels.emplace_back("origin", container.status.origin);
    labels.emplace_back("mode", container.status.isolated ? "cgpu" : "share");
    families.Add(labels, 1);
  }
  families.Begin(Kind::kGauge, "cgpu_container_start_time_seconds",
                 "Start of the container, in seconds of Unix time.");
  for (const ContainerSample& container : host.containers) {
    families.Add(LabelsOf(container), Number(container.status.since));
  }
  const auto places = PlacesIn(host);
  for (const auto& metric : kPlaceMetrics) {
    families.Begin(metric.kind, metric.name, metric.help);
    for (const LabelledPlace& at : places) {
      AddTo(families, metric, at.labels, at.place);
    }
  }
}

}  // namespace

std::string Render(const Snapshot& host, bool dcgm) {
  Families families;
  families.Begin(Kind::kGauge, "cgpu_build_info", "Versions of cgpu and of the driver; always 1.");
  families.Add({{"version", host.version}, {"driver", host.driver}}, 1);
  for (const auto& metric : kHostMetrics) {
    families.Begin(metric.kind, metric.name, metric.help);
    AddTo(families, metric, {}, host);
  }
  AddGpus(host, families);
  AddContainers(host, families);
  AddCalls(host, families);
  if (dcgm) {
    AddDcgm(host, families);
  }
  return families.TakeText();
}

}  // namespace cgpu::exporter
