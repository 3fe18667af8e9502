#include "install/toml_text.h"

#include <gtest/gtest.h>

#include <string>

namespace cgpu::install {
namespace {

constexpr const char* kBegin =
    "# `cgpu install` added this, `cgpu uninstall` takes it away again:\n";
constexpr const char* kEnd = "# This was added by `cgpu install`.\n";
constexpr const char* kNoLineEnd = "# (There was no end of line before this.)\n";

std::string Marked(const std::string& lines) {
  return kBegin + lines + kEnd;
}

// Adds the sections and takes them away again: the text is the same to the byte. Returns the text
// with them.
std::string Add(const std::string& text, const std::vector<TomlSection>& sections) {
  const auto added = TomlText::Parse(text)->Add(sections, false);
  if (!added.ok()) {
    return "error: " + added.error().what + "\n" + added.error().hint;
  }
  std::vector<Path> paths;
  for (const TomlSection& section : sections) {
    for (const auto& [key, value] : section.values) {
      paths.push_back(section.path);
      paths.back().push_back(key);
    }
  }
  EXPECT_EQ(*TomlText::Parse(*added)->TakeAway(paths), text);
  return *added;
}

TEST(TomlTextTest, AddsTablesBehindTheText) {
  const TomlSection section = {{"a b", "c"}, {{"k", "\"v\""}, {"l", "true"}}};
  const std::string table = "[\"a b\".c]\n  k = \"v\"\n  l = true\n";
  EXPECT_EQ(Add("", {section}), Marked(kNoLineEnd + table));
  EXPECT_EQ(Add("x = 1", {section}), "x = 1\n" + Marked(kNoLineEnd + table));
  EXPECT_EQ(Add("[z]\n[\"a b\"]\n", {section}), "[z]\n[\"a b\"]\n" + Marked(table));
  EXPECT_EQ(Add("x = 1\r\n", {{{"t"}, {{"k", "1"}}}}),
            "x = 1\r\n# `cgpu install` added this, `cgpu uninstall` takes it away again:\r\n"
            "[t]\r\n  k = 1\r\n# This was added by `cgpu install`.\r\n");
}

TEST(TomlTextTest, SaysWhatToAddWhereATableCannotBeOpenedAgain) {
  for (const char* text : {"a = { b = 1 }\n", "a.c.x = 1\n", "a = 1\n"}) {
    EXPECT_EQ(Add(text, {{{"a", "c"}, {{"k", "1"}}}}),
              "error: is written in a way in which nothing can be added without changing more\n"
              "add this by hand:\n[a.c]\n  k = 1\n");
  }
}

TEST(TomlTextTest, AValueTakesThePlaceOfItsLine) {
  EXPECT_EQ(Add("[a] # x\n  k = \"\xC3\xA9\"  # \xC3\xA9\nl = 'y'\n", {{{"a"}, {{"k", "1"}}}}),
            "[a] # x\n" + Marked("#-  k = \"\xC3\xA9\"  # \xC3\xA9\nk = 1\n") + "l = 'y'\n");
  EXPECT_EQ(Add("k = 2", {{{}, {{"k", "1"}}}}), Marked("#-k = 2\nk = 1\n") + Marked(kNoLineEnd));
  EXPECT_EQ(Add("k = '''\nx\n'''\n", {{{}, {{"k", "1"}}}}).find("error: "), 0U);
}

TEST(TomlTextTest, AValueIsAddedBelowTheHeaderOfItsTable) {
  EXPECT_EQ(Add("[a.b]\n  x = 1\n[a]\n\ty = 1", {{{"a"}, {{"k", "1"}}}}),
            "[a.b]\n  x = 1\n[a]\n" + Marked("k = 1\n") + "\ty = 1\n" + Marked(kNoLineEnd));
  EXPECT_EQ(Add("[a.b]\nx = 1\n", {{{"a"}, {{"k", "[ 1 ]"}}}}),
            "[a.b]\nx = 1\n" + Marked("[a]\n  k = [ 1 ]\n"));
}

TEST(TomlTextTest, WhatOthersWroteMeanwhileStays) {
  const auto toml =
      TomlText::Parse("x = 2\n" + Marked(kNoLineEnd + std::string("y = 1\n")) + "z = 3\n");
  EXPECT_EQ(*toml->TakeAway({{"y"}}), "x = 2\nz = 3\n");
}

TEST(TomlTextTest, TakesNothingAwayThatIsNotItsOwn) {
  EXPECT_EQ(*TomlText::Parse("")->TakeAway({}), "");
  EXPECT_EQ(*TomlText::Parse("x = 1")->TakeAway({{"x"}}), "x = 1");
  for (const std::string& text : {Marked("y = 1\nx = 1\n"), kBegin + std::string("y = 1\n"),
                                  "x = '''\n" + Marked("y\n") + "'''\n"}) {
    EXPECT_FALSE(TomlText::Parse(text)->TakeAway({{"y"}}).ok()) << text;
  }
}

TEST(TomlTextTest, NothingIsLeftOfATextThatWasMade) {
  const auto made = TomlText::Parse("")->Add({{{"t"}, {{"k", "1"}}}}, true);
  EXPECT_EQ(*made, Marked("[t]\n  k = 1\n"));
  EXPECT_EQ(*TomlText::Parse(*made)->TakeAway({{"t", "k"}}), std::nullopt);
}

TEST(TomlTextTest, QuotesWhatNeedsIt) {
  const std::string value = "a\"b\\c\nd\x7F\xC3\xA9";
  EXPECT_EQ(TomlText::Parse("k = " + TomlText::Quoted(value))->String({"k"}), value);
}

TEST(TomlTextTest, SaysWhereATextIsWrong) {
  const auto toml = TomlText::Parse("x = 1\ny = \n");
  ASSERT_FALSE(toml.ok());
  EXPECT_EQ(toml.error().what.find("is not valid TOML: line 2, column "), 0U) << toml.error().what;
  for (const char* other : {"[{\"a\": 1}]\n", "[\xff", "[[-]", "=", "[a.]"}) {
    EXPECT_EQ(TomlText::Parse(other).error().code, Code::kInvalid) << other;
  }
}

}  // namespace
}  // namespace cgpu::install
