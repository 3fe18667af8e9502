#include "cgpud/audit.h"

#include <gmock/gmock.h>

namespace cgpu {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr char kAuditedId[] = "0123456789ab";

std::string Line(const std::string& what, int count) {
  return "audit container=0123456789ab engine=web refused=" + what +
         " count=" + std::to_string(count);
}

std::vector<std::string> Lines(const std::vector<DueRefusal>& all) {
  std::vector<std::string> lines;
  for (const DueRefusal& one : all) {
    std::string line =
        LogLine({"cgpud", false, false}, LogLevel::kNotice, "audit", AuditFields(one));
    line.pop_back();
    lines.push_back(line.substr(sizeof("cgpud: ") - 1));
  }
  return lines;
}

class AuditLogTest : public testing::Test {
 protected:
  std::vector<std::string> Take(const std::map<std::string, std::uint64_t>& counts, int second) {
    for (const auto& [what, count] : counts) {
      log_.Take({kAuditedId, "web", what, count});
    }
    return Lines(log_.Due(AuditLog::Time(seconds(second))));
  }

  AuditLog log_{seconds(60), seconds(60)};
};

TEST_F(AuditLogTest, WritesAtOnceThenOnceInAnInterval) {
  EXPECT_THAT(Take({{"A", 1}}, 1000), ElementsAre(Line("A", 1)));
  EXPECT_THAT(Take({{"A", 5}}, 1059), IsEmpty());
  EXPECT_THAT(Take({{"A", 5}, {"B", 2}}, 1059), ElementsAre(Line("B", 2)));
  EXPECT_THAT(Take({{"A", 9}, {"B", 2}}, 1060), ElementsAre(Line("A", 9)));
  EXPECT_THAT(Take({{"A", 9}, {"B", 2}}, 9999), IsEmpty());
}

TEST_F(AuditLogTest, ACommandHasNoEngine) {
  log_.Take({kAuditedId, "", "A", 1});
  EXPECT_THAT(Lines(log_.Due({})), ElementsAre("audit container=" + std::string(kAuditedId) +
                                               " engine=- refused=A count=1"));
}

TEST_F(AuditLogTest, TheLastWordIsWhatWasNotWritten) {
  EXPECT_THAT(Take({{"A", 1}, {"B", 1}}, 1000), ElementsAre(Line("A", 1), Line("B", 1)));
  EXPECT_THAT(Take({{"A", 4}, {"B", 1}}, 1001), IsEmpty());
  EXPECT_THAT(Lines(log_.End(kAuditedId, {})), ElementsAre(Line("A", 4)));
  EXPECT_THAT(Lines(log_.End(kAuditedId, {})), IsEmpty());
  EXPECT_THAT(Take({{"A", 2}}, 1002), ElementsAre(Line("A", 2)));  // another container of that id
}

TEST_F(AuditLogTest, SaysWhenThereWillBeMore) {
  EXPECT_EQ(log_.next(), std::nullopt);
  log_.Take({kAuditedId, "web", "A", 1});
  EXPECT_LE(log_.next(), AuditLog::Time());  // at once
  EXPECT_THAT(Take({{"A", 1}}, 1000), ElementsAre(Line("A", 1)));
  EXPECT_EQ(log_.next(), std::nullopt);
  EXPECT_THAT(Take({{"A", 2}}, 1001), IsEmpty());
  EXPECT_EQ(log_.next(), AuditLog::Time(seconds(1060)));
  EXPECT_THAT(Lines(log_.Due(AuditLog::Time(seconds(1060)))), ElementsAre(Line("A", 2)));
}

TEST_F(AuditLogTest, EveryContainerHasItsOwn) {
  EXPECT_THAT(Take({{"A", 1}}, 1000), ElementsAre(Line("A", 1)));
  log_.Take({"ba9876543210", "db", "A", 1});
  EXPECT_THAT(Lines(log_.Due(AuditLog::Time(seconds(1000)))),
              ElementsAre("audit container=ba9876543210 engine=db refused=A count=1"));
}

TEST_F(AuditLogTest, NoWordBecomesAnother) {
  log_.Take({kAuditedId, "x\naudit y", "a b", 1});
  EXPECT_THAT(
      Lines(log_.Due(AuditLog::Time(seconds(1)))),
      ElementsAre("audit container=0123456789ab engine=\"x?audit y\" refused=\"a b\" count=1"));
}

TEST(PacingTest, WhatGoesOnIsSaidMoreAndMoreRarely) {
  AuditLog log(seconds(10), seconds(100));
  std::vector<int> said;
  std::uint64_t sum = 0;
  for (int second = 1; second <= 500; ++second) {
    log.Take({kAuditedId, "web", "A", static_cast<std::uint64_t>(second) * 10'000});
    for (const DueRefusal& one : log.Due(AuditLog::Time(seconds(second)))) {
      EXPECT_EQ(one.over, said.empty() ? seconds(0) : seconds(second - said.back()));
      said.push_back(second);
      sum += one.grown;
      EXPECT_EQ(sum, one.count);
    }
  }
  EXPECT_THAT(said, ElementsAre(1, 11, 31, 71, 151, 251, 351, 451));
  // After a rest it is said soon again.
  log.Take({kAuditedId, "web", "A", 6'000'000});
  EXPECT_EQ(log.Due(AuditLog::Time(seconds(5'000))).size(), 1U);
  log.Take({kAuditedId, "web", "A", 6'000'001});
  EXPECT_EQ(log.next(), AuditLog::Time(seconds(5'010)));
}

TEST(PacingTest, WhatWasSaidBeforeIsNotSaidAgain) {
  AuditLog log(seconds(10), seconds(10));
  log.TakeSaid({kAuditedId, "web", "A", 5});
  log.Take({kAuditedId, "web", "A", 5});
  EXPECT_THAT(log.Due(AuditLog::Time(seconds(1))), IsEmpty());
  log.Take({kAuditedId, "web", "A", 7});
  const auto due = log.Due(AuditLog::Time(seconds(2)));
  ASSERT_EQ(due.size(), 1U);
  EXPECT_EQ(due[0].grown, 2U);
}

TEST_F(AuditLogTest, ManyNamesAreOneInTheEnd) {
  std::map<std::string, std::uint64_t> counts;
  for (int i = 0; i < 1000; ++i) {
    counts["name" + std::to_string(i)] = 2;
  }
  const auto lines = Take(counts, 1000);
  EXPECT_EQ(lines.size(), AuditLog::kMaxNames + 1);
  EXPECT_THAT(
      lines, testing::Contains(Line("others", 2 * (1000 - static_cast<int>(AuditLog::kMaxNames)))));
  EXPECT_THAT(Take(counts, 2000), IsEmpty());
  EXPECT_THAT(
      Take({{"name999", 5}}, 3000),
      testing::ElementsAre(Line("others", 3 + 2 * (1000 - static_cast<int>(AuditLog::kMaxNames)))));
}

}  // namespace
}  // namespace cgpu
