#include "host/events.h"

#include <gmock/gmock.h>

namespace cgpu {
namespace {

constexpr std::uint64_t kTime = 1'767'323'045'678;  // 2026-01-02T03:04:05.678Z
constexpr std::uint64_t kMib = std::uint64_t{1} << 20;

Event Denials() {
  return {kTime,
          events::kMemoryRefused,
          {{"container", "3f2a00bc11de"},
           {"name", "train"},
           {"gpu", "0"},
           {"count", std::uint64_t{42}},
           {"total", std::uint64_t{50}},
           {"over_ms", std::uint64_t{10'000}},
           {"limit_bytes", 4096 * kMib}}};
}

TEST(EventsTest, AreLinesOfJson) {
  const Event event{kTime, events::kDaemonStarted, {{"version", "1.2"}}};
  EXPECT_EQ(EncodeEvent(event),
            "{\"time\":\"2026-01-02T03:04:05.678Z\",\"kind\":\"daemon_started\","
            "\"version\":\"1.2\"}\n");
  EXPECT_EQ(DecodeEvent(EncodeEvent(event)), event);
  EXPECT_EQ(DecodeEvent(EncodeEvent(Denials())), Denials());
}

TEST(EventsTest, NoTextMakesASecondLineOrALongOne) {
  Event event{kTime, "started", {{"name", "a\nb\"\x1b\xff" + std::string(100'000, 'x')}}};
  const std::string line = EncodeEvent(event);
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  EXPECT_LT(line.size(), 500U);
  EXPECT_TRUE(
      std::ranges::all_of(line, [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); }));
  const auto read = DecodeEvent(line);
  ASSERT_TRUE(read);
  EXPECT_EQ(TextOf(*read, "name").substr(0, 5), "a\nb\"\x1b");
  for (const char c : SentenceOf(*read)) {
    EXPECT_TRUE(c >= ' ' && c <= '~') << static_cast<int>(c);
  }
}

TEST(EventsTest, OtherLinesAreNone) {
  const std::string good = EncodeEvent(Denials());
  for (std::size_t size = 0; size + 2 < good.size(); ++size) {
    EXPECT_FALSE(DecodeEvent(std::string_view(good).substr(0, size))) << size;
  }
  for (const char* const line :
       {"", "[]", "1", "null", "{}", R"({"time":"2026-01-02T03:04:05.678Z"})",
        R"({"time":"yesterday","kind":"x"})", R"({"time":5,"kind":"x"})",
        R"({"time":"2026-01-02T03:04:05.678Z","kind":"x","a":-1})",
        R"({"time":"2026-01-02T03:04:05.678Z","kind":"x","a":{}})",
        R"({"time":"2026-01-02T03:04:05.678Zz","kind":"x"})"}) {
    EXPECT_FALSE(DecodeEvent(line)) << line;
  }
  EXPECT_FALSE(DecodeEvent(std::string(7'000, '[')));
  Event large{kTime, "x", {}};
  for (int i = 0; i < 100; ++i) {
    large.fields["key" + std::to_string(i)] = std::string(200, 'x');
  }
  EXPECT_FALSE(DecodeEvent(EncodeEvent(large)));
}

TEST(EventsTest, SayWhatHappened) {
  EXPECT_EQ(SentenceOf(Denials()),
            "train (3f2a00bc11de) was refused memory at its limit on GPU 0 42 times in 10 s; the "
            "limit is 4096 MiB; 50 times so far");
  Event first = Denials();
  first.fields.erase("over_ms");
  EXPECT_THAT(SentenceOf(first), testing::HasSubstr("GPU 0 42 times; the"));
  first.fields["count"] = std::uint64_t{1};
  first.fields["total"] = std::uint64_t{1};
  EXPECT_EQ(SentenceOf(first),
            "train (3f2a00bc11de) was refused memory at its limit on GPU 0 once; the limit is 4096 "
            "MiB; once so far");
  EXPECT_EQ(
      SentenceOf(
          {kTime,
           events::kUpgraded,
           {{"name", "a"}, {"container", "b"}, {"to", "2.0"}, {"pause_us", std::uint64_t{1'700}}}}),
      "a (b) was upgraded to 2.0; its calls waited 1.7 ms");
  EXPECT_EQ(
      SentenceOf({kTime, events::kLeftOut, {{"count", std::uint64_t{1}}, {"who", "containers"}}}),
      "1 event was left out, since too many came from containers");
  EXPECT_EQ(
      SentenceOf({kTime, events::kLeftOut, {{"count", std::uint64_t{2}}, {"who", "containers"}}}),
      "2 events were left out, since too many came from containers");
  EXPECT_EQ(SentenceOf({kTime, events::kEnded, {{"name", "a"}}}), "a (?) ended: ?");
  EXPECT_EQ(SentenceOf({kTime, "of_later", {{"a", "b c"}, {"d", std::uint64_t{5}}}}),
            "of_later a=b c d=5");
}

TEST(EventsTest, AreFoundByContainerGpuAndTime) {
  Event event = Denials();
  event.fields["engine_id"] = "0f4cdeadbeef";
  event.fields["uuid"] = "GPU-1";
  event.fields["gpu"] = "1,12";
  const auto matches = [&](const EventFilter& filter) { return Matches(filter, event); };
  EXPECT_TRUE(matches({}));
  EXPECT_TRUE(matches({kTime, "train", "12"}));
  EXPECT_FALSE(matches({kTime + 1, "", ""}));
  EXPECT_TRUE(matches({0, "3f2a", ""}));
  EXPECT_TRUE(matches({0, "0f4c", ""}));
  EXPECT_FALSE(matches({0, "trai", ""}));
  EXPECT_TRUE(matches({0, "", "GPU-1"}));
  EXPECT_TRUE(matches({0, "web", "1", "3f2a00bc11de"})) << "an engine's name of it";
  EXPECT_FALSE(matches({0, "web", "1", "3f2a"}));
  EXPECT_FALSE(matches({0, "web", "2", "3f2a00bc11de"}));
  EXPECT_FALSE(matches({0, "", "2"}));
  EXPECT_FALSE(Matches({0, "", "0"}, {kTime, events::kDaemonStarted, {}}));
}

TEST(EventsTest, AgesHaveUnits) {
  EXPECT_EQ(*ParseAge("90s"), 90'000U);
  EXPECT_EQ(*ParseAge("15m"), 900'000U);
  EXPECT_EQ(*ParseAge("1h"), 3'600'000U);
  EXPECT_EQ(*ParseAge("7d"), 604'800'000U);
  for (const char* const wrong :
       {"", "h", "1", "-1h", "1w", "1hh", "1.5h", "99999999999999999999s"}) {
    EXPECT_FALSE(ParseAge(wrong).ok()) << wrong;
  }
}

}  // namespace
}  // namespace cgpu
