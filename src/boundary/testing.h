// A boundary with two GPUs over memory of the test's own, and calls on it.
#ifndef CGPU_BOUNDARY_TESTING_H_
#define CGPU_BOUNDARY_TESTING_H_

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/state.h"
#include "boundary/boundary.h"
#include "boundary/page_tables.h"
#include "rm/nv_alloc.h"
#include "rm/nv_classes.h"
#include "rm/nv_escape.h"
#include "rm/nv_status.h"
#include "rm/nv_structs.h"

namespace cgpu::boundary {

inline constexpr std::uint64_t kMib = 1024 * 1024;
inline constexpr std::uint64_t kMost = ~std::uint64_t{0};
inline constexpr std::uint64_t kBase = 0x100000000000;  // where ranges of addresses begin
inline constexpr std::uint64_t kTable = PageTables::kTableBytes;
// Returns the bytes of so many tables of the lowest level and of the higher ones.
constexpr std::uint64_t TableBytes(std::uint64_t lowest, std::uint64_t higher) {
  return lowest * PageTables::kLowestBytes + higher * kTable;
}
inline constexpr std::uint32_t kClient = 0xc1d00001;
inline constexpr std::uint32_t kDevice = 0x10;
inline constexpr std::uint32_t kSubdevice = 0x11;

// Plays the tenant's memory with the test's own; addresses outside of lent memory cannot be read.
class FakeMemory final : public TenantMemory {
 public:
  template <class T>
  std::uint64_t Lend(T& value) {
    lent_.push_back({std::bit_cast<std::uint64_t>(&value), sizeof(T)});
    return lent_.back().first;
  }
  bool Read(std::uint64_t address, void* into, std::size_t size) override {
    for (const auto& [start, length] : lent_) {
      if (address >= start && address + size <= start + length) {
        std::memcpy(into, std::bit_cast<const void*>(address), size);
        return true;
      }
    }
    return false;
  }

 private:
  std::vector<std::pair<std::uint64_t, std::size_t>> lent_;
};

// Returns what a container's boundary and ledger hand over.
inline std::string Saved(const ledger::Ledger& ledger, const Boundary& boundary) {
  StateWriter writer;
  writer.Begin(1);
  ledger.Save(writer);
  writer.End();
  writer.Begin(2);
  boundary.Save(writer);
  writer.End();
  return writer.Take();
}

inline Result<> LoadBoth(std::string_view bytes, ledger::Ledger& ledger, Boundary& boundary) {
  StateReader reader(bytes);
  (void)reader.Enter();
  CGPU_TRY(ledger.Load(reader));
  reader.Leave();
  (void)reader.Enter();
  CGPU_TRY(boundary.Load(reader));
  reader.Leave();
  return reader.Finish();
}

// Replaces both by successors that know no more than a new shim does.
inline void HandOver(const rm::Abi& abi, const ledger::Quotas& quotas,
                     std::unique_ptr<ledger::Ledger>& ledger, std::unique_ptr<Boundary>& boundary) {
  const std::string bytes = Saved(*ledger, *boundary);
  std::vector<GpuIds> gpus = boundary->gpus();
  for (GpuIds& gpu : gpus) {
    gpu.sizes = {};
  }
  boundary.reset();
  ledger = std::make_unique<ledger::Ledger>(std::vector<std::uint64_t>(gpus.size(), 1), quotas);
  boundary = std::make_unique<Boundary>(abi, gpus, *ledger);
  const Result<> loaded = LoadBoth(bytes, *ledger, *boundary);
  ASSERT_TRUE(loaded.ok()) << loaded.error().what;
  EXPECT_EQ(Saved(*ledger, *boundary), bytes);
}

// Returns true if the tests of a boundary hand over before each call.
inline bool HandsOverBeforeCalls() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody sets it
  return std::getenv("CGPU_TEST_HAND_OVER") != nullptr;
}

class BoundaryTest : public testing::Test {
 protected:
  static constexpr ledger::Quotas kQuotas{8, 1000, 8, 16, 65536, 16};

  explicit BoundaryTest(rm::Branch branch = rm::Branch::k550)
      : abi_(rm::GetAbi(branch)),
        ledger_(std::make_unique<ledger::Ledger>(
            std::vector<std::uint64_t>{1024 * kMib, 512 * kMib}, kQuotas)),
        boundary_(std::make_unique<Boundary>(
            abi_,
            std::vector<GpuIds>{{0, 0x100, 0, {}, 0, {64 * kMib, 4096, 0}},
                                {3, 0x400, 3, {}, 0, {64 * kMib, 4096, 0}}},
            *ledger_)) {}

  template <class T>
  int Copy(std::uint32_t nr, T& params, Call& call) {
    if (hands_over_) {
      HandOver(abi_, kQuotas, ledger_, boundary_);
    }
    memory_.Lend(params);
    const int error = Decode(abi_, rm::EscapeRequest(static_cast<rm::NvU8>(nr), sizeof(T)),
                             std::bit_cast<std::uint64_t>(&params), memory_, call);
    CopyInRest(memory_, call);
    return error;
  }

  // Executes as a driver that agrees: sets status NV_OK, and for clients a handle.
  std::optional<Undo> Execute(Call& call, Decision& decision) {
    EXPECT_EQ(decision.action, Decision::Action::kExecute);
    SetStatus(call, rm::NV_OK);
    return boundary_->Account(call, decision, 0);
  }

  // Returns an RM_ALLOC that is copied in and not decided.
  Call CopyAlloc(std::uint32_t parent, std::uint32_t handle, std::uint32_t cls,
                 std::uint64_t params = 0, std::uint32_t client = kClient) {
    rm::NVOS21_PARAMETERS alloc{};
    alloc.hRoot = client;
    alloc.hObjectParent = parent;
    alloc.hObjectNew = handle;
    alloc.hClass = cls;
    alloc.pAllocParms = params;
    Call call;
    call.process = 1;
    EXPECT_EQ(Copy(rm::NV_ESC_RM_ALLOC, alloc, call), 0);
    return call;
  }

  std::uint32_t Alloc(std::uint32_t parent, std::uint32_t handle, std::uint32_t cls,
                      std::uint64_t params = 0, std::uint32_t client = kClient) {
    Call call = CopyAlloc(parent, handle, cls, params, client);
    Decision decision = boundary_->Decide(call);
    if (decision.action == Decision::Action::kExecute) {
      EXPECT_FALSE(Execute(call, decision).has_value());
    }
    return StatusOf(call).value();
  }

  void MakeSubdevice() {
    ASSERT_EQ(Alloc(0, kClient, rm::NV01_ROOT, 0, 0), rm::NV_OK);
    rm::NV0080_ALLOC_PARAMETERS device{};
    ASSERT_EQ(Alloc(kClient, kDevice, rm::NV01_DEVICE_0, memory_.Lend(device)), rm::NV_OK);
    rm::NV2080_ALLOC_PARAMETERS subdevice{};
    ASSERT_EQ(Alloc(kDevice, kSubdevice, rm::NV20_SUBDEVICE_0, memory_.Lend(subdevice)), rm::NV_OK);
  }

  void MakeDebugger(std::uint32_t handle) {
    struct {
      std::uint32_t obsolete = 0;
      std::uint32_t client = kClient;
      std::uint32_t object = kSubdevice;
    } debugger;
    ASSERT_EQ(Alloc(kDevice, handle, rm::GT200_DEBUGGER, memory_.Lend(debugger)), rm::NV_OK);
  }

  std::uint32_t Free(std::uint32_t handle) {
    rm::NVOS00_PARAMETERS free{kClient, kDevice, handle, 0};
    Call call;
    EXPECT_EQ(Copy(rm::NV_ESC_RM_FREE, free, call), 0);
    Decision decision = boundary_->Decide(call);
    EXPECT_FALSE(Execute(call, decision).has_value());
    return StatusOf(call).value();
  }

  std::uint32_t AllocMemory(std::uint32_t handle, std::uint64_t size) {
    rm::NV_MEMORY_ALLOCATION_PARAMS params{};
    params.size = size;
    return Alloc(kDevice, handle, rm::NV01_MEMORY_LOCAL_USER, memory_.Lend(params));
  }

  // Makes a control call. `tag`: the tag of the control file that the call names.
  template <class T>
  Call Control(std::uint32_t object, std::uint32_t command, T& params, Decision& decision,
               std::optional<ledger::FileKey> tag = std::nullopt) {
    rm::NVOS54_PARAMETERS control{};
    control.hClient = kClient;
    control.hObject = object;
    control.cmd = command;
    control.params = memory_.Lend(params);
    control.paramsSize = sizeof(T);
    Call call;
    EXPECT_EQ(Copy(rm::NV_ESC_RM_CONTROL, control, call), 0);
    if (tag) {
      call.fd->file = File{FileKind::kControl, 255, true};
      call.fd->tag = *tag;
    }
    decision = boundary_->Decide(call);
    return call;
  }

  // Returns the answer about the container's processes.
  template <class T>
  T AskOfProcesses(std::uint32_t command, T& params) {
    Decision decision;
    Call call = Control(kSubdevice, command, params, decision);
    EXPECT_EQ(decision.action, Decision::Action::kAnswer);
    EXPECT_EQ(StatusOf(call), rm::NV_OK);
    EXPECT_TRUE(decision.effects.lists_processes);
    boundary_->AnswerOfProcesses(call, decision, pids_);
    return Load<T>(call.nested[0].bytes);
  }

  const rm::Abi& abi_;
  FakeMemory memory_;
  std::unique_ptr<ledger::Ledger> ledger_;
  std::unique_ptr<Boundary> boundary_;
  bool hands_over_ = HandsOverBeforeCalls();
  std::map<ledger::ProcessKey, std::uint32_t> pids_{{1, 17}};
};

}  // namespace cgpu::boundary

#endif  // CGPU_BOUNDARY_TESTING_H_
