#include "base/rfc3339.h"

#include <gtest/gtest.h>

namespace cgpu {
namespace {

// `date --utc --date @SECONDS` said the texts.
TEST(Rfc3339, WritesSecondsInUtc) {
  EXPECT_EQ(Rfc3339(0), "1970-01-01T00:00:00Z");
  EXPECT_EQ(Rfc3339(951'782'400), "2000-02-29T00:00:00Z");
  EXPECT_EQ(Rfc3339(1'767'225'599), "2025-12-31T23:59:59Z");
}

TEST(Rfc3339, WritesThreeDigitsOfMilliseconds) {
  EXPECT_EQ(Rfc3339Ms(0), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(Rfc3339Ms(1'767'225'599'007), "2025-12-31T23:59:59.007Z");
  EXPECT_EQ(Rfc3339Ms(1'767'225'599'999), "2025-12-31T23:59:59.999Z");
}

}  // namespace
}  // namespace cgpu
