#include "shim/replay.h"

#include <gtest/gtest.h>

namespace cgpu::shim {
namespace {

Image Bytes(int value) {
  return {{std::byte(value)}};
}

TEST(Replay, AnswersTheSameCallFromItsRecord) {
  ReplayLog log;
  const ReplayKey key{1, 100, 0x4000, {3, 0xc030462b, 0x7000}};
  EXPECT_EQ(log.Find(key, Bytes(1)), nullptr);
  log.Add({key, Bytes(1), Bytes(2), 0});
  ASSERT_NE(log.Find(key, Bytes(1)), nullptr) << "the results were never written";
  EXPECT_EQ(log.Find(key, Bytes(1))->output, Bytes(2));
  EXPECT_NE(log.Find(key, Bytes(2)), nullptr) << "written, but the wake-up was lost";
  EXPECT_EQ(log.Find(key, Bytes(3)), nullptr) << "new parameters are a new call";
}

TEST(Replay, AnAnsweredCallIsOnlyRepeatedAtOnceAndWithItsResults) {
  ReplayLog log;
  const ReplayKey key{1, 100, 0x4000, {3, 4, 5}};
  const ReplayKey other{1, 100, 0x5000, {3, 4, 6}};
  log.Add({key, Bytes(1), Bytes(2), 0});
  log.Begin(other);
  EXPECT_NE(log.Find(key, Bytes(1)), nullptr) << "a signal handler's call in between";
  log.Answered(key);
  EXPECT_EQ(log.Find(key, Bytes(1)), nullptr) << "the same parameters anew are a new call";
  log.Begin(key);
  EXPECT_NE(log.Find(key, Bytes(2)), nullptr) << "the wake-up was lost";
  log.Begin(other);
  EXPECT_EQ(log.Find(key, Bytes(2)), nullptr) << "the thread has gone on";
}

TEST(Replay, TellsThreadsPlacesAndProcessesApart) {
  ReplayLog log;
  const ReplayKey key{1, 100, 0x4000, {3, 4, 5}};
  log.Add({key, Bytes(1), Bytes(2), 0});
  for (const ReplayKey& other :
       {ReplayKey{2, 100, 0x4000, {3, 4, 5}}, ReplayKey{1, 101, 0x4000, {3, 4, 5}},
        ReplayKey{1, 100, 0x4002, {3, 4, 5}}, ReplayKey{1, 100, 0x4000, {4, 4, 5}}}) {
    EXPECT_EQ(log.Find(other, Bytes(1)), nullptr);
  }
  log.DropProcess(1);
  EXPECT_EQ(log.Find(key, Bytes(1)), nullptr);
}

TEST(Replay, KeepsCallsOfSignalHandlersApart) {
  ReplayLog log;
  const ReplayKey outer{1, 100, 0x4000, {3, 4, 5}};
  const ReplayKey handler{1, 100, 0x5000, {3, 4, 6}};
  log.Add({outer, Bytes(1), Bytes(2), 0});
  log.Add({handler, Bytes(7), Bytes(8), 0});
  EXPECT_NE(log.Find(outer, Bytes(1)), nullptr);
  EXPECT_NE(log.Find(handler, Bytes(7)), nullptr);
  log.Add({outer, Bytes(4), Bytes(5), 0});
  EXPECT_EQ(log.Find(outer, Bytes(1)), nullptr) << "a later call replaces the record";
}

}  // namespace
}  // namespace cgpu::shim
