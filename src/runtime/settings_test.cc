#include "runtime/settings.h"

#include <gmock/gmock.h>

#include <string>

namespace cgpu {
namespace {

using testing::HasSubstr;

TEST(Settings, NothingSaidMeansTheDefaults) {
  for (const char* text : {"", "# nothing\n", "---\n", "{}"}) {
    const auto settings = ParseSettings(text);
    ASSERT_TRUE(settings.ok()) << text << settings.error().what;
    EXPECT_EQ(settings->node, "");
    EXPECT_EQ(settings->runtime, "runc");
    EXPECT_FALSE(settings->refuse_unmanaged);
    EXPECT_FALSE(settings->share);
    EXPECT_EQ(settings->group, "cgpu");
    EXPECT_EQ(settings->audit, 60U);
    EXPECT_EQ(settings->max_inst, 20U);
    EXPECT_EQ(settings->socket, "/run/cgpu/cgpud.sock");
    EXPECT_EQ(settings->exporter_listen, "127.0.0.1:9400");
    EXPECT_EQ(settings->exporter_token_file, "");
    EXPECT_FALSE(settings->exporter_dcgm);
  }
}

TEST(Settings, AreTakenAsWritten) {
  const auto settings = ParseSettings(
      "node: lab  # simulated\nruntime: /usr/bin/crun\nunmanaged: refuse\nmode: share\ngroup: "
      "gpu\nsocket: "
      "'/run/x.sock'\n");
  ASSERT_TRUE(settings.ok()) << settings.error().what;
  EXPECT_EQ(settings->node, "lab");
  EXPECT_EQ(settings->runtime, "/usr/bin/crun");
  EXPECT_TRUE(settings->refuse_unmanaged);
  EXPECT_TRUE(settings->share);
  EXPECT_EQ(settings->group, "gpu");
  EXPECT_EQ(settings->socket, "/run/x.sock");
  EXPECT_EQ(ParseSettings("audit: 0")->audit, 0U);
  EXPECT_EQ(ParseSettings("audit: off")->audit, std::nullopt);
  EXPECT_FALSE(ParseSettings("log: text")->log_json);
  EXPECT_TRUE(ParseSettings("log: json")->log_json);
  EXPECT_EQ(ParseSettings("max_inst: 1")->max_inst, 1U);
  EXPECT_EQ(ParseSettings("max_inst: 64")->max_inst, 64U);
  EXPECT_EQ(ParseSettings("node:\n")->node, "");
  EXPECT_EQ(ParseSettings("exporter_listen: '[::1]:1'")->exporter_listen, "[::1]:1");
  EXPECT_EQ(ParseSettings("exporter_token_file: /a")->exporter_token_file, "/a");
  const auto tls = ParseSettings("exporter_tls_cert: /c\nexporter_tls_key: /k\n");
  EXPECT_EQ(tls->exporter_tls_cert, "/c");
  EXPECT_EQ(tls->exporter_tls_key, "/k");
  EXPECT_TRUE(ParseSettings("exporter_dcgm: true")->exporter_dcgm);
}

TEST(Settings, AGpusPolicyIsTaken) {
  const std::string text = "# mine\npolicy GPU-1: fixed\n\npolicy GPU-12: 0\n";
  EXPECT_EQ(ParseSettings(text)->policies.at("GPU-1"), governor::Policy::kFixed);
  EXPECT_EQ(ParseSettings(text)->policies.at("GPU-12"), governor::Policy::kFair);
  EXPECT_THAT(ParseSettings("policy GPU-1: fast").error().what, HasSubstr("fast"));
  for (const char* key : {"0", "all", "gpu-1"}) {
    EXPECT_THAT(ParseSettings("policy " + std::string(key) + ": fixed").error().what,
                HasSubstr("is no GPU's UUID"))
        << key;
  }
}

TEST(Settings, ControlsOfTheFirmwareAreNamedOneByOne) {
  EXPECT_TRUE(ParseSettings("")->firmware.empty());
  const auto settings = ParseSettings("firmware: 0x2080a0ff/24  0x20810109/4096\n");
  ASSERT_TRUE(settings.ok()) << settings.error().what;
  EXPECT_EQ(settings->firmware,
            (std::vector<FirmwareControl>{{0x2080a0ff, 24}, {0x20810109, 4096}}));
  for (const char* word : {"all", "0x2080a0ff", "2080a0ff/24", "0x2080a0ff/0", "0x2080a0ff/4097",
                           "0x2080a0ff/x", "0x2080c001/8", "0x20801801/8", "0x0080a0ff/8",
                           "0x20818001/8", "0x12080a0ff/8", "0x2080a0ff/24,0x2080a0fe/4"}) {
    EXPECT_THAT(ParseSettings("firmware: '" + std::string(word) + "'").error().what,
                HasSubstr("firmware has no control"))
        << word;
  }
  std::string many = "firmware: ";
  for (std::size_t i = 0; i <= kMostFirmwareControls; ++i) {
    many += " 0x2080a0ff/24";
  }
  EXPECT_FALSE(ParseSettings(many).ok());
}

TEST(Settings, WhatIsNotUnderstoodIsRefusedByName) {
  EXPECT_THAT(ParseSettings("unmanged: refuse").error().what, HasSubstr("unmanged"));
  EXPECT_THAT(ParseSettings("unmanaged: no").error().what, HasSubstr("unmanaged"));
  EXPECT_THAT(ParseSettings("mode: mps").error().what, HasSubstr("mode"));
  EXPECT_THAT(ParseSettings("runtime: ''").error().what, HasSubstr("runtime"));
  EXPECT_THAT(ParseSettings("socket: run.sock").error().what, HasSubstr("socket"));
  for (const char* text : {"audit: on", "audit: -1", "audit: 5s", "audit:", "audit: 99999999999"}) {
    EXPECT_THAT(ParseSettings(text).error().what, HasSubstr("audit")) << text;
  }
  for (const char* text : {"log: xml", "log: true", "log:"}) {
    EXPECT_THAT(ParseSettings(text).error().what, HasSubstr("log")) << text;
  }
  for (const char* text : {"max_inst: 0", "max_inst: 65", "max_inst: many", "max_inst:"}) {
    EXPECT_THAT(ParseSettings(text).error().what, HasSubstr("max_inst")) << text;
  }
  EXPECT_THAT(ParseSettings("max_inst: 4\nmax_inst: 8").error().what,
              HasSubstr("max_inst is set twice"));
  for (const char* text : {"exporter_token_file: a", "exporter_tls_key: a", "exporter_dcgm: 1",
                           "exporter_port: 1", "exporter_tls_cert: /c"}) {
    const std::string key = std::string(text).substr(0, std::string(text).find(':'));
    EXPECT_THAT(ParseSettings(text).error().what, HasSubstr(key));
  }
  EXPECT_FALSE(ParseSettings("- node\n").ok());
  EXPECT_FALSE(ParseSettings("node: {a: b}\n").ok());
  EXPECT_FALSE(ParseSettings("node: [\n").ok());
  EXPECT_FALSE(ParseSettings("runtime").ok());
}

}  // namespace
}  // namespace cgpu
