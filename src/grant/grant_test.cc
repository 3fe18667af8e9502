#include "grant/grant.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace cgpu {
namespace {

using testing::HasSubstr;
using Kind = MemoryRequest::Kind;
constexpr std::uint64_t kMib = std::uint64_t{1} << 20;

Gpu MakeGpu(unsigned index, std::uint64_t mib, const std::string& uuid = "GPU-0") {
  Gpu gpu;
  gpu.index = index;
  gpu.minor = index;
  gpu.uuid = uuid;
  gpu.model = "Tesla V100-SXM2-16GB";
  gpu.memory_bytes = mib * kMib;
  return gpu;
}

std::vector<Gpu> Node() {
  return {MakeGpu(0, 16160, "GPU-3f2a0000-0000-0000-0000-000000000001"),
          MakeGpu(1, 16160, "GPU-3f2b0000-0000-0000-0000-000000000002"),
          MakeGpu(2, 16160, "GPU-77770000-0000-0000-0000-000000000003")};
}

ResourceRequest Ask(const std::string& gpus, const MemoryRequest& memory) {
  return {{*ParseGpus(gpus)}, {memory}};
}

MemoryRequest Size(const std::string& text) {
  return *ParseSize(text);
}

// The published outputs: physical MiB, units of the container on the GPU, MiB that it sees.
TEST(LimitOnGpu, GivesThePublishedOutputsToTheMib) {
  struct Case {
    std::uint64_t mib, units, of, sees;
  };
  constexpr Case kCases[] = {{16160, 4, 15, 4309},
                             {16130, 4, 15, 4301},
                             {16130, 2, 15, 2150},
                             {23028, 8, 22, 8373},
                             {15360, 3, 15, 3072}};
  for (const Case& c : kCases) {
    const Gpu gpu = MakeGpu(0, c.mib);
    EXPECT_EQ(UnitsOf(gpu), c.of);
    EXPECT_EQ(*LimitOnGpu({Kind::kUnits, c.units, 0}, gpu, 1), c.sees * kMib);
    EXPECT_EQ(*LimitOnGpu({Kind::kUnits, 2 * c.units, 0}, gpu, 2), c.sees * kMib);
    EXPECT_EQ(*LimitOnGpu({Kind::kFraction, c.units, c.of}, gpu, 1), c.sees * kMib);
  }
}

TEST(LimitOnGpu, WholeGpuSizesAndPercentages) {
  const Gpu gpu = MakeGpu(0, 16160);
  EXPECT_EQ(*LimitOnGpu({}, gpu, 1), 16160 * kMib);
  EXPECT_EQ(*LimitOnGpu(Size("16160"), gpu, 1), 16160 * kMib);
  EXPECT_EQ(*LimitOnGpu(Size("4GiB"), gpu, 2), 4096 * kMib);
  EXPECT_EQ(*LimitOnGpu(Size("100%"), gpu, 1), 16160 * kMib);
  EXPECT_EQ(*LimitOnGpu(Size("33%"), gpu, 1), 5332 * kMib);  // 5332.8
  EXPECT_EQ(*LimitOnGpu({Kind::kUnits, 15, 0}, gpu, 1), 16160 * kMib);
}

TEST(LimitOnGpu, RefusesWhatTheGpuDoesNotHave) {
  const Gpu gpu = MakeGpu(0, 16160);
  const auto over = LimitOnGpu(Size("16161"), gpu, 1);
  EXPECT_EQ(over.error().code, Code::kExhausted);
  EXPECT_THAT(over.error().what, HasSubstr("16161 MiB asked on GPU 0"));
  EXPECT_THAT(over.error().what, HasSubstr("16160 MiB"));
  EXPECT_FALSE(LimitOnGpu(Size("1099511627776"), gpu, 1).ok());
  const auto units = LimitOnGpu({Kind::kUnits, 16, 0}, gpu, 1);
  EXPECT_THAT(units.error().what, HasSubstr("16 units asked on GPU 0"));
  EXPECT_THAT(units.error().what, HasSubstr("has 15"));
}

TEST(LimitOnGpu, RefusesUnitsThatDoNotDivide) {
  const auto odd = LimitOnGpu({Kind::kUnits, 7, 0}, MakeGpu(0, 16160), 2);
  ASSERT_FALSE(odd.ok());
  EXPECT_EQ(odd.error().code, Code::kInvalid);
  EXPECT_THAT(odd.error().what, HasSubstr("7 units cannot be divided evenly over 2 GPUs"));
}

TEST(LimitOnGpu, RefusesNothing) {
  EXPECT_FALSE(LimitOnGpu({Kind::kFraction, 1, 1 << 20}, MakeGpu(0, 16160), 1).ok());
  EXPECT_FALSE(LimitOnGpu({Kind::kPercent, 1, 0}, MakeGpu(0, 50), 1).ok());
  EXPECT_FALSE(LimitOnGpu({}, MakeGpu(0, 0), 1).ok());
}

std::vector<unsigned> Indices(const Result<std::vector<Gpu>>& gpus) {
  std::vector<unsigned> indices;
  if (gpus.ok()) {
    for (const Gpu& gpu : gpus.value()) {
      indices.push_back(gpu.index);
    }
  }
  return indices;
}

TEST(SelectGpus, TakesIndicesUuidsAndPrefixesInTheOrderGiven) {
  using testing::ElementsAre;
  const auto select = [](const std::string& text) {
    return Indices(SelectGpus(*ParseGpus(text), Node()));
  };
  EXPECT_THAT(select("all"), ElementsAre(0, 1, 2));
  EXPECT_THAT(select("2"), ElementsAre(0, 1));
  EXPECT_THAT(select("device=2,0"), ElementsAre(2, 0));
  EXPECT_THAT(select("device=GPU-3f2b0000-0000-0000-0000-000000000002"), ElementsAre(1));
  EXPECT_THAT(select("device=GPU-3f2b"), ElementsAre(1));
  EXPECT_THAT(select("device=3F2B,0"), ElementsAre(1, 0));
  // Digits alone are always an index, never a UUID's beginning.
  EXPECT_THAT(select("device=7777"), ElementsAre());
  EXPECT_THAT(select("device=GPU-7"), ElementsAre(2));
}

TEST(SelectGpus, RefusesUnknownDuplicateAndAmbiguous) {
  struct Case {
    const char* gpus;
    Code code;
    const char* says;
  };
  constexpr Case kCases[] = {
      {"device=3", Code::kNotFound, "there is no GPU 3"},
      {"device=99999999999999999999", Code::kNotFound, "there is no GPU 9999"},
      {"device=GPU-aaaa", Code::kNotFound, "no GPU with the UUID GPU-aaaa"},
      {"device=GPU-", Code::kNotFound, "no GPU with the UUID"},
      {"device=0,0", Code::kInvalid, "GPU 0 (Tesla V100-SXM2-16GB) is named twice"},
      {"device=1,GPU-3f2b", Code::kInvalid, "GPU 1 (Tesla V100-SXM2-16GB) is named twice"},
      {"device=GPU-3f2", Code::kInvalid, "is ambiguous"},
      {"4", Code::kNotFound, "4 GPUs asked"},
  };
  for (const Case& c : kCases) {
    const auto gpus = SelectGpus(*ParseGpus(c.gpus), Node());
    ASSERT_FALSE(gpus.ok()) << c.gpus;
    EXPECT_EQ(gpus.error().code, c.code) << c.gpus;
    EXPECT_THAT(gpus.error().what, HasSubstr(c.says)) << c.gpus;
    EXPECT_FALSE(gpus.error().hint.empty()) << c.gpus;
  }
  EXPECT_EQ(SelectGpus(GpuRequest{}, {}).error().code, Code::kNotFound);
}

TEST(FitsOnGpu, SaysWhatIsFree) {
  const Gpu gpu = MakeGpu(1, 16160);
  EXPECT_TRUE(FitsOnGpu(gpu, 12000 * kMib, 4160 * kMib).ok());
  const auto fits = FitsOnGpu(gpu, 12000 * kMib, 4161 * kMib);
  ASSERT_FALSE(fits.ok());
  EXPECT_EQ(fits.error().code, Code::kExhausted);
  EXPECT_THAT(fits.error().what, HasSubstr("4161 MiB asked on GPU 1"));
  EXPECT_THAT(fits.error().what, HasSubstr("4160 MiB of 16160 MiB are free"));
  EXPECT_THAT(fits.error().hint, HasSubstr("at most 4160 MiB"));
  EXPECT_FALSE(FitsOnGpu(gpu, 99999 * kMib, 1).ok());
  EXPECT_FALSE(FitsOnGpu(gpu, 1, ~std::uint64_t{0}).ok());
}

TEST(MakeGrant, EightUnitsOverTwoGpus) {
  const auto grant = MakeGrant(Ask("2", {Kind::kUnits, 8, 0}), Node(), {{}, {}, {}});
  ASSERT_TRUE(grant.ok());
  ASSERT_EQ(grant.value().gpus.size(), 2U);
  for (const GpuGrant& granted : grant.value().gpus) {
    EXPECT_EQ(granted.limit_bytes, 4309 * kMib);
  }
}

TEST(MakeGrant, ByDefaultAllGpusWhole) {
  const auto grant = MakeGrant({}, Node(), {{}, {}, {}});
  ASSERT_TRUE(grant.ok());
  ASSERT_EQ(grant.value().gpus.size(), 3U);
  EXPECT_EQ(grant.value().gpus[2].limit_bytes, 16160 * kMib);
  EXPECT_FALSE(MakeGrant({}, Node(), {{}, {}, {1}}).ok());
}

TEST(MakeGrant, ACountTakesTheFirstGpusWithRoom) {
  const std::vector<GpuUse> granted{{10000 * kMib}, {}, {}};
  const auto grant = MakeGrant(Ask("2", Size("8GiB")), Node(), granted);
  ASSERT_TRUE(grant.ok());
  EXPECT_EQ(grant.value().gpus[0].gpu.index, 1U);
  EXPECT_EQ(grant.value().gpus[1].gpu.index, 2U);
  const auto none = MakeGrant(Ask("3", Size("8GiB")), Node(), granted);
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.error().what, HasSubstr("on GPU 0"));
  EXPECT_THAT(none.error().what, HasSubstr("6160 MiB of 16160 MiB are free"));
}

TEST(MakeGrant, ANamedGpuIsTheGpuMeant) {
  const std::vector<GpuUse> granted{{10000 * kMib}, {}, {}};
  EXPECT_FALSE(MakeGrant(Ask("device=0", Size("8GiB")), Node(), granted).ok());
  EXPECT_FALSE(MakeGrant(Ask("all", Size("8GiB")), Node(), granted).ok());
}

TEST(MakeGrant, AGpuHasSoManySlicesAndNoMore) {
  const std::vector<GpuUse> uses{{kMib, 2, 2}, {kMib, 1, 2}, {}};
  const auto full = MakeGrant(Ask("device=0", Size("1GiB")), Node(), uses);
  ASSERT_FALSE(full.ok());
  EXPECT_EQ(full.error().code, Code::kExhausted);
  EXPECT_THAT(full.error().what, HasSubstr("GPU 0 (Tesla V100-SXM2-16GB) has 2 slices already"));
  EXPECT_THAT(full.error().what, HasSubstr("max_inst is 2"));
  EXPECT_THAT(full.error().hint, HasSubstr("max_inst"));
  EXPECT_TRUE(MakeGrant(Ask("device=1", Size("1GiB")), Node(), uses).ok());
  const auto counted = MakeGrant(Ask("2", Size("1GiB")), Node(), uses);
  ASSERT_TRUE(counted.ok()) << "a count passes the full GPU over";
  EXPECT_EQ(counted->gpus[0].gpu.index, 1U);
  EXPECT_FALSE(MakeGrant(Ask("all", Size("1GiB")), Node(), uses).ok());
  ResourceRequest whole = Ask("device=2", Size("1GiB"));
  whole.whole = *ParseDeviceList("1");
  EXPECT_FALSE(MakeGrant(whole, Node(), {{}, {0, 1, 1}, {}}).ok());
}

TEST(MakeGrant, TwoRequestsMustAgree) {
  ResourceRequest request;
  request.gpus = {*ParseGpus("device=0"), *ParseGpus("device=GPU-3f2a")};
  request.memory = {{Kind::kFraction, 4, 15}, Size("4309MiB")};
  EXPECT_TRUE(MakeGrant(request, Node(), {{}, {}, {}}).ok());
  request.memory[1] = Size("4310MiB");
  const auto memory = MakeGrant(request, Node(), {{}, {}, {}});
  EXPECT_EQ(memory.error().code, Code::kConflict);
  EXPECT_THAT(memory.error().what, HasSubstr("4309 MiB and 4310 MiB"));
  request.memory.pop_back();
  request.gpus[1] = *ParseGpus("device=1");
  EXPECT_EQ(MakeGrant(request, Node(), {{}, {}, {}}).error().code, Code::kConflict);
}

TEST(MakeGrant, GivesOtherGpusWhole) {
  ResourceRequest request = Ask("device=2", Size("4GiB"));
  request.whole = *ParseDeviceList("2,0");
  const auto grant = MakeGrant(request, Node(), {{}, {}, {}});
  ASSERT_TRUE(grant.ok()) << grant.error().what;
  ASSERT_EQ(grant->gpus.size(), 2U);
  EXPECT_EQ(grant->gpus[0].gpu.index, 0U);
  EXPECT_EQ(grant->gpus[0].limit_bytes, 16160 * kMib);
  EXPECT_EQ(grant->gpus[1].gpu.index, 2U);
  EXPECT_EQ(grant->gpus[1].limit_bytes, 4096 * kMib);
  const auto taken = MakeGrant(request, Node(), {{kMib}, {}, {}});
  ASSERT_FALSE(taken.ok()) << "somebody has a part of GPU 0";
  EXPECT_EQ(taken.error().code, Code::kExhausted);
  request.whole = *ParseDeviceList("7");
  EXPECT_EQ(MakeGrant(request, Node(), {{}, {}, {}}).error().code, Code::kNotFound);
}

}  // namespace
}  // namespace cgpu
