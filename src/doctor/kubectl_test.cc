#include "doctor/kubectl.h"

#include <gtest/gtest.h>

#include "doctor/testing.h"

namespace cgpu::doctor {
namespace {

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
