#include "rmclient/copy_queue.h"

#include <algorithm>
#include <array>
#include <initializer_list>

#include "rm/nv_classes.h"

namespace cgpu::rmclient {
namespace {

// Layout of the area: USERD, what each item's end releases, the methods that all items share, each
// item's own methods, the ring, the source, the targets.
constexpr std::size_t kUserd = 0;
constexpr std::size_t kEnds = 0x1000;
constexpr std::size_t kEndBytes = 16;
constexpr std::size_t kShared = 0xA000;
constexpr std::size_t kOwn = 0x10000;
constexpr std::size_t kOwnBytes = 64;
constexpr std::size_t kRing = 0x30000;
constexpr std::size_t kEntryBytes = 8;
constexpr std::size_t kSource = 0x40000;
constexpr std::size_t kTarget = 0x80000;
constexpr std::size_t kAreaBytes = kTarget + CopyQueue::kTargets * CopyQueue::kCopyBytes;
// Each item is two entries: the shared methods and its own.
constexpr std::uint32_t kEntries = 2 * CopyQueue::kItems;
static_assert(kEnds + CopyQueue::kItems * kEndBytes <= kShared);
static_assert(kOwn + CopyQueue::kItems * kOwnBytes <= kRing);
static_assert(kRing + kEntries * kEntryBytes <= kSource);
static_assert(kSource + CopyQueue::kCopyBytes <= kTarget);

constexpr rm::NvU32 kCopyClasses[] = {rm::BLACKWELL_DMA_COPY_B, rm::BLACKWELL_DMA_COPY_A,
                                      rm::HOPPER_DMA_COPY_A,    rm::AMPERE_DMA_COPY_B,
                                      rm::AMPERE_DMA_COPY_A,    rm::TURING_DMA_COPY_A,
                                      rm::VOLTA_DMA_COPY_A};
constexpr std::uint32_t kCopy = 4;  // the subchannel of copies
constexpr std::uint32_t kSetObject = 0;
// clc6b5.h. Those with several words behind them go up from there.
constexpr std::uint32_t kSetSemaphoreA = 0x240;
constexpr std::uint32_t kLaunchDma = 0x300;
constexpr std::uint32_t kOffsetInUpper = 0x400;
constexpr std::uint32_t kOffsetOutUpper = 0x408;
constexpr std::uint32_t kPitchIn = 0x410;
// LAUNCH_DMA: NON_PIPELINED, both layouts PITCH; and RELEASE_FOUR_WORD_SEMAPHORE behind a flush.
constexpr std::uint32_t kLaunch = 2U | 1U << 7 | 1U << 8;
constexpr std::uint32_t kLaunchAndTell = kLaunch | 1U << 2 | 2U << 3;

// Returns the header of incrementing methods.
constexpr std::uint32_t Header(std::uint32_t method, std::uint32_t count) {
  return 1U << 29 | count << 16 | kCopy << 13 | method >> 2;
}
constexpr std::uint32_t Low(std::uint64_t value) {
  return static_cast<std::uint32_t>(value);
}
constexpr std::uint32_t High(std::uint64_t value) {
  return static_cast<std::uint32_t>(value >> 32);
}
// Returns the word of the source at `offset`: no two near each other are alike.
constexpr std::uint32_t SourceWord(std::size_t offset) {
  return static_cast<std::uint32_t>(offset) * 2654435761U + 1U;
}

}  // namespace

Result<CopyQueue> CopyQueue::Make(Client& client, const Gpu& gpu) {
  CGPU_ASSIGN_OR_RETURN(const auto classes, ClassesOf(client, gpu));
  const rm::NvU32 copy_class = FirstOf(kCopyClasses, classes);
  if (copy_class == 0) {
    return Error{Code::kUnsupported, 0, "GPU " + gpu.bdf + " has no copies that are known here",
                 "GPUs from Volta to Blackwell are known"};
  }
  CGPU_ASSIGN_OR_RETURN(auto channel,
                        UserChannel::Make(client, gpu, {kAreaBytes, kUserd, kRing, kEntries}));
  rm::NvHandle copy = 0;
  CGPU_TRY(Checked(client.Alloc(channel.channel(), &copy, copy_class, nullptr, 0),
                   "making an object for copies on GPU " + gpu.bdf));
  for (std::size_t at = 0; at < kCopyBytes; at += sizeof(std::uint32_t)) {
    channel.Store(kSource + at, SourceWord(at));
  }
  for (std::size_t at = 0; at < kItems * kEndBytes; at += sizeof(std::uint32_t)) {
    channel.Store(kEnds + at, 0);
  }
  CopyQueue queue(std::move(channel), copy_class);
  queue.SetCopies(1);
  return queue;
}

// The last copy of an item is among its own methods.
void CopyQueue::SetCopies(std::uint32_t copies) {
  std::size_t end = kShared;
  const auto put = [this, &end](std::initializer_list<std::uint32_t> words) {
    for (const std::uint32_t word : words) {
      channel_.Store(end, word);
      end += sizeof(word);
    }
  };
  const std::uint64_t source = channel_.address() + kSource;
  put({Header(kSetObject, 1), copy_class_});
  put({Header(kOffsetInUpper, 2), High(source), Low(source)});
  constexpr auto kBytes = static_cast<std::uint32_t>(kCopyBytes);
  put({Header(kPitchIn, 4), kBytes, kBytes, kBytes, 1});
  for (std::uint32_t i = 1; i < std::clamp(copies, 1U, kMostCopies); ++i) {
    const std::uint64_t target = channel_.address() + kTarget + i % kTargets * kCopyBytes;
    put({Header(kOffsetOutUpper, 2), High(target), Low(target), Header(kLaunchDma, 1), kLaunch});
  }
  shared_ = static_cast<std::uint32_t>((end - kShared) / sizeof(std::uint32_t));
}

void CopyQueue::Queue() {
  const std::uint64_t number = queued_++;
  const std::size_t slot = number % kItems;
  const std::uint64_t tell = channel_.address() + kEnds + slot * kEndBytes;
  const std::uint64_t target = channel_.address() + kTarget + number % kTargets * kCopyBytes;
  const std::array<std::uint32_t, 9> own{Header(kSetSemaphoreA, 3),
                                         High(tell),
                                         Low(tell),
                                         static_cast<std::uint32_t>(queued_),
                                         Header(kOffsetOutUpper, 2),
                                         High(target),
                                         Low(target),
                                         Header(kLaunchDma, 1),
                                         kLaunchAndTell};
  for (std::size_t i = 0; i < own.size(); ++i) {
    channel_.Store(kOwn + slot * kOwnBytes + i * sizeof(own[0]), own[i]);
  }
  channel_.SetEntry(2 * slot, kShared, shared_);
  channel_.SetEntry(2 * slot + 1, kOwn + slot * kOwnBytes, own.size());
}

void CopyQueue::Fill(std::uint32_t items) {
  const std::uint64_t before = queued_;
  while (Pending() < std::min(items, kItems - 1)) {
    Queue();
  }
  if (queued_ == before) {
    return;
  }
  channel_.Submit(static_cast<std::uint32_t>(2 * queued_ % kEntries));
}

// A release is {payload, 0, time}: clc6b5.h. The payload comes last.
std::vector<std::uint64_t> CopyQueue::TakeEnds() {
  std::vector<std::uint64_t> ends;
  while (ended_ != queued_) {
    const std::size_t at = kEnds + ended_ % kItems * kEndBytes;
    if (channel_.Load(at) != static_cast<std::uint32_t>(ended_ + 1)) {
      break;
    }
    StoreFence();
    ends.push_back(channel_.Load(at + 8) | std::uint64_t{channel_.Load(at + 12)} << 32);
    ++ended_;
  }
  return ends;
}

void CopyQueue::Spoil() {
  for (std::size_t at = 0; at < kTargets * kCopyBytes; at += sizeof(std::uint32_t)) {
    channel_.Store(kTarget + at, 0);
  }
}

bool CopyQueue::Intact() const {
  for (std::size_t at = 0; at < kTargets * kCopyBytes; at += sizeof(std::uint32_t)) {
    if (channel_.Load(kTarget + at) != SourceWord(at % kCopyBytes)) {
      return false;
    }
  }
  return true;
}

}  // namespace cgpu::rmclient
