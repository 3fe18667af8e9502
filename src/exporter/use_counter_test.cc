#include "exporter/use_counter.h"

#include <gtest/gtest.h>

#include <string>

namespace cgpu::exporter {
namespace {

using governor::Meter;

constexpr char kGpu[] = "GPU-1";
constexpr std::uint64_t kSecondNs = 1'000'000'000;

// Owners by process; one that is not in the list has ended.
UseCounter::Whose Are(std::map<std::uint32_t, std::string> owners) {
  return [owners](std::uint32_t pid) {
    const auto owner = owners.find(pid);
    return owner == owners.end() ? std::nullopt : std::optional(owner->second);
  };
}

Meter::Use UseOf(std::map<std::uint32_t, Meter::Part> parts, std::uint64_t span_ns = kSecondNs) {
  return {span_ns, std::move(parts)};
}

double Sum(const CardSeconds& card) {
  double sum = card.unmanaged;
  for (const auto& [id, used] : card.containers) {
    sum += used.busy;
  }
  return sum;
}

TEST(UseCounter, AddsUpSecondsByContainer) {
  UseCounter counter;
  const auto whose = Are({{1, "a"}, {2, "b"}, {3, "a"}});
  counter.Add(kGpu, UseOf({{1, {0.25, 0.5, 0}}, {2, {0.5, 0.125, 0}}}, 2 * kSecondNs), whose);
  counter.Add(kGpu, UseOf({{3, {0.75, 0, 0}}}), whose);
  const CardSeconds& card = counter.cards().at(kGpu);
  EXPECT_DOUBLE_EQ(card.containers.at("a").busy, 1.25);
  EXPECT_DOUBLE_EQ(card.containers.at("a").waiting, 1);
  EXPECT_DOUBLE_EQ(card.containers.at("b").busy, 1);
  EXPECT_DOUBLE_EQ(card.containers.at("b").waiting, 0.25);
  EXPECT_DOUBLE_EQ(card.busy, Sum(card));
}

TEST(UseCounter, TellsUnmanagedProcessesAndGpusApart) {
  UseCounter counter;
  counter.Add(kGpu, UseOf({{1, {0.25, 0, 0}}, {2, {0.5, 0, 0}}}), Are({{1, "a"}, {2, ""}}));
  counter.Add("GPU-2", UseOf({{1, {1, 0, 0}}}), Are({{1, "a"}}));
  EXPECT_DOUBLE_EQ(counter.cards().at(kGpu).unmanaged, 0.5);
  EXPECT_DOUBLE_EQ(counter.cards().at(kGpu).busy, 0.75);
  EXPECT_DOUBLE_EQ(counter.cards().at("GPU-2").unmanaged, 0);
  EXPECT_DOUBLE_EQ(counter.cards().at("GPU-2").containers.at("a").busy, 1);
}

// The last use of a process is often read after its end.
TEST(UseCounter, RemembersTheOwnerOfAProcessThatHasEnded) {
  UseCounter counter;
  counter.Add(kGpu, UseOf({{1, {0.5, 0, 0}}, {2, {0.25, 0, 0}}}), Are({{1, "a"}, {2, ""}}));
  counter.Add(kGpu, UseOf({{1, {0.5, 0, 0}}, {2, {0.25, 0, 0}}}), Are({}));
  EXPECT_DOUBLE_EQ(counter.cards().at(kGpu).containers.at("a").busy, 1);
  EXPECT_DOUBLE_EQ(counter.cards().at(kGpu).unmanaged, 0.5);
  // Nobody knows whose it was, or its container has ended: the GPU was busy all the same.
  counter.Add(kGpu, UseOf({{3, {1, 0, 0}}, {4, {1, 0, 0}}}), Are({{4, UseCounter::kEnded}}));
  EXPECT_DOUBLE_EQ(counter.cards().at(kGpu).busy, 3.5);
  EXPECT_DOUBLE_EQ(Sum(counter.cards().at(kGpu)), 1.5);
}

TEST(UseCounter, ForgetsContainersThatHaveEnded) {
  UseCounter counter;
  for (std::uint32_t pid = 1; pid <= 10'000; ++pid) {
    const std::string id = std::to_string(pid);
    counter.Add(kGpu, UseOf({{pid, {0.5, 0, 0}}}), Are({{pid, id}}));
    counter.Keep({id});
    ASSERT_EQ(counter.cards().at(kGpu).containers.size(), 1U);
  }
  counter.Keep({});
  EXPECT_TRUE(counter.cards().at(kGpu).containers.empty());
  EXPECT_DOUBLE_EQ(counter.cards().at(kGpu).busy, 5'000);
  // A process that comes to have the number of one that has ended is not taken for it.
  counter.Add(kGpu, UseOf({{1, {1, 0, 0}}}), Are({}));
  EXPECT_TRUE(counter.cards().at(kGpu).containers.empty());
}

}  // namespace
}  // namespace cgpu::exporter
