#include "base/state.h"

#include <gtest/gtest.h>

#include <limits>

namespace cgpu {
namespace {

constexpr StateTag kGroup = 1;
constexpr StateTag kLeaf = 2;
constexpr StateTag kNew = 3;

TEST(StateTest, NumbersAndTextsComeBack) {
  StateWriter writer;
  writer.Begin(kGroup);
  for (const std::uint64_t number :
       {std::uint64_t{0}, std::uint64_t{127}, std::uint64_t{128}, std::uint64_t{1} << 63,
        std::numeric_limits<std::uint64_t>::max()}) {
    writer.Begin(kLeaf);
    writer.Number(number);
    writer.Text(std::string(300, 'x') + '\0');
    writer.End();
  }
  writer.End();
  const std::string bytes = writer.Take();
  StateReader reader(bytes);
  ASSERT_EQ(reader.Enter(), kGroup);
  for (const std::uint64_t number :
       {std::uint64_t{0}, std::uint64_t{127}, std::uint64_t{128}, std::uint64_t{1} << 63,
        std::numeric_limits<std::uint64_t>::max()}) {
    ASSERT_EQ(reader.Enter(), kLeaf);
    EXPECT_EQ(reader.Number(), number);
    EXPECT_EQ(reader.Text(), std::string(300, 'x') + '\0');
    reader.Leave();
  }
  EXPECT_EQ(reader.Enter(), std::nullopt);
  reader.Leave();
  EXPECT_EQ(reader.Enter(), std::nullopt);
  EXPECT_TRUE(reader.Finish().ok());
}

std::string Newer(StateTag added) {
  StateWriter writer;
  writer.Row(kLeaf, 5, 6);  // 6 is added
  writer.Begin(added);
  writer.Text("added");
  writer.End();
  writer.Begin(kLeaf);
  writer.End();
  return writer.Take();
}

// Reads as one that knows kLeaf with one number and a text behind it.
Result<> Read(std::string_view bytes, std::vector<std::uint64_t>* numbers) {
  StateReader reader(bytes);
  reader.ForEach([&](StateTag tag) {
    if (tag == kLeaf) {
      numbers->push_back(reader.Number());
    }
    return tag == kLeaf;
  });
  return reader.Finish();
}

TEST(StateTest, WhatIsUnknownIsPassedOverAndWhatIsMissingIsZero) {
  std::vector<std::uint64_t> numbers;
  EXPECT_TRUE(Read(Newer(kNew), &numbers).ok());
  EXPECT_EQ(numbers, (std::vector<std::uint64_t>{5, 0}));
}

TEST(StateTest, ARequiredRecordIsNotPassedOver) {
  std::vector<std::uint64_t> numbers;
  const auto read = Read(Newer(kNew | kRequired), &numbers);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code, Code::kUnsupported);
}

TEST(StateTest, EveryCutIsNoticedOrLeavesWholeRecords) {
  const std::string whole = Newer(kNew);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    std::vector<std::uint64_t> numbers;
    const auto read = Read(std::string_view(whole).substr(0, size), &numbers);
    if (read.ok()) {
      EXPECT_TRUE(size == 0 || whole.substr(size).front() == char{kNew} ||
                  whole.substr(size).front() == char{kLeaf});
    } else {
      EXPECT_EQ(read.error().code, Code::kInvalid);
    }
  }
}

TEST(StateTest, ANumberThatDoesNotFitIsAnError) {
  StateWriter writer;
  writer.Begin(kLeaf);
  writer.Number(std::uint64_t{1} << 32);
  writer.End();
  const std::string bytes = writer.Take();
  StateReader reader(bytes);
  ASSERT_EQ(reader.Enter(), kLeaf);
  EXPECT_EQ(reader.As<std::uint32_t>(), 0U);
  EXPECT_FALSE(reader.Finish().ok());
}

TEST(StateTest, ANumberOfMoreThan64BitsIsAnError) {
  const std::string bytes("\x02\x0b\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 13);
  StateReader reader(bytes);
  ASSERT_EQ(reader.Enter(), kLeaf);
  (void)reader.Number();
  EXPECT_FALSE(reader.Finish().ok());
}

}  // namespace
}  // namespace cgpu
