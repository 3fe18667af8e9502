#include "exporter/server.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace cgpu::exporter {
namespace {

using testing::HasSubstr;

TEST(Address, IsAnIpAddressWithAPort) {
  EXPECT_EQ(ParseAddress("127.0.0.1:9400")->host, "127.0.0.1");
  EXPECT_EQ(ParseAddress("127.0.0.1:9400")->port, 9400);
  EXPECT_EQ(ParseAddress("[::1]:1")->host, "::1");
  EXPECT_EQ(ParseAddress("[::]:65535")->port, 65535);
  for (const char* text : {"", "9400", ":9400", "127.0.0.1", "127.0.0.1:", "127.0.0.1:0",
                           "127.0.0.1:65536", "127.0.0.1:9400x", "localhost:9400", "::1:9400",
                           "[::1]", "[127.0.0.1]:9400", "1.2.3:9400"}) {
    EXPECT_THAT(ParseAddress(text).error().what, HasSubstr(text)) << text;
  }
}

TEST(Address, OfLoopbackIsKnown) {
  for (const char* text : {"127.0.0.1:1", "127.9.9.9:1", "[::1]:1"}) {
    EXPECT_TRUE(IsLoopback(*ParseAddress(text))) << text;
  }
  for (const char* text : {"0.0.0.0:1", "10.127.0.1:1", "[::]:1", "[::ffff:127.0.0.1]:1"}) {
    EXPECT_FALSE(IsLoopback(*ParseAddress(text))) << text;
  }
}

TEST(Token, IsComparedWhole) {
  const std::string token = "0123456789abcdef";
  EXPECT_TRUE(Carries("Bearer 0123456789abcdef", token));
  for (const char* header :
       {"", "Bearer ", "Bearer", "Bearer 0123456789abcdeg", "Bearer 0123456789abcde",
        "Bearer 0123456789abcdef0", "bearer 0123456789abcdef", "Basic 0123456789abcdef",
        "0123456789abcdef", "Bearer  0123456789abcdef"}) {
    EXPECT_FALSE(Carries(header, token)) << header;
  }
}

TEST(Token, IsTheFirstLineOfItsFile) {
  const std::string path =
      std::filesystem::temp_directory_path() / ("cgpu-token-" + std::to_string(getpid()));
  const auto read = [&](const std::string& text) {
    std::ofstream(path) << text;
    return ReadToken(path);
  };
  EXPECT_EQ(*read("0123456789abcdef\n"), "0123456789abcdef");
  EXPECT_EQ(*read("0123456789abcdef"), "0123456789abcdef");
  EXPECT_EQ(*read("0123456789abcdef\nmore"), "0123456789abcdef");
  for (const char* text : {"", "\n", "0123456789abcde", "0123456789 abcdef", "0123456789abcdef\r\n",
                           "\n0123456789abcdef"}) {
    EXPECT_EQ(read(text).error().code, Code::kInvalid) << text;
  }
  std::filesystem::remove(path);
  EXPECT_EQ(ReadToken(path).error().code, Code::kNotFound);
}

}  // namespace
}  // namespace cgpu::exporter
