#include "protocol/lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace cgpu {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

enum class Colour { kRed, kBlue };

struct Side {
  std::uint64_t mask = 0;
  Colour colour = Colour::kRed;
  std::string note;  // may be empty
};

struct Box {
  std::string name;
  unsigned number = 0;
  bool open = false;
  std::string stem;
  std::optional<std::string> owner;
  std::optional<std::uint64_t> percent;
  bool heavy = false;
  std::vector<Side> sides;
  std::vector<std::string> tags;
};

void Fields(LineCodec& io, Box& box) {
  io.One("name", box.name);
  io.Check(box.name != "bad");
  io.One("size", box.number, box.open);
  io.Maybe("stem", box.stem);
  io.Maybe("owner", box.owner);
  io.Maybe("percent", box.percent, 1, 100);
  box.heavy = io.Line("weight", box.heavy, [&] { io.Fixed("heavy"); });
  io.Each("side", box.sides, 2, [&](Side& side) {
    io.Hex(side.mask);
    io.Choice(side.colour, {"red", "blue"});
    if (io.More(!side.note.empty())) {
      io.Word(side.note);
    }
  });
  io.Each("tag", box.tags, 3);
  io.Require(!box.sides.empty(), "side");
}

constexpr LineFormat<Box> kStrict{.what = "a box", .fields = Fields, .hint = "make another"};
constexpr LineFormat<Box> kLoose{
    .what = "a box", .fields = Fields, .unknown = UnknownLines::kSkipped};
constexpr LineFormat<Box> kOpenEnded{"a box", Fields, TextEnd::kNone};

constexpr char kFull[] =
    "name a%20b\nsize 7 1\nstem s\nowner me\npercent 30\nweight heavy\nside ff00 blue seen\n"
    "side 0 red\ntag x\ntag %0a\n.\n";
constexpr char kLeast[] = "name n\nsize 0 0\nside 0 red\n.\n";

TEST(LineCodec, WhatIsReadIsWritten) {
  const auto box = kStrict.Decode(kFull);
  ASSERT_TRUE(box.ok()) << box.error().what;
  EXPECT_EQ(box->name, "a b");
  EXPECT_EQ(box->number, 7U);
  EXPECT_TRUE(box->open);
  EXPECT_EQ(box->stem, "s");
  EXPECT_EQ(box->owner, "me");
  EXPECT_EQ(box->percent, 30U);
  EXPECT_TRUE(box->heavy);
  ASSERT_EQ(box->sides.size(), 2U);
  EXPECT_EQ(box->sides[0].mask, 0xff00U);
  EXPECT_EQ(box->sides[0].colour, Colour::kBlue);
  EXPECT_EQ(box->sides[0].note, "seen");
  EXPECT_EQ(box->sides[1].note, "");
  EXPECT_EQ(box->tags, (std::vector<std::string>{"x", "\n"}));
  EXPECT_EQ(kStrict.Encode(*box), kFull);
}

TEST(LineCodec, LeavesOutWhatIsNotThere) {
  Box box;
  box.name = "n";
  box.owner = "";
  box.sides.resize(1);
  EXPECT_EQ(kStrict.Encode(box), kLeast);
  const auto read = kStrict.Decode(kLeast);
  ASSERT_TRUE(read.ok()) << read.error().what;
  EXPECT_FALSE(read->owner);
  EXPECT_FALSE(read->percent);
  EXPECT_FALSE(read->heavy);
}

TEST(LineCodec, GreatestNumbersAreWhole) {
  Box box;
  box.name = "n";
  box.number = ~0U;
  box.sides = {{~std::uint64_t{0}, Colour::kRed, ""}};
  const auto read = kStrict.Decode(kStrict.Encode(box));
  ASSERT_TRUE(read.ok()) << read.error().what;
  EXPECT_EQ(read->number, ~0U);
  EXPECT_EQ(read->sides[0].mask, ~std::uint64_t{0});
}

TEST(LineCodec, TakesLinesInAnyOrder) {
  const auto read = kStrict.Decode("tag b\nside 1 red\nsize 1 0\ntag a\nside 2 red\nname n\n.\n");
  ASSERT_TRUE(read.ok()) << read.error().what;
  EXPECT_EQ(read->tags, (std::vector<std::string>{"b", "a"}));
  EXPECT_EQ(read->sides[1].mask, 2U);
}

// Returns kLeast without the lines of this key and without its end.
std::string Without(const std::string& key) {
  std::string text;
  const auto lines = SplitLines(kLeast);
  for (const Words& words : *lines) {
    text += words[0] == key || words[0] == "." ? "" : JoinLine(words);
  }
  return text;
}

// A line is added to a sound text, or replaces the one of its key.
TEST(LineCodec, RefusesABadLineAndQuotesIt) {
  const std::pair<const char*, const char*> lines[] = {
      {"name", "name"},
      {"name", "name bad"},
      {"name", "name a b"},
      {"name", "name a\nname a"},
      {"size", "size 7"},
      {"size", "size 7 2"},
      {"size", "size 4294967296 1"},
      {"size", "size -1 1"},
      {"size", "size 7 1 1"},
      {"stem", "stem"},
      {"owner", "owner a\nowner a"},
      {"percent", "percent 0"},
      {"percent", "percent 101"},
      {"percent", "percent 1e1"},
      {"weight", "weight light"},
      {"side", "side 10000000000000000 red"},
      {"side", "side x red"},
      {"side", "side 1 green"},
      {"side", "side 1"},
      {"side", "side 1 red a b"},
      {"side", "side 1 red\nside 1 red\nside 1 blue"},
      {"tag", "tag 1\ntag 2\ntag 3\ntag 4"},
      {"more", "more"},
      {"more", "more 1"},
      {".", "."},
  };
  for (const auto& [key, line] : lines) {
    const std::string added(line);
    const auto read = kStrict.Decode(Without(key) + added + "\n.\n");
    ASSERT_FALSE(read.ok()) << line;
    EXPECT_EQ(read.error().code, Code::kInvalid);
    EXPECT_EQ(read.error().what, "a box has a bad line: " + added.substr(added.rfind('\n') + 1));
    EXPECT_EQ(read.error().hint, "make another");
  }
}

TEST(LineCodec, NamesWhatIsMissing) {
  for (const char* key : {"name", "size", "side"}) {
    EXPECT_EQ(kStrict.Decode(Without(key) + ".\n").error().what, std::string("a box lacks ") + key);
  }
}

TEST(LineCodec, NoCutIsTakenForAWhole) {
  const std::string text = kFull;
  for (std::size_t n = 0; n < text.size(); ++n) {
    EXPECT_FALSE(kStrict.Decode(text.substr(0, n)).ok()) << n;
    EXPECT_FALSE(kLoose.Decode(text.substr(0, n)).ok()) << n;
  }
  EXPECT_THAT(kStrict.Decode(text + "tag y\n").error().what, EndsWith("is cut off"));
  EXPECT_TRUE(kOpenEnded.Decode(text.substr(0, text.size() - 2)).ok());
  EXPECT_FALSE(kOpenEnded.Decode(text).ok());
}

TEST(LineCodec, SkipsWhatALaterVersionSaysWhereTheFormatAllowsIt) {
  const std::string body = std::string(kLeast).substr(0, sizeof(kLeast) - 3);
  const auto read = kLoose.Decode(body + "more 1 2\nmore\nowner me more\n.\n");
  ASSERT_TRUE(read.ok()) << read.error().what;
  EXPECT_EQ(read->owner, "me");
  for (const char* bad : {"name n", "size x 1", "owner", "owner a\nowner b", "percent 0"}) {
    EXPECT_FALSE(kLoose.Decode(body + bad + "\n.\n").ok()) << bad;
  }
}

TEST(LineCodec, ATextIsBounded) {
  Box box;
  box.name = std::string(kMaxLine, 'x');
  EXPECT_THAT(kStrict.Decode(kStrict.Encode(box)).error().what, HasSubstr("too long"));
  EXPECT_THAT(kStrict.Decode(std::string(kMaxMessage + 1, '\n')).error().what,
              HasSubstr("too long"));
}

}  // namespace
}  // namespace cgpu
