#include "base/base64.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace cgpu {
namespace {

// The vectors of RFC 4648, section 10.
TEST(Base64, IsThatOfTheStandard) {
  const std::vector<std::pair<std::string, std::string>> vectors{{"", ""},
                                                                 {"f", "Zg=="},
                                                                 {"fo", "Zm8="},
                                                                 {"foo", "Zm9v"},
                                                                 {"foob", "Zm9vYg=="},
                                                                 {"fooba", "Zm9vYmE="},
                                                                 {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : vectors) {
    EXPECT_EQ(Base64(bytes), text);
    EXPECT_EQ(FromBase64(text), bytes);
  }
}

TEST(Base64, TakesEveryByte) {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) {
    bytes += static_cast<char>(byte);
    EXPECT_EQ(FromBase64(Base64(bytes)), bytes);
  }
  EXPECT_EQ(Base64("\xfb\xff\xfe"), "+//+");
}

TEST(Base64, RefusesAnythingElse) {
  for (const char* text :
       {"Z", "Zg", "Zg=", "Zg===", "Zm9vY", "Zm9vYm=", "Zh==", "Zm9=", "=",
        "====", "Zg==Zg==", "Zm 9v", " Zm9v", "Zm9v\n", "Zm9-", "Zm9_", "Zm9\x80"}) {
    EXPECT_EQ(FromBase64(text), std::nullopt) << text;
  }
  EXPECT_EQ(FromBase64(std::string("Zm9\0", 4)), std::nullopt);
}

}  // namespace
}  // namespace cgpu
