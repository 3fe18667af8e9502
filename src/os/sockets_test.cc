#include "os/sockets.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

namespace cgpu::os {
namespace {

class SocketsTest : public ::testing::Test {
 protected:
  ~SocketsTest() override {
    (void)unlink(path_.c_str());
    (void)unlink((path_ + ".old").c_str());
  }

  [[nodiscard]] UniqueFd Bind(bool listens) const {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.data(), path_.size());
    UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_TRUE(!listens || listen(fd.get(), 1) == 0);
    return fd;
  }

  std::string path_ = testing::TempDir() + "sockets_test." + std::to_string(getpid());
};

TEST_F(SocketsTest, TheListenerIsTheOneAtTheFile) {
  const UniqueFd old = Bind(true);
  ASSERT_EQ(std::rename(path_.c_str(), (path_ + ".old").c_str()), 0);
  const UniqueFd now = Bind(true);  // both have this name
  for (const auto& [path, fd] : {std::pair(path_, now.get()), {path_ + ".old", old.get()}}) {
    const auto listener = ListenerAt(path);
    if (!listener.ok() && listener.error().code == Code::kUnsupported) {
      GTEST_SKIP() << listener.error().what;
    }
    ASSERT_TRUE(listener.ok()) << listener.error().what;
    EXPECT_EQ(listener->ino, Identify(fd)->ino);
    EXPECT_EQ(listener->dev, Identify(fd)->dev);
  }
}

TEST_F(SocketsTest, WhereNobodyListensThereIsNone) {
  EXPECT_EQ(ListenerAt(path_).error().code, Code::kNotFound);
  const UniqueFd bound = Bind(false);
  const auto listener = ListenerAt(path_);
  ASSERT_FALSE(listener.ok());
  EXPECT_TRUE(listener.error().code == Code::kNotFound ||
              listener.error().code == Code::kUnsupported);
}

}  // namespace
}  // namespace cgpu::os
