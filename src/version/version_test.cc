#include "version/version.h"

#include <gmock/gmock.h>

namespace cgpu {
namespace {

using testing::MatchesRegex;

TEST(Version, HasALineEach) {
  EXPECT_THAT(
      VersionText("program"),
      MatchesRegex(
          "program " CGPU_VERSION "\n"
          "commit ([0-9a-f]{12}( with changes)?|unknown: there was no git repository to ask)\n"
          "driver branches 535 550 [0-9 ]*610"));
}

}  // namespace
}  // namespace cgpu
