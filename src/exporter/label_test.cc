#include "exporter/label.h"

#include <gtest/gtest.h>

#include <string>

namespace cgpu::exporter {
namespace {

constexpr char kWrong[] = "\xEF\xBF\xBD";

TEST(SafeLabel, LeavesTextAsItIs) {
  for (const std::string text :
       {"", "train-1", "a \"quoted\" \\ name} 1", "\xC3\xBC", "\xE2\x82\xAC", "\xF0\x9F\x98\x80"}) {
    EXPECT_EQ(SafeLabel(text), text);
  }
}

TEST(SafeLabel, ReplacesWhatIsNoText) {
  for (const std::string byte :
       {"\n", "\r", "\t", "\x1B", "\x7F", "\x80", "\xC3", "\xFF", "\xF8"}) {
    EXPECT_EQ(SafeLabel("a" + byte + "b"), std::string("a") + kWrong + "b");
  }
  EXPECT_EQ(SafeLabel(std::string("a\0b", 3)), std::string("a") + kWrong + "b");
}

// Forms that other programs may read as something else: too long, surrogates, above U+10FFFF, the
// controls of Latin-1.
TEST(SafeLabel, ReplacesEachByteOfAWrongForm) {
  for (const std::string form : {"\xC0\xA2", "\xC1\xBF", "\xC2\x85"}) {
    EXPECT_EQ(SafeLabel(form), std::string(kWrong) + kWrong);
  }
  for (const std::string form : {"\xE0\x80\xA2", "\xED\xA0\x80"}) {
    EXPECT_EQ(SafeLabel(form), std::string(kWrong) + kWrong + kWrong);
  }
  EXPECT_EQ(SafeLabel("\xF4\x90\x80\x80"), std::string(kWrong) + kWrong + kWrong + kWrong);
  EXPECT_EQ(SafeLabel("\xE2\x82"), std::string(kWrong) + kWrong);
}

TEST(SafeLabel, CutsBetweenCharacters) {
  EXPECT_EQ(SafeLabel(std::string(10'240, 'a')), std::string(kMostLabelBytes, 'a'));
  std::string euros;
  for (int i = 0; i < 200; ++i) {
    euros += "\xE2\x82\xAC";
  }
  EXPECT_EQ(SafeLabel(euros), euros.substr(0, kMostLabelBytes / 3 * 3));
  EXPECT_LE(SafeLabel(std::string(10'240, '\n')).size(), kMostLabelBytes);
}

}  // namespace
}  // namespace cgpu::exporter
