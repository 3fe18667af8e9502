#include "exporter/recent_events.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <string>

namespace cgpu::exporter {
namespace {

TEST(RecentEvents, AreTheNewestOnesFirst) {
  const std::string folder =
      std::filesystem::temp_directory_path() / ("cgpu-recent-" + std::to_string(getpid()));
  RecentEvents recent(folder);
  EXPECT_TRUE(recent.Read().empty());  // nobody keeps any yet
  const EventRing ring(folder);
  ASSERT_TRUE(ring.Make(std::nullopt).ok());
  ASSERT_TRUE(ring.Append({{1, "started", {}}, {2, "ended", {}}}).ok());
  ASSERT_EQ(recent.Read().size(), 2U);
  EXPECT_EQ(recent.Read()[0].time_ms, 2U);
  std::vector<Event> many;
  for (std::uint64_t time = 3; time < 3 + kRecentEvents; ++time) {
    many.push_back({time, "started", {}});
  }
  ASSERT_TRUE(ring.Append(many).ok());
  const auto& newest = recent.Read();
  ASSERT_EQ(newest.size(), kRecentEvents);
  EXPECT_EQ(newest.front(), many.back());
  EXPECT_EQ(newest.back(), many.front());
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace cgpu::exporter
