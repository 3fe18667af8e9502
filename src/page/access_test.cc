#include "page/access.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace cgpu::page {
namespace {

using testing::HasSubstr;

constexpr char kToken[] = "0123456789abcdef";

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
  EXPECT_TRUE(Carries("Bearer 0123456789abcdef", kToken));
  for (const char* header :
       {"", "Bearer ", "Bearer", "Bearer 0123456789abcdeg", "Bearer 0123456789abcde",
        "Bearer 0123456789abcdef0", "bearer 0123456789abcdef", "Basic 0123456789abcdef",
        "0123456789abcdef", "Bearer  0123456789abcdef"}) {
    EXPECT_FALSE(Carries(header, kToken)) << header;
  }
}

TEST(Token, IsThePasswordOfAnyUser) {
  for (const char* header : {"Basic OjAxMjM0NTY3ODlhYmNkZWY=",         // :TOKEN
                             "Basic YTowMTIzNDU2Nzg5YWJjZGVm",         // a:TOKEN
                             "Basic cm9vdDowMTIzNDU2Nzg5YWJjZGVm"}) {  // root:TOKEN
    EXPECT_TRUE(Carries(header, kToken)) << header;
  }
  for (const char* header :
       {"Basic ", "Basic", "Basic =", "Basic ====", "Basic MDEyMzQ1Njc4OWFiY2RlZg==",  // TOKEN
        "Basic YTowMTIzNDU2Nzg5YWJjZGVn",                                              // another
        "Basic YTowMTIzNDU2Nzg5YWJjZGVmOg==",                                          // a:TOKEN:
        "Basic YTowMTIzNDU2Nzg5YWJjZGV", "Basic YTowMTIzNDU2Nzg5YWJjZG!m",
        "basic YTowMTIzNDU2Nzg5YWJjZGVm"}) {
    EXPECT_FALSE(Carries(header, kToken)) << header;
  }
  EXPECT_TRUE(Carries("Basic YTowMTIzNDU2Nzg5OmFiY2RlZg==", "0123456789:abcdef"));
}

TEST(Token, IsTheFirstLineOfItsFile) {
  const std::string path =
      std::filesystem::temp_directory_path() / ("cgpu-token-" + std::to_string(getpid()));
  const auto read = [&](const std::string& text) {
    std::ofstream(path) << text;
    return ReadToken(path);
  };
  EXPECT_EQ(*read("0123456789abcdef\n"), kToken);
  EXPECT_EQ(*read("0123456789abcdef"), kToken);
  EXPECT_EQ(*read("0123456789abcdef\nmore"), kToken);
  EXPECT_EQ(*TokenFor({"0.0.0.0", 1}, path, "file"), kToken);
  for (const char* text : {"", "\n", "0123456789abcde", "0123456789 abcdef", "0123456789abcdef\r\n",
                           "\n0123456789abcdef"}) {
    EXPECT_EQ(read(text).error().code, Code::kInvalid) << text;
  }
  std::filesystem::remove(path);
  EXPECT_EQ(ReadToken(path).error().code, Code::kNotFound);
}

TEST(Token, IsNeededWhereOtherHostsReachTheAddress) {
  EXPECT_EQ(*TokenFor({"127.0.0.1", 1}, "", "file"), "");
  EXPECT_EQ(*TokenFor({"::1", 1}, "", "file"), "");
  EXPECT_EQ(TokenFor({"0.0.0.0", 1}, "", "file").error().code, Code::kPermission);
  EXPECT_THAT(TokenFor({"0.0.0.0", 1}, "", "file").error().hint, HasSubstr("(file)"));
  EXPECT_EQ(TokenFor({"::", 1}, "", "file").error().code, Code::kPermission);
}

TEST(Host, IsNoNameOfASite) {
  for (const char* host : {"", "127.0.0.1", "127.0.0.1:9400", "[::1]", "[::1]:9400", "localhost",
                           "localhost:9400", "10.0.0.1:1"}) {
    EXPECT_TRUE(NamesNoSite(host)) << host;
  }
  for (const char* host : {"a.example", "a.example:9400", "127.0.0.1.example", "localhost.example",
                           "[a.example]", "::1", "[::1", "1"}) {
    EXPECT_FALSE(NamesNoSite(host)) << host;
  }
}

}  // namespace
}  // namespace cgpu::page
