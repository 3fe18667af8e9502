#include "shim/runtime_state.h"

#include <gtest/gtest.h>

#include <string>

namespace cgpu::shim {
namespace {

// Written by runc 1.1.5.
constexpr std::string_view kCompact =
    R"({"ociVersion":"1.0.2-dev","fds":["seccompFd"],"pid":4711,"metadata":"cgpu","state":{)"
    R"("ociVersion":"1.0.2-dev","id":"3f2a","status":"running","pid":42,"bundle":"/run/b",)"
    R"("annotations":{"pid":"7","a":"{\"pid\": 8"}}})";

// Written by crun 1.8.1.
constexpr std::string_view kPretty = R"({
  "ociVersion": "0.2.0",
  "fds": [
    "seccompFd"
  ],
  "pid": 4711,
  "metadata": "pid",
  "state": {
    "ociVersion": "1.0",
    "id": "3f2a",
    "pid": 42,
    "root": "/b/rootfs",
    "bundle": "/b"
  }
}
)";

TEST(RuntimeStateTest, FindsTheProcess) {
  EXPECT_EQ(ProcessOf(kCompact), 4711U);
  EXPECT_EQ(ProcessOf(kPretty), 4711U);
  EXPECT_EQ(ProcessOf(R"({"pid":1})"), 1U);
  EXPECT_EQ(ProcessOf("{\"a\":{},\"b\":[[{\"pid\":1}],\"}\"],\t\"pid\"\n:\r 12 }"), 12U);
}

TEST(RuntimeStateTest, TheContainersIsAnother) {
  EXPECT_EQ(ProcessOf(R"({"state":{"pid":42}})"), std::nullopt);
  EXPECT_EQ(ProcessOf(R"({"state":[{"pid":42},"pid",42]})"), std::nullopt);
  EXPECT_EQ(ProcessOf(R"({"state":{"pid":42},"pid":43})"), 43U);
  EXPECT_EQ(ProcessOf(R"([{"pid":42}])"), std::nullopt);
}

TEST(RuntimeStateTest, StringsAreNotLookedInto) {
  EXPECT_EQ(ProcessOf(R"({"a":"\"pid\":42","pid":43})"), 43U);
  EXPECT_EQ(ProcessOf(R"({"a":",\"pid\":42,","b":"\\"})"), std::nullopt);
  EXPECT_EQ(ProcessOf(R"({"a":"pid","b":42})"), std::nullopt);
  EXPECT_EQ(ProcessOf(R"({"":"pid","":42})"), std::nullopt);
  EXPECT_EQ(ProcessOf(R"({"a":"}","pid":43})"), 43U);
  EXPECT_EQ(ProcessOf(R"({"pid":"42"})"), std::nullopt);
}

TEST(RuntimeStateTest, KeysMayBeEscaped) {
  EXPECT_EQ(ProcessOf(R"({"p\u0069d":42})"), 42U);
  EXPECT_EQ(ProcessOf(R"({"\u0070\u0069\u0064":42})"), 42U);
  EXPECT_EQ(ProcessOf(R"({"p\u0069":42,"pi\u0064d":43,"p\u1069d":44,"pi\\u0064":45})"),
            std::nullopt);
  EXPECT_EQ(ProcessOf(R"({"p\nid":42,"Pid":43,"pids":44,"xpid":45,"pi":46})"), std::nullopt);
}

TEST(RuntimeStateTest, OnlyProcessNumbers) {
  EXPECT_EQ(ProcessOf(R"({"pid":4194304})"), 4194304U);
  for (const char* number :
       {"0", "-1", "-0", "4194305", "4294967297", "18446744073709551617", "1.0", "1e3", "null",
        "true", "[1]", "{}", "007", "{\"pid\":3}", "\"3\""}) {
    EXPECT_EQ(ProcessOf("{\"pid\":" + std::string(number) + "}"), std::nullopt) << number;
    EXPECT_EQ(ProcessOf("{\"pid\":" + std::string(number) + ",\"a\":5}"), std::nullopt) << number;
  }
}

TEST(RuntimeStateTest, OfSeveralTheLastCounts) {
  EXPECT_EQ(ProcessOf(R"({"pid":1,"pid":2})"), 2U);
  EXPECT_EQ(ProcessOf(R"({"pid":1,"pid":"2"})"), std::nullopt);
  EXPECT_EQ(ProcessOf(R"({"pid":[1],"pid":2})"), 2U);
}

// At every cut the text has no number or the right one; in whatever pieces it comes, it is found.
TEST(RuntimeStateTest, ComesInPieces) {
  for (const std::string_view text : {kCompact, kPretty}) {
    const std::size_t known = text.find("4711") + 4;
    for (std::size_t cut = 0; cut <= text.size(); ++cut) {
      RuntimeState state;
      state.Read(text.substr(0, cut));
      EXPECT_EQ(state.process().has_value(), cut > known) << cut;
      EXPECT_EQ(state.over(), cut > text.rfind('}')) << cut;
      state.Read(text.substr(cut));
      EXPECT_EQ(state.process(), 4711U) << cut;
      EXPECT_TRUE(state.over());
    }
    RuntimeState state;
    for (std::size_t i = 0; i < text.size(); ++i) {
      state.Read(text.substr(i, 1));
    }
    EXPECT_EQ(state.process(), 4711U);
  }
}

TEST(RuntimeStateTest, KnowsItsMetadata) {
  const auto knows = [](std::string_view text) {
    RuntimeState whole("0123abcd");
    whole.Read(text);
    RuntimeState pieces("0123abcd");
    for (std::size_t i = 0; i < text.size(); ++i) {
      pieces.Read(text.substr(i, 1));
    }
    EXPECT_EQ(whole.has_metadata(), pieces.has_metadata()) << text;
    return whole.has_metadata();
  };
  EXPECT_TRUE(knows(R"({"pid":42,"metadata":"0123abcd"})"));
  EXPECT_TRUE(knows(R"( { "metadata" : "0123abcd" , "pid" : 42 } )"));
  for (const char* text :
       {R"({"pid":42})", R"({"metadata":"0123abc"})", R"({"metadata":"0123abcde"})",
        R"({"metadata":"0123abcx"})", R"({"metadata":""})", R"({"metadata":["0123abcd"]})",
        R"({"state":{"metadata":"0123abcd"}})", R"({"state":"\"metadata\":\"0123abcd\""})",
        R"({"metadat":"0123abcd"})", R"({"metadatas":"0123abcd"})", R"("metadata":"0123abcd")",
        R"({"metadata":"0123abcd","metadata":"x"})", R"({"0123abcd":"metadata"})",
        R"({"metadata":"\n0123abcd"})"}) {
    EXPECT_FALSE(knows(text)) << text;
  }
}

TEST(RuntimeStateTest, WhatIsNoObjectIsOver) {
  for (const char* text : {"x", "[", "\"", "}", "42", "]"}) {
    RuntimeState state;
    state.Read(text);
    EXPECT_TRUE(state.over()) << text;
    state.Read(R"({"pid":42})");
    EXPECT_EQ(state.process(), std::nullopt) << text;
  }
  RuntimeState empty;
  empty.Read(" \n");
  EXPECT_FALSE(empty.over());
  RuntimeState whole;
  whole.Read(R"({"pid":42} {"pid":43})");
  EXPECT_EQ(whole.process(), 42U);
}

}  // namespace
}  // namespace cgpu::shim
