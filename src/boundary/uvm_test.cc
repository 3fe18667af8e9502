#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>

#include "boundary/boundary.h"
#include "boundary/calls/steps.h"
#include "boundary/quotas.h"
#include "boundary/testing.h"
#include "boundary/uvm_tracker.h"
#include "rm/nv_classes.h"
#include "rm/nv_status.h"
#include "rm/uvm_table.h"

namespace cgpu::boundary {
namespace {

constexpr ledger::FileKey kSpace = Boundary::kFirstSpace;
constexpr rm::NvProcessorUuid kUuid{{1, 2, 3}};
constexpr rm::NvProcessorUuid kForeign{{9, 9, 9}};

class OneBlock final : public TenantMemory {
 public:
  explicit OneBlock(const Bytes& bytes) : bytes_(bytes) {}
  bool Read(std::uint64_t address, void* into, std::size_t size) override {
    if (address != 0x1000 || size > bytes_.size()) {
      return false;
    }
    std::memcpy(into, bytes_.data(), size);
    return true;
  }

 private:
  const Bytes& bytes_;
};

TEST(UvmSpace, AMappingTakesThePlaceOfWhatItCovers) {
  UvmSpace space(1);
  const UvmSpace::Hold first = space.NewHold();
  space.PlanPiece(0, kBase, kBase + 8 * kMib);
  space.AddPiece(0, kBase, kBase + 8 * kMib, first);
  const UvmSpace::Hold second = space.NewHold();
  space.PlanPiece(0, kBase + 2 * kMib, kBase + 4 * kMib);
  space.AddPiece(0, kBase + 2 * kMib, kBase + 4 * kMib, second);
  EXPECT_TRUE(space.TakeReleased().empty()) << "two pieces of the first are left";
  EXPECT_EQ(space.Bytes(0), TableBytes(4, 3));
  space.UnmapPieces(0, kBase, kBase + 2 * kMib);
  EXPECT_TRUE(space.TakeReleased().empty());
  space.UnmapPieces(0, kBase + 3 * kMib, kBase + 8 * kMib);
  EXPECT_EQ(space.TakeReleased(), std::vector<UvmSpace::Hold>{first});
  space.UnmapPieces(0, 0, ~std::uint64_t{0});
  EXPECT_EQ(space.TakeReleased(), std::vector<UvmSpace::Hold>{second});
  EXPECT_EQ(space.Bytes(0), 0U);
}

TEST(UvmSpace, WhatGoesWithARangeAndWithAGpu) {
  UvmSpace space(1);
  space.AddRange(kBase, 4 * kMib);
  for (const ledger::Gpu gpu : {0U, 1U}) {
    space.AddGpu(gpu);
    space.AddVaSpace(gpu);
    space.PlanPiece(gpu, kBase, kBase + kMib);
    space.AddPiece(gpu, kBase, kBase + kMib, 1);
  }
  space.PlanPiece(1, kBase + 64 * kMib, kBase + 65 * kMib);
  space.AddChannel({5, 6}, 1, kBase + 64 * kMib, kBase + 65 * kMib, 2);
  const AddressRanges window = {{kBase + 64 * kMib, kBase + 65 * kMib}};
  space.AddWindow(1, kBase + 64 * kMib + 1, kBase + 65 * kMib - 1);
  EXPECT_EQ(space.Windows(1), window);
  EXPECT_TRUE(space.Windows(0).empty());
  space.RemoveChannel({5, 6});
  EXPECT_EQ(space.Windows(1), window) << "another channel of its group may have mapped there";
  space.PlanPiece(1, kBase + 64 * kMib, kBase + 65 * kMib);
  space.AddChannel({5, 7}, 1, kBase + 64 * kMib, kBase + 65 * kMib, 3);
  space.RemoveGpu(1);
  EXPECT_TRUE(space.Windows(1).empty());
  EXPECT_EQ(space.TakeReleased(), (std::vector<UvmSpace::Hold>{2, 3}));
  EXPECT_EQ(space.Bytes(1), 0U);
  space.RemoveRange(kBase);
  EXPECT_EQ(space.TakeReleased(), std::vector<UvmSpace::Hold>{1});
  EXPECT_EQ(space.Bytes(0), kTable) << "the root";
  EXPECT_EQ(space.ranges(), 0U);
}

class UvmTest : public ::testing::TestWithParam<rm::Branch> {
 protected:
  static constexpr std::uint32_t kClient = 0xc1d00001;
  static constexpr std::uint32_t kMemory = 0x40;
  static constexpr ledger::Quotas kQuotas{8, 64, 8, 8};

  UvmTest()
      : abi_(rm::GetAbi(GetParam())),
        ledger_(std::make_unique<ledger::Ledger>(std::vector<std::uint64_t>{128 * kMib}, kQuotas)),
        boundary_(std::make_unique<Boundary>(abi_, std::vector<GpuIds>{{0, 0x100, 0, kUuid, 0, {}}},
                                             *ledger_)) {
    auto client = ledger_->ReserveClient().value();
    client_ = ledger_->AddClient(client, kClient, 1, 1).value();
    Object(kClient, 0x80, rm::NV01_DEVICE_0, 0);
    Object(0x80, kMemory, rm::NV01_MEMORY_LOCAL_USER, 64 * kMib);
    boundary_->AddSpace(kSpace, 1);
    EXPECT_EQ(Ask(rm::UVM_REGISTER_GPU, RegisterGpu(kUuid)), rm::NV_OK);
    EXPECT_EQ(Ask(rm::UVM_REGISTER_GPU_VASPACE,
                  rm::UVM_REGISTER_GPU_VASPACE_PARAMS{kUuid, 3, kClient, 0x81, 0}),
              rm::NV_OK);
  }

  void Object(std::uint32_t parent, std::uint32_t handle, std::uint32_t cls, std::uint64_t bytes) {
    auto reservation =
        ledger_->Reserve(bytes != 0 ? ledger::Kind::kMemory : ledger::Kind::kOther, 0, bytes)
            .value();
    ASSERT_TRUE(ledger_
                    ->AddObject(reservation, client_,
                                {.parent = {parent, 0},
                                 .handle = handle,
                                 .cls = cls,
                                 .gpu = 0,
                                 .actual_bytes = bytes})
                    .ok());
  }

  static rm::UVM_REGISTER_GPU_PARAMS RegisterGpu(const rm::NvProcessorUuid& uuid) {
    rm::UVM_REGISTER_GPU_PARAMS params{};
    params.gpu_uuid = uuid;
    params.rmCtrlFd = -1;
    return params;
  }

  // Copies in, decides and, if the driver is to be asked, answers `status` for it.
  std::uint32_t AskBytes(std::uint32_t request, Bytes bytes, std::uint32_t status = rm::NV_OK) {
    bytes.resize(std::max<std::size_t>(bytes.size(), rm::UvmParamSize(GetParam(), request)));
    OneBlock memory(bytes);
    ++calls_;
    if (HandsOverBeforeCalls() && (calls_ < 64 || calls_ % 4096 == 0)) {
      HandOver(abi_, kQuotas, ledger_, boundary_);
    }
    Call call;
    call.process = 1;
    call.uvm_space = space_;
    EXPECT_EQ(DecodeUvm(abi_, request, 0x1000, memory, call), 0);
    if (call.fd) {
      call.fd->file = File{FileKind::kControl, 0, true};
    }
    Decision decision = boundary_->Decide(call);
    executed_ = decision.action == Decision::Action::kExecute;
    if (executed_) {
      seen_ = call.image;
      SetStatus(call, status);
      (void)boundary_->Account(call, decision, 0);
    }
    answer_ = call.image;
    return StatusOf(call).value();
  }
  template <class T>
  std::uint32_t Ask(std::uint32_t request, const T& params, std::uint32_t status = rm::NV_OK) {
    Bytes bytes(sizeof(T));
    Store(bytes, params);
    return AskBytes(request, std::move(bytes), status);
  }
  std::uint32_t Map(std::uint64_t base, std::uint64_t length, std::uint32_t memory,
                    std::uint64_t count = 1, const rm::NvProcessorUuid& uuid = kUuid,
                    std::uint32_t client = kClient, std::uint32_t status = rm::NV_OK) {
    Bytes bytes(rm::UvmParamSize(GetParam(), rm::UVM_MAP_EXTERNAL_ALLOCATION));
    Store(bytes, rm::UVM_MAP_EXTERNAL_ALLOCATION_HEAD{base, length, 0});
    rm::UvmGpuMappingAttributes attributes{};
    attributes.gpuUuid = uuid;
    Store(bytes, attributes, sizeof(rm::UVM_MAP_EXTERNAL_ALLOCATION_HEAD));
    Store(bytes, rm::UVM_MAP_EXTERNAL_ALLOCATION_TAIL{count, 3, client, memory, 0},
          rm::UvmMapExternalTail(GetParam()));
    return AskBytes(rm::UVM_MAP_EXTERNAL_ALLOCATION, std::move(bytes), status);
  }
  std::uint32_t Pool(std::uint64_t base, std::uint64_t length) {
    Bytes bytes(rm::UvmParamSize(GetParam(), rm::UVM_ALLOC_SEMAPHORE_POOL));
    Store(bytes, rm::UVM_ALLOC_SEMAPHORE_POOL_HEAD{base, length});
    return AskBytes(rm::UVM_ALLOC_SEMAPHORE_POOL, std::move(bytes));
  }
  std::uint32_t CreateRange(std::uint64_t base, std::uint64_t length) {
    return Ask(rm::UVM_CREATE_EXTERNAL_RANGE, rm::UVM_RANGE_HEAD{base, length});
  }

  const rm::Abi& abi_;
  std::unique_ptr<ledger::Ledger> ledger_;
  std::unique_ptr<Boundary> boundary_;
  ledger::ClientRef client_;
  ledger::FileKey space_ = kSpace;
  std::uint32_t calls_ = 0;
  bool executed_ = false;
  Bytes seen_;    // what the driver got
  Bytes answer_;  // what the tenant gets
};

// The mapping may be of a file that another container has sent, with GPUs that it registered.
TEST_P(UvmTest, ManagedMemoryIsChargedWhateverIsRegistered) {
  EXPECT_EQ(Ask(rm::UVM_UNREGISTER_GPU_VASPACE, kUuid), rm::NV_OK);
  EXPECT_EQ(Ask(rm::UVM_UNREGISTER_GPU, kUuid), rm::NV_OK);
  const std::uint64_t before = ledger_->Used(0);
  EXPECT_FALSE(boundary_->managed().Charge(7, {1, 1, 1, {kMib, 33 * kMib}}));
  const std::uint64_t charged = ledger_->Used(0);
  EXPECT_GE(charged, before + 32 * kMib);
  EXPECT_EQ(Ask(rm::UVM_CLEAN_UP_ZOMBIE_RESOURCES, std::uint32_t{0}), rm::NV_OK);
  boundary_->RemoveSpace(kSpace);
  EXPECT_EQ(ledger_->Used(0), charged);
}

TEST_P(UvmTest, TheSharingModeIsForcedAndHidden) {
  space_ = 0;
  EXPECT_EQ(Ask(rm::UVM_INITIALIZE, rm::UVM_INITIALIZE_PARAMS{0, 0, 0}), rm::NV_OK);
  EXPECT_EQ(Load<rm::UVM_INITIALIZE_PARAMS>(seen_).flags,
            rm::UVM_INIT_FLAGS_MULTI_PROCESS_SHARING_MODE);
  EXPECT_EQ(Load<rm::UVM_INITIALIZE_PARAMS>(answer_).flags, 0U);
  EXPECT_EQ(Ask(rm::UVM_MM_INITIALIZE, rm::UVM_MM_INITIALIZE_PARAMS{5, 0}),
            rm::NV_WARN_NOTHING_TO_DO);
  EXPECT_FALSE(executed_);
}

TEST_P(UvmTest, AnUnknownFileIsNotInitialised) {
  space_ = 0;
  EXPECT_EQ(CreateRange(kBase, kMib), rm::NV_ERR_ILLEGAL_ACTION);
  EXPECT_FALSE(executed_);
}

TEST_P(UvmTest, MappedMemoryStaysChargedAfterItsHandleIsFreed) {
  ASSERT_EQ(CreateRange(kBase, 64 * kMib), rm::NV_OK);
  ASSERT_EQ(Map(kBase, 64 * kMib, kMemory), rm::NV_OK);
  ASSERT_TRUE(ledger_->Free(client_, {kMemory, 0}).ok());
  EXPECT_GT(ledger_->Used(0), 64 * kMib);
  if (GetParam() >= rm::Branch::k590) {
    EXPECT_EQ(Ask(rm::UVM_FREE, kBase), rm::NV_OK);
  } else {
    EXPECT_EQ(Ask(rm::UVM_FREE, rm::UVM_RANGE_HEAD{kBase, 64 * kMib}), rm::NV_OK);
  }
  EXPECT_EQ(ledger_->Used(0), kTable) << "the root of the address space";
}

TEST_P(UvmTest, AMappingThatFailsTakesNothing) {
  const std::uint64_t before = ledger_->Used(0);
  EXPECT_EQ(Map(kBase, 64 * kMib, kMemory, 1, kUuid, kClient, rm::NV_ERR_INVALID_ADDRESS),
            rm::NV_ERR_INVALID_ADDRESS);
  EXPECT_TRUE(executed_);
  EXPECT_EQ(ledger_->Used(0), before);
  ASSERT_TRUE(ledger_->Free(client_, {kMemory, 0}).ok());
  EXPECT_EQ(ledger_->Used(0), kTable);
}

// A pool is mapped on every GPU of the space, also on one whose address space comes later.
TEST_P(UvmTest, PoolsAreChargedWhetherThereIsAnAddressSpaceOrNot) {
  const std::uint64_t before = ledger_->Used(0);
  ASSERT_EQ(Pool(kBase, 4096), rm::NV_OK);
  ASSERT_EQ(Pool(kBase + 2 * kMib, 4096), rm::NV_OK);
  EXPECT_EQ(ledger_->Used(0) - before, TableBytes(2, 3));
  rm::UVM_UNREGISTER_GPU_VASPACE_PARAMS unregister{};
  unregister.gpuUuid = kUuid;
  ASSERT_EQ(Ask(rm::UVM_UNREGISTER_GPU_VASPACE, unregister), rm::NV_OK);
  EXPECT_EQ(ledger_->Used(0) - before, TableBytes(2, 3) - kTable) << "but for the root";
  EXPECT_EQ(Pool(kBase + 4 * kMib, kMaxPoolBytes - 8191), rm::NV_ERR_INSUFFICIENT_RESOURCES);
  EXPECT_EQ(Pool(kBase + 4 * kMib, std::uint64_t{1} << 40), rm::NV_ERR_INSUFFICIENT_RESOURCES);
  EXPECT_FALSE(executed_);
  EXPECT_EQ(Pool(kBase + 4 * kMib, kMaxPoolBytes - 8192), rm::NV_OK);
  if (GetParam() >= rm::Branch::k590) {
    EXPECT_EQ(Ask(rm::UVM_FREE, kBase + 4 * kMib), rm::NV_OK);
  } else {
    EXPECT_EQ(Ask(rm::UVM_FREE, rm::UVM_RANGE_HEAD{kBase + 4 * kMib, 0}), rm::NV_OK);
  }
  EXPECT_EQ(ledger_->Used(0) - before, TableBytes(2, 3) - kTable);
  EXPECT_EQ(Pool(kBase + 4 * kMib, 4096), rm::NV_OK);
}

// While UVM looks for what the call names, nobody changes it.
TEST_P(UvmTest, ACallThatNamesAClientWaitsForIt) {
  Call call;
  call.uvm_request = rm::UVM_MAP_EXTERNAL_ALLOCATION;
  call.uvm_space = kSpace;
  call.client = kClient;
  EXPECT_EQ(boundary_->NeedsOf(call).space, kSpace);
  EXPECT_EQ(boundary_->NeedsOf(call).clients, std::vector<std::uint32_t>{kClient});
}

TEST_P(UvmTest, PageTablesAreHeldToTheLimit) {
  ASSERT_EQ(CreateRange(kBase, std::uint64_t{1} << 40), rm::NV_OK);
  std::uint64_t mapped = 0;
  while (Map(kBase + mapped * 2 * kMib, 4096, kMemory) == rm::NV_OK) {
    ++mapped;
  }
  EXPECT_EQ(Load<rm::UVM_MAP_EXTERNAL_ALLOCATION_TAIL>(answer_, rm::UvmMapExternalTail(GetParam()))
                .rmStatus,
            rm::NV_ERR_INSUFFICIENT_RESOURCES)
      << "the quota of references is met first here";
  EXPECT_LE(ledger_->Used(0), ledger_->Limit(0));
  // Sparse mappings have no references.
  std::uint64_t sparse = 0;
  std::uint32_t status = rm::NV_OK;
  while (status == rm::NV_OK) {
    status =
        Ask(rm::UVM_MAP_EXTERNAL_SPARSE,
            rm::UVM_UNMAP_EXTERNAL_PARAMS{kBase + (sparse + 4096) * 2 * kMib, 4096, kUuid, 0, 0});
    ++sparse;
  }
  EXPECT_EQ(status, rm::NV_ERR_NO_MEMORY);
  EXPECT_GT(sparse, 15000U);
  EXPECT_LE(ledger_->Used(0), ledger_->Limit(0));
}

TEST_P(UvmTest, RangeGroupsOfAllSpacesAreBounded) {
  if (rm::UvmParamSize(GetParam(), rm::UVM_CREATE_RANGE_GROUP) == 0) {
    return;
  }
  EXPECT_TRUE(UvmChangesState(rm::UVM_CREATE_RANGE_GROUP)) << "in the order of the driver";
  EXPECT_TRUE(UvmReleases(rm::UVM_DESTROY_RANGE_GROUP));
  constexpr ledger::FileKey kSecond = kSpace + 1;
  boundary_->AddSpace(kSecond, 1);
  const auto create = [&](std::uint32_t status = rm::NV_OK) {
    return AskBytes(rm::UVM_CREATE_RANGE_GROUP, {}, status);
  };
  for (std::uint64_t i = 0; i < kMaxRangeGroups; ++i) {
    space_ = i % 2 == 0 ? kSpace : kSecond;
    ASSERT_EQ(create(), rm::NV_OK) << i;
  }
  EXPECT_EQ(create(), rm::NV_ERR_INSUFFICIENT_RESOURCES);
  EXPECT_FALSE(executed_);
  EXPECT_EQ(AskBytes(rm::UVM_DESTROY_RANGE_GROUP, {}, rm::NV_ERR_OBJECT_NOT_FOUND),
            rm::NV_ERR_OBJECT_NOT_FOUND);
  EXPECT_EQ(create(), rm::NV_ERR_INSUFFICIENT_RESOURCES);
  HandOver(abi_, kQuotas, ledger_, boundary_);
  EXPECT_EQ(create(), rm::NV_ERR_INSUFFICIENT_RESOURCES);
  EXPECT_EQ(AskBytes(rm::UVM_DESTROY_RANGE_GROUP, {}), rm::NV_OK);
  EXPECT_EQ(create(rm::NV_ERR_NO_MEMORY), rm::NV_ERR_NO_MEMORY);
  EXPECT_EQ(create(), rm::NV_OK);
  boundary_->RemoveSpace(kSecond);
  space_ = kSpace;
  EXPECT_EQ(create(), rm::NV_OK) << "half of them are gone with their space";
}

TEST_P(UvmTest, NothingOfOthers) {
  EXPECT_EQ(Ask(rm::UVM_REGISTER_GPU, RegisterGpu(kForeign)), rm::NV_ERR_GPU_UUID_NOT_FOUND);
  EXPECT_FALSE(executed_);
  EXPECT_EQ(Map(kBase, kMib, kMemory, 1, kForeign), rm::NV_ERR_INVALID_DEVICE);
  EXPECT_FALSE(executed_);
  EXPECT_EQ(Map(kBase, kMib, kMemory, 1, kUuid, 0xc1d00002), rm::NV_ERR_INVALID_CLIENT);
  EXPECT_FALSE(executed_);
  EXPECT_EQ(Map(kBase, kMib, 0x4711), rm::NV_ERR_OBJECT_NOT_FOUND);
  EXPECT_EQ(Map(kBase, kMib, kMemory, rm::kUvmMaxGpus.At(GetParam()) + 1),
            rm::NV_ERR_INVALID_ARGUMENT);
  EXPECT_EQ(Map(kBase, kMib, kMemory, 2), rm::NV_ERR_INVALID_DEVICE) << "the second has no uuid";
  EXPECT_EQ(Map(~std::uint64_t{4095}, 8192, kMemory), rm::NV_ERR_INVALID_ADDRESS);
  EXPECT_FALSE(executed_);
}

TEST_P(UvmTest, EveryRowHasADecisionAndNoneOfTheToolsIsExecuted) {
  for (const rm::UvmRow& row : rm::UvmRows()) {
    if (row.size.At(GetParam()) == 0) {
      continue;
    }
    Bytes bytes(row.size.At(GetParam()));
    const std::uint32_t status = AskBytes(row.request, bytes);
    const bool tools = row.name.starts_with("UVM_TOOLS") || row.request == 71 ||
                       row.request == 78 || row.request == 79;
    EXPECT_EQ(status == rm::NV_ERR_NOT_SUPPORTED, tools) << row.name;
    EXPECT_FALSE(tools && executed_) << row.name;
  }
}

TEST_P(UvmTest, WhatNoBranchHasIsNoRequest) {
  const Bytes bytes(64);
  OneBlock memory(bytes);
  Call call;
  EXPECT_EQ(DecodeUvm(abi_, 32, 0x1000, memory, call), EINVAL);
  EXPECT_EQ(DecodeUvm(abi_, 200, 0x1000, memory, call), EINVAL) << "the driver's own tests";
  EXPECT_EQ(DecodeUvm(abi_, rm::UVM_INITIALIZE, 0x2000, memory, call), EFAULT);
  if (GetParam() < rm::Branch::k580) {
    EXPECT_EQ(DecodeUvm(abi_, 80, 0x1000, memory, call), EINVAL);
  }
}

TEST_P(UvmTest, ASpaceThatEndsGivesBackWhatItHad) {
  ASSERT_EQ(CreateRange(kBase, kMib), rm::NV_OK);
  ASSERT_EQ(Map(kBase, kMib, kMemory), rm::NV_OK);
  boundary_->RemoveSpace(kSpace);
  EXPECT_EQ(ledger_->Used(0), 64 * kMib);
  EXPECT_EQ(CreateRange(kBase, kMib), rm::NV_ERR_ILLEGAL_ACTION);
}

INSTANTIATE_TEST_SUITE_P(Branches, UvmTest, ::testing::ValuesIn(rm::kBranches));

}  // namespace
}  // namespace cgpu::boundary
