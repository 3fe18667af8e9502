// Tests the effects of each family of calls.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>

#include "boundary/testing.h"
#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"
#include "rm/uvm_table.h"

namespace cgpu::boundary {
namespace {

class EffectsTest : public BoundaryTest {
 protected:
  static constexpr ledger::FileKey kSpace = Boundary::kFirstSpace;

  // Decides a call whose parameters are as given.
  template <class T>
  Effects Of(std::uint32_t nr, T params) {
    Call call;
    EXPECT_EQ(Copy(nr, params, call), 0);
    const Decision decision = boundary_->Decide(call);
    EXPECT_EQ(decision.action, Decision::Action::kExecute);
    return decision.effects;
  }

  // Decides a control with zeros for parameters.
  template <std::size_t kSize>
  Effects OfControl(std::uint32_t object, std::uint32_t command) {
    std::array<std::byte, kSize> params{};
    Decision decision;
    (void)Control(object, command, params, decision);
    EXPECT_EQ(decision.action, Decision::Action::kExecute);
    return decision.effects;
  }

  // Decides a request of nvidia-uvm's with its first words as given.
  Effects OfUvm(std::uint32_t request, std::uint64_t base, std::uint64_t length) {
    std::array<std::uint64_t, 8192> params{base, length};
    Call call;
    call.uvm_space = kSpace;
    EXPECT_EQ(DecodeUvm(abi_, request, memory_.Lend(params), memory_, call), 0);
    const Decision decision = boundary_->Decide(call);
    EXPECT_EQ(decision.action, Decision::Action::kExecute);
    return decision.effects;
  }

  TagStep StepOf(std::uint32_t command) {
    std::array<std::byte, 4096> params{};
    rm::NVOS54_PARAMETERS control{};
    control.cmd = command;
    control.params = memory_.Lend(params);
    for (control.paramsSize = 0; control.paramsSize < params.size(); ++control.paramsSize) {
      Call call;
      EXPECT_EQ(Copy(rm::NV_ESC_RM_CONTROL, control, call), 0);
      if (call.fd) {
        return call.fd->tag_step;
      }
    }
    return TagStep::kNone;
  }
};

TEST_F(EffectsTest, AGpuIsOpenedForItsFirstUse) {
  ASSERT_EQ(Alloc(0, kClient, rm::NV01_ROOT, 0, 0), rm::NV_OK);
  rm::NVOS21_PARAMETERS alloc{};
  alloc.hRoot = kClient;
  alloc.hObjectParent = kClient;
  alloc.hObjectNew = kDevice;
  alloc.hClass = rm::NV01_DEVICE_0;
  EXPECT_EQ(Of(rm::NV_ESC_RM_ALLOC, alloc), Effects{.opens_gpu = true});
  rm::NV0080_ALLOC_PARAMETERS device{};
  ASSERT_EQ(Alloc(kClient, kDevice, rm::NV01_DEVICE_0, memory_.Lend(device)), rm::NV_OK);
  alloc.hObjectParent = kDevice;
  alloc.hObjectNew = kSubdevice;
  alloc.hClass = rm::NV20_SUBDEVICE_0;
  EXPECT_EQ(Of(rm::NV_ESC_RM_ALLOC, alloc), Effects{});
  boundary_->AddSpace(kSpace, 1);
  EXPECT_EQ(OfUvm(rm::UVM_REGISTER_GPU, 0, 0), Effects{.opens_gpu = true});
}

TEST_F(EffectsTest, ManagedMemoryIsSettledBeforeItShows) {
  MakeSubdevice();
  constexpr std::size_t kFbInfoV2 = 444;
  EXPECT_EQ(OfControl<kFbInfoV2>(kSubdevice, rm::NV2080_CTRL_CMD_FB_GET_INFO_V2),
            Effects{.shows_memory = true});
  EXPECT_EQ(OfControl<16>(kSubdevice, rm::NV2080_CTRL_CMD_FB_GET_INFO),
            Effects{.shows_memory = true});
  EXPECT_EQ(OfControl<128>(kClient, rm::NV0000_CTRL_CMD_GPU_GET_ATTACHED_IDS), Effects{});
  rm::NVOS32_PARAMETERS heap{};
  heap.hRoot = kClient;
  heap.hObjectParent = kDevice;
  heap.function = rm::NVOS32_FUNCTION_INFO;
  EXPECT_EQ(Of(rm::NV_ESC_RM_VID_HEAP_CONTROL, heap), Effects{.shows_memory = true});
  heap.function = rm::NVOS32_FUNCTION_ALLOC_SIZE;
  EXPECT_EQ(Of(rm::NV_ESC_RM_VID_HEAP_CONTROL, heap), Effects{});
}

TEST_F(EffectsTest, TheShimListsProcesses) {
  MakeSubdevice();
  Decision decision;
  rm::NV2080_CTRL_GPU_GET_PIDS_PARAMS pids{};
  (void)Control(kSubdevice, rm::NV2080_CTRL_CMD_GPU_GET_PIDS, pids, decision);
  EXPECT_EQ(decision.effects, Effects{.lists_processes = true});
  rm::NV2080_CTRL_GPU_GET_PID_INFO_PARAMS info{};
  info.pidInfoListCount = 1;
  (void)Control(kSubdevice, rm::NV2080_CTRL_CMD_GPU_GET_PID_INFO, info, decision);
  EXPECT_EQ(decision.effects, (Effects{.lists_processes = true, .shows_memory = true}));
}

TEST_F(EffectsTest, TheSchedulerLearnsOfChannels) {
  MakeSubdevice();
  EXPECT_EQ(OfControl<2>(kSubdevice, rm::NVA06C_CTRL_CMD_GPFIFO_SCHEDULE),
            Effects{.schedules_channels = true});
  EXPECT_EQ(OfControl<2>(kSubdevice, rm::NVA06F_CTRL_CMD_GPFIFO_SCHEDULE),
            Effects{.schedules_channels = true});
  constexpr std::size_t kDisable = sizeof(rm::NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS);
  EXPECT_EQ(OfControl<kDisable>(kSubdevice, rm::NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS),
            Effects{.switches_channels = true});
  EXPECT_EQ(Of(rm::NV_ESC_RM_FREE, rm::NVOS00_PARAMETERS{kClient, kDevice, kSubdevice, 0}),
            Effects{.frees_objects = true});
}

TEST_F(EffectsTest, TheShimKeepsTheFilesOfClients) {
  rm::NVOS21_PARAMETERS alloc{};
  alloc.hClass = rm::NV01_ROOT_CLIENT;
  EXPECT_EQ(Of(rm::NV_ESC_RM_ALLOC, alloc), Effects{.makes_client = true});
}

TEST_F(EffectsTest, SpacesAndRangesOfUvm) {
  EXPECT_EQ(OfUvm(rm::UVM_INITIALIZE, 0, 0), Effects{.makes_space = true});
  boundary_->AddSpace(kSpace, 1);
  EXPECT_EQ(OfUvm(rm::UVM_CREATE_EXTERNAL_RANGE, kBase, kMib), Effects{.changes_ranges = true});
  EXPECT_EQ(OfUvm(rm::UVM_ALLOC_SEMAPHORE_POOL, kBase, kMib), Effects{.changes_ranges = true});
  EXPECT_EQ(OfUvm(rm::UVM_MAP_DYNAMIC_PARALLELISM_REGION, kBase, kMib),
            Effects{.changes_ranges = true});
  EXPECT_EQ(OfUvm(rm::UVM_FREE, kBase, kMib), Effects{.changes_ranges = true});
  EXPECT_EQ(OfUvm(rm::UVM_MAP_EXTERNAL_SPARSE, kBase, kMib), Effects{});
  EXPECT_EQ(OfUvm(rm::UVM_UNMAP_EXTERNAL, kBase, kMib), Effects{});
}

TEST_F(EffectsTest, FilesOfExportedObjectsAreTagged) {
  EXPECT_EQ(StepOf(rm::NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECT_TO_FD), TagStep::kNew);
  EXPECT_EQ(StepOf(rm::NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECTS_TO_FD), TagStep::kTable);
  EXPECT_EQ(StepOf(rm::NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECT_FROM_FD), TagStep::kFind);
  EXPECT_EQ(StepOf(rm::NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECTS_FROM_FD), TagStep::kFind);
  EXPECT_EQ(StepOf(rm::NV0000_CTRL_CMD_OS_UNIX_GET_EXPORT_OBJECT_INFO), TagStep::kFind);
}

}  // namespace
}  // namespace cgpu::boundary
