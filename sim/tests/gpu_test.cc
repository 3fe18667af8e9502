#include "sim/model/gpu.h"

#include <gtest/gtest.h>

#include "rm/nv_classes.h"
#include "sim/tests/process.h"

namespace cgpu::sim {
namespace {

Result<> Check(const std::string& spec, unsigned major, unsigned minor, unsigned patch) {
  return CheckDriver(ParseGpus(spec, "n").value(), {major, minor, patch});
}

TEST(Gpus, HaveTheirPublishedTotals) {
  const std::pair<const char*, rm::NvU64> kTotals[] = {
      {"v100-16g", 16160}, {"t4", 15360},    {"a10", 23028}, {"a100-80g", 81920},
      {"h100", 81559},     {"h200", 143771}, {"l4", 23034},  {"b200", 183359}};
  for (const auto& [key, mib] : kTotals) {
    const auto gpus = ParseGpus(key, "n");
    ASSERT_TRUE(gpus.ok()) << key;
    EXPECT_EQ(mib * kMiB, gpus->front().memory_bytes) << key;
  }
}

TEST(Gpus, AreDrivenByTheReleasesThatListThem) {
  EXPECT_TRUE(Check("v100-16g,t4,a10,a100-80g,h100", 550, 40, 7).ok());
  EXPECT_TRUE(Check("v100-16g,h200", 580, 95, 5).ok());
  EXPECT_TRUE(Check("h200", 550, 90, 7).ok());
  EXPECT_FALSE(Check("t4,h200", 550, 78, 0).ok());
  EXPECT_FALSE(Check("h200", 535, 288, 1).ok());
  EXPECT_FALSE(Check("v100-16g", 595, 45, 4).ok());
  EXPECT_TRUE(Check("t4,h200,l4,b200", 595, 45, 4).ok());
  EXPECT_TRUE(Check("l4", 535, 54, 3).ok());
  EXPECT_FALSE(Check("b200", 550, 163, 1).ok());
}

TEST(Gpus, MakeObjectsOfTheirOwnClassesAlone) {
  const auto driver = MakeDriver("a100-80g,h100");
  Process a100(*driver, 100, 0);
  Process h100(*driver, 101, 1);
  rm::NvHandle handle = 0;
  EXPECT_EQ(rm::NV_OK, a100.TryAllocPlain(a100.subdevice, rm::AMPERE_USERMODE_A, &handle));
  EXPECT_EQ(rm::NV_OK, a100.TryAllocPlain(a100.subdevice, rm::TURING_USERMODE_A, &handle));
  EXPECT_EQ(rm::NV_ERR_INVALID_CLASS,
            a100.TryAllocPlain(a100.subdevice, rm::HOPPER_USERMODE_A, &handle));
  EXPECT_EQ(rm::NV_OK, h100.TryAllocPlain(h100.subdevice, rm::HOPPER_USERMODE_A, &handle));
}

}  // namespace
}  // namespace cgpu::sim
