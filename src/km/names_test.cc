#include "km/names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cgpu::km {
namespace {

using testing::ElementsAre;

Reservation Container(const std::string& id, const std::string& name) {
  Reservation reservation;
  reservation.id = id;
  reservation.name = name;
  return reservation;
}

TEST(Names, PathsMeanWhatTheyName) {
  EXPECT_EQ(ParsePath("/")->kind, Kind::kRoot);
  EXPECT_EQ(ParsePath("/version")->kind, Kind::kVersion);
  EXPECT_EQ(ParsePath("/12")->kind, Kind::kCard);
  EXPECT_EQ(ParsePath("/12")->minor, 12U);
  EXPECT_EQ(ParsePath("/0/policy")->kind, Kind::kPolicy);
  EXPECT_EQ(ParsePath("/0/max_inst")->kind, Kind::kMaxInst);
  EXPECT_EQ(ParsePath("/0/memsize")->kind, Kind::kContainer) << "a container can be named so";
  const auto file = ParsePath("/3/train-1/memsize");
  ASSERT_TRUE(file);
  EXPECT_EQ(file->kind, Kind::kMemsize);
  EXPECT_EQ(file->minor, 3U);
  EXPECT_EQ(file->container, "train-1");
  EXPECT_EQ(ParsePath("/3/a/id")->kind, Kind::kId);
  EXPECT_EQ(ParsePath("/3/a/meminfo")->kind, Kind::kMeminfo);
}

TEST(Names, OtherPathsMeanNothing) {
  for (const char* path : {"", "0", "/x", "/-1", "/00", "/0x0", "/+1", "/4294967296", "/version/x",
                           "/0/policy/x", "/0/a/b", "/0/a/id/b", "/0/a/", "//", "/0//id"}) {
    const auto place = ParsePath(path);
    EXPECT_TRUE(!place || place->container.empty()) << path;
    EXPECT_TRUE(!place || place->kind == Kind::kId) << path;
  }
}

TEST(Names, EveryContainerHasAFolderOfItsOwn) {
  EXPECT_THAT(FolderNames({Container("000000000001", "b"), Container("000000000002", "a")}),
              ElementsAre("b", "a"));
  EXPECT_THAT(
      FolderNames({Container("000000000001", "policy"), Container("000000000002", "max_inst")}),
      ElementsAre("000000000001", "000000000002"));
  EXPECT_THAT(
      FolderNames({Container("000000000001", "policy"), Container("000000000002", "000000000001")}),
      ElementsAre("000000000001.policy", "000000000001"));
}

TEST(Names, MeminfoIsInBytes) {
  EXPECT_EQ(MeminfoText({100, 70, {{7, 20}, {4711, 40}}}),
            "Free: 30\nPID: 7 Mem: 20\nPID: 4711 Mem: 40\n");
  EXPECT_EQ(MeminfoText({100, 101, {}}), "Free: 0\n");
}

TEST(Names, ValuesAreWholeNumbers) {
  EXPECT_EQ(ParseValue("5"), 5U);
  EXPECT_EQ(ParseValue("18446744073709551615\n"), 18446744073709551615U);
  for (const char* text : {"", "\n", "5\n\n", " 5", "5 ", "-5", "+5", "5x", "4GiB", "0x5", "5.0",
                           "18446744073709551616"}) {
    EXPECT_EQ(ParseValue(text), std::nullopt) << text;
  }
  EXPECT_EQ(ParseValue(std::string_view("5\0", 2)), std::nullopt);
}

}  // namespace
}  // namespace cgpu::km
