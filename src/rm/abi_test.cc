#include "rm/abi.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace cgpu::rm {
namespace {

TEST(ByBranch, IsItsFirstValueAndThenTheChanges) {
  constexpr ByBranch kFact(7, {{Branch::k550, 8}, {Branch::k590, 0}});
  EXPECT_EQ(kFact.At(Branch::k535), 7U);
  EXPECT_EQ(kFact.At(Branch::k550), 8U);
  EXPECT_EQ(kFact.At(Branch::k580), 8U);
  EXPECT_EQ(kFact.At(Branch::k590), 0U);
  EXPECT_EQ(kFact.At(Branch::k595), 0U);
  EXPECT_EQ(Since(Branch::k570).At(Branch::k550), 0U);
  EXPECT_EQ(Since(Branch::k570).At(Branch::k570), 1U);
  EXPECT_EQ(Until(Branch::k570, 5).At(Branch::k550), 5U);
  EXPECT_EQ(Until(Branch::k570, 5).At(Branch::k570), 0U);
}

TEST(DriverVersion, ParsesWhatTheDriverWrites) {
  EXPECT_EQ(ParseDriverVersion("550.163.01"), (DriverVersion{550, 163, 1}));
  EXPECT_EQ(ParseDriverVersion("580.95.05"), (DriverVersion{580, 95, 5}));
  EXPECT_EQ(ParseDriverVersion("550.67"), (DriverVersion{550, 67, 0}));
}

TEST(DriverVersion, RefusesEverythingElse) {
  for (const char* text : {"", "550", "550.", "550.x", ".5", "550.163.01.2", "550.163.01 ",
                           " 550.163.01", "-550.1", "550.-1", "99999.1", "550..1"}) {
    EXPECT_EQ(ParseDriverVersion(text), std::nullopt) << '"' << text << '"';
  }
}

TEST(DriverVersion, WritesAsTheDriverDoes) {
  for (const char* text : {"550.163.01", "580.95.05", "550.67", "550.40.07", "580.142"}) {
    EXPECT_EQ(ToString(*ParseDriverVersion(text)), text);
  }
}

const Abi* Find(const char* text) {
  return FindAbi(*ParseDriverVersion(text));
}

TEST(FindAbi, KnowsTheCheckedReleasesOfEachBranch) {
  const std::pair<Branch, std::vector<const char*>> releases[] = {
      {Branch::k535, {"535.86.05", "535.104.05", "535.288.01", "535.309.01"}},
      {Branch::k550, {"550.54.14", "550.67", "550.90.12", "550.163.01"}},
      {Branch::k570, {"570.86.15", "570.195.03", "570.211.01"}},
      {Branch::k580, {"580.65.06", "580.95.05", "580.142", "580.159.03", "580.159.04"}},
      {Branch::k590, {"590.44.01", "590.48.01"}},
      {Branch::k595, {"595.44.02", "595.45.04", "595.71.05", "595.80"}},
      {Branch::k610, {"610.43.02", "610.43.03", "610.57.04"}},
  };
  for (const auto& [branch, texts] : releases) {
    for (const char* text : texts) {
      EXPECT_EQ(Find(text), &GetAbi(branch)) << text;
      EXPECT_EQ(NotCompared(text), "") << text;
    }
  }
}

TEST(FindAbi, TakesALaterReleaseAsItsBranchAndSaysSo) {
  const std::pair<const char*, Branch> later[] = {
      {"535.309.02", Branch::k535}, {"550.163.02", Branch::k550}, {"570.211.02", Branch::k570},
      {"580.173.02", Branch::k580}, {"580.178.04", Branch::k580}, {"590.48.02", Branch::k590},
      {"595.84", Branch::k595},     {"595.99.02", Branch::k595},  {"610.57.05", Branch::k610},
  };
  for (const auto& [text, branch] : later) {
    EXPECT_EQ(Find(text), &GetAbi(branch)) << text;
    EXPECT_NE(NotCompared(text).find(text), std::string::npos) << text;
    EXPECT_TRUE(SupportedVersion(text).ok()) << text;
  }
  EXPECT_EQ(NotCompared("580.173.02"),
            "NVIDIA driver 580.173.02 was not compared with NVIDIA's sources; it is taken as "
            "580.159.04, because so late in a branch releases hardly ever change what programs' "
            "calls depend on (docs/reference/drivers.md)");
}

TEST(FindAbi, RefusesTheRest) {
  for (const char* text : {"535.54.03", "545.29.06", "550.40.07", "555.42.02", "560.28.03",
                           "565.77", "570.86.14", "575.64.05", "580.65.05", "590.44", "595.44.01",
                           "600.10", "610.10", "610.43.01", "615.15", "620.06", "0.0"}) {
    EXPECT_EQ(Find(text), nullptr) << text;
    EXPECT_EQ(NotCompared(text), "") << text;
  }
  EXPECT_EQ(NotCompared("driver"), "");
}

TEST(FindAbi, EachBranchHasItsReference) {
  for (const Branch branch : kBranches) {
    const Abi& abi = GetAbi(branch);
    EXPECT_EQ(abi.branch, branch);
    EXPECT_EQ(FindAbi(abi.reference), &abi);
    const auto version = SupportedVersion(abi.name);
    ASSERT_TRUE(version.ok());
    EXPECT_EQ(*version, abi.reference);
  }
}

TEST(SupportedVersion, RefusesWhatIsNotKnown) {
  EXPECT_EQ(*SupportedVersion("580.82.07"), (DriverVersion{580, 82, 7}));
  for (const char* text : {"", "560", "560.35.03", "580.x", "driver"}) {
    EXPECT_FALSE(SupportedVersion(text).ok()) << text;
  }
}

TEST(FindAbi, UnsupportedSaysWhichAreSupported) {
  const Error error = UnsupportedDriver("545.29.06");
  EXPECT_EQ(error.code, Code::kUnsupported);
  EXPECT_NE(error.what.find("545.29.06"), std::string::npos);
  EXPECT_NE(error.hint.find("550.54.14 and later of 550, 570."), std::string::npos);
  EXPECT_EQ(error.what.find("begins a branch"), std::string::npos);
  EXPECT_NE(UnsupportedDriver("615.71.09").what.find("begins a branch"), std::string::npos);
}

}  // namespace
}  // namespace cgpu::rm
