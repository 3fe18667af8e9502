#include "protocol/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/sysmacros.h>

#include <string>

#include "protocol/text.h"

namespace cgpu {
namespace {

using testing::HasSubstr;

ShimConfig ExampleConfig() {
  ShimConfig config;
  config.id = "3f2a00bc11de";
  config.name = "train-1";
  config.user = 1000;
  config.since = 1790000000;
  config.driver = "550.163.01";
  config.killable = false;
  config.prove = true;
  NodeFile ctl;
  ctl.kind = NodeFile::Kind::kCtl;
  ctl.minor = 255;
  ctl.granted = true;
  ctl.path = "/dev/nvidiactl";
  ctl.dev_major = 195;
  ctl.dev_minor = 255;
  NodeFile gpu;
  gpu.kind = NodeFile::Kind::kGpu;
  gpu.minor = 1;
  gpu.path = "/run/a folder/100%/nvidia1\n";
  gpu.simulated = true;
  gpu.dev_minor = 61;
  gpu.ino_mask = 0xffffff0000000000;
  gpu.ino_value = 0x0300010000000000;
  config.files = {ctl, gpu};
  config.watches = {"/dev", "/run/b"};
  GpuGrant grant;
  grant.gpu.uuid = "GPU-8a56";
  grant.gpu.index = 1;
  grant.gpu.minor = 1;
  grant.gpu.bdf = "0000:01:00.0";
  grant.gpu.gpu_id = 0x100;
  grant.gpu.memory_bytes = std::uint64_t{16160} << 20;
  grant.limit_bytes = std::uint64_t{4309} << 20;
  config.gpus = {grant};
  return config;
}

TEST(Config, IsTheSameAfterEncodingAndDecoding) {
  const std::string text = EncodeConfig(ExampleConfig());
  const auto decoded = DecodeConfig(text);
  ASSERT_TRUE(decoded.ok()) << decoded.error().what;
  const ShimConfig& config = decoded.value();
  EXPECT_EQ(EncodeConfig(config), text);
  EXPECT_EQ(config.id, "3f2a00bc11de");
  EXPECT_EQ(config.user, 1000U);
  EXPECT_TRUE(config.pid_namespace);
  EXPECT_FALSE(config.killable);
  EXPECT_TRUE(config.prove);
  ASSERT_EQ(config.files.size(), 2U);
  EXPECT_EQ(config.files[0].dev_major, 195U);
  EXPECT_TRUE(config.files[0].granted);
  EXPECT_EQ(config.files[1].path, ExampleConfig().files[1].path);
  EXPECT_EQ(config.files[1].ino_value, 0x0300010000000000U);
  EXPECT_THAT(config.watches, testing::ElementsAre("/dev", "/run/b"));
  EXPECT_EQ(config.gpus[0].gpu.gpu_id, 0x100U);
  EXPECT_EQ(config.gpus[0].limit_bytes, std::uint64_t{4309} << 20);
}

// A shim gets this text from a predecessor of another version, too.
TEST(Config, TextIsTheSameForEver) {
  EXPECT_EQ(EncodeConfig(ExampleConfig()),
            "id 3f2a00bc11de\n"
            "name train-1\n"
            "user 1000\n"
            "since 1790000000\n"
            "pidns 1\n"
            "driver 550.163.01\n"
            "killable 0\n"
            "prove 1\n"
            "file ctl 255 1 /dev/nvidiactl rdev 195:255\n"
            "file gpu 1 0 /run/a%20folder/100%25/nvidia1%0a ino 0:61 ffffff0000000000 "
            "300010000000000\n"
            "watch /dev\n"
            "watch /run/b\n"
            "card GPU-8a56 1 1 0000:01:00.0 256 4518313984 16944988160\n");
}

// Versions without the word can read the text where nothing is allowed.
TEST(Config, CarriesAllowedControlsOfTheFirmware) {
  ShimConfig config = ExampleConfig();
  config.firmware = {{0x2080a0ff, 24}, {0x20810109, 4096}};
  const std::string text = EncodeConfig(config);
  EXPECT_THAT(text, HasSubstr("firmware 545300735 24\nfirmware 545325321 4096\n"));
  EXPECT_EQ(DecodeConfig(text)->firmware, config.firmware);
  config.firmware.assign(kMostFirmwareControls + 1, config.firmware[0]);
  EXPECT_FALSE(DecodeConfig(EncodeConfig(config)).ok());
}

// One line of the example is replaced (or added); the whole is then refused.
TEST(Config, RefusesBadLines) {
  constexpr const char* kBad[] = {
      "id 3f2a",
      "id 3F2A00BC11DE",
      "id ../../../etc",
      "id",
      "name -x",
      "name a/b",
      "name a b",
      "user -1",
      "user 4294967296",
      "since soon",
      "pidns 2",
      "killable yes",
      "firmware 1",
      "firmware 4294967296 1",
      "firmware x 1",
      "file",
      "file disk 0 1 /dev/x rdev 1:2",
      "file gpu 0 2 /dev/x rdev 1:2",
      "file gpu 0 1 /dev/x rdev 1",
      "file gpu 0 1 /dev/x rdev 1:2 3",
      "file gpu 0 1 /dev/x ino 1:2 ff",
      "file gpu 0 1 /dev/x ino 1:2 0 0",
      "file gpu 0 1 /dev/x ino 1:2 xyz 0",
      "file gpu 0 1 /dev/x ino 1:2 1ffffffffffffffff 0",
      "watch",
      "card GPU-1 0 0 0000:01:00.0 256 2 1",
      "card GPU-1 0 0 0000:01:00.0 256 1",
      "card GPU-1 0 0 0000:01:00.0 x 1 1",
      "card GPU-1 0 0 0000:01:00.0 256 -1 1",
      "driver 550 163",
      "colour blue",
      "id 3f2a00bc11de\nid 3f2a00bc11de",
      "name %zz",
      "name %2",
      "driver \x80",
      "driver a\tb",
  };
  for (const char* bad : kBad) {
    std::string text;
    const std::string line = bad;
    const std::string key = line.substr(0, line.find(' '));
    const std::string whole = EncodeConfig(ExampleConfig());
    for (std::size_t at = 0; at < whole.size();) {
      const std::size_t end = whole.find('\n', at) + 1;
      const bool replaced = whole.compare(at, key.size() + 1, key + " ") == 0;
      text += replaced ? "" : whole.substr(at, end - at);
      at = end;
    }
    ASSERT_TRUE(DecodeConfig(whole).ok());
    EXPECT_FALSE(DecodeConfig(text + line + "\n").ok()) << bad;
  }
}

TEST(Config, RefusesWhatIsMissingOrTooLong) {
  EXPECT_FALSE(DecodeConfig("").ok());
  ShimConfig config = ExampleConfig();
  config.gpus.clear();
  EXPECT_FALSE(DecodeConfig(EncodeConfig(config)).ok());
  config = ExampleConfig();
  config.files.clear();
  EXPECT_FALSE(DecodeConfig(EncodeConfig(config)).ok());
  config = ExampleConfig();
  config.files[0].path = std::string(kMaxLine, 'x');
  EXPECT_THAT(DecodeConfig(EncodeConfig(config)).error().what, HasSubstr("too long"));
  config = ExampleConfig();
  config.files.assign(100'000, config.files[0]);
  EXPECT_THAT(DecodeConfig(EncodeConfig(config)).error().what, HasSubstr("too long"));
  config.files.resize(257);
  EXPECT_FALSE(DecodeConfig(EncodeConfig(config)).ok());
  EXPECT_FALSE(DecodeConfig(std::string(1000, '\0')).ok());
}

TEST(Listener, CarriesThePid) {
  EXPECT_EQ(*DecodeListener(EncodeListener(4711)), 4711U);
  EXPECT_EQ(*DecodeListener("listener"), 0U);
  for (const char* bad : {"", "listener x", "listener -1", "listener 1 2", "ready",
                          "listener 99999999999", "listener 1\nlistener 2"}) {
    EXPECT_FALSE(DecodeListener(bad).ok()) << bad;
  }
}

TEST(Names, AreDockers) {
  for (const char* good : {"a", "train-1", "A.b_c", "0"}) {
    EXPECT_TRUE(IsName(good)) << good;
  }
  for (const char* bad : {"", "-a", ".a", "a b", "a/b", "a\n", "\xc3\xa4"}) {
    EXPECT_FALSE(IsName(bad)) << bad;
  }
  EXPECT_TRUE(IsName(std::string(64, 'a')));
  EXPECT_FALSE(IsName(std::string(65, 'a')));
}

TEST(NodeFile, IsKnownByDeviceNumberOrAsASimulatedOneByInode) {
  NodeFile file;
  file.dev_major = 195;
  file.dev_minor = 1;
  const std::uint64_t number = makedev(195, 1);
  EXPECT_TRUE(file.Is(5, 6, number));
  EXPECT_FALSE(file.Is(number, 6, 0));
  EXPECT_FALSE(NodeFile().Is(0, 0, 0));  // no device file has the number 0
  file.simulated = true;
  file.ino_mask = 0xff00;
  file.ino_value = 0x1200;
  EXPECT_TRUE(file.Is(number, 0x1234, 0));
  EXPECT_FALSE(file.Is(number, 0x1334, 0));
  EXPECT_FALSE(file.Is(number + 1, 0x1234, number));
}

}  // namespace
}  // namespace cgpu
