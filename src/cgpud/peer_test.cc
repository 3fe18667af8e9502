#include "cgpud/peer.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string>

#include "base/file.h"

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

// Makes a child with the number `wanted`, which waits for its end. Returns -1 if the kernel does
// not give that number.
pid_t ChildWithNumber(pid_t wanted) {
  constexpr int kTries = 1000;  // other processes may get the number
  for (int i = 0; i < kTries; ++i) {
    if (!WriteFile("/proc/sys/kernel/ns_last_pid", std::to_string(wanted - 1)).ok()) {
      return -1;
    }
    const pid_t child = fork();
    if (child == 0) {
      while (true) {
        (void)pause();
      }
    }
    if (child == wanted) {
      return child;
    }
    (void)kill(child, SIGKILL);
    (void)waitpid(child, nullptr, 0);
  }
  return -1;
}

TEST(Peer, IsNotWhoeverHasItsNumberNow) {
  const UniqueFd listening(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{AF_UNIX, {}};
  socklen_t size = sizeof(sa_family_t);  // a name that the kernel picks
  auto* const name = static_cast<sockaddr*>(static_cast<void*>(&address));
  ASSERT_EQ(bind(listening.get(), name, size), 0);
  size = sizeof(address);
  ASSERT_EQ(getsockname(listening.get(), name, &size), 0);
  ASSERT_EQ(listen(listening.get(), 1), 0);
  const pid_t first = fork();
  if (first == 0) {
    const int connection = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    _exit(connect(connection, name, size) == 0 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(first, &status, 0), first);
  ASSERT_EQ(status, 0);
  const UniqueFd connection(accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
  int exact = -1;
  size = sizeof(exact);
  constexpr int kPeerPidfd = 77;
  const int told = getsockopt(connection.get(), SOL_SOCKET, kPeerPidfd, &exact, &size);
  const UniqueFd owned(exact);
  if (geteuid() != 0 || (told != 0 && errno == ENOPROTOOPT)) {
    GTEST_SKIP() << "for root, from Linux 6.5 on";
  }
  const pid_t second = ChildWithNumber(first);
  if (second < 0) {
    GTEST_SKIP() << "numbers cannot be given out here";
  }
  const auto peer = AdmitPeer(connection.get(), "no-such-group");
  pollfd ended{peer.ok() ? peer->process.get() : -1, POLLIN, 0};
  EXPECT_TRUE(!peer.ok() || poll(&ended, 1, 0) == 1) << "the second child was taken for the first";
  (void)kill(second, SIGKILL);
  (void)waitpid(second, nullptr, 0);
}

}  // namespace
}  // namespace cgpu
