#include "doctor/examination.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <set>

#include "doctor/testing.h"

namespace cgpu::doctor {
namespace {

using testing::HasSubstr;
using testing::Not;

std::set<Category> CategoriesOf(const std::vector<Answer>& answers) {
  std::set<Category> found;
  for (const Answer& answer : answers) {
    found.insert(answer.check->category);
  }
  return found;
}

TEST(Checks, HaveIdsThatAreAnchorsAndTextsThatEnd) {
  std::set<std::string_view> ids;
  for (const Check& check : Checks()) {
    EXPECT_TRUE(ids.insert(check.id).second) << check.id << " is there twice";
    EXPECT_EQ(check.id.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-"),
              std::string_view::npos)
        << check.id;
    EXPECT_FALSE(check.what.ends_with('.')) << check.id;
    EXPECT_TRUE(check.why.ends_with('.')) << check.id;
    EXPECT_FALSE(check.fix.empty()) << check.id;
  }
}

TEST(Categories, AreParsedByName) {
  const auto two = ParseCategories("driver,kernel");
  ASSERT_TRUE(two.ok());
  EXPECT_EQ(*two, (std::vector<Category>{Category::kDriver, Category::kKernel}));
  EXPECT_TRUE(ParseCategories("")->empty());
  const auto wrong = ParseCategories("kernel,drivers");
  ASSERT_FALSE(wrong.ok());
  EXPECT_THAT(wrong.error().what, HasSubstr("\"drivers\""));
}

TEST(Examination, KubernetesIsLookedAtOnlyWhenAskedFor) {
  const FakeHost host = HealthyHost();
  EXPECT_FALSE(CategoriesOf(Examine(host, {})).contains(Category::kKubernetes));
  EXPECT_EQ(CategoriesOf(Examine(host, {.only = {Category::kKernel}})),
            std::set<Category>{Category::kKernel});
}

TEST(Examination, BeforeTheInstallationOnlyWhatMattersThen) {
  for (const Answer& answer : Examine(HealthyHost(), {.before = true})) {
    EXPECT_NE(answer.check->traits & kBefore, 0U) << answer.check->id;
  }
}

TEST(Examination, AnOrdinaryUserIsToldWhatNeedsRoot) {
  FakeHost host = HealthyHost();
  host.user = 1000;
  for (const Answer& answer : Examine(host, {})) {
    if ((answer.check->traits & kRoot) != 0) {
      EXPECT_THAT(answer.finding.text, HasSubstr("only root")) << answer.check->id;
    }
  }
}

TEST(Examination, OnlyErrorsCountAsErrors) {
  FakeHost host = HealthyHost();
  EXPECT_FALSE(HasErrors(Examine(host, {})));
  host.files["/sys/fs/selinux/enforce"] = "1";
  EXPECT_FALSE(HasErrors(Examine(host, {})));
  host.files["/proc/sys/kernel/yama/ptrace_scope"] = "3";
  EXPECT_TRUE(HasErrors(Examine(host, {})));
}

TEST(Examination, WhatMendsItselfHasTimeToDoSo) {
  FakeHost host = HealthyHost();
  host.sockets["/run/cgpu/cgpud.sock"] = ECONNREFUSED;
  host.in_pause = [&] {
    if (host.pauses == 3) {
      host.sockets["/run/cgpu/cgpud.sock"] = 0;
    }
  };
  EXPECT_TRUE(HasErrors(Examine(host, {.wait = 2})));
  host.pauses = 0;
  EXPECT_FALSE(HasErrors(Examine(host, {.wait = 30})));
  EXPECT_EQ(host.pauses, 3U);
}

TEST(Examination, NobodyWaitsForWhatStays) {
  FakeHost host = HealthyHost();
  host.files["/proc/sys/kernel/yama/ptrace_scope"] = "3";
  EXPECT_TRUE(HasErrors(Examine(host, {.wait = 30})));
  EXPECT_EQ(host.pauses, 0U);
}

TEST(Report, ATableSaysWhatWhyAndHow) {
  FakeHost host = HealthyHost();
  host.files["/proc/sys/kernel/yama/ptrace_scope"] = "3";
  const std::string table = AsTable(Examine(host, {.only = {Category::kKernel}}), false);
  EXPECT_THAT(table, HasSubstr("ok        kernel-version: Linux 6.12"));
  EXPECT_THAT(table, HasSubstr("error     yama: kernel.yama.ptrace_scope is 3"));
  EXPECT_THAT(table, HasSubstr("why: With ptrace_scope 3"));
  EXPECT_THAT(table, HasSubstr("see: docs/howto/doctor.md#yama"));
  EXPECT_THAT(table, HasSubstr("\n1 error, 0 warnings, 0 notes, "));
}

TEST(Report, TheShortFormHasOnlyWhatIsNotRight) {
  FakeHost host = HealthyHost();
  host.files["/proc/sys/kernel/yama/ptrace_scope"] = "3";
  const std::string brief = AsTable(Examine(host, {}), true);
  EXPECT_THAT(brief, HasSubstr("yama"));
  EXPECT_THAT(brief, Not(HasSubstr("ok  ")));
  EXPECT_THAT(AsTable(Examine(HealthyHost(), {}), true), testing::StartsWith("0 errors, "));
}

TEST(Report, ATerminalIsToldNothingElse) {
  FakeHost host = HealthyHost();
  host.files["/proc/sys/kernel/osrelease"] = "5.1.0-\x1b[2J\n";
  const std::string table = AsTable(Examine(host, {}), true);
  EXPECT_THAT(table, HasSubstr("5.1.0-?[2J"));
  EXPECT_THAT(table, Not(HasSubstr("\x1b")));
}

TEST(Report, JsonHasEverything) {
  FakeHost host = HealthyHost();
  host.files["/proc/sys/kernel/yama/ptrace_scope"] = "3\xff";
  host.files["/sys/fs/selinux/enforce"] = "1";
  const auto answers = Examine(host, {});
  const auto json = nlohmann::json::parse(AsJson(answers));
  EXPECT_EQ(json["checks"].size(), answers.size());
  EXPECT_EQ(json["warnings"], 1);
  const auto& checks = json["checks"];
  const auto found =
      std::ranges::find_if(checks, [](const auto& one) { return one["id"] == "selinux"; });
  ASSERT_NE(found, checks.end());
  for (const char* const key : {"category", "status", "severity", "found", "why", "fix", "see"}) {
    EXPECT_FALSE((*found)[key].template get<std::string>().empty()) << key;
  }
}

}  // namespace
}  // namespace cgpu::doctor
