#include "page/connections.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <thread>

#include "base/fd.h"

namespace cgpu::page {
namespace {

struct Pair {
  Pair() {
    std::array<int, 2> fds{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()), 0);
    ours.reset(fds[0]);
    theirs.reset(fds[1]);
  }
  // Waits for the end of the stream.
  [[nodiscard]] bool Ends() const {
    char byte = 0;
    return recv(theirs.get(), &byte, 1, 0) == 0;
  }
  [[nodiscard]] bool Open() const {
    char byte = 0;
    return recv(theirs.get(), &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
  }

  UniqueFd ours;
  UniqueFd theirs;
};

TEST(Connections, CloseTheOldestThatWaitsForTheNext) {
  Connections all({3, 100});
  const Pair busy;
  const Pair slow;
  const Pair later;
  std::array<std::unique_ptr<Connections::One>, 3> ones;
  for (std::size_t i = 0; const Pair* pair : {&busy, &slow, &later}) {
    all.Enter();
    ones[i++] = std::make_unique<Connections::One>(all, pair->ours.get());
  }
  ones[1]->SetWaits(true);
  std::thread next([&] {
    all.Enter();
    all.Leave();
  });
  EXPECT_TRUE(slow.Ends());
  EXPECT_TRUE(busy.Open());
  EXPECT_TRUE(later.Open());
  ones = {};
  for (std::size_t i = 0; i < ones.size(); ++i) {
    all.Leave();
  }
  next.join();
  all.WaitForNone();
}

TEST(Connections, MakeRoomForABody) {
  Connections all({3, 100});
  const Pair slow;
  const Pair next;
  auto one = std::make_unique<Connections::One>(all, slow.ours.get());
  Connections::One other(all, next.ours.get());
  EXPECT_TRUE(one->TakeBody(60));
  EXPECT_TRUE(one->TakeBody(100));
  EXPECT_FALSE(other.TakeBody(101));
  EXPECT_FALSE(other.TakeBody(1));
  EXPECT_TRUE(slow.Open());
  one->SetWaits(true);
  std::thread gives([&] {
    EXPECT_TRUE(slow.Ends());
    one.reset();
  });
  EXPECT_TRUE(other.TakeBody(100));
  gives.join();
}

}  // namespace
}  // namespace cgpu::page
