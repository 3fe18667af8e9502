#include "base/words.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace cgpu {
namespace {

TEST(Words, EveryByteComesBackAndIsPlain) {
  std::string every;
  for (int byte = 0; byte < 256; ++byte) {
    every += static_cast<char>(byte);
  }
  const std::string word = EscapeWord(every);
  for (const char c : word) {
    EXPECT_TRUE(c > ' ' && c < 0x7f) << word;
  }
  EXPECT_EQ(UnescapeWord(word), every);
  EXPECT_EQ(EscapeWord("a b%\xc3"), "a%20b%25%c3");
}

TEST(Words, AnotherFormIsRefused) {
  EXPECT_EQ(UnescapeWord(""), "");
  for (const char* wrong : {"%", "%2", "a%2", "%zz", "%+1", "%C3", "a b", "a\tb", "\x80", " 41"}) {
    EXPECT_FALSE(UnescapeWord(wrong)) << wrong;
  }
  EXPECT_FALSE(UnescapeWord(std::string_view("%20").substr(0, 2)));
}

}  // namespace
}  // namespace cgpu
