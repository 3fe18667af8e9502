#include "install/diff.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cstddef>
#include <sstream>
#include <string>
#include <vector>

namespace cgpu::install {
namespace {

TEST(DiffTest, ShowsTheChangeWithThreeLinesAround) {
  EXPECT_EQ(UnifiedDiff("/f", "1\n2\n3\n4\n5\n6\n7\n8\n", "1\n2\n3\n4\nfive\n6\n7\n8\n"),
            "--- /f\n+++ /f\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n");
}

TEST(DiffTest, OneHunkForChangesThatAreNearAndTwoForThoseThatAreNot) {
  const std::string near = UnifiedDiff("f", "a\n1\n2\n3\n4\n5\n6\nb\n", "1\n2\n3\n4\n5\n6\n");
  EXPECT_EQ(near, "--- f\n+++ f\n@@ -1,8 +1,6 @@\n-a\n 1\n 2\n 3\n 4\n 5\n 6\n-b\n");
  const std::string far = UnifiedDiff("f", "a\n1\n2\n3\n4\n5\n6\n7\nb\n", "1\n2\n3\n4\n5\n6\n7\n");
  EXPECT_EQ(far,
            "--- f\n+++ f\n@@ -1,4 +1,3 @@\n-a\n 1\n 2\n 3\n@@ -6,4 +5,3 @@\n 5\n 6\n 7\n-b\n");
}

TEST(DiffTest, FilesThatAppearAndDisappear) {
  EXPECT_EQ(UnifiedDiff("/f", std::nullopt, "a\nb\n"),
            "--- /dev/null\n+++ /f\n@@ -0,0 +1,2 @@\n+a\n+b\n");
  EXPECT_EQ(UnifiedDiff("/f", "a\n", std::nullopt), "--- /f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n");
  EXPECT_EQ(UnifiedDiff("/f", std::nullopt, std::nullopt), "");
  EXPECT_EQ(UnifiedDiff("/f", "a", "a"), "");
}

TEST(DiffTest, SaysWhereALineHasNoEnd) {
  EXPECT_EQ(UnifiedDiff("f", "a", "a\n"),
            "--- f\n+++ f\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n");
}

// Does what `patch` does, and as strictly: every line must be where the diff says it is.
std::string Patched(const std::string& text, const std::string& diff) {
  std::vector<std::string> old;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    old.push_back(text.substr(at, end - at));
    at = end;
  }
  std::istringstream lines(diff);
  std::string line;
  std::string result;
  std::size_t next = 0;
  char last = ' ';
  for (std::getline(lines, line), std::getline(lines, line); std::getline(lines, line);) {
    if (line.starts_with("@@ -")) {
      const std::size_t first = std::stoul(line.substr(4));
      const bool none = line.substr(4, line.find(' ', 4) - 4).ends_with(",0");
      for (; next < (none ? first : first - 1); ++next) {
        result += old.at(next);
      }
    } else if (line.starts_with("\\")) {
      if (last != '-') {
        result.pop_back();
      }
    } else {
      last = line[0];
      if (last != '+') {
        const std::string& there = old.at(next++);
        EXPECT_EQ(there.substr(0, there.find('\n')), line.substr(1));
      }
      result += last != '-' ? line.substr(1) + "\n" : "";
    }
  }
  for (; next < old.size(); ++next) {
    result += old[next];
  }
  return result;
}

TEST(DiffTest, AppliedItGivesTheNewText) {
  const auto text =
      rc::gen::map(rc::gen::pair(rc::gen::container<std::vector<std::string>>(
                                     rc::gen::element<std::string>("a\n", "b\n", "\n", "c \r\n")),
                                 rc::gen::element<std::string>("", "end")),
                   [](const std::pair<std::vector<std::string>, std::string>& parts) {
                     std::string joined;
                     for (const std::string& line : parts.first) {
                       joined += line;
                     }
                     return joined + parts.second;
                   });
  EXPECT_TRUE(rc::check("patched, a text is the other", [&] {
    const std::string before = *text;
    const std::string after = *text;
    RC_ASSERT(Patched(before, UnifiedDiff("f", before, after)) == after);
  }));
}

TEST(DiffTest, TextsThatHaveNothingInCommonAreShownWhole) {
  std::string before;
  std::string after;
  for (int i = 0; i < 5000; ++i) {
    before += "a" + std::to_string(i) + "\n";
    after += "b" + std::to_string(i) + "\n";
  }
  EXPECT_EQ(Patched(before, UnifiedDiff("f", before, after)), after);
}

}  // namespace
}  // namespace cgpu::install
