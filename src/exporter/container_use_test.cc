#include "exporter/container_use.h"

#include <gtest/gtest.h>

#include <string>

#include "exporter/sample_testing.h"

namespace cgpu::exporter {
namespace {

// Owners by process; one that is not in the list has ended.
ContainerUse::Whose Are(std::map<std::uint32_t, std::string> owners) {
  return [owners](std::uint32_t pid) {
    const auto owner = owners.find(pid);
    return owner == owners.end() ? std::nullopt : std::optional(owner->second);
  };
}

double Sum(const GpuSeconds& gpu) {
  double sum = gpu.unmanaged;
  for (const auto& [id, used] : gpu.containers) {
    sum += used.busy;
  }
  return sum;
}

TEST(ContainerUse, AddsUpSecondsByContainer) {
  ContainerUse counter;
  const auto whose = Are({{1, "a"}, {2, "b"}, {3, "a"}});
  counter.Add(kGpu, {{1, {0.5, 1}}, {2, {1, 0.25}}}, whose);
  counter.Add(kGpu, {{3, {0.75, 0}}}, whose);
  const GpuSeconds& gpu = counter.gpus().at(kGpu);
  EXPECT_DOUBLE_EQ(gpu.containers.at("a").busy, 1.25);
  EXPECT_DOUBLE_EQ(gpu.containers.at("a").waiting, 1);
  EXPECT_DOUBLE_EQ(gpu.containers.at("b").busy, 1);
  EXPECT_DOUBLE_EQ(gpu.containers.at("b").waiting, 0.25);
  EXPECT_DOUBLE_EQ(gpu.busy, Sum(gpu));
  EXPECT_DOUBLE_EQ(gpu.counted, 0);
  counter.AddTime(kGpu, 1.5);
  counter.AddTime(kGpu, 0.5);
  EXPECT_DOUBLE_EQ(gpu.counted, 2);
}

TEST(ContainerUse, TellsUnmanagedProcessesAndGpusApart) {
  ContainerUse counter;
  counter.Add(kGpu, {{1, {0.25, 0}}, {2, {0.5, 0}}}, Are({{1, "a"}, {2, ""}}));
  counter.Add("GPU-2", {{1, {1, 0}}}, Are({{1, "a"}}));
  EXPECT_DOUBLE_EQ(counter.gpus().at(kGpu).unmanaged, 0.5);
  EXPECT_DOUBLE_EQ(counter.gpus().at(kGpu).busy, 0.75);
  EXPECT_DOUBLE_EQ(counter.gpus().at("GPU-2").unmanaged, 0);
  EXPECT_DOUBLE_EQ(counter.gpus().at("GPU-2").containers.at("a").busy, 1);
}

// The last use of a process is often read after its end.
TEST(ContainerUse, RemembersTheOwnerOfAProcessThatHasEnded) {
  ContainerUse counter;
  counter.Add(kGpu, {{1, {0.5, 0}}, {2, {0.25, 0}}}, Are({{1, "a"}, {2, ""}}));
  counter.Add(kGpu, {{1, {0.5, 0}}, {2, {0.25, 0}}}, Are({}));
  EXPECT_DOUBLE_EQ(counter.gpus().at(kGpu).containers.at("a").busy, 1);
  EXPECT_DOUBLE_EQ(counter.gpus().at(kGpu).unmanaged, 0.5);
  counter.Keep({"a"});
  counter.Add(kGpu, {{1, {0.5, 0}}, {2, {0.25, 0}}}, Are({}));
  EXPECT_DOUBLE_EQ(counter.gpus().at(kGpu).containers.at("a").busy, 1.5);
  EXPECT_DOUBLE_EQ(counter.gpus().at(kGpu).unmanaged, 0.75);
  // Nobody knows whose it was, or its container has ended: the GPU was busy all the same.
  counter.Add(kGpu, {{3, {1, 0}}, {4, {1, 0}}}, Are({{4, ContainerUse::kEnded}}));
  EXPECT_DOUBLE_EQ(counter.gpus().at(kGpu).busy, 4.25);
  EXPECT_DOUBLE_EQ(Sum(counter.gpus().at(kGpu)), 2.25);
}

TEST(ContainerUse, ForgetsContainersThatHaveEnded) {
  ContainerUse counter;
  for (std::uint32_t pid = 1; pid <= 10'000; ++pid) {
    const std::string id = std::to_string(pid);
    counter.Add(kGpu, {{pid, {0.5, 0}}}, Are({{pid, id}}));
    counter.Keep({id});
    ASSERT_EQ(counter.gpus().at(kGpu).containers.size(), 1U);
  }
  counter.Keep({});
  EXPECT_TRUE(counter.gpus().at(kGpu).containers.empty());
  EXPECT_DOUBLE_EQ(counter.gpus().at(kGpu).busy, 5'000);
  // A process that comes to have the number of one that has ended is not taken for it.
  counter.Add(kGpu, {{1, {1, 0}}}, Are({}));
  EXPECT_TRUE(counter.gpus().at(kGpu).containers.empty());
}

}  // namespace
}  // namespace cgpu::exporter
