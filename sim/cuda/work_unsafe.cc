#include <algorithm>
#include <atomic>
#include <initializer_list>
#include <thread>
#include <vector>

#include "base/result.h"
#include "rm/nv_classes.h"
#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"
#include "rmclient/channels.h"
#include "sim/cuda/work.h"

namespace cgpu::sim::cuda {
namespace {

// Layout of the area: error notifiers, the semaphore, USERD, programs with their QMDs, the ring of
// entries, and for each of them its methods.
constexpr std::size_t kNotifier = 0;
constexpr std::size_t kSemaphore = 0x1000;
constexpr std::size_t kUserd = 0x2000;
constexpr std::size_t kProgramsAt = 0x4000;
constexpr std::size_t kQmdBytes = 512;  // Blackwell's has 384, and begins at a multiple of 256
constexpr std::size_t kSlot = WorkQueue::kProgramBytes + kQmdBytes;
constexpr std::size_t kRing = 0x10000;
constexpr std::size_t kEntryBytes = 8;
// Bytes of an entry's methods, beside those of its runs; and bytes of each run's.
constexpr std::size_t kFrameBytes = 32;
constexpr std::size_t kRunBytes = 16;

constexpr std::size_t kGpPut = 0x8C;  // Nvc56fControl
constexpr std::size_t kInfo32 = 8;    // offset in NvNotification
constexpr std::size_t kStatus = 12;   // info16, and status in the upper half

// Words of a QMD: PROGRAM_ADDRESS_LOWER, and _UPPER after it. Layout 3.0, clc6c0qmd.h, and 5.0 of
// Blackwell, clcec0qmd.h, which leaves out the lowest bits of the address.
constexpr std::size_t kQmdProgram = 48 * sizeof(std::uint32_t);
constexpr std::size_t kQmd5Program = 32 * sizeof(std::uint32_t);
constexpr unsigned kQmd5Shift = 4;

constexpr std::uint32_t kCompute = 1;  // its subchannel
constexpr std::uint32_t kSetObject = 0;
constexpr std::uint32_t kSemAddrLo = 0x5C;  // clc56f.h; address, payload and the word that executes
constexpr std::uint32_t kReleaseWfi64 = 1U | 1U << 20 | 1U << 24;
constexpr std::uint32_t kSendPcasA = 0x2B4;
constexpr std::uint32_t kSendSignalingPcasB = 0x2BC;
constexpr std::uint32_t kInvalidateAndSchedule = 3;
constexpr std::uint32_t kSendSignalingPcas2B = 0x2C0;
constexpr std::uint32_t kInvalidateCopySchedule = 9;

constexpr rm::NvU32 kChannelClasses[] = {rm::AMPERE_CHANNEL_GPFIFO_A, rm::TURING_CHANNEL_GPFIFO_A,
                                         rm::VOLTA_CHANNEL_GPFIFO_A};
constexpr rm::NvU32 kComputeClasses[] = {
    rm::BLACKWELL_COMPUTE_A, rm::HOPPER_COMPUTE_A, rm::ADA_COMPUTE_A,  rm::AMPERE_COMPUTE_B,
    rm::AMPERE_COMPUTE_A,    rm::TURING_COMPUTE_A, rm::VOLTA_COMPUTE_A};

// Returns the header of incrementing methods.
constexpr std::uint32_t Header(std::uint32_t subchannel, std::uint32_t method,
                               std::uint32_t count) {
  return 1U << 29 | count << 16 | subchannel << 13 | method >> 2;
}

constexpr std::size_t MethodBytes(unsigned runs) {
  return kFrameBytes + runs * kRunBytes;
}

}  // namespace

Result<WorkQueue> WorkQueue::Make(rmclient::Client& client, const rmclient::Gpu& gpu,
                                  unsigned depth, unsigned runs) {
  if (runs == 0 || runs > kMostRuns) {
    return Error{Code::kInvalid, 0, "a launch runs its program 1 to 1024 times", ""};
  }
  unsigned entries = 2;
  while (entries <= depth) {
    entries *= 2;
  }
  const std::size_t length = kRing + entries * (kEntryBytes + MethodBytes(runs));
  rm::VidmemRequest request;
  request.size = (length + 0xFFFF) / 0x10000 * 0x10000;
  rm::NvHandle memory = 0;
  const rmclient::Outcome outcome = rmclient::AllocVidmem(client, gpu, &request, &memory);
  if (!outcome.ok()) {
    return rmclient::CallError(outcome, "allocating a queue on GPU " + gpu.bdf);
  }
  Result<rmclient::Mapping> area = rmclient::Mapping::Make(client, gpu, memory, request.size);
  if (!area.ok()) {
    return area.error();
  }
  WorkQueue queue(client, std::move(area).value(), entries, runs);
  const Result<std::uint64_t> address = rmclient::MapForGpu(client, gpu, memory, request.size);
  if (!address.ok()) {
    return address.error();
  }
  queue.address_ = *address;
  CGPU_TRY(queue.MakeObjects(gpu, memory));
  return queue;
}

Result<> WorkQueue::MakeObjects(const rmclient::Gpu& gpu, rm::NvHandle memory) {
  CGPU_ASSIGN_OR_RETURN(const auto classes, rmclient::ClassesOf(*client_, gpu));
  const rm::NvU32 channel_class = rmclient::FirstOf(kChannelClasses, classes);
  compute_class_ = rmclient::FirstOf(kComputeClasses, classes);
  if (channel_class == 0 || compute_class_ == 0) {
    return Error{Code::kUnsupported, 0, "GPU " + gpu.bdf + " has no channel that is known here",
                 "GPUs from Volta to Blackwell are known"};
  }
  const std::string what = "making a channel on GPU " + gpu.bdf;
  CGPU_TRY(rmclient::Checked(rmclient::AllocChannelGroup(*client_, gpu, &group_), what));
  CGPU_ASSIGN_OR_RETURN(
      channel_, rmclient::MakeChannel(*client_, gpu, group_, channel_class,
                                      {memory, memory, kUserd, address_ + kRing, entries_}));
  rm::NvHandle compute = 0;
  CGPU_TRY(rmclient::Checked(client_->Alloc(channel_, &compute, compute_class_, nullptr, 0), what));
  return rmclient::Checked(rmclient::ScheduleGroup(*client_, group_), what);
}

void WorkQueue::Store(std::size_t offset, std::uint32_t word) {
  *reinterpret_cast<volatile std::uint32_t*>(area_.data() + offset) = word;
}

std::uint32_t WorkQueue::Load(std::size_t offset) const {
  return *reinterpret_cast<const volatile std::uint32_t*>(area_.data() + offset);
}

Result<unsigned> WorkQueue::AddProgram(std::span<const std::byte> program) {
  if (programs_ == kPrograms || program.size() > kProgramBytes) {
    return Error{Code::kInvalid, 0, "a queue holds 64 programs of 256 bytes", ""};
  }
  const std::size_t at = kProgramsAt + programs_ * kSlot;
  WriteProgram(programs_, program);
  const bool layout5 = compute_class_ >= rm::BLACKWELL_COMPUTE_A;
  const std::uint64_t address = (address_ + at) >> (layout5 ? kQmd5Shift : 0);
  const std::size_t word = at + kProgramBytes + (layout5 ? kQmd5Program : kQmdProgram);
  Store(word, static_cast<std::uint32_t>(address));
  Store(word + sizeof(std::uint32_t), static_cast<std::uint32_t>(address >> 32));
  return programs_++;
}

void WorkQueue::WriteProgram(unsigned number, std::span<const std::byte> program) {
  const std::size_t at = kProgramsAt + number * kSlot;
  for (std::size_t i = 0; i < program.size(); ++i) {
    area_.data()[at + i] = static_cast<unsigned char>(program[i]);
  }
}

std::optional<std::uint64_t> WorkQueue::Launch(unsigned program) {
  if (launched_ - Ended() >= depth()) {
    return std::nullopt;
  }
  const std::size_t slot = launched_ % entries_;
  const std::size_t methods = kRing + entries_ * kEntryBytes + slot * MethodBytes(runs_);
  const std::uint64_t qmd = address_ + kProgramsAt + program * kSlot + kProgramBytes;
  const std::uint64_t semaphore = address_ + kSemaphore;
  const bool second_form = compute_class_ >= rm::AMPERE_COMPUTE_A;
  ++launched_;
  std::size_t end = methods;
  const auto put = [this, &end](std::initializer_list<std::uint32_t> words) {
    for (const std::uint32_t word : words) {
      Store(end, word);
      end += sizeof(word);
    }
  };
  put({Header(kCompute, kSetObject, 1), compute_class_});
  for (unsigned run = 0; run < runs_; ++run) {
    put({Header(kCompute, kSendPcasA, 1), static_cast<std::uint32_t>(qmd >> 8),
         Header(kCompute, second_form ? kSendSignalingPcas2B : kSendSignalingPcasB, 1),
         second_form ? kInvalidateCopySchedule : kInvalidateAndSchedule});
  }
  put({Header(0, kSemAddrLo, 5), static_cast<std::uint32_t>(semaphore),
       static_cast<std::uint32_t>(semaphore >> 32), static_cast<std::uint32_t>(launched_),
       static_cast<std::uint32_t>(launched_ >> 32), kReleaseWfi64});
  const std::uint64_t words = (end - methods) / sizeof(std::uint32_t);
  const std::uint64_t entry = (address_ + methods) | words << 42 | std::uint64_t{1} << 41;
  Store(kRing + slot * kEntryBytes, static_cast<std::uint32_t>(entry));
  Store(kRing + slot * kEntryBytes + sizeof(std::uint32_t),
        static_cast<std::uint32_t>(entry >> 32));
  std::atomic_thread_fence(std::memory_order_seq_cst);
  Store(kUserd + kGpPut, static_cast<std::uint32_t>(launched_ % entries_));
  return launched_;
}

// The lower half is enough: no more than `entries_` are under way.
std::uint64_t WorkQueue::Ended() const {
  const auto behind = static_cast<std::uint32_t>(launched_) - Load(kSemaphore);
  return launched_ - behind;
}

bool WorkQueue::Wait(std::uint64_t launch, std::chrono::milliseconds timeout) const {
  constexpr std::chrono::microseconds kPause{20};
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (Ended() < launch) {
    if (Fault() != 0 || std::chrono::steady_clock::now() > deadline) {
      return false;
    }
    std::this_thread::sleep_for(kPause);
  }
  return true;
}

rm::NvU32 WorkQueue::Fault() const {
  return (Load(kNotifier + kStatus) >> 16) == 0 ? 0 : Load(kNotifier + kInfo32);
}

Result<> WorkQueue::SetTimeslice(std::uint64_t microseconds) {
  rm::NVA06C_CTRL_TIMESLICE_PARAMS params{microseconds};
  const rmclient::Outcome outcome =
      client_->Control(group_, rm::NVA06C_CTRL_CMD_SET_TIMESLICE, &params, sizeof(params));
  return outcome.ok() ? Result<>() : Result<>(rmclient::CallError(outcome, "setting a time slice"));
}

}  // namespace cgpu::sim::cuda
