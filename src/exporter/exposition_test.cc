#include "exporter/exposition.h"

#include <gmock/gmock.h>

#include <string>

#include "exporter/sample_testing.h"

namespace cgpu::exporter {
namespace {

using testing::HasSubstr;
using testing::Not;

ContainerSample Container(const std::string& id) {
  ContainerSample container;
  container.status.id = id;
  container.status.name = "train";
  container.status.state = kRunning;
  container.status.since = 1'700'000'000;
  container.status.origin = "flags";
  container.status.gpus.push_back(SampleSlice());
  container.shares[kGpu] = {0.3, 0.5};
  return container;
}

Snapshot ExpositionHost() {
  Snapshot host;
  host.version = "0.1.0";
  host.driver = "580.1";
  GpuSample gpu;
  gpu.uuid = kGpu;
  gpu.model = "Tesla V100";
  gpu.memory = GpuMemory{16'945'053'697, 5, 11, 2};
  gpu.seconds.busy = 12.5;
  gpu.seconds.containers["a"] = {2.5, 0.125};
  host.gpus.push_back(gpu);
  host.containers.push_back(Container("a"));
  return host;
}

TEST(Exposition, HasValuesToTheByte) {
  const std::string text = Render(ExpositionHost());
  EXPECT_THAT(text, HasSubstr("cgpu_gpu_memory_used_bytes{uuid=\"GPU-1\"} 16945053697\n"));
  EXPECT_THAT(text, HasSubstr("cgpu_container_memory_used_bytes{container_id=\"a\",namespace=\"\","
                              "pod=\"\",container=\"\",uuid=\"GPU-1\"} 16945053695\n"));
  EXPECT_THAT(text, HasSubstr("uuid=\"GPU-1\"} 4294967296\n"));
  EXPECT_THAT(text, HasSubstr("cgpu_gpu_busy_seconds_total{uuid=\"GPU-1\"} 12.5\n"));
  EXPECT_THAT(text, HasSubstr("cgpu_unmanaged_processes{uuid=\"GPU-1\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("cgpu_gpu_policy{uuid=\"GPU-1\"} -1\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE cgpu_container_busy_seconds_total counter\n"));
}

TEST(Exposition, HasEachMetricOfAnEmptyHost) {
  const std::string text = Render({});
  EXPECT_THAT(text, HasSubstr("# TYPE cgpu_container_busy_seconds_total counter\n"));
  EXPECT_THAT(text, HasSubstr("# HELP cgpu_gpu_info "));
  EXPECT_THAT(text, HasSubstr("cgpu_containers 0\n"));
}

TEST(Exposition, CountsCalls) {
  Snapshot host = ExpositionHost();
  EXPECT_THAT(Render(host), Not(HasSubstr("cgpu_container_calls_total{")));
  CallCounters counters;
  counters.calls[0] = 5;
  counters.refused[1] = 2;
  counters.durations[0] = 3;
  counters.durations[7] = 2;
  counters.duration_ns = 2'500'000'000;
  counters.upgrades = 1;
  host.containers[0].status.counters = counters;
  host.containers[0].status.gpus[0].throttled_ns = 1'500'000'000;
  const std::string text = Render(host);
  const std::string labels = "{container_id=\"a\",namespace=\"\",pod=\"\",container=\"\"";
  for (const std::string& series :
       {"cgpu_container_calls_total" + labels + ",kind=\"alloc\"} 5\n",
        "cgpu_container_calls_total" + labels + ",kind=\"other\"} 0\n",
        "cgpu_container_refused_calls_total" + labels + ",reason=\"quota\"} 2\n",
        "cgpu_container_call_duration_seconds_bucket" + labels + ",le=\"1\"} 3\n",
        "cgpu_container_call_duration_seconds_bucket" + labels + ",le=\"+Inf\"} 5\n",
        "cgpu_container_call_duration_seconds_sum" + labels + "} 2.5\n",
        "cgpu_container_call_duration_seconds_count" + labels + "} 5\n",
        "cgpu_container_upgrades_total" + labels + "} 1\n",
        "cgpu_container_throttled_seconds_total" + labels + ",uuid=\"GPU-1\"} 1.5\n"}) {
    EXPECT_THAT(text, HasSubstr(series));
  }
}

TEST(Exposition, NamesThePod) {
  Snapshot host = ExpositionHost();
  host.containers[0].name_space = "ml";
  host.containers[0].pod_name = "train-0";
  host.containers[0].status.container = "main";
  EXPECT_THAT(Render(host),
              HasSubstr("cgpu_container_busy_seconds_total{container_id=\"a\",namespace=\"ml\","
                        "pod=\"train-0\",container=\"main\",uuid=\"GPU-1\"} 2.5\n"));
}

TEST(Exposition, LeavesOutWhatASilentShimWouldSay) {
  Snapshot host = ExpositionHost();
  host.containers[0].answers = false;
  const std::string text = Render(host);
  EXPECT_THAT(text, HasSubstr("cgpu_containers_unresponsive 1\n"));
  EXPECT_THAT(text, HasSubstr("cgpu_container_memory_limit_bytes{container_id=\"a\""));
  EXPECT_THAT(text, Not(HasSubstr("cgpu_container_memory_used_bytes{")));
  EXPECT_THAT(text, Not(HasSubstr("cgpu_container_memory_refused_total{")));
}

TEST(Exposition, LeavesOutWhatTheDriverDoesNotSay) {
  Snapshot host = ExpositionHost();
  host.gpus[0].memory.reset();
  host.gpus[0].healthy = false;
  host.gpus[0].last_xid = 79;
  host.gpus[0].seconds.gaps = 3;
  const std::string text = Render(host);
  EXPECT_THAT(text, HasSubstr("cgpu_gpu_healthy{uuid=\"GPU-1\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("cgpu_gpu_last_xid{uuid=\"GPU-1\"} 79\n"));
  EXPECT_THAT(text, HasSubstr("cgpu_gpu_measuring_gaps_total{uuid=\"GPU-1\"} 3\n"));
  EXPECT_THAT(text, Not(HasSubstr("cgpu_gpu_memory_used_bytes{")));
}

TEST(Exposition, EscapesNames) {
  Snapshot host = ExpositionHost();
  host.containers[0].status.name = "x\"} 1\ncgpu_containers 99\n\\";
  const std::string text = Render(host);
  EXPECT_THAT(text, HasSubstr("name=\"x\\\"} 1\xEF\xBF\xBD"
                              "cgpu_containers 99\xEF\xBF\xBD\\\\\""));
  EXPECT_THAT(text, Not(HasSubstr("\ncgpu_containers 99")));
}

}  // namespace
}  // namespace cgpu::exporter
