// Input that a hostile process can hand to the shim: any sequence of ioctls, with any parameters
// and any memory behind their pointers. The driver's answers come from the input too, since the
// boundary must not fall over a driver it does not know.
//
// For every input: no pointer of the tenant's is left in what the driver would get, all of them are
// back in what the tenant gets, and never more is charged than the limit.
#include "boundary/boundary.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <vector>

#include "ledger/ledger.h"
#include "rm/abi.h"
#include "rm/escape_table.h"
#include "rm/nv_status.h"
#include "tests/fuzz/input.h"

namespace {

using cgpu::boundary::Boundary;
using cgpu::boundary::Bytes;
using cgpu::boundary::Call;
using cgpu::boundary::Decision;
using cgpu::fuzz::Input;
using cgpu::fuzz::Require;

constexpr std::uint64_t kMib = std::uint64_t{1} << 20;
constexpr std::uint64_t kLimits[] = {512 * kMib, 64 * kMib};
constexpr int kMostCalls = 64;

// Every address can be read, but for the first page and the kernel's half.
class FuzzMemory final : public cgpu::boundary::TenantMemory {
 public:
  explicit FuzzMemory(Input& input) : input_(input) {}

  bool Read(std::uint64_t address, void* into, std::size_t size) override {
    if (address < 0x1000 || address >> 47 != 0) {
      return false;
    }
    Require(size <= cgpu::boundary::kMaxParameters, "a copy is bounded");
    input_.Take(into, size);
    return true;
  }

 private:
  Input& input_;
};

// Pointers are followed by whoever executes; each leads into our own copies or nowhere.
void CheckPointers(const Call& call) {
  for (const cgpu::boundary::Pointer& pointer : call.pointers) {
    const Bytes& holder = pointer.holder < 0
                              ? call.image
                              : call.nested.at(static_cast<std::size_t>(pointer.holder)).bytes;
    Require(pointer.at + sizeof(std::uint64_t) <= holder.size(), "a pointer lies in its holder");
    const auto inside = cgpu::boundary::Load<std::uint64_t>(holder, pointer.at);
    const std::uint64_t wanted =
        pointer.target < 0
            ? 0
            : std::bit_cast<std::uint64_t>(
                  call.nested.at(static_cast<std::size_t>(pointer.target)).bytes.data());
    Require(inside == wanted, "the driver gets none of the tenant's pointers");
  }
}

// Plays the driver: an errno now and then, else a status, and a few bytes of the results.
int Execute(Input& input, Call& call) {
  const auto how = input.Take<std::uint8_t>();
  if (how > 250) {
    return how - 250;
  }
  for (unsigned writes = how % 4; writes > 0 && !call.image.empty(); --writes) {
    Bytes& into = call.nested.empty() ? call.image : call.nested.back().bytes;
    if (!into.empty()) {
      into[input.Take<std::uint16_t>() % into.size()] = input.Take<std::byte>();
    }
  }
  cgpu::boundary::SetStatus(call, how < 200 ? cgpu::rm::NV_OK : input.Take<std::uint32_t>());
  return 0;
}

cgpu::boundary::File TakeFile(Input& input) {
  const auto bits = input.Take<std::uint8_t>();
  cgpu::boundary::File file;
  file.kind = static_cast<cgpu::boundary::FileKind>(bits % 3);
  file.minor = (bits >> 2) % 5;
  file.granted = file.kind != cgpu::boundary::FileKind::kGpu || file.minor == 0 || file.minor == 3;
  return file;
}

// Half of the requests are well-formed, so that not all inputs end at the first check.
std::uint32_t TakeRequest(Input& input) {
  const auto nr = input.Take<std::uint8_t>();
  const auto size = input.Take<std::uint16_t>();
  if ((size & 1U) != 0) {
    return input.Take<std::uint32_t>();
  }
  return cgpu::rm::EscapeRequest(nr, size >> 1U);
}

void RunCall(Input& input, const cgpu::rm::Abi& abi, Boundary& boundary) {
  FuzzMemory memory(input);
  Call call;
  call.file = TakeFile(input);
  call.process = 1 + input.Take<std::uint8_t>() % 2;
  const std::uint32_t request = TakeRequest(input);
  const auto address = input.Take<std::uint16_t>() * std::uint64_t{16};
  if (cgpu::boundary::Decode(abi, request, address, memory, call) != 0) {
    return;
  }
  if (call.fd && input.Take<std::uint8_t>() % 2 == 0) {
    call.fd->file = TakeFile(input);
    call.fd->tag = input.Take<std::uint8_t>() % 4;
  }
  (void)boundary.NeedsOf(call);
  Decision decision = boundary.Decide(call);
  while (decision.action == Decision::Action::kAsk) {
    for (const auto& doubt : decision.doubts) {
      boundary.Settle(doubt, input.Take<std::uint8_t>() % 2 == 0);
    }
    decision = boundary.Decide(call);
  }
  if (decision.effects.lists_processes) {
    boundary.AnswerOfProcesses(call, decision, {{1, 17}, {2, 18}});
  }
  if (decision.action != Decision::Action::kExecute) {
    return;
  }
  cgpu::boundary::PointInside(call, 99);
  CheckPointers(call);
  const int error = Execute(input, call);
  cgpu::boundary::PointBack(call);
  if (boundary.Account(call, decision, error)) {
    boundary.Undone(call, decision);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  const auto branch =
      input.Take<std::uint8_t>() % 2 == 0 ? cgpu::rm::Branch::k550 : cgpu::rm::Branch::k580;
  const cgpu::rm::Abi& abi = cgpu::rm::GetAbi(branch);
  cgpu::ledger::Ledger ledger({kLimits[0], kLimits[1]}, {8, 1000, 8, 16});
  Boundary boundary(
      abi, {{0, 0x100, 0, {}, 0, {16 * kMib, 4096, 0}}, {3, 0x400, 3, {}, 0, {16 * kMib, 4096, 0}}},
      ledger);
  for (int calls = 0; calls < kMostCalls && !input.empty(); ++calls) {
    RunCall(input, abi, boundary);
    for (cgpu::ledger::Gpu gpu = 0; gpu < ledger.Gpus(); ++gpu) {
      Require(ledger.Used(gpu) + ledger.Reserved(gpu) <= kLimits[gpu],
              "never more is charged than the limit");
    }
  }
  return 0;
}
