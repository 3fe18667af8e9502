#include "node/peer.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

namespace cgpu {
namespace {

TEST(Peer, GroupsAreFoundByTheirWholeName) {
  constexpr const char* kText = "root:x:0:\ncgpu-test:x:7:\ncgpu:x:990:alice,bob\nbad:x\nworse:\n";
  EXPECT_EQ(*GroupIn(kText, "cgpu"), 990U);
  EXPECT_EQ(*GroupIn(kText, "root"), 0U);
  for (const char* name : {"cgp", "alice", "bad", "worse", "", "cgpu:x"}) {
    EXPECT_FALSE(GroupIn(kText, name).ok()) << name;
  }
  EXPECT_FALSE(GroupIn("", "cgpu").ok());
  EXPECT_EQ(*GroupIn("cgpu:x:5", "cgpu"), 5U);
}

TEST(Peer, IsTheProcessAtTheOtherEnd) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  const UniqueFd one(ends[0]);
  const UniqueFd other(ends[1]);
  const auto peer = AdmitPeer(one.get(), "no-such-group");
  if (geteuid() == 0) {
    ASSERT_TRUE(peer.ok()) << peer.error().what;
    EXPECT_EQ(peer->uid, 0U);
    EXPECT_TRUE(peer->process.valid());
  } else {
    ASSERT_FALSE(peer.ok());
    EXPECT_EQ(peer.error().code, Code::kPermission);
  }
  EXPECT_FALSE(AdmitPeer(STDIN_FILENO, "no-such-group").ok());
}

}  // namespace
}  // namespace cgpu
