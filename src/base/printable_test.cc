#include "base/printable.h"

#include <gtest/gtest.h>

namespace cgpu {
namespace {

TEST(Printable, NothingCommandsATerminalOrBeginsALine) {
  EXPECT_EQ(Printable("a b~\x1b[2J\n\x7f\xc3\xa9"), "a b~?[2J????");
  EXPECT_EQ(Printable(""), "");
}

}  // namespace
}  // namespace cgpu
