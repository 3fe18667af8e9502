// The compute classes: launches, data that comes with the methods, reports. clc6c0.h.
//
// A launch is a QMD in memory. Its layout is 3.0, and 5.0 for the classes of Blackwell; those that
// older and other GPUs know besides are not.
#include <algorithm>
#include <array>
#include <cstddef>

#include "sim/engine/execute.h"
#include "sim/engine/timed_kernel.h"

namespace cgpu::sim::engine {
namespace {

enum class ComputeMethodNumber : std::uint32_t {
  kLineLengthIn = 0x180,
  kLineCount = 0x184,
  kOffsetOutUpper = 0x188,
  kOffsetOut = 0x18c,
  kPitchOut = 0x190,
  kLaunchDma = 0x1b0,
  kLoadInlineData = 0x1b4,
  kI2mSemaphoreA = 0x1dc,
  kI2mSemaphoreB = 0x1e0,
  kI2mSemaphoreC = 0x1e4,
  kSendPcasA = 0x2b4,
  kSendSignalingPcasB = 0x2bc,
  kSendSignalingPcas2B = 0x2c0,
  kReportSemaphoreA = 0x1b00,
  kReportSemaphoreB = 0x1b04,
  kReportSemaphoreC = 0x1b08,
  kReportSemaphoreD = 0x1b0c,
};

constexpr std::uint32_t kBlackwell = 0xcdc0;
constexpr std::size_t kMostLaunched = 64;
constexpr Duration kLongest = Duration{1} << 61U;

// SEND_SIGNALING_PCAS2_B_PCAS_ACTION: those that schedule.
constexpr bool Schedules(std::uint32_t action) {
  return action == 2 || action == 3 || action == 9 || action == 10 || action == 11;
}

// A QMD of either layout. Fields are numbered by bits, as in clc6c0qmd.h and clcec0qmd.h.
class Qmd {
 public:
  explicit Qmd(std::uint32_t object) : five_(object >= kBlackwell) {}

  bool Read(const Channel& channel, const Machine& machine, std::uint64_t address, Step& step) {
    return ReadOrFault(channel, machine, address,
                       std::as_writable_bytes(std::span(words_)).first(five_ ? 384 : 256), step);
  }
  [[nodiscard]] std::uint64_t Program() const {
    return five_ ? (std::uint64_t{Field(1076, 1056)} << 36U) | (std::uint64_t{words_[32]} << 4U)
                 : (std::uint64_t{Field(1584, 1568)} << 32U) | words_[48];
  }
  // RELEASE0 and 1.
  [[nodiscard]] std::optional<Release> ReleaseOf(unsigned i) const {
    const unsigned first = five_ ? 288 + (i * 16) : 0;
    const unsigned at = five_ ? (i == 0 ? 15 : 24) : 24 + (i * 4);
    const std::uint32_t flags = words_[at + 1];
    if (!(five_ ? Flag(first) : Bit(flags, 23))) {
      return std::nullopt;
    }
    Release release;
    release.address =
        (std::uint64_t{five_ ? Bits(flags, 24, 0) : Bits(flags, 7, 0)} << 32U) | words_[at];
    release.payload = (std::uint64_t{words_[at + 3]} << 32U) | words_[at + 2];
    release.wide = five_ ? Flag(first + 12) : Bit(flags, 29);
    release.timestamp = (five_ ? Field(first + 2, first + 1) : Bits(flags, 31, 30)) == 0;
    if (five_ ? Flag(first + 4) : Bit(flags, 26)) {
      release.reduction =
          ComputeReduction(five_ ? Field(first + 7, first + 5) : Bits(flags, 22, 20));
      release.is_signed = (five_ ? Field(first + 9, first + 8) : Bits(flags, 25, 24)) == 1;
      release.timestamp = false;
    }
    return release;
  }
  [[nodiscard]] bool Interrupts(unsigned i) const {
    return (five_ ? Field(299 + (i * 16), 298 + (i * 16)) : Bits(words_[25 + (i * 4)], 28, 27)) !=
           0;
  }
  // DEPENDENT_QMD0 and 1: the address of what is to be scheduled after it.
  [[nodiscard]] std::optional<std::uint64_t> Dependent(unsigned i) const {
    const unsigned first = five_ ? 336 + (i * 8) : 512 + (i * 5);
    const std::uint32_t action = Field(first + 3, first + 1);
    const bool has_pointer = five_ || i == 0;  // layout 3.0 names one pointer
    if (!has_pointer || !Flag(first) || (action != 1 && action != 3)) {
      return std::nullopt;
    }
    const std::uint32_t pointer = words_[five_ ? 12 + i : 15];
    return std::uint64_t{pointer} << 8U;
  }

 private:
  [[nodiscard]] bool Flag(unsigned bit) const { return Field(bit, bit) != 0; }
  // A field within one word.
  [[nodiscard]] std::uint32_t Field(unsigned high, unsigned low) const {
    return Bits(words_[low / 32], high % 32, low % 32);
  }

  bool five_;
  std::array<std::uint32_t, 96> words_{};
};

// Reads the program at an address; nullopt with the step's fault.
std::optional<TimedKernel> ReadProgram(const Channel& channel, const Machine& machine,
                                       std::uint64_t address, Step& step) {
  TimedKernel kernel;
  const auto bytes = std::as_writable_bytes(std::span(&kernel, 1));
  const bool timed = machine.memory.Read(channel.place.space, address, bytes) &&
                     kernel.magic == TimedKernel::kMagic && kernel.version == TimedKernel::kVersion;
  if (timed) {
    kernel.duration_ns = std::clamp(kernel.duration_ns, Duration{1}, kLongest);
    return kernel;
  }
  if (!ReadOrFault(channel, machine, address, bytes.first(4), step)) {
    return std::nullopt;
  }
  TimedKernel other;
  other.duration_ns = std::max(machine.costs.kernel_ns, Duration{1});
  return other;
}

void Begin(Channel& channel, const Machine& machine, std::uint32_t object, std::uint64_t address,
           Step& step) {
  Qmd qmd(object);
  if (!qmd.Read(channel, machine, address, step)) {
    return;
  }
  const std::optional<TimedKernel> program = ReadProgram(channel, machine, qmd.Program(), step);
  if (!program) {
    return;
  }
  Kernel& kernel = channel.compute.kernel;
  kernel.object = object;
  kernel.flags = program->flags;
  kernel.address = program->address;
  for (const unsigned i : {0U, 1U}) {
    kernel.releases[i] = qmd.ReleaseOf(i);
    kernel.interrupts[i] = qmd.Interrupts(i);
    kernel.dependents[i] = qmd.Dependent(i);
  }
  channel.operation = Operation{Operation::Kind::kKernel, program->duration_ns,
                                (program->flags & TimedKernel::kNotPreemptible) == 0};
}

void LaunchProgram(Channel& channel, const Machine& machine, std::uint32_t object, Step& step) {
  Begin(channel, machine, object, channel.compute.qmd, step);
}

// Does what a timed kernel does at its end. False: that was a fault.
bool EndProgram(const Channel& channel, const Machine& machine, Step& step) {
  const Kernel& kernel = channel.compute.kernel;
  if ((kernel.flags & TimedKernel::kTraps) != 0) {
    step.fault = FaultReport{Fault::kGraphics, 0};
    return false;
  }
  const std::uint32_t zero = 0;
  return (kernel.flags & TimedKernel::kAccesses) == 0 ||
         WriteOrFault(channel, machine, kernel.address, std::as_bytes(std::span(&zero, 1)), step);
}

void EndInline(const Channel& channel, const Machine& machine, Step& step) {
  const ComputeState& compute = channel.compute;
  constexpr std::uint32_t kReleaseSemaphore = 2;  // COMPLETION_TYPE
  if (Bits(compute.launch, 5, 4) == kReleaseSemaphore) {
    ReleaseOrFault(channel, machine,
                   Release{compute.i2m_semaphore, compute.i2m_payload, false,
                           !Bit(compute.launch, 12), std::nullopt, false},
                   step);
  }
  if (Bits(compute.launch, 9, 8) != 0) {
    machine.events.OnInterrupt(machine.runlist, channel.key, machine.now);
  }
}

// One word of inline data. Each line begins with a word of its own.
void LoadInline(Channel& channel, const Machine& machine, std::uint32_t data, Step& step) {
  ComputeState& compute = channel.compute;
  if (!compute.loading) {
    ++channel.ignored_methods;
    return;
  }
  const std::uint32_t count = std::min(4U, compute.line_length - compute.offset);
  const std::uint64_t address =
      compute.out + (std::uint64_t{compute.line} * compute.pitch_out) + compute.offset;
  if (!WriteOrFault(channel, machine, address, std::as_bytes(std::span(&data, 1)).first(count),
                    step)) {
    return;
  }
  compute.offset += count;
  if (compute.offset == compute.line_length) {
    compute.offset = 0;
    compute.loading = ++compute.line < compute.line_count;
    if (!compute.loading) {
      EndInline(channel, machine, step);
    }
  }
}

void LaunchInline(Channel& channel, std::uint32_t data) {
  ComputeState& compute = channel.compute;
  compute.launch = data;
  compute.line = compute.offset = 0;
  // DST_MEMORY_LAYOUT_PITCH; the other one is not modelled.
  compute.loading = compute.line_length != 0 && compute.line_count != 0 && Bit(data, 0);
  channel.ignored_methods += compute.loading ? 0 : 1;
}

void Report(const Channel& channel, const Machine& machine, std::uint32_t data, Step& step) {
  Release release{channel.compute.report, channel.compute.report_payload, false, !Bit(data, 28),
                  std::nullopt,           Bits(data, 18, 17) == 1};
  if (Bit(data, 3)) {
    release.reduction = ComputeReduction(Bits(data, 11, 9));
    release.timestamp = false;
  }
  constexpr std::uint32_t kRelease = 0;
  if (Bits(data, 1, 0) == kRelease) {
    ReleaseOrFault(channel, machine, release, step);
  }
  if (Bit(data, 20)) {  // AWAKEN_ENABLE
    machine.events.OnInterrupt(machine.runlist, channel.key, machine.now);
  }
}

// Registers alone. False: the method is none of them.
bool SetRegister(ComputeState& compute, std::uint32_t method, std::uint32_t data) {
  using enum ComputeMethodNumber;
  switch (static_cast<ComputeMethodNumber>(method)) {
    case kLineLengthIn:
      compute.line_length = data;
      return true;
    case kLineCount:
      compute.line_count = data;
      return true;
    case kOffsetOutUpper:
      compute.out = WithUpper(compute.out, Bits(data, 24, 0));
      return true;
    case kOffsetOut:
      compute.out = WithLower(compute.out, data);
      return true;
    case kPitchOut:
      compute.pitch_out = data;
      return true;
    case kI2mSemaphoreA:
      compute.i2m_semaphore = WithUpper(compute.i2m_semaphore, Bits(data, 24, 0));
      return true;
    case kI2mSemaphoreB:
      compute.i2m_semaphore = WithLower(compute.i2m_semaphore, data & ~std::uint32_t{3});
      return true;
    case kI2mSemaphoreC:
      compute.i2m_payload = data;
      return true;
    case kSendPcasA:
      compute.qmd = std::uint64_t{data} << 8U;
      return true;
    case kReportSemaphoreA:
      compute.report = WithUpper(compute.report, Bits(data, 24, 0));
      return true;
    case kReportSemaphoreB:
      compute.report = WithLower(compute.report, data & ~std::uint32_t{3});
      return true;
    case kReportSemaphoreC:
      compute.report_payload = data;
      return true;
    default:
      return false;
  }
}

}  // namespace

void ComputeMethod(Channel& channel, const Machine& machine, std::uint32_t object,
                   std::uint32_t method, std::uint32_t data, Step& step) {
  using enum ComputeMethodNumber;
  switch (static_cast<ComputeMethodNumber>(method)) {
    case kLaunchDma:
      return LaunchInline(channel, data);
    case kLoadInlineData:
      return LoadInline(channel, machine, data, step);
    case kSendSignalingPcasB:
      return Bit(data, 1) ? LaunchProgram(channel, machine, object, step) : void();
    case kSendSignalingPcas2B:
      return Schedules(Bits(data, 3, 0)) ? LaunchProgram(channel, machine, object, step) : void();
    case kReportSemaphoreD:
      return Report(channel, machine, data, step);
    default:
      channel.ignored_methods += SetRegister(channel.compute, method, data) ? 0 : 1;
  }
}

void CompleteKernel(Channel& channel, const Machine& machine, Step& step) {
  if (!EndProgram(channel, machine, step)) {
    return;
  }
  ComputeState& compute = channel.compute;
  ++channel.kernels;
  step.kernel_ended = true;
  for (const unsigned i : {0U, 1U}) {
    if (const std::optional<Release>& release = compute.kernel.releases[i]) {
      ReleaseOrFault(channel, machine, *release, step);
      if (compute.kernel.interrupts[i]) {
        machine.events.OnInterrupt(machine.runlist, channel.key, machine.now);
      }
    }
    if (compute.kernel.dependents[i]) {
      compute.launched.push_back(*compute.kernel.dependents[i]);
    }
  }
  if (compute.launched.size() > kMostLaunched) {
    step.fault = FaultReport{Fault::kGraphics, 0};  // a chain that breeds
  }
  if (step.fault || compute.launched.empty()) {
    return;
  }
  const std::uint64_t next = compute.launched.front();
  compute.launched.pop_front();
  Begin(channel, machine, compute.kernel.object, next, step);
}

}  // namespace cgpu::sim::engine
