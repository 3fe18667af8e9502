#include "governor/policy.h"

#include <gtest/gtest.h>

#include <vector>

namespace cgpu::governor {
namespace {

ComputeRequest Percent(std::uint64_t percent) {
  ComputeRequest request;
  request.percent = percent;
  return request;
}

ComputeRequest Weight(std::uint64_t weight) {
  ComputeRequest request;
  request.weight = weight;
  return request;
}

TEST(Policy, HasANameAndANumber) {
  for (const Policy policy : kPolicies) {
    EXPECT_EQ(ParsePolicy(NameOf(policy)).value(), policy);
    EXPECT_EQ(ParsePolicy(std::to_string(static_cast<int>(policy))).value(), policy);
  }
  for (const char* wrong : {"", "6", "-1", "Fair", "fair ", "00"}) {
    const auto parsed = ParsePolicy(wrong);
    ASSERT_FALSE(parsed.ok()) << wrong;
    EXPECT_EQ(parsed.error().code, Code::kInvalid);
  }
}

TEST(Policy, IsChosenByTheFirst) {
  EXPECT_EQ(ChosenBy({}), Policy::kPreempt);
  EXPECT_EQ(ChosenBy(Weight(1)), Policy::kWeight);
  EXPECT_EQ(ChosenBy(Weight(2)), Policy::kWeight);
  EXPECT_EQ(ChosenBy(Percent(30)), Policy::kFixed);
  ComputeRequest both = Percent(30);
  both.weight = 1;
  EXPECT_EQ(ChosenBy(both), Policy::kFixed);
  ComputeRequest soft = Percent(30);
  soft.max_percent = 60;
  EXPECT_EQ(ChosenBy(soft), Policy::kSoft);
  ComputeRequest high;
  high.high_priority = true;
  EXPECT_EQ(ChosenBy(high), Policy::kPreempt);
}

TEST(Policy, HonoursWhatItKnows) {
  ComputeRequest soft = Percent(30);
  soft.max_percent = 60;
  ComputeRequest high;
  high.high_priority = true;
  struct Row {
    ComputeRequest wanted;
    std::vector<Policy> honouring;
  };
  const std::vector<Row> rows = {
      {{}, {kPolicies.begin(), kPolicies.end()}},
      {Percent(30), {Policy::kFixed, Policy::kSoft}},
      {soft, {Policy::kSoft}},
      {Weight(1), {kPolicies.begin(), kPolicies.end()}},
      {Weight(2), {Policy::kWeight}},
      {high, {Policy::kFair, Policy::kPreempt, Policy::kWeight, Policy::kFixed, Policy::kSoft}},
  };
  for (const Row& row : rows) {
    for (const Policy policy : kPolicies) {
      const bool expected =
          std::find(row.honouring.begin(), row.honouring.end(), policy) != row.honouring.end();
      const auto honoured = CanHonour({}, policy, {}, row.wanted);
      EXPECT_EQ(honoured.ok(), expected) << NameOf(policy) << " " << (&row - rows.data());
      EXPECT_TRUE(honoured.ok() || honoured.error().code == Code::kConflict);
    }
  }
}

TEST(Policy, PromisesNoMoreThanThereIs) {
  const std::vector<ComputeRequest> others = {Percent(30), Percent(45), {}};
  EXPECT_TRUE(CanHonour({}, Policy::kFixed, others, Percent(24)).ok());
  EXPECT_EQ(CanHonour({}, Policy::kFixed, others, Percent(25)).error().code, Code::kExhausted);
  EXPECT_TRUE(CanHonour({}, Policy::kSoft, others, {}).ok());
  const std::vector<ComputeRequest> full = {Percent(55), Percent(45)};
  EXPECT_EQ(CanHonour({}, Policy::kSoft, full, {}).error().code, Code::kExhausted);
  ComputeRequest high;
  high.high_priority = true;
  EXPECT_TRUE(CanHonour({}, Policy::kFixed, full, high).ok());
  EXPECT_TRUE(CanHonour({}, Policy::kPreempt, full, {}).ok());
}

}  // namespace
}  // namespace cgpu::governor
