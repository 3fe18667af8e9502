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
      {Branch::k535, {"535.86.05", "535.104.05", "535.288.01"}},
      {Branch::k550, {"550.54.14", "550.67", "550.90.12", "550.163.01"}},
      {Branch::k570, {"570.86.15", "570.195.03", "570.211.01"}},
      {Branch::k580, {"580.65.06", "580.95.05", "580.126.20", "580.142"}},
      {Branch::k590, {"590.44.01", "590.48.01"}},
      {Branch::k595, {"595.44.02", "595.45.04"}},
  };
  for (const auto& [branch, texts] : releases) {
    for (const char* text : texts) {
      EXPECT_EQ(Find(text), &GetAbi(branch)) << text;
    }
  }
}

TEST(FindAbi, RefusesTheRest) {
  for (const char* text : {"535.54.03", "535.288.02", "545.29.06", "550.40.07", "550.163.02",
                           "555.42.02", "560.28.03", "565.77", "570.211.02", "575.64.05",
                           "580.65.05", "580.142.01", "590.48.02", "595.45.05", "610.10", "0.0"}) {
    EXPECT_EQ(Find(text), nullptr) << text;
  }
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
  EXPECT_NE(error.hint.find("550.54.14 to 550.163.01, 570."), std::string::npos);
}

}  // namespace
}  // namespace cgpu::rm
