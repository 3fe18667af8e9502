// The copy classes: the right bytes, in the time that they take.
#include <gtest/gtest.h>

#include "sim/engine/tests/world.h"

namespace cgpu::sim::engine::testing {
namespace {

constexpr std::uint64_t kFrom = Client::kData;
constexpr std::uint64_t kTo = Client::kData + 0x40000;
constexpr std::uint32_t kPitch = (1U << 7U) | (1U << 8U);
constexpr std::uint32_t kNonPipelined = 2;
constexpr std::uint32_t kMultiLine = 1U << 9U;
constexpr std::uint32_t kRemap = 1U << 10U;
constexpr std::uint32_t kOneWord = 1U << 3U;
constexpr std::uint32_t kFourWords = 2U << 3U;

class Copy : public ::testing::Test {
 protected:
  void SetUp() override {
    for (std::uint32_t i = 0; i < 0x30000; i += 4) {
      client.Put<std::uint32_t>(kFrom + i, i * 2'654'435'761U);
    }
  }
  // A copy as tinygrad sends it, with its own object on subchannel 4.
  static Words Start() {
    Words words;
    Method(words, kCopy, 0, {0xc6b5});
    Method(words, kCopy, 0x400, {High(kFrom), Low(kFrom), High(kTo), Low(kTo)});
    return words;
  }
  static void Release(Words& words, std::uint32_t type) {
    constexpr std::uint64_t kSemaphore = Client::kSemaphore;
    Method(words, kCopy, 0x240, {High(kSemaphore), Low(kSemaphore), 6});
    Method(words, kCopy, 0x300, {type});
  }
  void Do(const Words& words) {
    client.Submit(words);
    world.Run(kMillisecond);
  }
  World world;
  Client client{world, 1, kCopyEngine};
};

TEST_F(Copy, BytesArriveInTheTimeThatTheyTake) {
  Words words = Start();
  Method(words, kCopy, 0x418, {200'001});
  Method(words, kCopy, 0x300, {kNonPipelined | kPitch});
  Release(words, kFourWords);
  client.Submit(words);
  world.Run(45 * kMicrosecond);
  EXPECT_EQ(0U, client.Get<std::uint32_t>(Client::kSemaphore));
  world.Run(kMillisecond);
  for (std::uint32_t i = 0; i < 196'608; i += 4) {
    ASSERT_EQ(client.Get<std::uint32_t>(kFrom + i), client.Get<std::uint32_t>(kTo + i)) << i;
  }
  EXPECT_EQ(6U, client.Get<std::uint64_t>(Client::kSemaphore));
  EXPECT_EQ(200'001U, client.Accounting().copied_bytes);
  // 40 us of switch and 20 bytes a nanosecond.
  EXPECT_NEAR(50'000.0, static_cast<double>(client.Get<std::uint64_t>(Client::kSemaphore + 8)),
              1000.0);
}

TEST_F(Copy, LongCopiesMoveInPieces) {
  Costs costs;
  costs.bytes_per_us = 1000;  // 1 MiB/ms
  World slow(costs);
  Client other(slow, 1, kCopyEngine);
  for (std::uint32_t i = 0; i < 0x50000; i += 4) {
    other.Put<std::uint32_t>(FlatMemory::kBase + i, i);
  }
  Words words;
  Method(words, kCopy, 0, {0xc6b5});
  Method(words, kCopy, 0x400, {1, 0x10000, 1, 0x90000});
  Method(words, kCopy, 0x418, {0x50000});  // more than one chunk
  Method(words, kCopy, 0x300, {kNonPipelined | kPitch | kOneWord});
  other.Put<std::uint32_t>(FlatMemory::kBase + 0xd0000, 0x55);
  other.Submit(words);
  slow.Run(290 * kMicrosecond);
  EXPECT_EQ(0U, other.Accounting().copied_bytes);
  slow.Run(20 * kMicrosecond);
  EXPECT_EQ(0x40000U, other.Accounting().copied_bytes);
  EXPECT_EQ(0x55U, other.Get<std::uint32_t>(FlatMemory::kBase + 0xd0000));
  slow.Run(kMillisecond);
  EXPECT_EQ(0x50000U, other.Accounting().copied_bytes);
  EXPECT_NE(0x55U, other.Get<std::uint32_t>(FlatMemory::kBase + 0xd0000));
}

TEST_F(Copy, LinesLieApart) {
  Words words = Start();
  Method(words, kCopy, 0x410, {64, 32, 10, 3});
  Method(words, kCopy, 0x300, {kNonPipelined | kPitch | kMultiLine});
  Do(words);
  for (std::uint32_t line = 0; line < 3; ++line) {
    for (std::uint32_t i = 0; i < 32; ++i) {
      const auto from = client.Get<std::uint8_t>(kFrom + (line * 64) + i);
      EXPECT_EQ(i < 10 ? from : 0, client.Get<std::uint8_t>(kTo + (line * 32) + i));
    }
  }
  EXPECT_EQ(0U, client.Get<std::uint8_t>(kTo + 96));
}

TEST_F(Copy, WithoutMultiLineThereIsOneLine) {
  Words words = Start();
  Method(words, kCopy, 0x410, {64, 32, 10, 3});
  Method(words, kCopy, 0x300, {kNonPipelined | kPitch});
  Do(words);
  EXPECT_EQ(10U, client.Accounting().copied_bytes);
}

TEST_F(Copy, ConstantsFillMemory) {
  Words words = Start();
  Method(words, kCopy, 0x700, {0xa1b2c3d4, 0x11});
  Method(words, kCopy, 0x708, {4U | (3U << 16U)});  // X is constant A, four bytes
  Method(words, kCopy, 0x418, {100});               // elements
  Method(words, kCopy, 0x300, {kNonPipelined | kPitch | kRemap});
  Do(words);
  for (std::uint32_t i = 0; i < 100; ++i) {
    EXPECT_EQ(0xa1b2c3d4, client.Get<std::uint32_t>(kTo + (i * 4)));
  }
  EXPECT_EQ(0U, client.Get<std::uint32_t>(kTo + 400));
}

TEST_F(Copy, ElementsAreRearranged) {
  Words words = Start();
  Method(words, kCopy, 0x700, {0xaa, 0xbb});
  // Components of two bytes each: X from Y, Y from X, Z is constant B, W stays.
  constexpr std::uint32_t kComponents =
      1U | (0U << 4U) | (5U << 8U) | (6U << 12U) | (0U << 16U) | (1U << 20U) | (3U << 24U);
  Method(words, kCopy, 0x708, {kComponents});
  Method(words, kCopy, 0x418, {2});
  Method(words, kCopy, 0x300, {kNonPipelined | kPitch | kRemap});
  client.Put<std::uint32_t>(kFrom, 0x04030201);
  client.Put<std::uint64_t>(kTo, 0x7777777777777777);
  Do(words);
  EXPECT_EQ(0x77bb030477bb0102U, client.Get<std::uint64_t>(kTo));
}

TEST_F(Copy, WhatIsNotModelledMovesNothingAndReleases) {
  constexpr std::uint32_t kPhysical = 1U << 12U;
  Words words = Start();
  Method(words, kCopy, 0x418, {100});
  Method(words, kCopy, 0x300, {kNonPipelined | kPitch | kPhysical});
  Method(words, kCopy, 0x300, {kNonPipelined});  // block-linear
  Release(words, kOneWord);
  Do(words);
  EXPECT_EQ(0U, client.Accounting().copied_bytes);
  EXPECT_EQ(2U, client.ChannelAccountingNow().ignored_methods);
  EXPECT_EQ(6U, client.Get<std::uint32_t>(Client::kSemaphore));
}

TEST_F(Copy, OnTheGraphicsRunlistACopyTakesItsTime) {
  Client beside(world, 2, kGraphics);
  for (std::uint32_t i = 0; i < 1000; ++i) {
    beside.Put<std::uint8_t>(kFrom + i, static_cast<std::uint8_t>(i));
  }
  Words words = Start();
  Method(words, kCopy, 0x418, {1000});
  Method(words, kCopy, 0x300, {kNonPipelined | kPitch});
  beside.Submit(words);
  world.Run(kMillisecond);
  EXPECT_EQ(0U, client.Accounting().gpu_time_ns);
  EXPECT_GT(beside.Accounting().gpu_time_ns, 0U);
  EXPECT_EQ(231U, beside.Get<std::uint8_t>(kTo + 999));
}

}  // namespace
}  // namespace cgpu::sim::engine::testing
