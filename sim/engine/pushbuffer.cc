// Entries, pushbuffers and method headers. clc56f.h: GP_ENTRY, DMA; clc86f.h for the extended base.
#include <algorithm>
#include <array>
#include <cstddef>

#include "sim/engine/execute.h"

namespace cgpu::sim::engine {
namespace {

// USERD: clc56f.h Nvc56fControl.
constexpr std::uint64_t kGpGet = 0x88;
constexpr std::uint64_t kGpPut = 0x8c;

// DMA_SEC_OP, bits 31:29 of a header.
enum SecOp : std::uint32_t {
  kGrp0UseTert = 0,
  kIncMethod = 1,
  kGrp2UseTert = 2,
  kNonIncMethod = 3,
  kImmdDataMethod = 4,
  kOneInc = 5,
  kEndPbSegment = 7,
};

// GP_ENTRY1_OPCODE of an entry without length.
constexpr std::uint32_t kOpcodeIllegal = 1;
constexpr std::uint32_t kOpcodeExtendedBase = 4;

constexpr std::uint32_t kHostMethods = 0x100;  // below it they are the host's, on any subchannel
constexpr std::uint32_t kSetObject = 0;

void Fail(Step& step, Fault fault, std::uint64_t address = 0) {
  step.fault = FaultReport{fault, address};
}

void Fetch(Channel& channel, const Machine& machine, Step& step) {
  std::array<std::uint32_t, 2> entry{};
  const std::uint64_t address =
      channel.place.gpfifo_address + std::uint64_t{channel.gp_get} * sizeof(entry);
  if (!ReadOrFault(channel, machine, address, std::as_writable_bytes(std::span(entry)), step)) {
    return;
  }
  channel.gp_get = (channel.gp_get + 1) % channel.place.gpfifo_entries;
  // A ring whose USERD went away is not the GPU's concern.
  static_cast<void>(machine.memory.WriteBlock(channel.place.userd_block,
                                              channel.place.userd_offset + kGpGet,
                                              std::as_bytes(std::span(&channel.gp_get, 1))));
  Pushbuffer& buffer = channel.pushbuffer;
  if (const std::uint32_t words = Bits(entry[1], 30, 10); words != 0) {
    buffer.address =
        buffer.base | (std::uint64_t{Bits(entry[1], 7, 0)} << 32U) | (entry[0] & ~std::uint32_t{3});
    buffer.words = words;
    return;
  }
  const std::uint32_t opcode = Bits(entry[1], 7, 0);
  if (opcode == kOpcodeIllegal) {
    Fail(step, Fault::kPushbuffer);
  } else if (opcode == kOpcodeExtendedBase) {
    buffer.base = std::uint64_t{Bits(entry[0], 24, 8)} << 40U;
  }
  step.entry_ended = true;
}

// One word; nullopt with the step's fault.
std::optional<std::uint32_t> NextWord(Channel& channel, const Machine& machine, Step& step) {
  Pushbuffer& buffer = channel.pushbuffer;
  if (buffer.next == buffer.filled) {
    buffer.next = 0;
    buffer.filled = std::min(buffer.words, Pushbuffer::kReadAhead);
    const auto ahead = std::as_writable_bytes(std::span(buffer.ahead).first(buffer.filled));
    if (!machine.memory.Read(channel.place.space, buffer.address, ahead)) {
      // Reading ahead may reach what the pushbuffer itself would never get to.
      buffer.filled = 1;
      if (!ReadOrFault(channel, machine, buffer.address, ahead.first(4), step)) {
        buffer.filled = 0;
        return std::nullopt;
      }
    }
    buffer.address += std::uint64_t{buffer.filled} * 4;
    buffer.words -= buffer.filled;
  }
  return buffer.ahead[buffer.next++];
}

void Execute(Channel& channel, const Machine& machine, std::uint32_t method,
             std::uint32_t subchannel, std::uint32_t data, Step& step) {
  if (method == kSetObject) {
    channel.objects[subchannel] = Bits(data, 15, 0);
    return;
  }
  if (method < kHostMethods) {
    HostMethod(channel, machine, method, data, step);
    return;
  }
  const std::uint32_t object = channel.objects[subchannel];
  switch (object & 0xffU) {  // classes of one kind end alike
    case 0xc0:
      ComputeMethod(channel, machine, object, method, data, step);
      return;
    case 0xb5:
      CopyMethod(channel, machine, method, data, step);
      return;
    case 0xb0:
      VideoMethod(channel, machine, method, data, step);
      return;
    default:
      ++channel.ignored_methods;
  }
}

void BeginMethod(Pushbuffer& buffer, std::uint32_t header, Pushbuffer::Count count, bool old) {
  buffer.method = old ? Bits(header, 12, 2) * 4 : Bits(header, 11, 0) * 4;
  buffer.left = old ? Bits(header, 28, 18) : Bits(header, 28, 16);
  buffer.subchannel = Bits(header, 15, 13);
  buffer.count = count;
}

void Header(Channel& channel, const Machine& machine, std::uint32_t header, Step& step) {
  Pushbuffer& buffer = channel.pushbuffer;
  const std::uint32_t tert = Bits(header, 17, 16);
  switch (Bits(header, 31, 29)) {
    case kIncMethod:
      return BeginMethod(buffer, header, Pushbuffer::Count::kIncrement, false);
    case kNonIncMethod:
      return BeginMethod(buffer, header, Pushbuffer::Count::kSame, false);
    case kOneInc:
      return BeginMethod(buffer, header, Pushbuffer::Count::kIncrementOnce, false);
    case kImmdDataMethod:
      return Execute(channel, machine, Bits(header, 11, 0) * 4, Bits(header, 15, 13),
                     Bits(header, 28, 16), step);
    case kGrp0UseTert:
      if (tert == 0) {
        BeginMethod(buffer, header, Pushbuffer::Count::kIncrement, true);
      }  // else a mask of subdevices: there is one
      return;
    case kGrp2UseTert:
      if (tert == 0) {
        return BeginMethod(buffer, header, Pushbuffer::Count::kSame, true);
      }
      return Fail(step, Fault::kPushbuffer);
    case kEndPbSegment:
      buffer.words = 0;
      buffer.next = buffer.filled = 0;
      return;
    default:
      return Fail(step, Fault::kPushbuffer);
  }
}

}  // namespace

Step Next(Channel& channel, const Machine& machine) {
  Step step;
  Pushbuffer& buffer = channel.pushbuffer;
  if (buffer.Done()) {
    step.cost = machine.costs.entry_ns;
    Fetch(channel, machine, step);
    return step;
  }
  step.cost = machine.costs.method_ns;
  const std::optional<std::uint32_t> word = NextWord(channel, machine, step);
  if (!word) {
    return step;
  }
  if (buffer.left == 0) {
    Header(channel, machine, *word, step);
  } else {
    const std::uint32_t method = buffer.method;
    --buffer.left;
    if (buffer.count != Pushbuffer::Count::kSame) {
      buffer.method += 4;
    }
    if (buffer.count == Pushbuffer::Count::kIncrementOnce) {
      buffer.count = Pushbuffer::Count::kSame;
    }
    Execute(channel, machine, method, buffer.subchannel, *word, step);
  }
  step.entry_ended = buffer.Done() && !channel.operation;
  return step;
}

Step Complete(Channel& channel, const Machine& machine) {
  Step step;
  const Operation::Kind kind = channel.operation->kind;
  channel.operation.reset();
  switch (kind) {
    case Operation::Kind::kKernel:
      CompleteKernel(channel, machine, step);
      break;
    case Operation::Kind::kCopy:
      CompleteCopy(channel, machine, step);
      break;
    case Operation::Kind::kVideo:
    case Operation::Kind::kHold:
      break;
  }
  step.entry_ended = channel.pushbuffer.Done() && !channel.operation;
  return step;
}

bool ReadPut(Channel& channel, GpuMemory& memory) {
  std::uint32_t put = 0;
  if (!memory.ReadBlock(channel.place.userd_block, channel.place.userd_offset + kGpPut,
                        std::as_writable_bytes(std::span(&put, 1)))) {
    return true;  // nobody can have written anything
  }
  if (put != channel.gp_put && put >= channel.place.gpfifo_entries) {
    return false;
  }
  channel.gp_put = put;
  return true;
}

bool ReadOrFault(const Channel& channel, const Machine& machine, std::uint64_t address,
                 std::span<std::byte> to, Step& step) {
  if (machine.memory.Read(channel.place.space, address, to)) {
    return true;
  }
  Fail(step, Fault::kMmu, address);
  return false;
}

bool WriteOrFault(const Channel& channel, const Machine& machine, std::uint64_t address,
                  std::span<const std::byte> from, Step& step) {
  if (machine.memory.Write(channel.place.space, address, from)) {
    step.wrote = true;
    return true;
  }
  Fail(step, Fault::kMmu, address);
  return false;
}

void ReleaseOrFault(const Channel& channel, const Machine& machine, const Release& release,
                    Step& step) {
  if (Write(release, machine.memory, channel.place.space, machine.now)) {
    step.wrote = true;
  } else {
    Fail(step, Fault::kMmu, release.address);
  }
}

}  // namespace cgpu::sim::engine
