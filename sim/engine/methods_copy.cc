// The copy classes: clc6b5.h. Bytes move in chunks, each at the end of its share of the time.
// Lines of pitch layout, and elements put together from the source and two constants. Block-linear
// layout and physical addresses are not modelled: they take no time, move nothing and count as
// ignored.
#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "sim/engine/execute.h"

namespace cgpu::sim::engine {
namespace {

enum class CopyMethodNumber : std::uint32_t {
  kNop = 0x100,
  kSetSemaphoreA = 0x240,
  kSetSemaphoreB = 0x244,
  kSetSemaphorePayload = 0x248,
  kSetSemaphorePayloadUpper = 0x24c,  // from Hopper on
  kLaunchDma = 0x300,
  kOffsetInUpper = 0x400,
  kOffsetInLower = 0x404,
  kOffsetOutUpper = 0x408,
  kOffsetOutLower = 0x40c,
  kPitchIn = 0x410,
  kPitchOut = 0x414,
  kLineLengthIn = 0x418,
  kLineCount = 0x41c,
  kRemapConstA = 0x700,
  kRemapConstB = 0x704,
  kRemapComponents = 0x708,
};

constexpr std::uint32_t kChunkBytes = 256 * 1024;
constexpr std::uint32_t kBytesOfWork = 4096;  // one unit of a caller's budget

// SET_REMAP_COMPONENTS; without it an element is a byte.
struct Elements {
  explicit Elements(const CopyJob& job)
      : on(Bit(job.launch, 10)),
        word(job.from.components),
        component(on ? Bits(word, 17, 16) + 1 : 1),
        in(on ? component * (Bits(word, 21, 20) + 1) : 1),
        out(on ? component * (Bits(word, 25, 24) + 1) : 1) {}

  bool on;
  std::uint32_t word;
  std::uint32_t component;  // bytes
  std::uint32_t in;         // bytes of an element of the source
  std::uint32_t out;
};

enum Pick : std::uint32_t { kConstA = 4, kConstB = 5, kNoWrite = 6 };

bool ReadsSource(const Elements& elements) {
  for (std::uint32_t i = 0; i < elements.out / elements.component; ++i) {
    if (Bits(elements.word, (i * 4) + 2, i * 4) < kConstA) {
      return true;
    }
  }
  return !elements.on;
}

// Puts `to` together; where a component is not written, what was there stays.
void Remap(const CopyJob& job, const Elements& elements, std::span<const std::byte> from,
           std::span<std::byte> to) {
  const std::array<std::uint32_t, 2> constants = {job.from.const_a, job.from.const_b};
  const std::uint32_t size = elements.component;
  for (std::size_t element = 0; element < job.chunk; ++element) {
    for (std::uint32_t i = 0; i < elements.out / size; ++i) {
      const std::uint32_t pick = Bits(elements.word, (i * 4) + 2, i * 4);
      const std::size_t put = (element * elements.out) + (std::size_t{i} * size);
      const auto target = to.subspan(put, size);
      if (pick < kConstA) {
        const std::size_t at = (element * elements.in) + (std::size_t{pick} * size);
        if (at + size <= from.size()) {
          std::ranges::copy(from.subspan(at, size), target.begin());
        }
      } else if (pick < kNoWrite) {
        std::ranges::copy(std::as_bytes(std::span(&constants[pick - kConstA], 1)).first(size),
                          target.begin());
      }
    }
  }
}

// Moves the chunk that the operation was for. False: with the step's fault.
bool Move(Channel& channel, const Machine& machine, Step& step) {
  CopyJob& job = channel.copy_job;
  const Elements elements(job);
  const CopyState& from = job.from;
  const std::uint64_t in =
      from.in + (std::uint64_t{job.line} * from.pitch_in) + (job.offset * elements.in);
  const std::uint64_t out =
      from.out + (std::uint64_t{job.line} * from.pitch_out) + (job.offset * elements.out);
  std::vector<std::byte> source;
  if (ReadsSource(elements)) {
    source.resize(std::size_t{job.chunk} * elements.in);
    if (!ReadOrFault(channel, machine, in, source, step)) {
      return false;
    }
  }
  if (elements.on) {
    std::vector<std::byte> target(std::size_t{job.chunk} * elements.out);
    if (!ReadOrFault(channel, machine, out, target, step)) {
      return false;
    }
    Remap(job, elements, source, target);
    source.swap(target);
  }
  step.copied_bytes = source.size();
  step.work += source.size() / kBytesOfWork;
  return WriteOrFault(channel, machine, out, source, step);
}

void BeginChunk(Channel& channel, const Machine& machine) {
  CopyJob& job = channel.copy_job;
  const Elements elements(job);
  job.chunk = static_cast<std::uint32_t>(std::min<std::uint64_t>(
      job.from.line_length - job.offset, kChunkBytes / std::max(elements.in, elements.out)));
  const std::uint64_t bytes = std::uint64_t{job.chunk} * elements.out;
  const std::uint64_t rate = std::max<std::uint64_t>(machine.costs.bytes_per_us, 1);
  // However short a line is, it takes as long as an entry.
  channel.operation =
      Operation{Operation::Kind::kCopy,
                std::max({bytes * 1000 / rate, machine.costs.entry_ns, Duration{1}}), true};
}

void EndCopy(Channel& channel, const Machine& machine, Step& step) {
  enum Type : std::uint32_t { kNone, kOneWord, kFourWords, kConditionalInterrupt };
  const CopyJob& job = channel.copy_job;
  const std::uint32_t type = Bits(job.launch, 4, 3);
  if (type != kNone) {
    Release release{job.from.semaphore, job.from.payload, Bit(job.launch, 27),
                    type == kFourWords, std::nullopt,     !Bit(job.launch, 18)};
    const std::uint32_t reduction = Bits(job.launch, 17, 14);
    if (Bit(job.launch, 19) && reduction < 8) {
      release.reduction = static_cast<Reduction>(reduction);
      release.timestamp = false;
    }
    ReleaseOrFault(channel, machine, release, step);
  }
  if (Bits(job.launch, 6, 5) != 0 || type == kConditionalInterrupt) {
    machine.events.OnInterrupt(machine.runlist, channel.key, machine.now);
  }
}

void LaunchCopy(Channel& channel, const Machine& machine, std::uint32_t data, Step& step) {
  CopyJob& job = channel.copy_job;
  job = CopyJob{channel.copy, data, Bit(data, 9) ? channel.copy.line_count : 1, 0, 0, 0};
  const bool moves = Bits(data, 1, 0) != 0;
  const bool known = Bit(data, 7) && Bit(data, 8) && !Bit(data, 12) && !Bit(data, 13);
  if (moves && !known) {
    ++channel.ignored_methods;
  }
  if (moves && known && job.lines != 0 && job.from.line_length != 0) {
    BeginChunk(channel, machine);
  } else {
    EndCopy(channel, machine, step);
  }
}

}  // namespace

void CopyMethod(Channel& channel, const Machine& machine, std::uint32_t method, std::uint32_t data,
                Step& step) {
  CopyState& copy = channel.copy;
  using enum CopyMethodNumber;
  switch (static_cast<CopyMethodNumber>(method)) {
    case kSetSemaphoreA:
      copy.semaphore = WithUpper(copy.semaphore, Bits(data, 24, 0));
      return;
    case kSetSemaphoreB:
      copy.semaphore = WithLower(copy.semaphore, data & ~std::uint32_t{3});
      return;
    case kSetSemaphorePayload:
      copy.payload = WithLower(copy.payload, data);
      return;
    case kSetSemaphorePayloadUpper:
      copy.payload = WithUpper(copy.payload, data);
      return;
    case kLaunchDma:
      return LaunchCopy(channel, machine, data, step);
    case kOffsetInUpper:
      copy.in = WithUpper(copy.in, Bits(data, 24, 0));
      return;
    case kOffsetInLower:
      copy.in = WithLower(copy.in, data);
      return;
    case kOffsetOutUpper:
      copy.out = WithUpper(copy.out, Bits(data, 24, 0));
      return;
    case kOffsetOutLower:
      copy.out = WithLower(copy.out, data);
      return;
    case kPitchIn:
      copy.pitch_in = data;
      return;
    case kPitchOut:
      copy.pitch_out = data;
      return;
    case kLineLengthIn:
      copy.line_length = data;
      return;
    case kLineCount:
      copy.line_count = data;
      return;
    case kRemapConstA:
      copy.const_a = data;
      return;
    case kRemapConstB:
      copy.const_b = data;
      return;
    case kRemapComponents:
      copy.components = data;
      return;
    case kNop:
      return;
    default:
      ++channel.ignored_methods;
  }
}

void CompleteCopy(Channel& channel, const Machine& machine, Step& step) {
  if (!Move(channel, machine, step)) {
    return;
  }
  channel.copied_bytes += step.copied_bytes;
  CopyJob& job = channel.copy_job;
  job.offset += job.chunk;
  if (job.offset == job.from.line_length) {
    job.offset = 0;
    ++job.line;
  }
  if (job.line < job.lines) {
    BeginChunk(channel, machine);
  } else {
    EndCopy(channel, machine, step);
  }
}

}  // namespace cgpu::sim::engine
