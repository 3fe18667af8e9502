// Objects exported to files and imported from them.
#include <gtest/gtest.h>

#include "boundary/testing.h"
#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"
#include "rm/nv_escape.h"
#include "rm/nv_status.h"
#include "rm/nv_structs.h"

namespace cgpu::boundary {
namespace {

TEST_F(BoundaryTest, TellsOfItsOwnExportsAlone) {
  MakeSubdevice();
  ASSERT_EQ(AllocMemory(0x20, kMib), rm::NV_OK);
  constexpr ledger::FileKey kOwn = 7;
  constexpr ledger::FileKey kForeign = 0;  // carries no tag of ours
  rm::NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TO_FD_PARAMS exported{};
  exported.object.type = rm::NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TYPE_RM;
  exported.object.data.rmObject.hObject = 0x20;
  Decision decision;
  Call call =
      Control(kClient, rm::NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECT_TO_FD, exported, decision, kOwn);
  (void)Execute(call, decision);
  for (const ledger::FileKey file : {kOwn, kForeign}) {
    rm::NV0000_CTRL_OS_UNIX_GET_EXPORT_OBJECT_INFO_PARAMS_V550 info{};
    call =
        Control(kClient, rm::NV0000_CTRL_CMD_OS_UNIX_GET_EXPORT_OBJECT_INFO, info, decision, file);
    EXPECT_EQ(decision.action,
              file == kOwn ? Decision::Action::kExecute : Decision::Action::kAnswer);
  }
  EXPECT_EQ(StatusOf(call), rm::NV_ERR_INVALID_PARAMETER);
}

// Exports many objects to a file and imports them.
class TransferTest : public BoundaryTest {
 protected:
  using Exports = rm::NV0000_CTRL_OS_UNIX_EXPORT_OBJECTS_TO_FD_PARAMS;
  using Imports = rm::NV0000_CTRL_OS_UNIX_IMPORT_OBJECTS_FROM_FD_PARAMS;
  static constexpr std::uint64_t kMark = 0xc1d00077;

  void SetUp() override { MakeSubdevice(); }

  template <class T>
  std::uint32_t Transfer(std::uint32_t command, T& params, std::uint64_t tag,
                         std::uint32_t driver_says = rm::NV_OK) {
    Decision decision;
    Call call = Control(kClient, command, params, decision, tag);
    if (decision.action == Decision::Action::kExecute) {
      if (driver_says == rm::NV_OK) {
        ChooseHandles(call);
      }
      SetStatus(call, driver_says);
      EXPECT_FALSE(boundary_->Account(call, decision, 0).has_value());
    }
    params = Load<T>(call.nested[0].bytes);
    return StatusOf(call).value();
  }

  // Chooses handles as the driver does, where there is something: places 0 and 2.
  static void ChooseHandles(Call& call) {
    if (call.command == rm::NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECTS_FROM_FD) {
      auto params = Load<Imports>(call.nested[0].bytes);
      params.objects[0] = 0x90;
      params.objects[2] = 0x92;
      Store(call.nested[0].bytes, params);
    }
  }

  std::uint32_t ExportThree() {
    Exports params{};
    params.numObjects = 3;
    params.objects[0] = 0x20;
    params.objects[2] = 0x22;
    return Transfer(rm::NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECTS_TO_FD, params, kMark);
  }
};

TEST_F(TransferTest, WhatIsExportedStaysChargedAndIsImportedOnce) {
  ASSERT_EQ(AllocMemory(0x20, 2 * kMib), rm::NV_OK);
  ASSERT_EQ(AllocMemory(0x22, 4 * kMib), rm::NV_OK);
  ASSERT_EQ(ExportThree(), rm::NV_OK);
  ASSERT_EQ(Free(0x20), rm::NV_OK);
  ASSERT_EQ(Free(0x22), rm::NV_OK);
  EXPECT_EQ(ledger_->Used(0), 6 * kMib);
  Imports params{};
  params.hParent = kDevice;
  params.numObjects = 3;
  params.objects[1] = kDevice;  // the place is empty: if the call failed the driver would free it
  EXPECT_EQ(Transfer(rm::NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECTS_FROM_FD, params, kMark,
                     rm::NV_ERR_INSERT_DUPLICATE_NAME),
            rm::NV_ERR_INSERT_DUPLICATE_NAME);
  EXPECT_EQ(params.objects[1], kDevice);
  EXPECT_EQ(Transfer(rm::NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECTS_FROM_FD, params, kMark), rm::NV_OK);
  EXPECT_EQ(params.objects[1], kDevice);
  ledger_->CloseFile(kMark);
  EXPECT_EQ(ledger_->Used(0), 6 * kMib);
  ASSERT_EQ(Free(0x90), rm::NV_OK);
  EXPECT_EQ(ledger_->Used(0), 4 * kMib);
  ASSERT_EQ(Free(0x92), rm::NV_OK);
  EXPECT_EQ(ledger_->Used(0), 0U);
}

TEST_F(TransferTest, APlaceThatIsUsedAgainGivesBackWhatWasThere) {
  ASSERT_EQ(AllocMemory(0x20, 2 * kMib), rm::NV_OK);
  ASSERT_EQ(AllocMemory(0x22, 4 * kMib), rm::NV_OK);
  ASSERT_EQ(ExportThree(), rm::NV_OK);
  ASSERT_EQ(Free(0x20), rm::NV_OK);
  ASSERT_EQ(Free(0x22), rm::NV_OK);
  Exports params{};
  params.numObjects = 1;
  EXPECT_EQ(Transfer(rm::NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECTS_TO_FD, params, kMark), rm::NV_OK);
  EXPECT_EQ(ledger_->Used(0), 4 * kMib);
}

TEST_F(TransferTest, FilesOfOthersAndCountsBeyondTheListsAreRefused) {
  Imports imports{};
  imports.hParent = kDevice;
  imports.numObjects = 1;
  EXPECT_EQ(Transfer(rm::NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECTS_FROM_FD, imports, 0),
            rm::NV_ERR_INVALID_PARAMETER);
  imports.numObjects = 129;
  EXPECT_EQ(Transfer(rm::NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECTS_FROM_FD, imports, kMark),
            rm::NV_ERR_INVALID_PARAMETER);
  Exports exports{};
  exports.numObjects = 513;
  EXPECT_EQ(Transfer(rm::NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECTS_TO_FD, exports, kMark),
            rm::NV_ERR_INVALID_PARAMETER);
  exports.numObjects = 1;
  exports.objects[0] = 0x99;
  EXPECT_EQ(Transfer(rm::NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECTS_TO_FD, exports, kMark),
            rm::NV_ERR_OBJECT_NOT_FOUND);
  exports.objects[0] = kDevice;
  EXPECT_EQ(Transfer(rm::NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECTS_TO_FD, exports, 0),
            rm::NV_ERR_INVALID_PARAMETER);
}

}  // namespace
}  // namespace cgpu::boundary
