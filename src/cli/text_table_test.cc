#include "cli/text_table.h"

#include <gtest/gtest.h>

namespace cgpu::cli {
namespace {

TextTable Two() {
  return {{{"ID", "NAME", "USED"}, {"1", "a-long-name-for-it", "12"}, {"22", "b", ""}}, 1, {2}};
}

TEST(TextTableTest, ColumnsAreAsWideAsWhatIsInThem) {
  EXPECT_EQ(Two().Text(0),
            "ID  NAME                USED\n"
            "1   a-long-name-for-it    12\n"
            "22  b\n");
}

TEST(TextTableTest, OneColumnGivesWayWhereTheTerminalIsNarrow) {
  EXPECT_EQ(Two().Text(24),
            "ID  NAME            USED\n"
            "1   a-long-name...    12\n"
            "22  b\n");
  EXPECT_EQ(Two().Text(28), Two().Text(0)) << "it just fits";
}

TEST(TextTableTest, ACutNameStaysReadable) {
  EXPECT_EQ(Two().Text(5),
            "ID  NAME      USED\n"
            "1   a-lon...    12\n"
            "22  b\n");
}

TEST(TextTableTest, NothingHasNoLines) {
  EXPECT_EQ(TextTable{}.Text(80), "");
}

}  // namespace
}  // namespace cgpu::cli
