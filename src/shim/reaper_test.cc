#include "shim/reaper.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <thread>

namespace cgpu::shim {
namespace {

UniqueFd File() {
  return UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC));
}

// No thread runs Loop(), as if the first close did not return.
TEST(Reaper, HasABound) {
  Reaper reaper;
  for (std::size_t i = 0; i < Reaper::kMost; ++i) {
    ASSERT_TRUE(reaper.HasRoomFor(1));
    UniqueFd file = File();
    ASSERT_TRUE(reaper.Add(file));
    EXPECT_FALSE(file.valid());
  }
  EXPECT_FALSE(reaper.HasRoomFor(1));
  UniqueFd file = File();
  EXPECT_FALSE(reaper.Add(file));
  EXPECT_TRUE(file.valid()) << "it is the caller's still";
  EXPECT_FALSE(reaper.Idle());
}

TEST(Reaper, ClosesWhatItTook) {
  const auto reaper = std::make_shared<Reaper>();
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  for (std::size_t i = 0; i < Reaper::kMost - 1; ++i) {
    UniqueFd file = File();
    ASSERT_TRUE(reaper->Add(file));
  }
  ASSERT_TRUE(reaper->Add(write_end));
  std::thread([reaper] { reaper->Loop(); }).detach();  // ends with the process
  UniqueFd more = File();
  EXPECT_TRUE(reaper->Add(more, std::chrono::minutes(2))) << "it waits for room";
  pollfd hang_up{read_end.get(), 0, 0};
  EXPECT_EQ(poll(&hang_up, 1, 120'000), 1);
}

}  // namespace
}  // namespace cgpu::shim
