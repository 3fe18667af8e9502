// Methods of the host, which every channel has on every subchannel: clc36f.h, clc56f.h. A release
// waits for idle whether it says so or not, since a channel does one thing after the other.
#include "sim/engine/execute.h"

namespace cgpu::sim::engine {
namespace {

enum class HostMethodNumber : std::uint32_t {
  kIllegal = 0x04,
  kNop = 0x08,
  kSemaphoreA = 0x10,
  kSemaphoreB = 0x14,
  kSemaphoreC = 0x18,
  kSemaphoreD = 0x1c,
  kNonStallInterrupt = 0x20,
  kFbFlush = 0x24,
  kMemOpA = 0x28,
  kMemOpB = 0x2c,
  kMemOpC = 0x30,
  kMemOpD = 0x34,
  kSetReference = 0x50,
  kSemAddrLo = 0x5c,
  kSemAddrHi = 0x60,
  kSemPayloadLo = 0x64,
  kSemPayloadHi = 0x68,
  kSemExecute = 0x6c,
  kWfi = 0x78,
  kYield = 0x80,
  kClearFaulted = 0x84,
};

constexpr std::uint32_t kYieldTsg = 3;

// `switches`: ACQUIRE_SWITCH_TSG (SEM_EXECUTE) or ACQUIRE_SWITCH (SEMAPHORED), bit 12 of both.
// Without it the group keeps the engine until its time slice is over (NVIDIA/open-gpu-doc
// manuals/ampere/ga100/dev_pbdma.ref.txt, "Semaphore switch option").
void Wait(Channel& channel, const Machine& machine, const Acquire& acquire, bool switches,
          Step& step) {
  const std::optional<bool> there = IsThere(acquire, machine.memory, channel.place.space);
  if (!there) {
    step.fault = FaultReport{Fault::kMmu, acquire.address};
  } else if (!*there) {
    channel.wait = engine::Wait{acquire, machine.memory_state};
    if (!switches) {
      channel.operation = Operation{Operation::Kind::kHold, Operation::kEndless, true};
    }
  }
}

void SemExecute(Channel& channel, const Machine& machine, std::uint32_t data, Step& step) {
  enum Operation : std::uint32_t { kAcquire, kRelease, kStrictGeq, kCircGeq, kAnd, kNor, kReduce };
  const bool wide = Bit(data, 24);
  Acquire acquire{channel.host.semaphore, channel.host.payload, Compare::kEqual, wide};
  Release release{channel.host.semaphore, channel.host.payload, wide,
                  Bit(data, 25),          std::nullopt,         false};
  switch (Bits(data, 2, 0)) {
    case kAcquire:
      return Wait(channel, machine, acquire, Bit(data, 12), step);
    case kStrictGeq:
      acquire.compare = Compare::kStrictGreaterEqual;
      return Wait(channel, machine, acquire, Bit(data, 12), step);
    case kCircGeq:
      acquire.compare = Compare::kCircularGreaterEqual;
      return Wait(channel, machine, acquire, Bit(data, 12), step);
    case kAnd:
      acquire.compare = Compare::kAnd;
      return Wait(channel, machine, acquire, Bit(data, 12), step);
    case kNor:
      acquire.compare = Compare::kNor;
      return Wait(channel, machine, acquire, Bit(data, 12), step);
    case kReduce:
      release.reduction = static_cast<Reduction>(Bits(data, 30, 27) & 7U);
      release.is_signed = !Bit(data, 31);
      release.timestamp = false;
      [[fallthrough]];
    case kRelease:
      return ReleaseOrFault(channel, machine, release, step);
    default:
      step.fault = FaultReport{Fault::kPushbuffer, 0};
  }
}

// SEMAPHORED, from before Volta; its operations are bits.
void OldSemaphore(Channel& channel, const Machine& machine, std::uint32_t data, Step& step) {
  enum Operation : std::uint32_t { kAcquire = 1, kRelease = 2, kGeq = 4, kAnd = 8, kReduce = 16 };
  Acquire acquire{channel.host.old_semaphore, channel.host.old_payload, Compare::kEqual, false};
  Release release{channel.host.old_semaphore,
                  channel.host.old_payload,
                  false,
                  !Bit(data, 24),
                  std::nullopt,
                  false};
  switch (Bits(data, 4, 0)) {
    case kAcquire:
      return Wait(channel, machine, acquire, Bit(data, 12), step);
    case kGeq:
      acquire.compare = Compare::kCircularGreaterEqual;
      return Wait(channel, machine, acquire, Bit(data, 12), step);
    case kAnd:
      acquire.compare = Compare::kAnd;
      return Wait(channel, machine, acquire, Bit(data, 12), step);
    case kReduce:
      release.reduction = static_cast<Reduction>(Bits(data, 30, 27) & 7U);
      release.is_signed = !Bit(data, 31);
      release.timestamp = false;
      [[fallthrough]];
    case kRelease:
      return ReleaseOrFault(channel, machine, release, step);
    default:
      step.fault = FaultReport{Fault::kPushbuffer, 0};
  }
}

}  // namespace

void HostMethod(Channel& channel, const Machine& machine, std::uint32_t method, std::uint32_t data,
                Step& step) {
  HostState& host = channel.host;
  using enum HostMethodNumber;
  switch (static_cast<HostMethodNumber>(method)) {
    case kIllegal:
      step.fault = FaultReport{Fault::kPushbuffer, 0};
      return;
    case kSemaphoreA:
      host.old_semaphore = WithUpper(host.old_semaphore, Bits(data, 7, 0));
      return;
    case kSemaphoreB:
      host.old_semaphore = WithLower(host.old_semaphore, data & ~std::uint32_t{3});
      return;
    case kSemaphoreC:
      host.old_payload = data;
      return;
    case kSemaphoreD:
      return OldSemaphore(channel, machine, data, step);
    case kNonStallInterrupt:
      machine.events.OnInterrupt(machine.runlist, channel.key, machine.now);
      return;
    case kSemAddrLo:
      host.semaphore = WithLower(host.semaphore, data & ~std::uint32_t{3});
      return;
    case kSemAddrHi:
      host.semaphore = WithUpper(host.semaphore, Bits(data, 24, 0));  // before Hopper 7:0
      return;
    case kSemPayloadLo:
      host.payload = WithLower(host.payload, data);
      return;
    case kSemPayloadHi:
      host.payload = WithUpper(host.payload, data);
      return;
    case kSemExecute:
      return SemExecute(channel, machine, data, step);
    case kYield:
      step.yields = Bits(data, 1, 0) == kYieldTsg;
      return;
    case kNop:
    case kFbFlush:
    case kMemOpA:
    case kMemOpB:
    case kMemOpC:
    case kMemOpD:
    case kSetReference:
    case kWfi:
    case kClearFaulted:
      return;  // there are no caches, and nothing runs beside
    default:
      ++channel.ignored_methods;
  }
}

}  // namespace cgpu::sim::engine
