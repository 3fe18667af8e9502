#include "kube/amount.h"

#include <gtest/gtest.h>

namespace cgpu::kube {
namespace {

TEST(Amount, IsAWholeNumber) {
  EXPECT_EQ(*ReadAmount("8", "memory"), 8U);
  EXPECT_EQ(*ReadAmount("\"8\"", "memory"), 8U);
  EXPECT_EQ(*ReadAmount("\"1k\"", "memory"), 1000U);
  EXPECT_EQ(*ReadAmount("\"0\"", "memory"), 0U);
  EXPECT_EQ(*ReadAmount("1000000", "memory"), 1'000'000U);
  EXPECT_EQ(*ReadAmount("\"1000k\"", "memory"), 1'000'000U);
}

TEST(Amount, IsRefusedOtherwise) {
  for (const char* json :
       {"\"1.5\"", "\"500m\"", "\"1Gi\"", "\"\"", "\"k\"", "\"-1\"", "\"8 \"", "-1", "1.5", "true",
        "\"99999999999999999999\"", "\"2000k\"", "1000001", "{}", "[]", "null", ""}) {
    const auto amount = ReadAmount(json, "memory");
    ASSERT_FALSE(amount.ok()) << json;
    EXPECT_EQ(amount.error().what, "memory is " + std::string(json) + ", which is no whole number");
  }
}

}  // namespace
}  // namespace cgpu::kube
