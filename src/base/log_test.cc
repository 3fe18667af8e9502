#include "base/log.h"

#include <gmock/gmock.h>

namespace cgpu {
namespace {

std::string Text(std::string_view message, const LogFields& fields) {
  return LogLine({"cgpud", false, false}, LogLevel::kInfo, message, fields);
}

std::string Json(std::string_view message, const LogFields& fields) {
  return LogLine({"cgpud", true, true}, LogLevel::kWarning, message, fields);
}

TEST(LogTest, ASentenceThenWords) {
  EXPECT_EQ(Text("it is so", {}), "cgpud: it is so\n");
  EXPECT_EQ(Text("it is so", {{"container", "ab12"}, {"count", "5"}}),
            "cgpud: it is so container=ab12 count=5\n");
  EXPECT_EQ(Text("it is so", {{"why", "no room"}, {"empty", ""}}),
            "cgpud: it is so why=\"no room\" empty=\"\"\n");
}

TEST(LogTest, TheJournalHearsTheLevel) {
  EXPECT_EQ(LogLine({"cgpud", false, true}, LogLevel::kError, "it broke", {}),
            "<3>cgpud: it broke\n");
}

TEST(LogTest, JsonHasTheSameFields) {
  EXPECT_EQ(Json("it is so", {{"container", "ab12"}}),
            "{\"level\":\"warning\",\"program\":\"cgpud\",\"message\":\"it is so\","
            "\"container\":\"ab12\"}\n");
}

TEST(LogTest, NoTextBecomesAnotherLineOrField) {
  EXPECT_EQ(Text("a\nb\x1b[2J\xc2\x9b", {}), "cgpud: a?b?[2J??\n");
  EXPECT_EQ(Text("it", {{"name", "x\" count=\"7"}}), "cgpud: it name=\"x\\\" count=\\\"7\"\n");
  EXPECT_EQ(Text("it", {{"name", "a=b"}, {"path", "c\\d"}}),
            "cgpud: it name=\"a=b\" path=\"c\\\\d\"\n");
  EXPECT_EQ(Text("it", {{"name", "a\nb"}}), "cgpud: it name=\"a?b\"\n");
  EXPECT_EQ(Json("a\"b\\", {{"n", "\n\x7f"}}),
            "{\"level\":\"warning\",\"program\":\"cgpud\",\"message\":\"a\\\"b\\\\\","
            "\"n\":\"??\"}\n");
}

}  // namespace
}  // namespace cgpu
