#include "rm/abi.h"

#include <gtest/gtest.h>

namespace cgpu::rm {
namespace {

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

TEST(FindAbi, KnowsTheCheckedReleasesOfBothBranches) {
  for (const char* text : {"550.40.07", "550.54.14", "550.67", "550.90.12", "550.163.01"}) {
    EXPECT_EQ(Find(text), &GetAbi(Branch::k550)) << text;
  }
  for (const char* text : {"580.65.06", "580.95.05", "580.126.20", "580.142"}) {
    EXPECT_EQ(Find(text), &GetAbi(Branch::k580)) << text;
  }
}

TEST(FindAbi, RefusesTheRest) {
  for (const char* text :
       {"535.288.01", "545.29.06", "550.40.06", "550.163.02", "555.42.02", "570.195.03",
        "575.64.05", "580.65.05", "580.142.01", "590.48.01", "595.45.04", "0.0", "1000.1"}) {
    EXPECT_EQ(Find(text), nullptr) << text;
  }
}

TEST(FindAbi, UnsupportedSaysWhichAreSupported) {
  const Error error = UnsupportedDriver("535.288.01");
  EXPECT_EQ(error.code, Code::kUnsupported);
  EXPECT_NE(error.what.find("535.288.01"), std::string::npos);
  EXPECT_NE(error.hint.find("550.40.07 to 550.163.01 and 580.65.06 to 580.142"), std::string::npos);
}

}  // namespace
}  // namespace cgpu::rm
