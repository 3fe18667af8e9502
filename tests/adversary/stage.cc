#include "stage.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "common.h"
#include "fuse.h"

namespace cgpu::adversary {
namespace {

constexpr std::uint64_t kStagePage = 4096;
constexpr std::uint64_t kStageBase = 0x200000000000;  // free in any process of ours
constexpr std::uint64_t kSlotBytes = 64 * 1024;
constexpr std::uint64_t kTailAt = Stage::kMostBytes;
constexpr std::uint64_t kPages = kFuseFileBytes / kStagePage;

std::byte* TailOf(std::size_t block) {
  return std::bit_cast<std::byte*>(kStageBase + block * kSlotBytes + kTailAt);
}

// Returns how many of a block's bytes lie on the page of the file: its last word.
std::size_t TailBytes(const ByteString& bytes) {
  return bytes.empty() ? 0 : (bytes.size() - 1) % sizeof(std::uint32_t) + 1;
}

std::byte* AddressOf(std::size_t index, const ByteString& bytes) {
  return TailOf(index) - (bytes.size() - TailBytes(bytes));
}

void PutWord(std::byte* at, std::uint32_t value) {
  std::atomic_ref<std::uint32_t>(*std::bit_cast<std::uint32_t*>(at)).store(value);
}

}  // namespace

// Memory that the attacker shares with the server of its file.
struct Stage::Scene {
  struct Tail {
    std::uint64_t page = 0;
    std::array<std::byte, sizeof(std::uint32_t)> first{};
    std::array<std::byte, sizeof(std::uint32_t)> later{};
  };
  std::atomic<std::uint32_t> readings{0};
  std::atomic<bool> drops{false};  // pages are to be asked for again
  std::atomic<bool> over{false};
  std::uint32_t changes_after = 0;
  std::byte* word = nullptr;  // outside of the file
  std::uint32_t value = 0;
  std::size_t blocks = 0;
  std::array<Tail, kMostBlocks> tails{};
};

Stage::Stage() : scene_(Shared<Scene>()) {
  const auto [dev, name] = MountFuse(/*all_ids=*/true);
  for (std::size_t i = 0; i <= kMostBlocks; ++i) {
    void* const place = TailOf(i) - kTailAt;
    if (mmap(place, kTailAt, PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != place) {
      Die("failed: no stage: %s", std::strerror(errno));
    }
  }
  asked_ = eventfd(0, EFD_CLOEXEC);
  server_ = fork();
  if (server_ == 0) {
    ServeFuse(dev, [&](std::uint64_t unique, std::uint64_t offset) {
      AnswerRead(dev, unique, offset / kStagePage);
    });
  }
  close(dev);
  file_ = open(name.c_str(), O_RDWR | O_CLOEXEC);
  if (file_ < 0) {
    Die("failed: cannot open the file: %s", std::strerror(errno));
  }
  (void)posix_fadvise(file_, 0, 0, POSIX_FADV_RANDOM);  // a page at a time
  dropper_ = std::thread([this] { Drop(); });
}

Stage::~Stage() {
  scene_->over = true;
  (void)eventfd_write(asked_, 1);
  dropper_.join();
  kill(server_, SIGKILL);
}

void Stage::AnswerRead(int dev, std::uint64_t unique, std::uint64_t page) {
  std::vector<char> content(kStagePage);
  const std::uint32_t reading = ++scene_->readings;
  if (reading == scene_->changes_after && scene_->word != nullptr) {
    PutWord(scene_->word, scene_->value);
  }
  for (std::size_t i = 0; i < scene_->blocks; ++i) {
    const Scene::Tail& tail = scene_->tails[i];
    if (tail.page == page) {
      const auto& now = reading <= scene_->changes_after ? tail.first : tail.later;
      std::memcpy(content.data(), now.data(), now.size());
    }
  }
  Reply(dev, unique, content.data(), content.size());
  if (scene_->drops) {
    (void)eventfd_write(asked_, 1);
  }
}

// Drops the pages that somebody has read, so that the next reader asks for them again.
void Stage::Drop() {
  constexpr int kMostTries = 200;
  eventfd_t count = 0;
  while (eventfd_read(asked_, &count) == 0 && !scene_->over) {
    for (std::size_t i = 0; i < scene_->blocks; ++i) {
      unsigned char there = 1;
      for (int tries = 0; tries < kMostTries && (there & 1U) != 0; ++tries) {
        (void)madvise(TailOf(i), kStagePage, MADV_DONTNEED);
        (void)posix_fadvise(file_, static_cast<off_t>(scene_->tails[i].page * kStagePage),
                            kStagePage, POSIX_FADV_DONTNEED);
        sched_yield();
        (void)mincore(TailOf(i), kStagePage, &there);
      }
    }
  }
}

void Stage::MapTails(std::size_t count, bool of_file) {
  if (next_page_ + count > kPages) {
    next_page_ = 0;
    (void)posix_fadvise(file_, 0, 0, POSIX_FADV_DONTNEED);
  }
  for (std::size_t i = 0; i < count; ++i) {
    const int flags = MAP_PRIVATE | MAP_FIXED | (of_file ? 0 : MAP_ANONYMOUS);
    const std::uint64_t page = next_page_++;
    scene_->tails[i].page = page;
    if (mmap(TailOf(i), kStagePage, PROT_READ | PROT_WRITE, flags, of_file ? file_ : -1,
             of_file ? static_cast<off_t>(page * kStagePage) : 0) == MAP_FAILED) {
      Die("failed: no page: %s", std::strerror(errno));
    }
  }
}

void Stage::Point(std::vector<Block>& blocks) {
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i].holder >= 0) {
      const auto address = std::bit_cast<std::uint64_t>(AddressOf(i, blocks[i].bytes));
      Block& holder = blocks[static_cast<std::size_t>(blocks[i].holder)];
      std::memcpy(holder.bytes.data() + blocks[i].at, &address, sizeof(address));
    }
  }
}

void Stage::LayOut(const std::vector<Block>& blocks, const Flip& flip) {
  scene_->readings = 0;
  scene_->blocks = blocks.size();
  scene_->changes_after = flip.readings;
  scene_->word = nullptr;
  scene_->value = flip.later;
  scene_->drops = flip.readings > 1;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    ByteString bytes = blocks[i].bytes;
    const bool flipped = i == flip.block && flip.other == nullptr && flip.first != flip.later;
    const std::size_t head = bytes.size() - TailBytes(bytes);
    if (flipped) {
      std::memcpy(bytes.data() + flip.at, &flip.first, sizeof(flip.first));
    }
    std::memcpy(AddressOf(i, bytes), bytes.data(), flip.readings == 0 ? bytes.size() : head);
    Scene::Tail& tail = scene_->tails[i];
    std::memcpy(tail.first.data(), bytes.data() + head, bytes.size() - head);
    tail.later = tail.first;
    if (flipped && flip.at < head) {
      scene_->word = AddressOf(i, bytes) + flip.at;
    } else if (flipped) {
      std::memcpy(tail.later.data(), &flip.later, sizeof(flip.later));
      scene_->drops = true;
    }
  }
}

int Stage::Call(int file, std::uint64_t request, std::vector<Block>& blocks, const Flip& flip) {
  MapTails(blocks.size(), flip.readings != 0);
  LayOut(blocks, flip);
  int error = 0;
  const auto issue = [&] { error = RawIoctl(file, request, AddressOf(0, blocks[0].bytes)); };
  std::byte* const word = AddressOf(flip.block, blocks[flip.block].bytes) + flip.at;
  if (flip.other != nullptr) {
    While(flip.other, issue);
  } else if (flip.readings == 0 && flip.first != flip.later) {
    While([&](bool later) { PutWord(word, later ? flip.later : flip.first); }, issue);
  } else {
    issue();
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    ByteString& bytes = blocks[i].bytes;
    std::memcpy(bytes.data(), AddressOf(i, bytes), bytes.size() - TailBytes(bytes));
  }
  return error;
}

std::uint32_t Stage::PutOther(const ByteString& bytes) {
  std::byte* const place = TailOf(kMostBlocks) - kTailAt;
  std::memcpy(place, bytes.data(), std::min(bytes.size(), kMostBytes));
  return static_cast<std::uint32_t>(std::bit_cast<std::uint64_t>(place));
}

std::uint32_t Stage::Readings() const {
  return scene_->readings;
}

void While(const std::function<void(bool)>& other, const std::function<void()>& issue) {
  std::atomic<bool> begun{false};
  std::atomic<bool> over{false};
  std::thread second([&] {
    for (bool later = true; !over; later = !later) {
      other(later);
      begun = true;
    }
  });
  while (!begun) {
    sched_yield();
  }
  issue();
  over = true;
  second.join();
}

}  // namespace cgpu::adversary
