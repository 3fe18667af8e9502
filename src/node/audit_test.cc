#include "node/audit.h"

#include <gmock/gmock.h>

namespace cgpu {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

constexpr char kId[] = "0123456789ab";

std::string Line(const std::string& what, int count) {
  return "audit container=0123456789ab engine=web refused=" + what +
         " count=" + std::to_string(count);
}

class AuditBookTest : public testing::Test {
 protected:
  std::vector<std::string> Take(const RefusedCounts& counts, int second) {
    return book_.Take(kId, "web", counts, AuditBook::Time(seconds(second)));
  }

  AuditBook book_{seconds(60)};
};

TEST(DecodeRefused, TakesWholeLinesOnly) {
  EXPECT_THAT(DecodeRefused("3 RM_ALLOC\n12 a GPU command on another file\n.\n"),
              ElementsAre(Pair("RM_ALLOC", 3), Pair("a GPU command on another file", 12)));
  EXPECT_THAT(DecodeRefused("3 RM_ALLOC\n12 cut of"), ElementsAre(Pair("RM_ALLOC", 3)));
  EXPECT_THAT(DecodeRefused("x y\n3\n4 \n\n-1 z\n.\n"), IsEmpty());
  EXPECT_THAT(DecodeRefused(""), IsEmpty());
}

TEST_F(AuditBookTest, WritesAtOnceThenOnceInAnInterval) {
  EXPECT_THAT(Take({{"A", 1}}, 1000), ElementsAre(Line("A", 1)));
  EXPECT_THAT(Take({{"A", 5}}, 1059), IsEmpty());
  EXPECT_THAT(Take({{"A", 5}, {"B", 2}}, 1059), ElementsAre(Line("B", 2)));
  EXPECT_THAT(Take({{"A", 9}, {"B", 2}}, 1060), ElementsAre(Line("A", 9)));
  EXPECT_THAT(Take({{"A", 9}, {"B", 2}}, 9999), IsEmpty());
}

TEST_F(AuditBookTest, TheLastWordIsWhatWasNotWritten) {
  EXPECT_THAT(Take({{"A", 1}, {"B", 1}}, 1000), ElementsAre(Line("A", 1), Line("B", 1)));
  EXPECT_THAT(Take({{"A", 4}, {"B", 1}}, 1001), IsEmpty());
  EXPECT_THAT(book_.End(kId), ElementsAre(Line("A", 4)));
  EXPECT_THAT(book_.End(kId), IsEmpty());
  EXPECT_THAT(Take({{"A", 2}}, 1002), ElementsAre(Line("A", 2)));  // another one of that id
}

TEST_F(AuditBookTest, EveryContainerHasItsOwn) {
  EXPECT_THAT(Take({{"A", 1}}, 1000), ElementsAre(Line("A", 1)));
  EXPECT_THAT(book_.Take("ba9876543210", "db", {{"A", 1}}, AuditBook::Time(seconds(1000))),
              ElementsAre("audit container=ba9876543210 engine=db refused=A count=1"));
}

TEST_F(AuditBookTest, NoWordBecomesAnother) {
  EXPECT_THAT(
      book_.Take(kId, "x\naudit y", {{"a b", 1}}, AuditBook::Time(seconds(1))),
      ElementsAre("audit container=0123456789ab engine=x%0aaudit%20y refused=a%20b count=1"));
}

TEST_F(AuditBookTest, ManyNamesAreOneInTheEnd) {
  RefusedCounts counts;
  for (int i = 0; i < 1000; ++i) {
    counts["name" + std::to_string(i)] = 2;
  }
  const auto lines = Take(counts, 1000);
  EXPECT_EQ(lines.size(), AuditBook::kMaxNames + 1);
  EXPECT_THAT(lines, testing::Contains(
                         Line("others", 2 * (1000 - static_cast<int>(AuditBook::kMaxNames)))));
  EXPECT_THAT(Take(counts, 2000), IsEmpty());
}

}  // namespace
}  // namespace cgpu
