#include "shim/replay.h"

#include <gtest/gtest.h>

#include <string>

#include "base/state.h"

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

std::string Saved(const ReplayLog& log) {
  StateWriter writer;
  writer.Begin(1);
  log.Save(writer);
  writer.End();
  return writer.Take();
}

Result<> Load(std::string_view bytes, ReplayLog& log) {
  StateReader reader(bytes);
  (void)reader.Enter();
  return log.Load(reader);
}

// Returns a log of two threads, with calls within calls, blocks of all sizes, and more calls than
// are kept.
ReplayLog FullLog() {
  ReplayLog log;
  for (std::uint64_t place = 0; place < 10; ++place) {
    log.Add({{1, 100, place << 40, {3, place, ~place}},
             {{std::byte{1}, std::byte(place)}, {}},
             {{}, {std::byte{0xff}}, {}},
             place == 4 ? 14 : 0,
             false});
  }
  log.Answered({1, 100, std::uint64_t{5} << 40, {3, 5, ~std::uint64_t{5}}});
  log.Add({{2, 101, 7, {1, 2, 3}}, Bytes(1), Bytes(2), -1, false});
  return log;
}

TEST(Replay, ASuccessorAnswersTheSame) {
  const ReplayLog log = FullLog();
  ReplayLog next;
  ASSERT_TRUE(Load(Saved(log), next).ok());
  EXPECT_EQ(Saved(next), Saved(log));
  for (std::uint64_t place = 0; place < 10; ++place) {
    const ReplayKey key{1, 100, place << 40, {3, place, ~place}};
    const Image input = {{std::byte{1}, std::byte(place)}, {}};
    const Image output = {{}, {std::byte{0xff}}, {}};
    const ReplayRecord* found = next.Find(key, input);
    EXPECT_EQ(found != nullptr, place >= 2 && place != 5) << place;
    EXPECT_EQ(next.Find(key, output) != nullptr, place >= 2) << place;
    if (found != nullptr) {
      EXPECT_EQ(found->output, output);
      EXPECT_EQ(found->error, place == 4 ? 14 : 0);
    }
  }
  ASSERT_NE(next.Find({2, 101, 7, {1, 2, 3}}, Bytes(1)), nullptr);
  EXPECT_EQ(next.Find({2, 101, 7, {1, 2, 3}}, Bytes(1))->error, -1);
  next.Add({{1, 100, 99, {}}, {}, {}, 0, false});
  EXPECT_EQ(next.Find({1, 100, std::uint64_t{2} << 40, {3, 2, ~std::uint64_t{2}}},
                      {{std::byte{1}, std::byte{2}}, {}}),
            nullptr)
      << "the oldest goes first";
}

TEST(Replay, BytesThatMakeNoSenseDoNoHarm) {
  const std::string whole = Saved(FullLog());
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const int value : {-1, 0, 1, 2, 3, 4, 0x7f, 0x80, 0xff}) {
      std::string wrong = value < 0 ? whole.substr(0, at) : whole;
      if (value >= 0) {
        wrong[at] = static_cast<char>(value);
      }
      ReplayLog log;
      if (Load(wrong, log).ok()) {
        ReplayLog next;
        ASSERT_TRUE(Load(Saved(log), next).ok());
        EXPECT_EQ(Saved(next), Saved(log));
      }
    }
  }
}

}  // namespace
}  // namespace cgpu::shim
