// Requests of nvidia-uvm in any order, to a driver that keeps accounting of its own, obviously
// right and slow: what it holds is never more than the ledger says, and nothing is left when all
// has gone.
#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <vector>

#include "boundary/boundary.h"
#include "rm/nv_classes.h"
#include "rm/nv_status.h"
#include "rm/uvm_table.h"
#include "tests/fuzz/input.h"

using namespace cgpu;  // NOLINT(google-build-using-namespace): a program of one file
using boundary::Bytes;
using boundary::Call;
using boundary::Decision;
using fuzz::Input;
using fuzz::Require;

namespace {

constexpr std::uint64_t kMib = std::uint64_t{1} << 20;
constexpr std::uint64_t kBase = 0x100000000000;
constexpr std::uint64_t kTable = 4096;
constexpr std::uint32_t kClient = 0xc1d00001;
constexpr std::uint32_t kMemory = 0x40;  // and the three after it
constexpr std::uint32_t kMemories = 4;
constexpr std::uint32_t kGroup = 0x60;
constexpr std::uint32_t kChannel = 0x61;
constexpr std::uint64_t kLimit = 24 * kMib;
constexpr std::uint32_t kGpus = 2;
constexpr ledger::FileKey kSpace = boundary::Boundary::kFirstSpace;

rm::NvProcessorUuid UuidOf(std::uint32_t gpu) {
  rm::NvProcessorUuid uuid{};
  uuid.uuid[0] = static_cast<rm::NvU8>(gpu + 1);
  return uuid;
}

class CallMemory final : public boundary::TenantMemory {
 public:
  explicit CallMemory(Bytes bytes) : bytes_(std::move(bytes)) {}
  bool Read(std::uint64_t address, void* into, std::size_t size) override {
    if (address != 0x1000 || size > bytes_.size()) {
      return false;
    }
    std::memcpy(into, bytes_.data(), size);
    return true;
  }

 private:
  Bytes bytes_;
};

// The driver: what is mapped, page by page of a coarse grid.
class PlainUvm {
 public:
  static constexpr std::uint64_t kPage = 64 * 1024;

  // Page of each GPU to the memory it shows; 0: sparse.
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::uint32_t> pages;
  std::map<std::uint64_t, std::uint64_t> ranges;
  std::set<std::uint32_t> va_spaces;
  std::set<std::uint32_t> alive;  // memories whose handle is not freed
  bool channel = false;
  std::uint32_t channel_gpu = 0;
  std::pair<std::uint64_t, std::uint64_t> channel_range;
  bool group_alive = true;

  [[nodiscard]] bool InRange(std::uint64_t start, std::uint64_t end) const {
    const auto next = ranges.upper_bound(start);
    return next != ranges.begin() && std::prev(next)->first + std::prev(next)->second >= end;
  }
  void Fill(std::uint32_t gpu, std::uint64_t start, std::uint64_t end, std::uint32_t memory) {
    for (std::uint64_t at = start / kPage; at * kPage < end; ++at) {
      pages[{gpu, at}] = memory;
    }
  }
  void Clear(std::uint32_t gpu, std::uint64_t start, std::uint64_t end) {
    std::erase_if(pages, [&](const auto& entry) {
      const std::uint64_t at = entry.first.second * kPage;
      return entry.first.first == gpu && at >= start && at < end;
    });
  }
  [[nodiscard]] std::uint64_t Used(std::uint32_t gpu) const {
    std::set<std::pair<unsigned, std::uint64_t>> tables;
    std::set<std::uint32_t> held = alive;
    const auto add = [&](std::uint64_t address) {
      for (const unsigned reach : {21U, 29U, 38U, 47U}) {
        tables.insert({reach, address >> reach});
      }
    };
    for (const auto& [where, memory] : pages) {
      if (memory != 0) {
        held.insert(memory);
      }
      if (where.first == gpu) {
        add(where.second * kPage);
      }
    }
    if (channel && channel_gpu == gpu) {
      for (std::uint64_t at = channel_range.first; at < channel_range.second; at += kPage) {
        add(at);
      }
    }
    std::uint64_t bytes = tables.size() * kTable + (va_spaces.contains(gpu) ? kTable : 0);
    if (gpu == 0) {
      bytes += held.size() * kMib + (group_alive || channel ? 2 * kMib : 0);
    }
    return bytes;
  }
};

class Course {
 public:
  explicit Course(Input& input)
      : input_(input),
        branch_(rm::kBranches[input.Take<std::uint8_t>() % rm::kBranches.size()]),
        ledger_({kLimit, kLimit}, {4, 512, 4, 4}),
        boundary_(rm::GetAbi(branch_),
                  {{0, 0x100, 0, UuidOf(0), 0, {}}, {1, 0x200, 1, UuidOf(1), 0, {}}}, ledger_) {
    auto client = ledger_.ReserveClient().value();
    client_ = ledger_.AddClient(client, kClient, 1, 1).value();
    Add(kClient, 0x80, rm::NV01_DEVICE_0, ledger::Kind::kOther, 0);
    for (std::uint32_t i = 0; i < kMemories; ++i) {
      Add(0x80, kMemory + i, rm::NV01_MEMORY_LOCAL_USER, ledger::Kind::kMemory, kMib);
      driver_.alive.insert(kMemory + i);
    }
    Add(0x80, kGroup, rm::KEPLER_CHANNEL_GROUP_A, ledger::Kind::kChannelGroup, 2 * kMib);
    Add(kGroup, kChannel, rm::AMPERE_CHANNEL_GPFIFO_A, ledger::Kind::kChannel, 0);
    boundary_.AddSpace(kSpace, 1);
  }

  void Run() {
    while (!input_.empty()) {
      Step();
      for (std::uint32_t gpu = 0; gpu < kGpus; ++gpu) {
        Require(ledger_.Used(gpu) + ledger_.Reserved(gpu) <= kLimit, "the limit holds");
        Require(driver_.Used(gpu) <= ledger_.Used(gpu), "all that the driver holds is charged");
      }
    }
    boundary_.RemoveSpace(kSpace);
    for (const std::uint32_t object : {0x80U}) {
      (void)ledger_.Free(client_, {object, 0}).ok();
    }
    for (std::uint32_t gpu = 0; gpu < kGpus; ++gpu) {
      Require(ledger_.Used(gpu) == 0 && ledger_.Reserved(gpu) == 0, "nothing is left");
    }
  }

 private:
  void Add(std::uint32_t parent, std::uint32_t handle, std::uint32_t cls, ledger::Kind kind,
           std::uint64_t bytes) {
    auto reservation = ledger_.Reserve(kind, 0, bytes).value();
    Require(ledger_
                .AddObject(reservation, client_,
                           {.parent = {parent, 0},
                            .handle = handle,
                            .cls = cls,
                            .gpu = 0,
                            .actual_bytes = bytes})
                .ok(),
            "the start fits");
  }

  std::uint32_t TakeGpu() { return input_.Take<std::uint8_t>() % (kGpus + 1); }  // one foreign
  // A range of whole pages, at few places, so that they meet.
  std::pair<std::uint64_t, std::uint64_t> TakeRange() {
    const std::uint64_t start = kBase + input_.Take<std::uint8_t>() % 3 * 512 * kMib +
                                input_.Take<std::uint8_t>() % 128 * PlainUvm::kPage;
    const std::uint64_t length = (1 + input_.Take<std::uint8_t>() % 64) * PlainUvm::kPage;
    return {start, start + length};
  }

  // Lets the boundary decide, and the driver if it is asked.
  template <class Driver>
  void Ask(std::uint32_t request, Bytes bytes, const Driver& driver) {
    bytes.resize(rm::UvmParamSize(branch_, request));
    CallMemory memory(std::move(bytes));
    Call call;
    call.process = 1;
    call.uvm_space = kSpace;
    Require(boundary::DecodeUvm(rm::GetAbi(branch_), request, 0x1000, memory, call) == 0,
            "it can be copied in");
    if (call.fd) {
      call.fd->file = boundary::File{boundary::FileKind::kControl, 0, true};
    }
    Decision decision = boundary_.Decide(call);
    if (decision.action == Decision::Action::kExecute) {
      boundary::SetStatus(call, driver() ? rm::NV_OK : rm::NV_ERR_INVALID_ADDRESS);
      (void)boundary_.Account(call, decision, 0);
    }
  }
  template <class T>
  static Bytes BytesOf(const T& params) {
    Bytes bytes(sizeof(T));
    boundary::Store(bytes, params);
    return bytes;
  }

  void Step() {
    switch (input_.Take<std::uint8_t>() % 12) {
      case 0:
        return CreateRange();
      case 1:
      case 2:
      case 3:
        return Map();
      case 4:
        return Sparse();
      case 5:
        return Unmap();
      case 6:
        return FreeRange();
      case 7:
        return VaSpace();
      case 8:
        return RegisterChannel();
      case 9:
        return UnregisterChannel();
      case 10:
        return FreeHandle();
      default:
        return Anything();
    }
  }

  void CreateRange() {
    const auto [start, end] = TakeRange();
    Ask(rm::UVM_CREATE_EXTERNAL_RANGE, BytesOf(rm::UVM_RANGE_HEAD{start, end - start}), [&] {
      for (const auto& [base, length] : driver_.ranges) {
        if (start < base + length && base < end) {
          return false;
        }
      }
      driver_.ranges[start] = end - start;
      return true;
    });
  }

  void Map() {
    const auto [start, end] = TakeRange();
    const std::uint32_t gpu = TakeGpu();
    const std::uint32_t memory = kMemory + input_.Take<std::uint8_t>() % (kMemories + 1);
    Bytes bytes(rm::UvmParamSize(branch_, rm::UVM_MAP_EXTERNAL_ALLOCATION));
    boundary::Store(bytes, rm::UVM_MAP_EXTERNAL_ALLOCATION_HEAD{start, end - start, 0});
    rm::UvmGpuMappingAttributes attributes{};
    attributes.gpuUuid = UuidOf(gpu);
    boundary::Store(bytes, attributes, sizeof(rm::UVM_MAP_EXTERNAL_ALLOCATION_HEAD));
    boundary::Store(bytes, rm::UVM_MAP_EXTERNAL_ALLOCATION_TAIL{1, 3, kClient, memory, 0},
                    rm::UvmMapExternalTail(branch_));
    Ask(rm::UVM_MAP_EXTERNAL_ALLOCATION, std::move(bytes), [&] {
      Require(gpu < kGpus, "no foreign GPU gets to the driver");
      if (!driver_.InRange(start, end) || !driver_.alive.contains(memory) ||
          !driver_.va_spaces.contains(gpu)) {
        return false;
      }
      driver_.Fill(gpu, start, end, memory);
      return true;
    });
  }

  void Sparse() {
    const auto [start, end] = TakeRange();
    const std::uint32_t gpu = TakeGpu();
    Ask(rm::UVM_MAP_EXTERNAL_SPARSE,
        BytesOf(rm::UVM_UNMAP_EXTERNAL_PARAMS{start, end - start, UuidOf(gpu), 0, 0}), [&] {
          if (!driver_.InRange(start, end) || !driver_.va_spaces.contains(gpu)) {
            return false;
          }
          driver_.Fill(gpu, start, end, 0);
          return true;
        });
  }

  void Unmap() {
    const auto [start, end] = TakeRange();
    const std::uint32_t gpu = TakeGpu();
    Ask(rm::UVM_UNMAP_EXTERNAL,
        BytesOf(rm::UVM_UNMAP_EXTERNAL_PARAMS{start, end - start, UuidOf(gpu), 0, 0}), [&] {
          if (!driver_.InRange(start, end)) {
            return false;
          }
          driver_.Clear(gpu, start, end);
          return true;
        });
  }

  void FreeRange() {
    std::uint64_t base = TakeRange().first;
    if (!driver_.ranges.empty()) {
      base = std::next(driver_.ranges.begin(),
                       static_cast<long>(base / PlainUvm::kPage % driver_.ranges.size()))
                 ->first;
    }
    const auto found = driver_.ranges.find(base);
    const std::uint64_t length = found == driver_.ranges.end() ? kMib : found->second;
    Ask(rm::UVM_FREE, BytesOf(rm::UVM_RANGE_HEAD{base, length}), [&] {
      if (found == driver_.ranges.end()) {
        return false;
      }
      for (std::uint32_t gpu = 0; gpu < kGpus; ++gpu) {
        driver_.Clear(gpu, base, base + length);
      }
      driver_.ranges.erase(found);
      return true;
    });
  }

  void VaSpace() {
    const std::uint32_t gpu = TakeGpu();
    if (driver_.va_spaces.contains(gpu)) {
      Ask(rm::UVM_UNREGISTER_GPU_VASPACE, BytesOf(UuidOf(gpu)), [&] {
        driver_.Clear(gpu, 0, ~std::uint64_t{0});
        driver_.channel = driver_.channel && driver_.channel_gpu != gpu;
        driver_.va_spaces.erase(gpu);
        return true;
      });
      return;
    }
    Ask(rm::UVM_REGISTER_GPU_VASPACE,
        BytesOf(rm::UVM_REGISTER_GPU_VASPACE_PARAMS{UuidOf(gpu), 3, kClient, 0x81, 0}), [&] {
          driver_.va_spaces.insert(gpu);
          return true;
        });
  }

  void RegisterChannel() {
    const auto [start, end] = TakeRange();
    const std::uint32_t gpu = TakeGpu();
    Ask(rm::UVM_REGISTER_CHANNEL,
        BytesOf(rm::UVM_REGISTER_CHANNEL_PARAMS{UuidOf(gpu), 3, kClient, kChannel, start,
                                                end - start, 0, 0}),
        [&] {
          if (driver_.channel || !driver_.group_alive || !driver_.va_spaces.contains(gpu)) {
            return false;
          }
          driver_.channel = true;
          driver_.channel_gpu = gpu;
          driver_.channel_range = {start, end};
          return true;
        });
  }

  void UnregisterChannel() {
    const auto gone = [&] { return std::exchange(driver_.channel, false); };
    if (branch_ >= rm::Branch::k590) {
      Ask(rm::UVM_UNREGISTER_CHANNEL,
          BytesOf(rm::UVM_UNREGISTER_CHANNEL_PARAMS_V590{kClient, kChannel, 0}), gone);
    } else {
      Ask(rm::UVM_UNREGISTER_CHANNEL,
          BytesOf(rm::UVM_UNREGISTER_CHANNEL_PARAMS_V535{UuidOf(0), kClient, kChannel, 0}), gone);
    }
  }

  void FreeHandle() {
    const std::uint32_t which = input_.Take<std::uint8_t>() % (kMemories + 1);
    const std::uint32_t handle = which < kMemories ? kMemory + which : kGroup;
    (void)ledger_.Free(client_, {handle, 0}).ok();
    driver_.alive.erase(handle);
    driver_.group_alive = driver_.group_alive && handle != kGroup;
  }

  // Any row with any bytes, at a driver that refuses all of them.
  void Anything() {
    const auto rows = rm::UvmRows();
    const rm::UvmRow& row = rows[input_.Take<std::uint8_t>() % rows.size()];
    Bytes bytes(row.size.At(branch_));
    if (!bytes.empty()) {
      input_.Take(bytes.data(), std::min<std::size_t>(bytes.size(), 96));
      Ask(row.request, std::move(bytes), [] { return false; });
    }
  }

  Input& input_;
  const rm::Branch branch_;
  ledger::Ledger ledger_;
  boundary::Boundary boundary_;
  ledger::ClientRef client_;
  PlainUvm driver_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  Input input(bytes, std::min<std::size_t>(size, 1024));
  Course(input).Run();
  return 0;
}
