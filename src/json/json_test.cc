#include "json/json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
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

TEST(JsonMembers, AreReadWhateverTheValueIs) {
  const auto json = ParseJson(R"({"a": {"b": "text"}, "number": 1, "nothing": null})");
  EXPECT_EQ(TextAt(At(json, "a"), "b"), "text");
  EXPECT_EQ(At(json, "number"), 1);
  EXPECT_EQ(TextAt(json, "number"), "");
  for (const char* const name : {"b", "nothing"}) {
    EXPECT_TRUE(At(json, name).is_null()) << name;
  }
  for (const char* const text : {"[1]", "\"a\"", "null", "no JSON"}) {
    EXPECT_TRUE(At(ParseOrderedJson(text), "a").is_null()) << text;
  }
  EXPECT_EQ(TextAt(At(At(json, "none"), "of"), "these"), "");
}

TEST(Json, CountsValuesOutsideOfStrings) {
  EXPECT_FALSE(HasMoreValues(R"({"a": [1, 2, 3]})", 4));
  EXPECT_TRUE(HasMoreValues(R"({"a": [1, 2, 3]})", 3));
  EXPECT_FALSE(HasMoreValues(R"(["[,{\",,,", "\\"])", 2));
}

}  // namespace
}  // namespace cgpu
