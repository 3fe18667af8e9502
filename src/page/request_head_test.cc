#include "page/request_head.h"

#include <gtest/gtest.h>

namespace cgpu::page {
namespace {

constexpr std::size_t kMostBody = 1000;

HeadVerdict Judge(const std::string& lines, std::size_t most_body = kMostBody) {
  std::string head = "POST / HTTP/1.1\r\n" + lines + "\r\n";
  return JudgeHead(head, most_body);
}

TEST(RequestHead, BoundsTheBody) {
  EXPECT_EQ(Judge("").body, 0U);
  EXPECT_EQ(Judge("Content-Length: 1000\r\n").body, 1000U);
  EXPECT_EQ(Judge("content-LENGTH:7 \r\n").body, 7U);
  EXPECT_EQ(Judge("Content-Length: 1001\r\n").refusal, 413);
  for (const char* lines :
       {"Content-Length: -1\r\n", "Content-Length:\r\n", "Content-Length: 1 2\r\n",
        "Content-Length: 99999999999999999999\r\n", "Content-Length: 1\r\nContent-Length: 1\r\n"}) {
    EXPECT_EQ(Judge(lines).refusal, 400) << lines;
  }
  EXPECT_EQ(Judge("Transfer-Encoding: chunked\r\n").refusal, 411);
  EXPECT_EQ(Judge("Content-Encoding: gzip\r\n").refusal, 415);
}

TEST(RequestHead, ReadsNoBodyWhereNoneIsTaken) {
  const auto verdict = Judge("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", 0);
  EXPECT_EQ(verdict.refusal, 0);
  EXPECT_EQ(verdict.body, 0U);
}

TEST(RequestHead, BoundsTheLines) {
  std::string lines;
  for (std::size_t i = 0; i + 2 < kMostLines; ++i) {
    lines += "a: b\r\n";
  }
  EXPECT_EQ(Judge(lines).refusal, 0);
  EXPECT_EQ(Judge(lines + "a: b\r\n").refusal, 431);
}

TEST(RequestHead, LetsTheLibraryIgnoreRanges) {
  std::string head = "GET / HTTP/1.1\r\nrange: bytes=0-,0-\r\nRanges: x\r\n\r\n";
  EXPECT_EQ(JudgeHead(head, 0).refusal, 0);
  EXPECT_EQ(head, "GET / HTTP/1.1\r\n-ange: bytes=0-,0-\r\nRanges: x\r\n\r\n");
}

}  // namespace
}  // namespace cgpu::page
