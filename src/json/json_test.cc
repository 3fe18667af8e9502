#include "json/json.h"

#include <gtest/gtest.h>

#include <string>

namespace cgpu {
namespace {

TEST(JsonDepth, CountsWhatLiesInEachOther) {
  EXPECT_FALSE(NestsDeeper("", 0));
  EXPECT_FALSE(NestsDeeper(R"({"a": [1, {"b": []}], "c": {}})", 4));
  EXPECT_TRUE(NestsDeeper(R"({"a": [1, {"b": []}], "c": {}})", 3));
  EXPECT_FALSE(NestsDeeper(R"(["[[[[", "\"[[[["])", 1));
  EXPECT_TRUE(NestsDeeper(std::string(100, '['), 99));
}

}  // namespace
}  // namespace cgpu
