#include <algorithm>
#include <array>
#include <atomic>
#include <initializer_list>

#include "rm/nv_alloc.h"
#include "rm/nv_classes.h"
#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"
#include "rmclient/copy_queue.h"

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

constexpr std::size_t kErrorBytes = 4096;
constexpr std::size_t kGpPut = 0x8C;  // Nvc36fControl
constexpr std::size_t kInfo32 = 8;    // offset in NvNotification
constexpr std::size_t kStatus = 12;   // info16, and status in the upper half
constexpr std::size_t kDoorbellBytes = 0x10000;
constexpr std::size_t kNotifyChannelPending = 0x90;  // clc361.h

constexpr rm::NvU32 kChannelClasses[] = {
    rm::BLACKWELL_CHANNEL_GPFIFO_B, rm::BLACKWELL_CHANNEL_GPFIFO_A, rm::HOPPER_CHANNEL_GPFIFO_A,
    rm::AMPERE_CHANNEL_GPFIFO_A,    rm::TURING_CHANNEL_GPFIFO_A,    rm::VOLTA_CHANNEL_GPFIFO_A};
constexpr rm::NvU32 kCopyClasses[] = {rm::BLACKWELL_DMA_COPY_B, rm::BLACKWELL_DMA_COPY_A,
                                      rm::HOPPER_DMA_COPY_A,    rm::AMPERE_DMA_COPY_B,
                                      rm::AMPERE_DMA_COPY_A,    rm::TURING_DMA_COPY_A,
                                      rm::VOLTA_DMA_COPY_A};
constexpr rm::NvU32 kDoorbellClasses[] = {rm::VOLTA_USERMODE_A, rm::TURING_USERMODE_A,
                                          rm::AMPERE_USERMODE_A, rm::HOPPER_USERMODE_A,
                                          rm::BLACKWELL_USERMODE_A};

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

// Orders what was stored before it before what is stored after it, also in memory that combines
// writes, as a locked instruction does. ThreadSanitizer knows no std::atomic_thread_fence().
void Fence() {
  static std::atomic<std::uint32_t> fences{0};
  fences.fetch_add(1, std::memory_order_seq_cst);
}

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

Result<Mapping> MapDoorbell(Client& client, const Gpu& gpu, rm::NvU32 class_number) {
  rm::NV_HOPPER_USERMODE_A_PARAMS params{};
  params.bBar1Mapping = 1;
  const bool takes_params = class_number >= rm::HOPPER_USERMODE_A;
  rm::NvHandle doorbell = 0;
  CGPU_TRY(
      Checked(client.Alloc(gpu.subdevice, &doorbell, class_number, takes_params ? &params : nullptr,
                           takes_params ? sizeof(params) : 0),
              "asking for the doorbell of GPU " + gpu.bdf));
  return Mapping::Make(client, gpu, doorbell, kDoorbellBytes);
}

}  // namespace

Result<CopyQueue> CopyQueue::Make(Client& client, const Gpu& gpu) {
  const std::string what = "allocating a queue on GPU " + gpu.bdf;
  CGPU_ASSIGN_OR_RETURN(const auto classes, ClassesOf(client, gpu));
  const rm::NvU32 doorbell_class = FirstOf(kDoorbellClasses, classes);
  const rm::NvU32 copy_class = FirstOf(kCopyClasses, classes);
  if (doorbell_class == 0 || copy_class == 0) {
    return Error{Code::kUnsupported, 0, "GPU " + gpu.bdf + " has no copies that are known here",
                 "GPUs from Volta to Blackwell are known"};
  }
  rm::VidmemRequest request;
  request.size = (kAreaBytes + 0xFFFF) / 0x10000 * 0x10000;
  rm::NvHandle memory = 0;
  rm::NvHandle errors = 0;
  CGPU_TRY(Checked(AllocVidmem(client, gpu, &request, &memory), what));
  CGPU_TRY(Checked(AllocHostToRead(client, gpu, kErrorBytes, &errors), what));
  CGPU_ASSIGN_OR_RETURN(auto area, Mapping::Make(client, gpu, memory, request.size));
  CGPU_ASSIGN_OR_RETURN(
      auto read, Mapping::Make(client, gpu, errors, kErrorBytes, Mapping::Kind::kHostToRead));
  CGPU_ASSIGN_OR_RETURN(auto doorbell, MapDoorbell(client, gpu, doorbell_class));
  CopyQueue queue(std::move(area), std::move(read), std::move(doorbell));
  queue.copy_class_ = copy_class;
  CGPU_ASSIGN_OR_RETURN(queue.address_, MapForGpu(client, gpu, memory, request.size));
  CGPU_TRY(queue.MakeObjects(client, gpu, memory, errors));
  for (std::size_t at = 0; at < kCopyBytes; at += sizeof(std::uint32_t)) {
    queue.Store(kSource + at, SourceWord(at));
  }
  for (std::size_t at = 0; at < kItems * kEndBytes; at += sizeof(std::uint32_t)) {
    queue.Store(kEnds + at, 0);
  }
  queue.SetCopies(1);
  return queue;
}

Result<> CopyQueue::MakeObjects(Client& client, const Gpu& gpu, rm::NvHandle memory,
                                rm::NvHandle errors) {
  const std::string what = "making a channel on GPU " + gpu.bdf;
  CGPU_ASSIGN_OR_RETURN(const auto classes, ClassesOf(client, gpu));
  CGPU_TRY(Checked(AllocChannelGroup(client, gpu, &group_), what));
  CGPU_ASSIGN_OR_RETURN(channel_,
                        MakeChannel(client, gpu, group_, FirstOf(kChannelClasses, classes),
                                    {errors, memory, kUserd, address_ + kRing, kEntries}));
  rm::NvHandle copy = 0;
  CGPU_TRY(Checked(client.Alloc(channel_, &copy, copy_class_, nullptr, 0), what));
  rm::NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN_PARAMS token{};
  CGPU_TRY(Checked(client.Control(channel_, rm::NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN,
                                  &token, sizeof(token)),
                   what));
  token_ = token.workSubmitToken;
  return {};
}

void CopyQueue::Store(std::size_t offset, std::uint32_t word) {
  *reinterpret_cast<volatile std::uint32_t*>(area_.data() + offset) = word;
}

std::uint32_t CopyQueue::Load(std::size_t offset) const {
  return *reinterpret_cast<const volatile std::uint32_t*>(area_.data() + offset);
}

// The last copy of an item is among its own methods.
void CopyQueue::SetCopies(std::uint32_t copies) {
  std::size_t end = kShared;
  const auto put = [this, &end](std::initializer_list<std::uint32_t> words) {
    for (const std::uint32_t word : words) {
      Store(end, word);
      end += sizeof(word);
    }
  };
  const std::uint64_t source = address_ + kSource;
  put({Header(kSetObject, 1), copy_class_});
  put({Header(kOffsetInUpper, 2), High(source), Low(source)});
  constexpr auto kBytes = static_cast<std::uint32_t>(kCopyBytes);
  put({Header(kPitchIn, 4), kBytes, kBytes, kBytes, 1});
  for (std::uint32_t i = 1; i < std::clamp(copies, 1U, kMostCopies); ++i) {
    const std::uint64_t target = address_ + kTarget + i % kTargets * kCopyBytes;
    put({Header(kOffsetOutUpper, 2), High(target), Low(target), Header(kLaunchDma, 1), kLaunch});
  }
  shared_ = static_cast<std::uint32_t>((end - kShared) / sizeof(std::uint32_t));
}

void CopyQueue::Queue() {
  const std::uint64_t number = queued_++;
  const std::size_t slot = number % kItems;
  const std::uint64_t tell = address_ + kEnds + slot * kEndBytes;
  const std::uint64_t target = address_ + kTarget + number % kTargets * kCopyBytes;
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
    Store(kOwn + slot * kOwnBytes + i * sizeof(own[0]), own[i]);
  }
  const auto entry = [this](std::size_t place, std::size_t methods, std::uint64_t words) {
    const std::uint64_t value = (address_ + methods) | words << 42 | std::uint64_t{1} << 41;
    Store(kRing + place * kEntryBytes, Low(value));
    Store(kRing + place * kEntryBytes + sizeof(std::uint32_t), High(value));
  };
  entry(2 * slot, kShared, shared_);
  entry(2 * slot + 1, kOwn + slot * kOwnBytes, own.size());
}

void CopyQueue::Fill(std::uint32_t items) {
  const std::uint64_t before = queued_;
  while (Pending() < std::min(items, kItems - 1)) {
    Queue();
  }
  if (queued_ == before) {
    return;
  }
  Fence();
  Store(kUserd + kGpPut, static_cast<std::uint32_t>(2 * queued_ % kEntries));
  Fence();
  *reinterpret_cast<volatile std::uint32_t*>(doorbell_.data() + kNotifyChannelPending) = token_;
}

// A release is {payload, 0, time}: clc6b5.h. The payload comes last.
std::vector<std::uint64_t> CopyQueue::TakeEnds() {
  std::vector<std::uint64_t> ends;
  while (ended_ != queued_) {
    const std::size_t at = kEnds + ended_ % kItems * kEndBytes;
    if (Load(at) != static_cast<std::uint32_t>(ended_ + 1)) {
      break;
    }
    Fence();
    ends.push_back(Load(at + 8) | std::uint64_t{Load(at + 12)} << 32);
    ++ended_;
  }
  return ends;
}

rm::NvU32 CopyQueue::Fault() const {
  const auto load = [this](std::size_t offset) {
    return *reinterpret_cast<const volatile std::uint32_t*>(errors_.data() + offset);
  };
  return (load(kStatus) >> 16) == 0 ? 0 : load(kInfo32);
}

void CopyQueue::Spoil() {
  for (std::size_t at = 0; at < kTargets * kCopyBytes; at += sizeof(std::uint32_t)) {
    Store(kTarget + at, 0);
  }
}

bool CopyQueue::Intact() const {
  for (std::size_t at = 0; at < kTargets * kCopyBytes; at += sizeof(std::uint32_t)) {
    if (Load(kTarget + at) != SourceWord(at % kCopyBytes)) {
      return false;
    }
  }
  return true;
}

}  // namespace cgpu::rmclient
