// A container whose program does what a fuzzer says: it makes one call after the other, and looks
// at what the boundary, the ledger and the driver behind them make of each. See calls.cc.
#ifndef CGPU_TESTS_FUZZ_TENANT_H_
#define CGPU_TESTS_FUZZ_TENANT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "boundary/boundary.h"
#include "ledger/ledger.h"
#include "rm/abi.h"
#include "rm/nv_alloc.h"
#include "rm/nv_controls.h"
#include "rm/nv_structs.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/plain_driver.h"

namespace cgpu::fuzz {

using boundary::Boundary;
using boundary::Bytes;
using boundary::Call;
using boundary::Decision;
using boundary::Load;

inline constexpr std::uint64_t kMib = std::uint64_t{1} << 20;
inline constexpr std::uint64_t kMostMib = 1020;      // that a limit is ever set to
inline constexpr std::uint64_t kFirstFile = 0x1001;  // of those that exports go to

// Memory that the tenant lends, each block on pages of its own, to be read once.
class Lent final : public boundary::TenantMemory {
 public:
  std::uint64_t Add(const void* bytes, std::size_t size) {
    const std::uint64_t address = 0x10000 * (blocks_.size() + 1);
    const auto* const first = static_cast<const std::byte*>(bytes);
    blocks_.push_back({{first, first + size}, false});
    return address;
  }
  template <class T>
  std::uint64_t Add(const T& value) {
    return Add(&value, sizeof(T));
  }
  bool Read(std::uint64_t address, void* into, std::size_t size) override {
    const std::uint64_t number = address / 0x10000;
    if (number == 0 || number > blocks_.size() || address % 0x10000 != 0) {
      return false;
    }
    Block& block = blocks_[number - 1];
    if (size > block.bytes.size()) {
      return false;
    }
    Require(!block.read || size == 0, "every byte is read once");
    block.read = true;
    std::copy_n(block.bytes.begin(), size, static_cast<std::byte*>(into));
    return true;
  }

 private:
  struct Block {
    Bytes bytes;
    bool read;
  };
  std::vector<Block> blocks_;
};

struct Pending {
  Call call;
  Decision decision;
  boundary::Needs needs;
  Bytes image;                // as the tenant gave it
  std::vector<Bytes> nested;  // likewise
  bool executed = false;
  int error = 0;
};

class Tenant {
 public:
  explicit Tenant(Input& input)
      : input_(input),
        abi_(rm::GetAbi(rm::kBranches[input.Take<std::uint8_t>() % rm::kBranches.size()])),
        ledger_({kLimits[0], kLimits[1]}, {6, 200, 6, 12}),
        boundary_(
            abi_,
            {{0, 0x100, 0, {}, 0, {16 * kMib, 4096, 0}}, {3, 0x400, 3, {}, 0, {24 * kMib, 0, 0}}},
            ledger_),
        driver_(abi_, {{0, 0x100, 16 * kMib, 4096}, {3, 0x400, 24 * kMib, 0}}) {
    boundary_.AllowFirmware(rm::GSS_LEGACY_8513, 8);  // as root may
  }

  void Begin();
  void Step();
  void FinishAll() {
    while (!pending_.empty()) {
      Finish(0);
    }
    Check();
  }

 private:
  static constexpr std::array<std::uint64_t, 2> kLimits = {512 * kMib, 64 * kMib};
  using Handle = PlainDriver::Handle;

  std::uint32_t U32() { return input_.Take<std::uint32_t>(); }
  std::uint8_t U8() { return input_.Take<std::uint8_t>(); }

  // Handles: mostly ones that exist.
  Handle Wrong();
  Handle PickClient();
  Handle PickObject(Handle client);
  std::uint32_t Attributes();
  Handle NewHandle() { return U8() % 4 == 0 ? Wrong() : 0; }

  void Issue(std::uint32_t nr, const void* params, std::size_t size);
  template <class T>
  void Issue(std::uint32_t nr, const T& params) {
    Issue(nr, &params, sizeof(T));
  }
  void Alloc(std::uint32_t cls, const void* params, std::size_t size);
  template <class T>
  void Alloc(std::uint32_t cls, const T& params) {
    Alloc(cls, &params, sizeof(T));
  }
  void Control(std::uint32_t command, const void* params, std::size_t size);
  template <class T>
  void Control(std::uint32_t command, const T& params) {
    Control(command, &params, sizeof(T));
  }

  void AllocSomething();
  void Memory();
  void Channel();
  void HeapControl();
  void Copy();
  void Free();
  void Transfer();
  void Ask();
  void AnyClass();
  void AnyControl();
  void Otherwise();

  void Start(const Call& call, Decision decision);
  void Execute(Pending& pending);
  void Finish(std::size_t index);
  void Check();
  void CheckAnswer(const Call& call) const;
  void CheckFbInfo(const Bytes& bytes, std::size_t at, std::size_t count) const;

  Input& input_;
  const rm::Abi& abi_;
  ledger::Ledger ledger_;
  Boundary boundary_;
  PlainDriver driver_;
  std::optional<Handle> next_client_;  // that the next allocation is for; else any
  Lent lent_;
  std::vector<std::unique_ptr<Pending>> pending_;
  std::array<std::uint64_t, 2> ceiling_ = kLimits;  // the limit, or what was held when it sank
  std::map<ledger::ProcessKey, std::uint32_t> pids_ = {{1, 17}, {2, 18}};
};

}  // namespace cgpu::fuzz

#endif  // CGPU_TESTS_FUZZ_TENANT_H_
