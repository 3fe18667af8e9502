#include "exporter/dcgm.h"

#include <gmock/gmock.h>

#include <string>

namespace cgpu::exporter {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr std::uint64_t kMib = 1U << 20;

Snapshot DcgmHost() {
  Snapshot host;
  host.host_name = "node-1";
  host.before_seconds = 2;
  GpuSample gpu;
  gpu.uuid = "GPU-1";
  gpu.index = 1;
  gpu.minor = 3;
  gpu.model = "Tesla T4";
  gpu.pci = "0000:0a:00.0";
  gpu.total_bytes = 16'000 * kMib;
  gpu.memory = GpuMemory{1000 * kMib, 15'000 * kMib, 0, 0};
  gpu.seconds.busy = 5;
  gpu.before.busy = 4;
  gpu.seconds.containers["a"] = {3, 0};
  gpu.before.containers["a"] = {2.5, 0};
  host.gpus.push_back(gpu);
  return host;
}

void AddContainer(Snapshot& host) {
  ContainerSample container;
  container.status.id = "a";
  container.status.pod = "0a-1b";
  container.status.container = "main";
  container.name_space = "ml";
  container.pod_name = "train-0";
  GpuStatus slice;
  slice.uuid = "GPU-1";
  slice.limit_bytes = 4000 * kMib;
  slice.used_bytes = 300 * kMib;
  container.status.gpus.push_back(slice);
  host.containers.push_back(container);
  host.gpus[0].slices = 1;
  host.gpus[0].granted_bytes = 4000 * kMib;
}

std::string Text(const Snapshot& host) {
  Families families;
  AddDcgm(host, families);
  return families.TakeText();
}

constexpr char kGpuLabels[] =
    "gpu=\"1\",UUID=\"GPU-1\",pci_bus_id=\"00000000:0A:00.0\",device=\"nvidia3\","
    "modelName=\"Tesla T4\",Hostname=\"node-1\"";

TEST(Dcgm, HasTheFiguresOfAGpuWithoutContainers) {
  const std::string text = Text(DcgmHost());
  EXPECT_THAT(text, HasSubstr(std::string("DCGM_FI_DEV_GPU_UTIL{") + kGpuLabels + "} 50\n"));
  EXPECT_THAT(text, HasSubstr(std::string("DCGM_FI_DEV_FB_USED{") + kGpuLabels + "} 1000\n"));
  EXPECT_THAT(text, HasSubstr(std::string("DCGM_FI_DEV_FB_FREE{") + kGpuLabels + "} 15000\n"));
  EXPECT_THAT(text, HasSubstr("DCGM_CUSTOM_ALLOCATE_MODE 0\n"));
}

TEST(Dcgm, HasTheFiguresOfEachPod) {
  Snapshot host = DcgmHost();
  AddContainer(host);
  const std::string text = Text(host);
  const std::string labels = std::string("{") + kGpuLabels +
                             ",container=\"main\",namespace=\"ml\",pod=\"train-0\","
                             "pod_uid=\"0a-1b\"} ";
  EXPECT_THAT(text, HasSubstr("DCGM_FI_DEV_GPU_UTIL" + labels + "25\n"));
  EXPECT_THAT(text, HasSubstr("DCGM_FI_DEV_FB_USED" + labels + "300\n"));
  EXPECT_THAT(text, HasSubstr("DCGM_FI_DEV_FB_FREE" + labels + "3700\n"));
  // Sums over a GPU's series count nothing twice.
  EXPECT_THAT(text, Not(HasSubstr(std::string("DCGM_FI_DEV_FB_USED{") + kGpuLabels + "}")));
  EXPECT_THAT(text, HasSubstr("DCGM_CUSTOM_ALLOCATE_MODE 2\n"));
  EXPECT_THAT(text,
              HasSubstr(std::string("DCGM_CUSTOM_DEV_FB_ALLOCATED{") + kGpuLabels + "} 0.25\n"));
  EXPECT_THAT(
      text, HasSubstr("DCGM_CUSTOM_PROCESS_SM_UTIL{AllocateMode=\"share\",ContainerName=\"main\","
                      "NamespaceName=\"ml\",NodeName=\"node-1\",PodName=\"train-0\","
                      "UUID=\"GPU-1\",device=\"nvidia3\",gpu=\"1\",modelName=\"Tesla T4\"} 25\n"));
}

TEST(Dcgm, LeavesOutASilentShim) {
  Snapshot host = DcgmHost();
  AddContainer(host);
  host.containers[0].answers = false;
  EXPECT_THAT(Text(host), Not(HasSubstr("DCGM_FI_DEV_FB_USED{")));
}

}  // namespace
}  // namespace cgpu::exporter
