// Controls that the kernel driver hands to the GPU's firmware.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>

#include "rm/nv_classes.h"
#include "rm/nv_controls.h"
#include "sim/driver/more_controls.h"
#include "sim/tests/process.h"

namespace cgpu::sim {
namespace {

template <std::size_t kCount>
using Words = std::array<rm::NvU32, kCount>;

class Firmware : public testing::Test {
 protected:
  template <std::size_t kCount>
  rm::NvStatus Ask(rm::NvU32 cmd, Words<kCount>& words) {
    return mine.Control(mine.subdevice, cmd, words);
  }
  rm::NvStatus TakeEncoder(Process& process) {
    rm::NvU32 nothing = 0;
    return process.Control(process.subdevice, rm::GSS_LEGACY_8163_TAKE_ENCODER, nothing);
  }
  rm::NvStatus GiveEncoder(Process& process) {
    rm::NvU32 nothing = 0;
    return process.Control(process.subdevice, rm::GSS_LEGACY_8164_GIVE_ENCODER, nothing);
  }
  rm::NvU32 Encoders() { return mine.GetAccounting().gpus[0].encoder_sessions; }

  std::unique_ptr<Driver> driver = MakeDriver("a10,t4");
  Process mine{*driver, 100};
  Process other{*driver, 101};
};

TEST_F(Firmware, AnswersWhatIsRecordedByteForByte) {
  Words<83> start{2, 0x0C, 0, 0x25};
  const Words<83> asked = start;
  EXPECT_EQ(rm::NV_OK, Ask(rm::GSS_LEGACY_8159, start));
  EXPECT_EQ(asked, start);
  rm::NvU8 yes = 0;
  EXPECT_EQ(rm::NV_OK, mine.Control(mine.subdevice, rm::GSS_LEGACY_8162, yes));
  EXPECT_EQ(1, yes);
  Words<2> pair{};
  EXPECT_EQ(rm::NV_OK, Ask(rm::GSS_LEGACY_9001, pair));
  EXPECT_EQ((Words<2>{0x03FC007F, 0}), pair);
  EXPECT_EQ(rm::NV_OK, Ask(rm::GSS_LEGACY_9009, pair));
  EXPECT_EQ((Words<2>{0, 0xD}), pair);
  Words<130> domains{};
  EXPECT_EQ(rm::NV_OK, Ask(rm::GSS_LEGACY_9064, domains));
  EXPECT_EQ((Words<130>{0, 2, 1, 1, 1, 0x64, 4, 0x10, 1, 0x64}), domains);
  domains = {0, 1, 8};
  EXPECT_EQ(rm::NV_OK, Ask(rm::GSS_LEGACY_9064, domains));
  EXPECT_EQ((Words<130>{0, 1, 8, 0x00100000, 1, 0x64}), domains);
  Words<4> query{};
  EXPECT_EQ(rm::NV_OK, Ask(rm::GSS_LEGACY_A001, query));
  EXPECT_EQ((Words<4>{1, 5, 2, 0x11}), query);
}

TEST_F(Firmware, ClocksStandWhereTheyAreRecorded) {
  Words<133> most{0x400, 0xFFFFFFFF, 0, 0xFFFFFFFF, 2};
  most[5] = 1;
  most[9] = 0x10;
  const Words<133> asked = most;
  EXPECT_EQ(rm::NV_OK, Ask(rm::GSS_LEGACY_A026, most));
  Words<133> expected = asked;
  expected[1] = 0xFFFFFF02;  // a byte
  expected[2] = 4;
  expected[3] = 1;
  expected[7] = 1695000;
  expected[11] = 9751000;
  EXPECT_EQ(expected, most);
  Words<548> list{1, 0, 1, 0x00100000};
  EXPECT_EQ(rm::NV_ERR_INVALID_ARGUMENT, Ask(rm::GSS_LEGACY_A028, list));
  list[0x20C / 4] = 0x00100000;
  EXPECT_EQ(rm::NV_OK, Ask(rm::GSS_LEGACY_A028, list));
  EXPECT_EQ(4U, list[1]);
  EXPECT_EQ(1005000U, list[5]);
  EXPECT_EQ(2U, list[0x210 / 4]);
}

TEST_F(Firmware, StatusesThatRealGpusAnswer) {
  Words<6> index{0x0A};
  Words<1> word{};
  EXPECT_EQ(rm::NV_OK, Ask(rm::GSS_LEGACY_8546, index));
  index[0] = 4;
  EXPECT_EQ(rm::NV_ERR_NOT_SUPPORTED, Ask(rm::GSS_LEGACY_8546, index));
  EXPECT_EQ(rm::NV_ERR_NOT_SUPPORTED, Ask(rm::GSS_LEGACY_9038, word));
  for (const rm::NvU32 cmd : {rm::GSS_LEGACY_A0F2, rm::GSS_LEGACY_A63C}) {
    EXPECT_EQ(rm::NV_ERR_NOT_SUPPORTED, Ask(cmd, index)) << std::hex << cmd;
  }
  constexpr rm::NvU32 kUnknown = 0x2080BFF0;
  EXPECT_EQ(rm::NV_ERR_NOT_SUPPORTED, Ask(kUnknown, index));
}

TEST_F(Firmware, AHopperTakesWhatItIsOnRecordToTake) {
  const auto hopper = MakeDriver("h200");
  Process program{*hopper, 100};
  rm::NvU32 word = 0;
  EXPECT_EQ(rm::NV_OK, program.Control(program.subdevice, rm::GSS_LEGACY_9038, word));
}

TEST_F(Firmware, AnotherSizeThanRecordedIsRefused) {
  Words<3> words{};
  EXPECT_EQ(rm::NV_ERR_INVALID_ARGUMENT, Ask(rm::GSS_LEGACY_9001, words));
  EXPECT_EQ(rm::NV_OK, Ask(rm::GSS_LEGACY_852A, words));  // its size is not on record
}

TEST_F(Firmware, TheNumberDecidesOnAnyObjectOfAGpu) {
  const rm::NvHandle memory = mine.AllocVidmem(kMiB);
  const rm::NvHandle group = mine.AllocGroup();
  const rm::NvHandle channel = mine.AllocChannel(group, rm::AMPERE_CHANNEL_GPFIFO_A);
  Words<2> words{};
  for (const rm::NvHandle object : {mine.device, mine.subdevice, memory, group, channel}) {
    EXPECT_EQ(rm::NV_OK, mine.Control(object, rm::GSS_LEGACY_9001, words));
  }
  EXPECT_EQ(rm::NV_ERR_NOT_SUPPORTED, mine.Control(mine.client, rm::GSS_LEGACY_9001, words));
}

TEST_F(Firmware, NobodyAsksWhoseClientItIs) {
  rm::NVOS54_PARAMETERS api{};
  Words<2> words{};
  api.hClient = other.client;
  api.hObject = other.subdevice;
  api.cmd = rm::GSS_LEGACY_9009;
  api.flags = 3;  // asked of no such control
  api.params = reinterpret_cast<rm::NvP64>(&words);
  api.paramsSize = sizeof(words);
  EXPECT_EQ(0, mine.Ioctl(mine.ctl, rm::NV_ESC_RM_CONTROL, api));
  EXPECT_EQ(rm::NV_OK, api.status);
  EXPECT_EQ(0xDU, words[1]);
}

TEST_F(Firmware, TwoBitsMeanAdministrators) {
  constexpr rm::NvU32 kPrivileged = 0x2080C001;
  Words<2> words{};
  EXPECT_EQ(rm::NV_ERR_INSUFFICIENT_PERMISSIONS, Ask(kPrivileged, words));
  mine.caller.admin = true;
  EXPECT_EQ(rm::NV_ERR_NOT_SUPPORTED, Ask(kPrivileged, words));
}

TEST_F(Firmware, TellsTheLoadOfTheWholeGpu) {
  other.AllocVidmem(64 * kMiB);
  other.AllocChannel(other.AllocGroup(), rm::AMPERE_CHANNEL_GPFIFO_A);
  for (const rm::NvU32 cmd : {rm::GSS_LEGACY_8539, rm::GSS_LEGACY_9037, rm::GSS_LEGACY_A0A8}) {
    FirmwareTelemetry load{};
    EXPECT_EQ(rm::NV_OK, mine.Control(mine.subdevice, cmd, load));
    EXPECT_EQ(mine.GetAccounting().gpus[0].used_bytes, load.usedBytes);
    EXPECT_LE(64 * kMiB, load.usedBytes);
    EXPECT_EQ(1U, load.channels);
    EXPECT_EQ(2U, load.processes);
  }
}

TEST_F(Firmware, EncoderSessionsAreTheGpus) {
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(rm::NV_OK, TakeEncoder(mine));
  }
  EXPECT_EQ(8U, Encoders());
  EXPECT_EQ(rm::NV_ERR_MAX_SESSION_LIMIT_REACHED, TakeEncoder(other));
  Process on_t4(*driver, 102, 1);
  EXPECT_EQ(rm::NV_OK, TakeEncoder(on_t4));
  EXPECT_EQ(rm::NV_OK, GiveEncoder(other));  // one that another took
  EXPECT_EQ(rm::NV_OK, TakeEncoder(other));
  mine.Free(mine.client);
  EXPECT_EQ(1U, other.GetAccounting().gpus[0].encoder_sessions);
  EXPECT_EQ(rm::NV_OK, GiveEncoder(other));
  EXPECT_EQ(rm::NV_ERR_INVALID_STATE, GiveEncoder(other));
}

class Binapi : public Firmware {
 protected:
  rm::NvHandle object = mine.Alloc(mine.subdevice, rm::NV2081_BINAPI, rm::NvU32{0});
};

TEST_F(Binapi, TakesItsOwnCommands) {
  std::array<rm::NvU8, 992> zeros{};
  const std::array<rm::NvU8, 992> asked = zeros;
  EXPECT_EQ(rm::NV_OK, mine.Control(object, rm::BINAPI_0108, zeros));
  EXPECT_EQ(asked, zeros);
  rm::NvU16 two = 0;
  for (const rm::NvU32 cmd : {rm::BINAPI_0107, rm::BINAPI_0110, rm::BINAPI_0111}) {
    EXPECT_EQ(rm::NV_OK, mine.Control(object, cmd, two));
  }
  EXPECT_EQ(rm::NV_ERR_NOT_SUPPORTED, mine.Control(mine.subdevice, rm::BINAPI_0107, two));
}

TEST_F(Binapi, HandsOnWhateverItsNumber) {
  const rm::NvHandle theirs = other.AllocChannel(other.AllocGroup(), rm::AMPERE_CHANNEL_GPFIFO_A);
  EXPECT_EQ(rm::NV_OK, mine.SwitchChannel(object, other.client, theirs, false));
  EXPECT_TRUE(mine.GetAccounting().gpus[0].channels[0].disabled);
  constexpr rm::NvU32 kForRoot = 0x20801110;  // FIFO_CONFIG_CTXSW_TIMEOUT
  Words<2> words{};
  EXPECT_EQ(rm::NV_ERR_INSUFFICIENT_PERMISSIONS, mine.Control(mine.subdevice, kForRoot, words));
  EXPECT_EQ(rm::NV_OK, mine.Control(object, kForRoot, words));
}

TEST_F(Binapi, TheOtherClassIsForAdministratorsAtEachCall) {
  rm::NvHandle handle = 0;
  rm::NvU32 params = 0;
  EXPECT_EQ(rm::NV_ERR_INSUFFICIENT_PERMISSIONS,
            mine.TryAlloc(mine.subdevice, rm::NV2082_BINAPI_PRIVILEGED, params, &handle));
  mine.caller.admin = true;
  handle = mine.Alloc(mine.subdevice, rm::NV2082_BINAPI_PRIVILEGED, params);
  rm::NvU16 two = 0;
  EXPECT_EQ(rm::NV_OK, mine.Control(handle, rm::BINAPI_0107, two));
  mine.caller.admin = false;
  EXPECT_EQ(rm::NV_ERR_INSUFFICIENT_PERMISSIONS, mine.Control(handle, rm::BINAPI_0107, two));
}

}  // namespace
}  // namespace cgpu::sim
