#include "protocol/admin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "protocol/text.h"

namespace cgpu {
namespace {

ContainerStatus ExampleStatus() {
  ContainerStatus status;
  status.id = "3f2a00bc11de";
  status.name = "train-1";
  status.pid = 4711;
  status.shim = 4712;
  status.user = 1000;
  status.state = "running";
  status.since = 1790000000;
  status.counters = {
      {1, 2, 3, 4, 5, 6, 7, 8}, {9, 10, 11, 12, 13, 14}, {15, 16, 17, 18, 19, 20, 21, 22}, 23, 24};
  status.gpus = {{"GPU-8a56", 0, 1, 100, 50, 60, 3, 0, 77}, {"GPU-9b67", 1, 0, 100, 0, 0, 0}};
  return status;
}

TEST(Admin, StatusIsTheSameAfterEncodingAndDecoding) {
  const auto decoded = DecodeStatus(EncodeStatus(ExampleStatus()));
  ASSERT_TRUE(decoded.ok()) << decoded.error().what;
  EXPECT_EQ(EncodeStatus(decoded.value()), EncodeStatus(ExampleStatus()));
  EXPECT_EQ(decoded.value().gpus[0].host_index, 1U);
  EXPECT_EQ(decoded.value().gpus[0].denied, 3U);
  EXPECT_EQ(decoded.value().gpus[0].throttled_ns, 77U);
  EXPECT_EQ(decoded.value().counters, ExampleStatus().counters);
  EXPECT_EQ(decoded.value().pid, 4711U);
}

// Programs of other versions read and write these texts, too.
TEST(Admin, TextsAreTheSameForEver) {
  EXPECT_EQ(EncodeStatus(ExampleStatus()),
            "id 3f2a00bc11de\nname train-1\npid 4711\nshim 4712\nuser 1000\nstate running\n"
            "since 1790000000\n"
            "counters 24 23 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22\n"
            "card GPU-8a56 0 1 100 50 60 3 77\ncard GPU-9b67 1 0 100 0 0 0 0\n.\n");
  EXPECT_EQ(EncodeGpuMemory({100, 70, {{7, 20}, {4711, 50}}}),
            "limit 100\nused 70\nprocess 7 20\nprocess 4711 50\n.\n");
  for (const char* text :
       {"ps\n", "memory GPU-1\n", "set * 1048576\n", "order GPU-1 3000 20000 6000 500 3 4\n",
        "order GPU-1 3000 0 0 0 4 0\n", "refused\n", "trace\n", "watch\n", "upgrade\n"}) {
    const auto request = DecodeRequest(text);
    ASSERT_TRUE(request.ok()) << text;
    EXPECT_EQ(EncodeRequest(*request), text);
  }
}

TEST(Admin, AShimOfAnEarlierVersionDoesNotSayItsNumber) {
  std::string text = EncodeStatus(ExampleStatus());
  text.erase(text.find("shim 4712\n"), 10);
  const auto status = DecodeStatus(text);
  ASSERT_TRUE(status.ok()) << status.error().what;
  EXPECT_EQ(status->shim, 0U);
}

TEST(Admin, AShimOfAnEarlierVersionCountsNothing) {
  const auto status = DecodeStatus(
      "id 3f2a00bc11de\nname train-1\npid 4711\nuser 1000\nstate running\nsince 1790000000\n"
      "card GPU-8a56 0 1 100 50 60 3\n.\n");
  ASSERT_TRUE(status.ok()) << status.error().what;
  EXPECT_FALSE(status->counters.has_value());
  EXPECT_EQ(status->gpus[0].denied, 3U);
  EXPECT_EQ(status->gpus[0].throttled_ns, 0U);
}

TEST(Admin, EveryCutOffStatusIsNoticed) {
  const std::string text = EncodeStatus(ExampleStatus());
  for (std::size_t n = 0; n < text.size(); ++n) {
    EXPECT_FALSE(DecodeStatus(text.substr(0, n)).ok()) << n;
  }
}

TEST(Admin, RefusesBadStatus) {
  const std::string good = EncodeStatus(ExampleStatus());
  const std::string body = good.substr(0, good.size() - 2);
  for (const char* bad :
       {"card GPU-1 0 0 1 1 1", "card GPU-1 0 0 1 1 1 x", "id 3f2a00bc11de", "id",
        "card GPU-1 0 0 1 1 1 99999999999999999999", "card GPU-1 0 0 1 1 1 1 x",
        "counters 24 23 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22"}) {
    EXPECT_FALSE(DecodeStatus(body + bad + "\n.\n").ok()) << bad;
  }
  ContainerStatus silent = ExampleStatus();
  silent.counters.reset();
  const std::string without = EncodeStatus(silent);
  EXPECT_TRUE(DecodeStatus(without).ok());
  for (const char* bad : {"counters 1 2 3", "counters x", "counters"}) {
    EXPECT_FALSE(DecodeStatus(bad + ("\n" + without)).ok()) << bad;
  }
  for (std::string ContainerStatus::* word :
       {&ContainerStatus::id, &ContainerStatus::name, &ContainerStatus::state}) {
    ContainerStatus status = ExampleStatus();
    status.*word = "a/b";
    EXPECT_FALSE(DecodeStatus(EncodeStatus(status)).ok()) << EncodeStatus(status);
  }
}

TEST(Admin, WhatALaterVersionSaysOfAContainerIsPassedOver) {
  const std::string good = EncodeStatus(ExampleStatus());
  const std::string body = good.substr(0, good.size() - 2);
  const auto later = DecodeStatus(body + "weather fine 3\ncard GPU-9 9 9 1 2 3 4 5 6\n.\n");
  ASSERT_TRUE(later.ok());
  EXPECT_EQ(later->id, ExampleStatus().id);
  EXPECT_EQ(later->gpus.back().denied, 4U);
}

TEST(Admin, MemoryIsTheSameAfterEncodingAndDecoding) {
  const GpuMemory example{100, 70, {{7, 20}, {4711, 50}}};
  const std::string text = EncodeGpuMemory(example);
  const auto decoded = DecodeGpuMemory(text);
  ASSERT_TRUE(decoded.ok()) << decoded.error().what;
  EXPECT_EQ(EncodeGpuMemory(*decoded), text);
  EXPECT_EQ(decoded->limit_bytes, 100U);
  EXPECT_EQ(decoded->used_bytes, 70U);
  EXPECT_EQ(decoded->processes[1].pid, 4711U);
  EXPECT_EQ(decoded->processes[1].bytes, 50U);
  for (std::size_t n = 0; n < text.size(); ++n) {
    EXPECT_FALSE(DecodeGpuMemory(text.substr(0, n)).ok()) << n;
  }
  EXPECT_TRUE(DecodeGpuMemory("limit 1\nused 1\nweather fine\nprocess 1 1 later\n.\n").ok());
  for (const char* bad :
       {"limit 1\n.\n", "limit 1\nused\n.\n", "limit 1\nused 1\nused 1\n.\n",
        "limit 1\nused 1\nprocess 1\n.\n", "limit 1\nused 1\nprocess 0 1\n.\n",
        "limit 1\nused 1\nprocess 1 -1\n.\n", "limit 1\nused 1\nprocess 2 1\nprocess 2 1\n.\n"}) {
    EXPECT_FALSE(DecodeGpuMemory(bad).ok()) << bad;
  }
  const auto older = DecodeGpuMemory("error unknown request\n");
  ASSERT_FALSE(older.ok());
  EXPECT_EQ(older.error().code, Code::kUnsupported);
}

TEST(Admin, OfVeryManyProcessesThoseWithTheMostAreNamed) {
  GpuMemory many;
  for (unsigned i = 1; i <= kMaxProcesses + 10; ++i) {
    many.processes.push_back({i, i});
  }
  const std::string text = EncodeGpuMemory(many);
  EXPECT_LT(text.size(), kMaxMessage);
  const auto decoded = DecodeGpuMemory(text);
  ASSERT_TRUE(decoded.ok()) << decoded.error().what;
  ASSERT_EQ(decoded->processes.size(), kMaxProcesses);
  EXPECT_EQ(decoded->processes.front().pid, 11U);
  EXPECT_FALSE(DecodeGpuMemory(text.substr(0, text.size() - 2) + "process 5000 1\n.\n").ok());
}

TEST(Admin, APauseIsANumberAndNothingElse) {
  EXPECT_EQ(*DecodeUpgraded(EncodeUpgraded(1234)), 1234U);
  const auto failed = DecodeUpgraded(EncodeOutcome(Error{Code::kConflict, 0, "it is busy", {}}));
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().what, "it is busy");
  for (const char* bad : {"", "ok\n", "ok x\n", "ok 1 2\n", "state\n", "ok 1\nok 2\n"}) {
    EXPECT_FALSE(DecodeUpgraded(bad).ok()) << bad;
  }
}

TEST(Admin, RequestsAreTheSameAfterEncodingAndDecoding) {
  EXPECT_EQ((*DecodeRequest(EncodeRequest({}))).kind, AdminRequest::Kind::kPs);
  AdminRequest order{AdminRequest::Kind::kOrder,
                     "GPU-8a56",
                     0,
                     {3'000, {20'000, 6'000, 500}, true, true, 4, governor::Trigger::kPreempt}};
  const auto ordered = DecodeRequest(EncodeRequest(order));
  ASSERT_TRUE(ordered.ok()) << ordered.error().what;
  EXPECT_EQ(ordered->kind, AdminRequest::Kind::kOrder);
  EXPECT_EQ(ordered->uuid, "GPU-8a56");
  EXPECT_EQ(ordered->order, order.order);
  for (const char* bad :
       {"order GPU-1 1 2 3 4", "order GPU-1 1 0 0 1 0 0", "order GPU-1 1 20000 0 0 0 0",
        "order GPU-1 1 20000 10001 10000 0 0", "order GPU-1 1 0 0 0 16 0",
        "order GPU-1 x 0 0 0 0 0", "order GPU-1 2000000 0 0 0 0 0"}) {
    EXPECT_FALSE(DecodeRequest(std::string(bad) + "\n").ok()) << bad;
  }
  const auto set = DecodeRequest(EncodeRequest({AdminRequest::Kind::kSet, "*", 1 << 20}));
  ASSERT_TRUE(set.ok());
  EXPECT_EQ(set.value().kind, AdminRequest::Kind::kSet);
  EXPECT_EQ(set.value().uuid, "*");
  EXPECT_EQ(set.value().bytes, std::uint64_t{1} << 20);
  const auto memory = DecodeRequest(EncodeRequest({AdminRequest::Kind::kMemory, "GPU-1", 0}));
  ASSERT_TRUE(memory.ok());
  EXPECT_EQ(memory->kind, AdminRequest::Kind::kMemory);
  EXPECT_EQ(memory->uuid, "GPU-1");
  for (const char* bad :
       {"", "ps x", "memory", "memory GPU-1 x", "set", "set *", "set * -1", "set * 1 2", "kill",
        "ps\nps", "ps\nwatch", "set * 18446744073709551616"}) {
    EXPECT_FALSE(DecodeRequest(bad).ok()) << bad;
  }
}

TEST(Admin, OutcomesCarryTheSentence) {
  EXPECT_TRUE(DecodeOutcome(EncodeOutcome({})).ok());
  const auto failed =
      DecodeOutcome(EncodeOutcome(Error{Code::kInvalid, 0, "no such card:\nGPU-1", {}}));
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().what, "no such card: GPU-1");
  EXPECT_EQ(DecodeOutcome("").error().code, Code::kUnavailable);
  EXPECT_FALSE(DecodeOutcome("ok").ok());
  EXPECT_FALSE(DecodeOutcome("error " + std::string(100'000, 'x') + "\n").ok());
  EXPECT_EQ(DecodeOutcome("error \n").error().code,
            Code::kUnavailable);  // every error has a sentence
}

}  // namespace
}  // namespace cgpu
