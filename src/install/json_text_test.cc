#include "install/json_text.h"

#include <gtest/gtest.h>

#include <string>

namespace cgpu::install {
namespace {

std::string Set(const std::string& text, const Path& path, const std::string& value) {
  const auto json = JsonText::Parse(text);
  const auto changed = json.ok() ? json->Set(path, value) : json;
  return changed.ok() ? changed->text() : "error: " + changed.error().what;
}

std::string Remove(const std::string& text, const Path& path) {
  const auto json = JsonText::Parse(text);
  const auto changed = json.ok() ? json->Remove(path) : json;
  return changed.ok() ? changed->text() : "error: " + changed.error().what;
}

const Path kProgram = {"runtimes", "cgpu", "path"};

TEST(JsonTextTest, WritesAsTheTextAroundIsWritten) {
  EXPECT_EQ(Set("{\n  \"debug\": true\n}\n", kProgram, "/r"),
            "{\n  \"debug\": true,\n  \"runtimes\": {\n    \"cgpu\": {\n      \"path\": \"/r\"\n"
            "    }\n  }\n}\n");
  EXPECT_EQ(Set("{\n\t\"a\": 1\n}", {"b"}, "x"), "{\n\t\"a\": 1,\n\t\"b\": \"x\"\n}");
  EXPECT_EQ(Set("{\"a\":1}", {"b"}, "x"), "{\"a\":1, \"b\": \"x\"}");
  EXPECT_EQ(Set("{\r\n  \"a\": 1\r\n}\r\n", {"b"}, "x"),
            "{\r\n  \"a\": 1,\r\n  \"b\": \"x\"\r\n}\r\n");
  EXPECT_EQ(Set("{\n  \"runtimes\": {}\n}\n", {"runtimes", "r"}, "x"),
            "{\n  \"runtimes\": {\n    \"r\": \"x\"\n  }\n}\n");
  EXPECT_EQ(Set("{\"runtimes\": { }, \"z\": 0}", {"runtimes", "r"}, "x"),
            "{\"runtimes\": {\"r\": \"x\"}, \"z\": 0}");
}

TEST(JsonTextTest, NoTextAndAnEmptyObjectGetLinesOfTheirOwn) {
  const std::string written = "{\n    \"a\": \"x\"\n}\n";
  EXPECT_EQ(Set("", {"a"}, "x"), written);
  EXPECT_EQ(Set(" \n", {"a"}, "x"), written);
  EXPECT_EQ(Set("{}\n", {"a"}, "x"), written);
  EXPECT_EQ(Set("{\n}\n", {"a"}, "x"), written);
}

TEST(JsonTextTest, ReplacesAValueInItsPlace) {
  EXPECT_EQ(Set("{ \"a\" : \"x, \\\"y\\\" }\" , \"b\":[{}] }", {"a"}, "z"),
            "{ \"a\" : \"z\" , \"b\":[{}] }");
  EXPECT_EQ(Set("{\"a\": {\"deep\": [1, \"}\"]}}", {"a", "deep"}, "\xC3\xA9\"\\"),
            "{\"a\": {\"deep\": \"\xC3\xA9\\\"\\\\\"}}");
}

TEST(JsonTextTest, RemovesAMemberWithItsComma) {
  const std::string text = "{\n  \"a\": 1,\n  \"b\": {\"c\": 2},\n  \"d\": 3\n}\n";
  EXPECT_EQ(Remove(text, {"a"}), "{\n  \"b\": {\"c\": 2},\n  \"d\": 3\n}\n");
  EXPECT_EQ(Remove(text, {"b"}), "{\n  \"a\": 1,\n  \"d\": 3\n}\n");
  EXPECT_EQ(Remove(text, {"d"}), "{\n  \"a\": 1,\n  \"b\": {\"c\": 2}\n}\n");
  EXPECT_EQ(Remove(text, {"b", "c"}), "{\n  \"a\": 1,\n  \"b\": {},\n  \"d\": 3\n}\n");
  EXPECT_EQ(Remove(text, {"e"}), text);
  EXPECT_EQ(Remove(text, {"a", "c"}), text);
}

TEST(JsonTextTest, KeepsAByteOrderMark) {
  EXPECT_EQ(Set("\xEF\xBB\xBF{\"a\": 1}", {"b"}, "x"), "\xEF\xBB\xBF{\"a\": 1, \"b\": \"x\"}");
}

TEST(JsonTextTest, FindsKeysThatAreWrittenWithEscapes) {
  EXPECT_EQ(Set("{\"\\u0061\": \"x\"}", {"a"}, "y"), "{\"\\u0061\": \"y\"}");
}

TEST(JsonTextTest, RefusesWhatIsNotJsonOrNotClear) {
  for (const char* text : {"{\"a\": 1,}", "{ // no\n}", "{\"a\": 1} x", "{'a': 1}",
                           "{\"a\": \"\xFF\"}", "{", "nothing"}) {
    const auto json = JsonText::Parse(text);
    ASSERT_FALSE(json.ok()) << text;
    EXPECT_NE(json.error().what.find("is not valid JSON: parse error at line"), std::string::npos)
        << json.error().what;
  }
  EXPECT_EQ(JsonText::Parse("[1]").error().what, "is not a JSON object");
  EXPECT_EQ(JsonText::Parse("{\"x\": {\"a\": 1, \"b\": {\"a\": 1}, \"\\u0061\": 2}}").error().what,
            "names \"a\" twice");
  EXPECT_EQ(JsonText::Parse(std::string(200, '[')).error().what,
            "nests too deep to be a configuration");
  EXPECT_EQ(Set("{\"runtimes\": []}", kProgram, "/r"),
            "error: has something else than an object as \"runtimes\"");
  EXPECT_EQ(Set("{}", kProgram, "/\xFF"), "error: cannot have \"/\xFF\" in it: not UTF-8");
}

}  // namespace
}  // namespace cgpu::install
