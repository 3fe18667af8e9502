#include "rmclient/readings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cgpu::rmclient {
namespace {

using testing::ElementsAre;
using testing::Key;

constexpr std::uint64_t kSecond = 1'000'000'000;

Utilisation Sample(std::uint64_t time_ns, double busy, std::uint32_t pid = 0) {
  Utilisation sample;
  sample.time_ns = time_ns;
  sample.length_ns = kSampleNs;
  sample.busy = busy;
  sample.pid = pid;
  return sample;
}

// Samples without a gap that end at `end_ns`.
std::vector<Utilisation> Samples(std::uint64_t end_ns, std::size_t count, double busy) {
  std::vector<Utilisation> samples;
  for (std::size_t i = count; i-- > 0;) {
    samples.push_back(Sample(end_ns - i * kSampleNs, busy));
  }
  return samples;
}

TEST(UseOf, IsNothingWithoutSamples) {
  EXPECT_EQ(UseOf({}, 100 * kSecond, kUsePeriod).graphics, 0);
}

TEST(UseOf, IsThatOfTheLastPeriod) {
  auto samples = Samples(100 * kSecond, 72, 0.4);
  EXPECT_NEAR(UseOf(samples, 100 * kSecond + 1000, kUsePeriod).graphics, 0.4, 1e-6);
  for (std::size_t i = 0; i < 60; ++i) {
    samples[i].busy = 1;  // more than 1.6 s ago
  }
  EXPECT_NEAR(UseOf(samples, 100 * kSecond + 1000, kUsePeriod).graphics, 0.4, 1e-6);
}

TEST(UseOf, DoesNotCountTheSampleThatIsBeingTaken) {
  const auto samples = Samples(100 * kSecond, 72, 1);
  EXPECT_NEAR(UseOf(samples, 100 * kSecond + kSampleNs * 3 / 2, kUsePeriod).graphics, 1, 1e-6);
}

TEST(UseOf, FallsWhenNothingMoreRuns) {
  const auto samples = Samples(100 * kSecond, 72, 1);
  EXPECT_NEAR(UseOf(samples, 100 * kSecond + kSecond / 2, kUsePeriod).graphics, 0.5, 1e-6);
  EXPECT_EQ(UseOf(samples, 101 * kSecond, kUsePeriod).graphics, 0);
  EXPECT_EQ(UseOf(samples, 101 * kSecond, kUsePeriod).newest_ns, 100 * kSecond);
}

TEST(UseOf, CountsEachEngine) {
  auto samples = Samples(100 * kSecond, 72, 0.1);
  for (Utilisation& sample : samples) {
    sample.memory = 0.2;
    sample.encoder = 0.3;
    sample.decoder = 0.4;
  }
  const Use use = UseOf(samples, 100 * kSecond, kUsePeriod);
  EXPECT_NEAR(use.graphics, 0.1, 1e-6);
  EXPECT_NEAR(use.memory, 0.2, 1e-6);
  EXPECT_NEAR(use.encoder, 0.3, 1e-6);
  EXPECT_NEAR(use.decoder, 0.4, 1e-6);
}

// A sample takes as long as ctrl2080perf.h says, and less than on an H200.
TEST(SetLengths, ByWhatLiesBetween) {
  constexpr std::uint64_t kLength = 138'000'000;
  std::vector<Utilisation> samples;
  for (std::uint64_t i = 1; i <= 72; ++i) {
    samples.push_back(Sample(100 * kSecond + i * kLength + (i > 40 ? 3 * kSecond : 0), 1));
  }
  SetLengths(samples);
  for (const Utilisation& sample : samples) {
    EXPECT_EQ(sample.length_ns, kLength) << "at " << sample.time_ns;
  }
  EXPECT_NEAR(UseOf(samples, samples.back().time_ns + kLength / 2, kUsePeriod).graphics, 1, 1e-6);
  samples[50].time_ns += kLength / 3;
  SetLengths(samples);
  EXPECT_EQ(samples[50].length_ns, kLength * 4 / 3);
  EXPECT_EQ(samples[51].length_ns, kLength * 2 / 3);
}

TEST(SetLengths, TakesTheUsualOneWhereThereIsOneSample) {
  std::vector<Utilisation> samples = {Sample(kSecond, 1)};
  samples[0].length_ns = 0;
  SetLengths(samples);
  EXPECT_EQ(samples[0].length_ns, kSampleNs);
  samples.clear();
  SetLengths(samples);
}

TEST(UseByProcess, CountsASampleForItsProcess) {
  const std::vector<Utilisation> samples = {Sample(10, 1, 7), Sample(20, 0.5, 8), Sample(30, 1, 9),
                                            Sample(40, 0.8, 9), Sample(50, 0)};
  const auto uses = UseByProcess(samples, 10);
  EXPECT_THAT(uses, ElementsAre(Key(8U), Key(9U)));
  EXPECT_NEAR(uses.at(8).graphics, 0.5 / 4, 1e-9);
  EXPECT_NEAR(uses.at(9).graphics, 1.8 / 4, 1e-9);
  EXPECT_EQ(uses.at(9).newest_ns, 40U);
  EXPECT_TRUE(UseByProcess(samples, 50).empty());
}

TEST(UseByProcess, SharesOutSamplesWithoutAProcess) {
  const std::vector<Utilisation> samples = {Sample(10, 0.6, 7), Sample(20, 0.2, 8), Sample(30, 0.8),
                                            Sample(40, 0)};
  const auto uses = UseByProcess(samples, 0);
  EXPECT_NEAR(uses.at(7).graphics, 1.2 / 4, 1e-9);
  EXPECT_NEAR(uses.at(8).graphics, 0.4 / 4, 1e-9);
}

TEST(CudaVersionOf, KnowsTheBranchesOfPublishedReleases) {
  EXPECT_EQ(CudaVersionOf("550.163.01"), 12040);
  EXPECT_EQ(CudaVersionOf("580.65.06"), 13000);
  EXPECT_EQ(CudaVersionOf("123.4"), std::nullopt);
  EXPECT_EQ(CudaVersionOf(""), std::nullopt);
}

}  // namespace
}  // namespace cgpu::rmclient
