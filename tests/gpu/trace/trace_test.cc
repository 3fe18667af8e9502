#include <gtest/gtest.h>

#include <cstring>

#include "gpu/trace/answers.h"
#include "gpu/trace/call.h"
#include "rm/nv_escape.h"
#include "rm/nv_structs.h"
#include "rm/uvm_table.h"

namespace cgpu::trace {
namespace {

template <class T>
Bytes Image(const T& value) {
  Bytes bytes(sizeof(value));
  std::memcpy(bytes.data(), &value, sizeof(value));
  return bytes;
}

TEST(TraceAnswers, AreReadAndFound) {
  const auto alloc = ParseAnswer("alloc:0x2081=0x22");
  const auto zeros = ParseAnswer("control:0x208001a3=zeros");
  ASSERT_TRUE(alloc.ok() && zeros.ok());
  EXPECT_EQ(alloc->status, 0x22U);
  EXPECT_TRUE(zeros->zeros);
  const std::vector<Answer> answers = {*alloc, *zeros};
  EXPECT_EQ(FindAnswer(answers, Answer::Kind::kAlloc, 0x2081), answers.data());
  EXPECT_EQ(FindAnswer(answers, Answer::Kind::kControl, 0x2081), nullptr);
  EXPECT_EQ(FindAnswer(answers, Answer::Kind::kControl, 0x208001a3), &answers[1]);
}

TEST(TraceAnswers, NothingElseIsOne) {
  for (const char* const text :
       {"", "alloc", "alloc:", "alloc:0x2081", "alloc=0x2081:1", "junk:1=2", "alloc:1=zeros",
        "control:x=1", "control:1=", "control:1=2x", "control:0x100000000=1"}) {
    EXPECT_FALSE(ParseAnswer(text).ok()) << text;
  }
}

TEST(TraceFiles, AreTheDriversByName) {
  EXPECT_EQ(FileName("/dev/nvidiactl"), "ctl");
  EXPECT_EQ(FileName("/run/cgpu-sim/n/dev/nvidia-uvm (deleted)"), "uvm");
  EXPECT_EQ(FileName("/dev/nvidia12"), "gpu12");
  EXPECT_EQ(FileName("/dev/nvidia-uvm-tools"), "nvidia-uvm-tools");
  EXPECT_EQ(FileName("/dev/nvidia-caps/nvidia-cap1"), "nvidia-cap1");
  for (const char* const link : {"", "/dev/null", "/tmp/nvidiactl", "socket:[7]", "nvidia0"}) {
    EXPECT_EQ(FileName(link), "") << link;
  }
}

Call Control(std::uint32_t command, std::uint32_t size, std::uint32_t flags) {
  rm::NVOS54_PARAMETERS api{};
  api.cmd = command;
  api.flags = flags;
  api.params = 0x1000;
  api.paramsSize = size;
  Call call;
  call.file = "ctl";
  call.nr = rm::NV_ESC_RM_CONTROL;
  call.image = Image(api);
  call.asked = call.image;
  call.params = ParamsOf(call, rm::Branch::k580);
  return call;
}

TEST(TraceLines, AreThoseOfTheRecorder) {
  Call call = Control(0x20801303, 1028, 0);
  EXPECT_EQ(Line(3, call, nullptr, {}),
            "3 ctl NV_ESC_RM_CONTROL NV2080_CTRL_CMD_FB_GET_INFO_V2 1028 "
            "0x0 0 driver");
  call.error = 22;
  EXPECT_TRUE(Line(3, call, nullptr, {}).ends_with("0x0 22 driver"));

  rm::NVOS64_PARAMETERS alloc{};
  alloc.hClass = 0x80;  // NV01_DEVICE_0
  alloc.pAllocParms = 0x1000;
  call = Call();
  call.file = "ctl";
  call.nr = rm::NV_ESC_RM_ALLOC;
  call.image = Image(alloc);
  call.asked = call.image;
  call.params = ParamsOf(call, rm::Branch::k580);
  EXPECT_EQ(Line(3, call, nullptr, {}), "3 ctl NV_ESC_RM_ALLOC NV01_DEVICE_0 56 0x0 0 driver");

  call = Call();
  call.file = "uvm";
  call.request = rm::UVM_MM_INITIALIZE;
  call.image = Bytes(8);
  EXPECT_EQ(Line(3, call, nullptr, {}), "3 uvm UVM_MM_INITIALIZE 8 0x0 0 driver");
}

TEST(TraceLines, SayMoreWhereAsked) {
  Call call = Control(0x2080f159, 2, 5);
  call.fd = 7;
  call.in = {std::byte{1}, std::byte{0xff}};
  call.out = Bytes(12);
  call.out[0] = std::byte{0xa0};
  call.out[11] = std::byte{2};
  const LineOptions options{rm::Branch::k580, true, Shown::kFirmware};
  EXPECT_EQ(Line(3, call, nullptr, options),
            "3 ctl NV_ESC_RM_CONTROL control-0x2080f159 2 0x0 0 driver file=7 cmd=0x2080f159 "
            "object=client callflags=0x5 in=01ff out=a0+00*10+02");
  const Answer answer{Answer::Kind::kControl, 0x2080f159, 0x56, false};
  EXPECT_EQ(Line(3, call, &answer, {}),
            "3 ctl NV_ESC_RM_CONTROL control-0x2080f159 2 0x56 0 trace was=0x0");
  // Parameters of what is no firmware's stay out.
  EXPECT_EQ(Line(3, Control(0x20801303, 1028, 0), nullptr, options).find("in="), std::string::npos);
  rm::NVOS21_PARAMETERS alloc{};
  alloc.hRoot = 0xc1d00001;
  alloc.hObjectParent = 0x5c000001;
  alloc.hObjectNew = 0x5c000002;
  alloc.hClass = 0x2081;
  call = Call();
  call.file = "ctl";
  call.nr = rm::NV_ESC_RM_ALLOC;
  call.image = call.asked = Image(alloc);
  EXPECT_TRUE(Line(3, call, nullptr, options)
                  .ends_with(" class=0x2081 form=32 object=5c000002 parent=5c000001 params=none"));
  // The driver makes NV01_ROOT_CLIENT of NV01_ROOT, and chooses the handle.
  alloc = {};
  call.asked = Image(alloc);
  alloc.hClass = 0x41;
  alloc.hObjectNew = 0xc1d00001;
  call.image = Image(alloc);
  EXPECT_TRUE(Line(3, call, nullptr, options)
                  .starts_with("3 ctl NV_ESC_RM_ALLOC NV01_ROOT 0 0x0 0 driver file=-1 class=0x0 "
                               "form=32 object=client params=none"));
  rm::NVOS30_PARAMETERS idle{};
  idle.timeout = 4000;
  call = Call();
  call.file = "ctl";
  call.nr = rm::NV_ESC_RM_IDLE_CHANNELS;
  call.image = call.asked = Image(idle);
  EXPECT_TRUE(Line(3, call, nullptr, options).ends_with(" timeout=4000"));
}

TEST(TraceLines, OfCallsThatCouldNotBeRead) {
  for (unsigned nr = 0; nr <= 255; ++nr) {
    Call call;
    call.file = "gpu0";
    call.nr = static_cast<std::uint8_t>(nr);
    EXPECT_EQ(ParamsOf(call, rm::Branch::k580).size, 0U);
    EXPECT_NE(Line(1, call, nullptr, {rm::Branch::k580, true, Shown::kAll}).find(" - 0 driver"),
              std::string::npos)
        << nr;
  }
}

}  // namespace
}  // namespace cgpu::trace
