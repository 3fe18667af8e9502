#include "exporter/overview.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>

#include "exporter/sample_testing.h"
#include "governor/policy.h"

namespace cgpu::exporter {
namespace {

using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::json;

constexpr double kTime = 1'700'000'000.25;

ContainerSample Container() {
  ContainerSample container;
  container.status.id = "a";
  container.status.name = "train";
  container.status.container = "main";
  container.status.origin = "flags";
  container.status.since = 1'700'000'000;
  CallCounters counters;
  counters.calls[0] = 5;
  counters.calls[3] = 7;
  counters.refused[1] = 2;
  container.status.counters = counters;
  GpuStatus slice = SampleSlice();
  slice.throttled_ns = 1'500'000'000;
  container.status.gpus.push_back(slice);
  container.shares[kGpu] = {0.25, 0.5};
  container.name_space = "ml";
  container.pod_name = "train-0";
  return container;
}

Snapshot OverviewHost() {
  Snapshot host;
  host.version = "0.1.0";
  host.driver = "580.1";
  host.host_name = "gpu-1";
  GpuSample gpu;
  gpu.uuid = kGpu;
  gpu.index = 3;
  gpu.model = "Tesla V100";
  gpu.pci = "0000:01:00.0";
  gpu.total_bytes = 17'179'869'184;
  gpu.memory = GpuMemory{16'945'053'697, 5, 11, 2};
  gpu.granted_bytes = 4'294'967'296;
  gpu.granted_share = 0.25;
  gpu.slices = 1;
  gpu.most_slices = 20;
  gpu.policy = static_cast<int>(governor::Policy::kSoft);
  gpu.seconds.busy = 12.5;
  gpu.seconds.counted = 20;
  gpu.seconds.unmanaged = 10;
  gpu.seconds.containers["a"] = {2.5, 0.125};
  host.gpus.push_back(gpu);
  host.containers.push_back(Container());
  return host;
}

Json Node(const Snapshot& host, const std::vector<Event>& events = {}) {
  return Json::parse(RenderOverview(host, events, kTime))["nodes"][0];
}

TEST(Overview, IsThatOfOneNode) {
  const Json whole = Json::parse(RenderOverview(OverviewHost(), {}, kTime));
  EXPECT_EQ(whole["kind"], "node");
  EXPECT_EQ(whole["time"], kTime);
  ASSERT_EQ(whole["nodes"].size(), 1U);
  const Json& node = whole["nodes"][0];
  EXPECT_EQ(node["name"], "gpu-1");
  EXPECT_EQ(node["error"], nullptr);
  EXPECT_EQ(node["version"], "0.1.0");
  EXPECT_EQ(node["driver"], "580.1");
  EXPECT_EQ(node["time"], kTime);
  EXPECT_EQ(node["events"], Json::array());
}

TEST(Overview, HasTheFiguresOfGpus) {
  EXPECT_EQ(Node(OverviewHost())["gpus"], Json::parse(R"([
    {"uuid": "GPU-1", "index": 3, "model": "Tesla V100", "pci": "0000:01:00.0", "healthy": true,
     "policy": "soft", "slices": 1, "slices_max": 20, "share_granted": 0.25,
     "memory": {"total": 17179869184, "granted": 4294967296, "used": 16945053697, "free": 5,
                "unmanaged": 11},
     "busy_seconds": 12.5, "counted_seconds": 20.0, "unmanaged_busy_seconds": 10.0,
     "unmanaged_processes": 2}])"));
}

TEST(Overview, HasTheFiguresOfContainers) {
  EXPECT_EQ(Node(OverviewHost())["containers"], Json::parse(R"([
    {"id": "a", "name": "train", "namespace": "ml", "pod": "train-0", "container": "main",
     "origin": "flags", "mode": "cgpu", "answers": true, "started": 1700000000, "calls": 12,
     "refused_calls": 2,
     "gpus": [{"uuid": "GPU-1", "limit": 4294967296, "used": 16945053695, "peak": 3, "refused": 7,
               "share": 0.25, "share_max": 0.5, "busy_seconds": 2.5, "waiting_seconds": 0.125,
               "throttled_seconds": 1.5, "weight": 1, "high_priority": false}]}])"));
}

TEST(Overview, LeavesOutWhatIsNotKnown) {
  Snapshot host = OverviewHost();
  host.gpus[0].memory.reset();
  host.gpus[0].policy.reset();
  host.containers[0].answers = false;
  host.containers[0].shares.clear();
  host.containers[0].status.counters.reset();
  host.containers[0].status.isolated = false;
  const Json node = Node(host);
  const Json& gpu = node["gpus"][0];
  for (const char* key : {"used", "free", "unmanaged"}) {
    EXPECT_EQ(gpu["memory"][key], nullptr) << key;
  }
  EXPECT_EQ(gpu["memory"]["total"], 17'179'869'184);
  EXPECT_EQ(gpu["policy"], nullptr);
  EXPECT_EQ(gpu["unmanaged_processes"], nullptr);
  const Json& container = node["containers"][0];
  EXPECT_EQ(container["calls"], nullptr);
  EXPECT_EQ(container["mode"], "share");
  const Json& place = container["gpus"][0];
  for (const char* key : {"used", "peak", "refused", "share", "share_max", "throttled_seconds"}) {
    EXPECT_EQ(place[key], nullptr) << key;
  }
  EXPECT_EQ(place["limit"], 4'294'967'296);
}

TEST(Overview, TellsEventsInPlainWords) {
  const Event event{1'700'000'000'500,
                    events::kMemoryRefused,
                    {{"container", "a"}, {"name", "train"}, {"gpu", "0"}, {"count", 42U}}};
  const Json told = Node(OverviewHost(), {event})["events"];
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0]["time"], "2023-11-14T22:13:20.500Z");
  EXPECT_EQ(told[0]["kind"], "memory_refused");
  EXPECT_EQ(told[0]["count"], 42);
  EXPECT_EQ(told[0]["sentence"], SentenceOf(event));
}

TEST(Overview, CutsAndReplacesTheTextOfTenants) {
  Snapshot host = OverviewHost();
  host.containers[0].status.name = "<b>\"}\n\x1b[31m\xff";
  host.containers[0].pod_name = std::string(1000, 'q');
  const Event event{1, "started", {{"name", "a\x1b[31m\xff"}}};
  const std::string text = RenderOverview(host, {event}, kTime);
  EXPECT_THAT(text, Not(HasSubstr("\\u001b")));
  const Json node = Json::parse(text)["nodes"][0];
  EXPECT_EQ(node["containers"][0]["name"], "<b>\"}\xEF\xBF\xBD\xEF\xBF\xBD[31m\xEF\xBF\xBD");
  EXPECT_EQ(node["containers"][0]["pod"], std::string(256, 'q'));
  EXPECT_EQ(node["events"][0]["name"], "a\xEF\xBF\xBD[31m\xEF\xBF\xBD");
}

}  // namespace
}  // namespace cgpu::exporter
