// The help page has a section for each check. CGPU_WRITE_TESTDATA=1 writes it as it has to be.
#include <gtest/gtest.h>

#include <cctype>
#include <cstdlib>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "doctor/check.h"

namespace cgpu::doctor {
namespace {

constexpr std::size_t kColumns = 100;

constexpr std::string_view kHead =
    R"(<!-- src/doctor/check_table_test.cc writes this page, from src/doctor/check_table.cc. -->

# Find out what is wrong: cgpu doctor

At the end you know what is wrong with a host or a cluster, and how to mend it. `cgpu doctor` looks,
and changes nothing.

    # cgpu doctor                       # this host
    # cgpu doctor --pre                 # before cgpu is installed: what it needs
    # cgpu doctor --only driver,engines # two categories of five
    # cgpu doctor -o short              # only what is not right; -o json is for programs
    $ cgpu doctor --kubernetes          # also the cluster that kubectl leads to
    # cgpu doctor --wait 30             # lets what may mend itself do so, for 30 s

Run it as root. An ordinary user may run it too; it then says which checks need root. The exit
status is 0 if there is no error (warnings and notes are none), 1 if there is one, and 2 for wrong
options. A command that a check runs has ten seconds.

An **error** means that something does not work, or protects less than it should. A **warning** will
hurt some users. A **note** is good to know. A check is **skipped** where there is nothing to look
at, as at Docker's configuration where there is no Docker.
)";

std::string Filled(std::string_view text, std::string_view indent) {
  std::istringstream words{std::string(text)};
  std::string filled;
  std::size_t column = 0;
  for (std::string word; words >> word;) {
    if (column != 0 && column + 1 + word.size() > kColumns) {
      filled += "\n" + std::string(indent);
      column = indent.size();
    } else if (column != 0) {
      filled += " ";
      ++column;
    }
    filled += word;
    column += word.size();
  }
  return filled + "\n";
}

std::string SectionOf(const Check& check) {
  std::string kind(NameOf(check.severity));
  kind[0] = static_cast<char>(std::toupper(kind[0]));
  std::string traits = (check.traits & kBefore) != 0 ? ", also with `--pre`" : "";
  traits += (check.traits & kRoot) != 0 ? ", for root" : "";
  traits += (check.traits & kSettles) != 0 ? ", may mend itself" : "";
  return "\n### " + std::string(check.id) + "\n\n" +
         Filled("**" + std::string(check.what) + ".** " + kind + traits + ".", "") + "\n" +
         Filled("* Why: " + std::string(check.why), "  ") +
         Filled("* Fix: " + std::string(check.fix), "  ");
}

std::string Page() {
  std::string page(kHead);
  const Check* last = nullptr;
  for (const Check& check : Checks()) {
    if (last == nullptr || last->category != check.category) {
      page += "\n## " + std::string(NameOf(check.category)) + "\n";
    }
    page += SectionOf(check);
    last = &check;
  }
  return page;
}

TEST(Page, IsMadeOfTheTable) {
  const std::string path = std::string(CGPU_ROOT) + "/" + std::string(kPage);
  if (std::getenv("CGPU_WRITE_TESTDATA") != nullptr) {
    ASSERT_TRUE(WriteFile(path, Page()).ok());
  }
  const auto page = ReadFile(path);
  ASSERT_TRUE(page.ok()) << page.error().what;
  EXPECT_TRUE(*page == Page()) << path << " is not as the table has it: run this test with "
                               << "CGPU_WRITE_TESTDATA=1, and read the difference";
}

// Returns the paths of documentation within a text.
std::vector<std::string> PathsIn(std::string_view text) {
  std::vector<std::string> paths;
  std::istringstream words{std::string(text)};
  for (std::string word; words >> word;) {
    const std::size_t begin = word.find_first_not_of("(");
    const std::size_t end = word.find(".md");
    if (end != std::string::npos && begin < end) {
      paths.push_back(word.substr(begin, end + 3 - begin));
    }
  }
  return paths;
}

TEST(Table, NamesNoPageThatIsNotThere) {
  std::size_t named = 0;
  for (const Check& check : Checks()) {
    for (const std::string_view text : {check.why, check.fix}) {
      for (const std::string& path : PathsIn(text)) {
        EXPECT_TRUE(ReadFile(std::string(CGPU_ROOT) + "/" + path).ok()) << check.id << ": " << path;
        ++named;
      }
    }
  }
  EXPECT_GT(named, 0U);
}

TEST(Page, HasAnAnchorForEachCheck) {
  const auto page = ReadFile(std::string(CGPU_ROOT) + "/" + std::string(kPage));
  ASSERT_TRUE(page.ok());
  for (const Check& check : Checks()) {
    EXPECT_NE(page->find("\n### " + std::string(check.id) + "\n"), std::string::npos) << check.id;
  }
}

}  // namespace
}  // namespace cgpu::doctor
