#include "doctor/kubectl.h"

#include <gtest/gtest.h>

#include "doctor/testing.h"

namespace cgpu::doctor {
namespace {

TEST(Values, AreReadWithoutSurprises) {
  const Value value = Value::Parse(R"({"a": {"b": [1, "x"]}, "n": 7})");
  EXPECT_EQ(value["a"]["b"].Items().size(), 2U);
  EXPECT_EQ(value["a"]["b"].Items()[1].Text(), "x");
  EXPECT_EQ(value["n"].Number(), 7);
  EXPECT_EQ(value["n"].Text(), "");
  EXPECT_EQ(value["n"]["b"]["c"].Number(3), 3);
  EXPECT_TRUE(value["a"].Items().empty());
  EXPECT_EQ(value.Keys(), (std::vector<std::string>{"a", "n"}));
  EXPECT_TRUE(Value::Parse("{").Keys().empty());
}

TEST(Kubectl, WarnsBeforeItPrintsJson) {
  FakeHost host;
  host.Says(Get("nodes"), "Warning: old\n{\"items\": [{}]}");
  const auto found = GetObject(host, {"nodes"});
  ASSERT_TRUE(found.ok());
  EXPECT_EQ((*found)["items"].Items().size(), 1U);
}

TEST(Kubectl, WhatIsMissingIsNotWhatNobodyAnswers) {
  FakeHost host;
  EXPECT_EQ(GetObject(host, {"nodes"}).error().code, Code::kUnavailable);
  host.Says(Get("nodes"), "Unable to connect to the server\n", 1);
  EXPECT_EQ(GetObject(host, {"nodes"}).error().code, Code::kUnavailable);
  host.Says(Get("pods x"), "Error from server (NotFound): pods \"x\" not found\n", 1);
  EXPECT_EQ(GetObject(host, {"pods", "x"}).error().code, Code::kNotFound);
}

TEST(Kubectl, TheReleaseIsWhereItsWebhookIs) {
  FakeHost host;
  EXPECT_EQ(ReleaseNamespace(host), "cgpu-system");
  host.Says(Get("mutatingwebhookconfigurations cgpu"),
            R"({"webhooks": [{"clientConfig": {"service": {"namespace": "gpus"}}}]})");
  EXPECT_EQ(ReleaseNamespace(host), "gpus");
}

}  // namespace
}  // namespace cgpu::doctor
