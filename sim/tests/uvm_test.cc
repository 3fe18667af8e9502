#include <gtest/gtest.h>

#include "rm/vidmem.h"
#include "sim/tests/uvm_process.h"

namespace cgpu::sim {
namespace {

constexpr rm::NvU64 kBase = rm::NvU64{1} << 40;
constexpr rm::NvU64 kTable = 4096;
constexpr rm::NvU64 kTwoMiB = rm::NvU64{2} << 20;
// The three directories above the last tables, without the root.
constexpr rm::NvU64 kDirectories = 3 * kTable;

TEST(UvmFile, AnswersNothingBeforeItIsInitialised) {
  const auto node = MakeDriver("v100-16g:2");
  UvmProcess process(*node, 10);
  EXPECT_EQ(rm::NV_ERR_ILLEGAL_ACTION, process.RegisterGpu());
  EXPECT_EQ(rm::NV_ERR_ILLEGAL_ACTION, process.CreateRange(kBase, kTwoMiB));
  EXPECT_EQ(rm::NV_ERR_INVALID_ARGUMENT, process.Initialize(4));
  EXPECT_EQ(rm::NV_OK, process.Initialize());
  EXPECT_EQ(rm::NV_OK, process.Initialize());
  EXPECT_EQ(rm::NV_ERR_INVALID_ARGUMENT, process.Initialize(0));
  EXPECT_EQ(EINVAL, node->UvmIoctl(process.uvm, 99, 0x100000, process.caller));
  EXPECT_EQ(EINVAL, node->UvmIoctl(process.uvm, 200, 0x100000, process.caller));
  EXPECT_EQ(EFAULT, node->UvmIoctl(process.uvm, rm::UVM_REGISTER_GPU, 8, process.caller));
  EXPECT_EQ(0, node->UvmIoctl(process.uvm, rm::UVM_DEINITIALIZE, 8, process.caller));
}

TEST(UvmGpu, IsRegisteredForWhoHasItsFileOpen) {
  const auto node = MakeDriver("v100-16g:2");
  UvmProcess process(*node, 10);
  ASSERT_EQ(rm::NV_OK, process.Initialize());
  EXPECT_EQ(rm::NV_ERR_INSUFFICIENT_PERMISSIONS, process.RegisterGpu(1));
  EXPECT_EQ(rm::NV_OK, process.RegisterGpu(0));
  EXPECT_EQ(rm::NV_ERR_INVALID_DEVICE, process.RegisterGpu(0));
  rm::UVM_REGISTER_GPU_PARAMS nobody{};
  EXPECT_EQ(rm::NV_ERR_GPU_UUID_NOT_FOUND, process.Uvm(rm::UVM_REGISTER_GPU, nobody));
}

TEST(UvmVaSpace, IsOfTheCallingProcessAndExternallyOwned) {
  const auto node = MakeDriver("v100-16g");
  UvmProcess process(*node, 10);
  UvmProcess stranger(*node, 11);
  ASSERT_EQ(rm::NV_OK, process.Initialize());
  ASSERT_EQ(rm::NV_OK, process.RegisterGpu());
  EXPECT_EQ(rm::NV_ERR_INSUFFICIENT_PERMISSIONS,
            process.RegisterVaSpace(stranger.client, stranger.AllocVaSpace()));
  EXPECT_EQ(rm::NV_ERR_INVALID_FLAGS,
            process.RegisterVaSpace(process.client, process.AllocVaSpace(0)));
  EXPECT_EQ(rm::NV_ERR_INVALID_OBJECT, process.RegisterVaSpace(process.client, process.device));
  EXPECT_EQ(0, process.Tables());
  const rm::NvHandle vaspace = process.AllocVaSpace();
  EXPECT_EQ(rm::NV_OK, process.RegisterVaSpace(process.client, vaspace));
  EXPECT_EQ(kTable, process.Tables());
  EXPECT_EQ(rm::NV_ERR_INVALID_DEVICE, process.RegisterVaSpace(process.client, vaspace));
  process.CloseUvm();
  EXPECT_EQ(0, process.Used());
}

TEST(UvmVaSpace, NeedsTheProcessesMemoryUnlessShared) {
  const auto node = MakeDriver("v100-16g");
  UvmProcess process(*node, 10);
  ASSERT_EQ(rm::NV_OK, process.Initialize(0));
  ASSERT_EQ(rm::NV_OK, process.RegisterGpu());
  const rm::NvHandle vaspace = process.AllocVaSpace();
  EXPECT_EQ(rm::NV_ERR_PAGE_TABLE_NOT_AVAIL, process.RegisterVaSpace(process.client, vaspace));
  UvmProcess second(*node, 10);
  second.caller.fds[9] = process.uvm;
  EXPECT_EQ(rm::NV_OK, second.Uvm(rm::UVM_MM_INITIALIZE, rm::UVM_MM_INITIALIZE_PARAMS{9, 0}));
  EXPECT_EQ(rm::NV_OK, process.RegisterVaSpace(process.client, vaspace));
  UvmProcess sharing(*node, 12);
  ASSERT_EQ(rm::NV_OK, sharing.Initialize());
  EXPECT_EQ(
      rm::NV_WARN_NOTHING_TO_DO,
      sharing.Uvm(rm::UVM_MM_INITIALIZE, rm::UVM_MM_INITIALIZE_PARAMS{UvmProcess::kUvmFd, 0}));
}

TEST(UvmRange, StaysClearOfOthers) {
  const auto node = MakeDriver("v100-16g");
  UvmProcess process(*node, 10);
  process.Start();
  EXPECT_EQ(rm::NV_ERR_INVALID_ADDRESS, process.CreateRange(kBase + 1, kTwoMiB));
  EXPECT_EQ(rm::NV_OK, process.CreateRange(kBase, kTwoMiB));
  EXPECT_EQ(rm::NV_ERR_UVM_ADDRESS_IN_USE, process.CreateRange(kBase - 4096, 8192));
  EXPECT_EQ(rm::NV_ERR_UVM_ADDRESS_IN_USE, process.CreateRange(kBase + 4096, 4096));
  EXPECT_EQ(rm::NV_OK, process.CreateRange(kBase - 4096, 4096));
  EXPECT_EQ(rm::NV_ERR_INVALID_ADDRESS, process.FreeRange(kBase, 4096));
  EXPECT_EQ(rm::NV_OK, process.FreeRange(kBase, kTwoMiB));
  EXPECT_EQ(rm::NV_ERR_INVALID_ADDRESS, process.FreeRange(kBase, kTwoMiB));
}

TEST(UvmMapping, KeepsMemoryThatWasFreed) {
  const auto node = MakeDriver("v100-16g");
  UvmProcess process(*node, 10);
  process.Start();
  const rm::NvU64 size = 64 * kTwoMiB;
  const rm::NvHandle memory = process.AllocVidmem(size);
  ASSERT_EQ(rm::NV_OK, process.CreateRange(kBase, size));
  ASSERT_EQ(rm::NV_OK, process.Map(kBase, size, 0, memory));
  ASSERT_EQ(rm::NV_OK, process.Free(memory));
  EXPECT_EQ(size + kTable + kDirectories, process.Used());
  EXPECT_EQ(rm::NV_OK, process.Unmap(kBase, kTwoMiB));
  EXPECT_EQ(size + kTable + kDirectories, process.Used());
  EXPECT_EQ(rm::NV_OK, process.Unmap(kBase + kTwoMiB, size - kTwoMiB));
  EXPECT_EQ(kTable, process.Used());
}

TEST(UvmMapping, LosesWhatItCoveredThoughItFails) {
  const auto node = MakeDriver("v100-16g");
  UvmProcess process(*node, 10);
  process.Start();
  const rm::NvHandle memory = process.AllocVidmem(2 * kTwoMiB);
  ASSERT_EQ(rm::NV_OK, process.CreateRange(kBase, 2 * kTwoMiB));
  ASSERT_EQ(rm::NV_OK, process.Map(kBase, 2 * kTwoMiB, 0, memory));
  EXPECT_EQ(rm::NV_ERR_INVALID_ADDRESS, process.Map(kBase + 4096, 4096, 0, memory));
  ASSERT_EQ(rm::NV_OK, process.Free(memory));
  EXPECT_EQ(rm::NV_ERR_OBJECT_NOT_FOUND, process.Map(kBase, kTwoMiB, 0, memory));
  EXPECT_EQ(1, node->GetUvmAccounting().files.at(0).ranges.at(0).pieces.size());
}

TEST(UvmMapping, TakesATableForEveryTwoMiBOfSmallPages) {
  const auto node = MakeDriver("v100-16g");
  UvmProcess process(*node, 10);
  process.Start();
  const rm::NvHandle memory = process.AllocVidmem(rm::kPageBig);
  const rm::NvU64 before = process.Tables();
  for (rm::NvU64 i = 0; i < 100; ++i) {
    const rm::NvU64 at = kBase + i * kTwoMiB;
    ASSERT_EQ(rm::NV_OK, process.CreateRange(at, 4096));
    ASSERT_EQ(rm::NV_OK, process.Map(at, 4096, 0, memory));
  }
  EXPECT_EQ(before + kDirectories + 100 * kTable, process.Tables());
  const rm::NvU64 wide = kBase + (rm::NvU64{512} << 20);
  ASSERT_EQ(rm::NV_OK, process.CreateRange(wide, rm::kPageBig));
  ASSERT_EQ(rm::NV_OK, process.Map(wide, rm::kPageBig, 0, memory));
  EXPECT_EQ(before + kDirectories + 101 * kTable + 256, process.Tables());
  process.CloseUvm();
  EXPECT_EQ(rm::kPageBig, process.Used());
}

UvmSeen Seen(UvmProcess& process, std::vector<std::pair<rm::NvU64, rm::NvU64>> mapped) {
  UvmSeen seen;
  const UvmOwner owner{process.caller.tgid, 7};
  seen.alive.insert(owner);
  for (const auto& [base, length] : mapped) {
    seen.mappings.push_back({process.uvm, owner, base, base + length, base, true});
  }
  return seen;
}

TEST(UvmManaged, TakesWholeBlocksOfTheFirstGpu) {
  const auto node = MakeDriver("v100-16g");
  UvmProcess process(*node, 10);
  process.Start();
  node->SettleUvm(Seen(process, {{kBase + 4096, 4096}, {kBase + 8192, 4096}}));
  EXPECT_EQ(kTwoMiB, node->GetUvmAccounting().gpus[0].managed_bytes);
  EXPECT_EQ(kTable + kDirectories + kTable, process.Tables());
  node->SettleUvm(Seen(process, {{kBase + 4096, kTwoMiB}}));
  EXPECT_EQ(2 * kTwoMiB, node->GetUvmAccounting().gpus[0].managed_bytes);
  EXPECT_EQ(rm::NV_ERR_UVM_ADDRESS_IN_USE, process.CreateRange(kBase + kTwoMiB, 4096));
  node->SettleUvm(Seen(process, {}));
  EXPECT_EQ(kTable, process.Used());
}

TEST(UvmManaged, OutlivesItsProcessWhereTheFileIsShared) {
  for (const bool sharing : {false, true}) {
    const auto node = MakeDriver("v100-16g");
    UvmProcess process(*node, 10);
    ASSERT_EQ(rm::NV_OK, process.Initialize(sharing ? UvmProcess::kSharing : 0));
    ASSERT_EQ(rm::NV_OK, process.RegisterGpu());
    node->SettleUvm(Seen(process, {{kBase, 8 * kTwoMiB}}));
    EXPECT_EQ(8 * kTwoMiB, process.Used());
    node->SettleUvm(UvmSeen{});
    EXPECT_EQ(sharing ? 8 * kTwoMiB : 0, process.Used());
    EXPECT_EQ(rm::NV_OK, process.Uvm(rm::UVM_CLEAN_UP_ZOMBIE_RESOURCES, rm::NvU32{0}));
    EXPECT_EQ(0, process.Used());
  }
}

TEST(UvmManaged, IsNotMadeByWhatTheDriverRefuses) {
  const auto node = MakeDriver("v100-16g");
  UvmProcess bound(*node, 10);
  ASSERT_EQ(rm::NV_OK, bound.Initialize(0));
  ASSERT_EQ(rm::NV_OK, bound.RegisterGpu());
  UvmProcess fresh(*node, 11);
  UvmSeen seen = Seen(fresh, {{kBase, kTwoMiB}});
  const UvmOwner owner{10, 7};
  const UvmOwner other{12, 7};
  seen.alive = {owner, other, UvmOwner{11, 7}};
  seen.mappings.push_back({bound.uvm, owner, kBase, kBase + 4096, kBase + 4096, true});
  seen.mappings.push_back({bound.uvm, owner, 2 * kBase, 2 * kBase + 4096, 2 * kBase, false});
  seen.mappings.push_back({bound.uvm, other, 3 * kBase, 3 * kBase + 4096, 3 * kBase, true});
  node->SettleUvm(seen);
  EXPECT_EQ(4, node->GetUvmAccounting().refused.size());
  EXPECT_EQ(0, bound.Used());
  ASSERT_EQ(rm::NV_OK, fresh.Initialize());
  ASSERT_EQ(rm::NV_OK, fresh.RegisterGpu());
  node->SettleUvm(seen);
  EXPECT_EQ(0, bound.Used());  // the mapping was made before
}

// uvm_mmap() looks at the rights, and mprotect(2) asks no driver.
TEST(UvmManaged, RightsThatComeLaterMakeNone) {
  const auto node = MakeDriver("v100-16g");
  UvmProcess process(*node, 10);
  process.Start();
  UvmSeen seen = Seen(process, {{kBase, 4 * kTwoMiB}});
  seen.mappings[0].shared_read_write = false;
  node->SettleUvm(seen);
  EXPECT_EQ(kTable, process.Used());
  // All of it, cut in two, a part of it, and beside a neighbour that was made with all rights.
  for (const auto& mapped : {std::vector{std::pair{kBase, 4 * kTwoMiB}},
                             {{kBase, kTwoMiB}, {kBase + kTwoMiB, 3 * kTwoMiB}},
                             {{kBase + kTwoMiB, kTwoMiB}}}) {
    node->SettleUvm(Seen(process, mapped));
    EXPECT_EQ(kTable, process.Used());
    EXPECT_EQ(mapped.size(), node->GetUvmAccounting().refused.size());
  }
  node->SettleUvm(Seen(process, {{kBase, 3 * kTwoMiB}}));
  EXPECT_EQ(2 * kTwoMiB, node->GetUvmAccounting().gpus[0].managed_bytes) << "the two at its sides";
  node->SettleUvm(Seen(process, {}));
  node->SettleUvm(Seen(process, {{kBase, kTwoMiB}}));
  EXPECT_EQ(kTwoMiB, node->GetUvmAccounting().gpus[0].managed_bytes) << "made anew";
}

TEST(UvmManaged, MappingsThatGrowLookLikeNeighbours) {
  const auto node = MakeDriver("v100-16g");
  UvmProcess process(*node, 10);
  process.Start();
  node->SettleUvm(Seen(process, {{kBase, kTwoMiB}}));
  node->SettleUvm(Seen(process, {{kBase, 2 * kTwoMiB}}));
  EXPECT_EQ(2 * kTwoMiB, node->GetUvmAccounting().gpus[0].managed_bytes)
      << "another mapping beside it, or growth that the driver forbids: nothing tells";
}

TEST(UvmManaged, SaysWhatFoundNoRoom) {
  const auto node = MakeDriver("v100-16g@64MiB");
  UvmProcess process(*node, 10);
  ASSERT_EQ(rm::NV_OK, process.Initialize());
  ASSERT_EQ(rm::NV_OK, process.RegisterGpu());
  node->SettleUvm(Seen(process, {{kBase, 40 * kTwoMiB}}));
  const UvmGpuAccounting accounting = node->GetUvmAccounting().gpus[0];
  EXPECT_EQ(32 * kTwoMiB, accounting.managed_bytes);
  EXPECT_EQ(8 * kTwoMiB, accounting.managed_overcommit);
}

TEST(UvmTables, GoToSystemMemoryWhenTheGpuIsFull) {
  const auto node = MakeDriver("v100-16g@64MiB");
  UvmProcess process(*node, 10);
  process.Start();
  process.AllocVidmem(31 * kTwoMiB);
  rm::NvHandle memory = 0;
  for (int i = 0; i < 31; ++i) {
    memory = process.AllocVidmem(rm::kPageBig);
  }
  ASSERT_EQ(rm::NV_OK, process.CreateRange(kBase, 64 * kTwoMiB));
  for (rm::NvU64 i = 0; i < 64; ++i) {
    ASSERT_EQ(rm::NV_OK, process.Map(kBase + i * kTwoMiB, 4096, 0, memory));
  }
  EXPECT_EQ(rm::kPageBig, process.Tables());
  EXPECT_NE(0, node->GetUvmAccounting().gpus[0].system_table_bytes);
  ASSERT_EQ(rm::NV_OK, process.FreeRange(kBase, 64 * kTwoMiB));
  EXPECT_EQ(kTable, process.Tables());
}

TEST(UvmChannel, KeepsItsContextBuffers) {
  const auto node = MakeDriver("v100-16g");
  UvmProcess process(*node, 10);
  process.Start();
  const rm::NvU64 before = process.Used();
  const rm::NvHandle group = process.AllocGroup();
  const rm::NvU64 buffers = process.Used() - before;
  const rm::NvHandle channel = process.AllocChannel(group, rm::VOLTA_CHANNEL_GPFIFO_A);
  rm::UVM_REGISTER_CHANNEL_PARAMS params{};
  params.gpuUuid = process.Uuid();
  params.hClient = process.client;
  params.hChannel = channel;
  EXPECT_EQ(rm::NV_ERR_INVALID_ADDRESS, process.Uvm(rm::UVM_REGISTER_CHANNEL, params));
  params.base = kBase;
  params.length = rm::NvU64{1} << 30;
  ASSERT_EQ(rm::NV_OK, process.Uvm(rm::UVM_REGISTER_CHANNEL, params));
  EXPECT_EQ(rm::NV_ERR_INVALID_CHANNEL, process.Uvm(rm::UVM_REGISTER_CHANNEL, params));
  ASSERT_EQ(rm::NV_OK, process.Free(group));
  EXPECT_LE(before + buffers, process.Used());
  const rm::UVM_UNREGISTER_CHANNEL_PARAMS_V535 undo{process.Uuid(), process.client, channel, 0};
  EXPECT_EQ(rm::NV_OK, process.Uvm(rm::UVM_UNREGISTER_CHANNEL, undo));
  EXPECT_EQ(before, process.Used());
}

}  // namespace
}  // namespace cgpu::sim
