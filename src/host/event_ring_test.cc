#include "host/event_ring.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <set>

#include "base/file.h"

namespace cgpu {
namespace {

Event Numbered(std::uint64_t number) {
  return {number, "started", {{"name", "of-some-length"}, {"number", number}}};
}

std::vector<std::uint64_t> Numbers(const Result<std::vector<Event>>& events) {
  std::vector<std::uint64_t> numbers;
  for (const Event& event : events.ok() ? *events : std::vector<Event>()) {
    numbers.push_back(NumberOf(event, "number"));
  }
  return numbers;
}

class EventRingTest : public testing::Test {
 protected:
  EventRingTest() {
    char folder[] = "/tmp/cgpu-events-XXXXXX";
    top_ = mkdtemp(folder);
    folder_ = top_ + "/events";
    std::filesystem::create_directory(folder_);
  }
  ~EventRingTest() override { std::filesystem::remove_all(top_); }

  void Append(std::uint64_t first, std::uint64_t last, std::size_t max_file = EventRing::kMaxFile) {
    for (std::uint64_t number = first; number <= last; ++number) {
      ASSERT_TRUE(EventRing(folder_, max_file).Append({Numbered(number)}).ok());
    }
  }
  std::vector<std::uint64_t> Read() {
    auto reader = EventReader::Open(folder_);
    return reader.ok() ? Numbers(reader->More()) : std::vector<std::uint64_t>{};
  }
  std::uintmax_t SizeOf(const char* name) {
    return std::filesystem::file_size(folder_ + "/" + name);
  }

  std::string top_;
  std::string folder_;
};

using testing::ElementsAre;
using testing::IsEmpty;

TEST_F(EventRingTest, KeepsTheLastOnesInOrder) {
  constexpr std::size_t kMax = 1'000;
  Append(1, 500, kMax);
  EXPECT_LE(SizeOf("events"), kMax);
  EXPECT_LE(SizeOf("events.1"), kMax);
  const auto numbers = Read();
  ASSERT_GT(numbers.size(), 10U);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    EXPECT_EQ(numbers[i], 500 - numbers.size() + 1 + i);
  }
}

TEST_F(EventRingTest, WithoutAFolderThereAreNone) {
  std::filesystem::remove_all(folder_);
  EXPECT_EQ(EventRing(folder_).Append({Numbered(1)}).error().code, Code::kNotFound);
  EXPECT_EQ(EventReader::Open(folder_).error().code, Code::kNotFound);
}

TEST_F(EventRingTest, ATornLineIsTheOnlyOneLost) {
  Append(1, 2);
  const std::string line = EncodeEvent(Numbered(3));
  for (std::size_t size = 1; size < line.size(); size += 7) {
    std::filesystem::resize_file(folder_ + "/events", SizeOf("events"));
    const auto before = ReadFile(folder_ + "/events");
    ASSERT_TRUE(before.ok());
    ASSERT_TRUE(WriteFile(folder_ + "/events", *before + line.substr(0, size)).ok());
    EXPECT_THAT(Read(), ElementsAre(1, 2));
    Append(4, 4);
    EXPECT_THAT(Read(), ElementsAre(1, 2, 4));
    ASSERT_TRUE(WriteFile(folder_ + "/events", *before).ok());
  }
}

TEST_F(EventRingTest, LinesOfOthersAreSkipped) {
  ASSERT_TRUE(WriteFile(folder_ + "/events", std::string(100'000, 'x') + "\n{\"time\":\n\n\xff\n" +
                                                 EncodeEvent(Numbered(1)) + std::string(9'000, '['))
                  .ok());
  EXPECT_THAT(Read(), ElementsAre(1));
  Append(2, 2);
  EXPECT_THAT(Read(), ElementsAre(1, 2));
}

TEST_F(EventRingTest, AReaderFollowsOverTheRename) {
  constexpr std::size_t kMax = 1'000;
  Append(1, 3, kMax);
  auto reader = EventReader::Open(folder_);
  ASSERT_TRUE(reader.ok());
  EXPECT_THAT(Numbers(reader->More()), ElementsAre(1, 2, 3));
  EXPECT_THAT(Numbers(reader->More()), IsEmpty());
  ASSERT_TRUE(reader->Watch().ok());
  std::vector<std::uint64_t> followed;
  for (std::uint64_t number = 4; number <= 100; ++number) {
    Append(number, number, kMax);
    reader->Wait();  // there is a change: it returns
    for (const std::uint64_t one : Numbers(reader->More())) {
      followed.push_back(one);
    }
  }
  ASSERT_EQ(followed.size(), 97U);
  EXPECT_TRUE(std::ranges::is_sorted(followed));
  // A reader that was away for longer than the ring lasts goes on with what there is.
  Append(101, 300, kMax);
  const auto rest = Numbers(reader->More());
  ASSERT_FALSE(rest.empty());
  EXPECT_EQ(rest.back(), 300U);
  EXPECT_EQ(std::set<std::uint64_t>(rest.begin(), rest.end()).size(), rest.size());
}

TEST_F(EventRingTest, AWriterThatDiedBetweenTheFilesLeavesARing) {
  Append(1, 3);
  auto reader = EventReader::Open(folder_);
  ASSERT_TRUE(reader.ok());
  EXPECT_THAT(Numbers(reader->More()), ElementsAre(1, 2, 3));
  std::filesystem::rename(folder_ + "/events", folder_ + "/events.1");
  EXPECT_THAT(Numbers(reader->More()), IsEmpty());
  EXPECT_THAT(Read(), ElementsAre(1, 2, 3));
  Append(4, 4);
  EXPECT_THAT(Numbers(reader->More()), ElementsAre(4));
  EXPECT_THAT(Read(), ElementsAre(1, 2, 3, 4));
}

// Several writers at once, killed at any moment; what is left is whole and each one's are in order.
TEST_F(EventRingTest, WritersMayBeKilled) {
  constexpr std::size_t kMax = 20'000;
  constexpr std::uint64_t kEach = 1'000'000;
  for (std::uint64_t round = 0; round < 20; ++round) {
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    std::vector<pid_t> writers;
    for (std::uint64_t i = 0; i < 3; ++i) {
      writers.push_back(fork());
      ASSERT_GE(writers.back(), 0);
      if (writers.back() == 0) {
        const EventRing ring(folder_, kMax);
        for (std::uint64_t number = 0;; ++number) {
          (void)ring.Append({Numbered((3 * round + i) * kEach + number)});
          (void)!write(ready[1], "x", 1);
        }
      }
    }
    char buffer[64];  // so many events, at least, before the end
    for (std::uint64_t n = 0; n < 5 + 13 * round; ++n) {
      (void)!read(ready[0], buffer, 1 + n % sizeof(buffer));
    }
    for (const pid_t writer : writers) {
      kill(writer, SIGKILL);
      ASSERT_EQ(waitpid(writer, nullptr, 0), writer);
    }
    close(ready[0]);
    close(ready[1]);
    const auto numbers = Read();
    ASSERT_FALSE(numbers.empty());
    std::map<std::uint64_t, std::uint64_t> last;
    for (const std::uint64_t number : numbers) {
      const auto [at, fresh] = last.try_emplace(number / kEach, number);
      EXPECT_TRUE(fresh || at->second < number);
      at->second = number;
    }
    Append(kEach * 1'000 + round, kEach * 1'000 + round, kMax);
    EXPECT_LE(SizeOf("events"), kMax);
    EXPECT_EQ(Read().back(), kEach * 1'000 + round);
  }
}

TEST_F(EventRingTest, OnlyRootAndTheGroupMayRead) {
  if (geteuid() != 0) {
    GTEST_SKIP() << "root makes the folder";
  }
  const EventRing ring(folder_);
  ASSERT_TRUE(ring.Make(4711).ok());
  ASSERT_TRUE(ring.Append({Numbered(1)}).ok());
  struct stat info{};
  ASSERT_EQ(stat(folder_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 02750U);
  ASSERT_EQ(stat((folder_ + "/events").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0640U);
  EXPECT_EQ(info.st_gid, 4711U);
  ASSERT_EQ(stat((folder_ + "/lock").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600U);  // a reader could hold up writers
}

}  // namespace
}  // namespace cgpu
