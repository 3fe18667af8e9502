#include "install/toml_text.h"

#include <gtest/gtest.h>

#include <string>

namespace cgpu::install {
namespace {

constexpr const char* kMark =
    "# `cgpu install` added this, `cgpu uninstall` takes it away again.\n";

std::string Text(const Result<TomlText>& toml) {
  return toml.ok() ? toml->text() : "error: " + toml.error().what;
}

std::string Set(const std::string& text, const Path& path, const std::string& value) {
  return Text(TomlText::Parse(text)->Set(path, value));
}

std::string Remove(const std::string& text, const Path& path) {
  return Text(TomlText::Parse(text)->Remove(path));
}

TEST(TomlTextTest, AppendsTablesBehindTheText) {
  const TomlSection section = {{"a b", "c"}, {{"k", "\"v\""}, {"l", "true"}}};
  const std::string block = std::string(kMark) + "[\"a b\".c]\n  k = \"v\"\n  l = true\n";
  EXPECT_EQ(Text(TomlText::Parse("")->Append({section})), block);
  EXPECT_EQ(Text(TomlText::Parse("x = 1")->Append({section})), "x = 1\n\n" + block);
  EXPECT_EQ(Text(TomlText::Parse("[z]\n[\"a b\"]\n")->Append({section})),
            "[z]\n[\"a b\"]\n\n" + block);
  EXPECT_EQ(Text(TomlText::Parse("x = 1\r\n")->Append({{{"t"}, {{"k", "1"}}}})),
            "x = 1\r\n\r\n# `cgpu install` added this, `cgpu uninstall` takes it away again.\r\n"
            "[t]\r\n  k = 1\r\n");
}

TEST(TomlTextTest, RefusesToAppendWhereATableCannotBeOpenedAgain) {
  for (const char* text : {"a = { b = 1 }\n", "[a.c]\nx = 1\n", "a.c.x = 1\n", "a = 1\n"}) {
    const auto changed = TomlText::Parse(text)->Append({{{"a", "c"}, {{"k", "1"}}}});
    ASSERT_FALSE(changed.ok()) << text;
    EXPECT_EQ(changed.error().what,
              "is written in a way in which [a.c.k] cannot be changed without changing more");
  }
}

TEST(TomlTextTest, SetsAValueInItsPlace) {
  EXPECT_EQ(Set("[a] # x\n  k = \"\xC3\xA9\"  # \xC3\xA9\nl = 'y'\n", {"a", "k"}, "\"new\""),
            "[a] # x\n  k = \"new\"  # \xC3\xA9\nl = 'y'\n");
  EXPECT_EQ(Set("\xEF\xBB\xBFk = 'y' # z\r\n", {"k"}, "\"n\""), "\xEF\xBB\xBFk = 'n' # z\r\n");
  EXPECT_EQ(Set("a = { k = 'x', l = 1 }\n", {"a", "k"}, "\"n\""), "a = { k = 'n', l = 1 }\n");
  EXPECT_EQ(Set("k = '''\nx\n'''\n", {"k"}, "\"n\""),
            "error: is written in a way in which [k] cannot be changed without changing more");
}

TEST(TomlTextTest, SetsAValueInATableThatHasAHeader) {
  EXPECT_EQ(Set("[a.b]\n  x = 1\n[a]\n\ty = 1", {"a", "k"}, "\"v\""),
            "[a.b]\n  x = 1\n[a]\n  k = \"v\"\n\ty = 1");
  EXPECT_EQ(Set("  [a]", {"a", "k"}, "\"v\""), "  [a]\n    k = \"v\"\n");
  EXPECT_EQ(Set("[a.b]\nx = 1\n", {"a", "k"}, "[ \"v\" ]"),
            std::string("[a.b]\nx = 1\n\n") + kMark + "[a]\n  k = [ \"v\" ]\n");
  EXPECT_EQ(Set("# only\n", {"a", "k"}, "\"v\""),
            std::string("# only\n\n") + kMark + "[a]\n  k = \"v\"\n");
}

TEST(TomlTextTest, RemovesATableWithAllThatIsInIt) {
  const std::string text =
      "# top\n[a]\nx = 1\n\n# of b\n[a.b]\ny = '''\n[a.z]\n# no comment\n'''\n[a.b.c]\nz = "
      "[\n[1],\n"
      "]\n\n# of d\n[d]\n";
  EXPECT_EQ(Remove(text, {"a", "b"}), "# top\n[a]\nx = 1\n\n# of b\n\n# of d\n[d]\n");
  EXPECT_EQ(Remove(text, {"d"}),
            "# top\n[a]\nx = 1\n\n# of b\n[a.b]\ny = '''\n[a.z]\n# no comment\n'''\n[a.b.c]\nz = "
            "[\n[1],\n"
            "]\n\n# of d\n");
  EXPECT_EQ(Remove(text, {"nothing"}), text);
}

TEST(TomlTextTest, RemovesAValueWithItsLines) {
  EXPECT_EQ(Remove("[a]\nx = 1\n  y = [ # list\n 'z',\n]\nw = 2\n", {"a", "y"}),
            "[a]\nx = 1\nw = 2\n");
  EXPECT_EQ(Remove("a = { x = 1, y = 2 }\n", {"a", "y"}),
            "error: is written in a way in which [a.y] cannot be changed without changing more");
}

TEST(TomlTextTest, WhatWasAppendedIsRemovedToTheByte) {
  for (const std::string text : {"x = 1\n", "# c\n[a]\n  b = 1\n", "[a.b.c]\r\nx = 1\r\n"}) {
    const auto with = TomlText::Parse(text)->Append(
        {{{"a", "n"}, {{"k", "1"}}}, {{"a", "n", "o"}, {{"k", "1"}}}});
    ASSERT_TRUE(with.ok()) << text;
    EXPECT_EQ(Text(with->Remove({"a", "n"})), text);
  }
}

TEST(TomlTextTest, QuotesWhatNeedsIt) {
  const std::string value = "a\"b\\c\nd\x7F\xC3\xA9";
  EXPECT_EQ(TomlText::Parse("k = " + TomlText::Quoted(value))->String({"k"}), value);
}

TEST(TomlTextTest, SaysWhereATextIsWrong) {
  const auto toml = TomlText::Parse("x = 1\ny = \n");
  ASSERT_FALSE(toml.ok());
  EXPECT_EQ(toml.error().what.find("is not valid TOML: line 2, column "), 0U) << toml.error().what;
}

}  // namespace
}  // namespace cgpu::install
