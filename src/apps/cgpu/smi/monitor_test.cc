#include "apps/cgpu/smi/monitor.h"

#include <gtest/gtest.h>

#include "apps/cgpu/smi/sample_testing.h"

namespace cgpu::smi {
namespace {

std::string Shown(MonitorKind kind, const char* groups, const char* options = "") {
  const auto parsed = ParseMonitor(kind, groups, options);
  return MonitorHeader(*parsed) + RenderMonitor(*parsed, TwoGpus(), kMoment);
}

TEST(Dmon, LooksAsNvidiaSmis) {
  EXPECT_EQ(
      Shown(MonitorKind::kGpus, ""),
      "# gpu    pwr  gtemp  mtemp     sm    mem    enc    dec    jpg    ofa   mclk   pclk \n"
      "# Idx      W      C      C      %      %      %      %      %      %    MHz    MHz \n"
      "    0      -      -      -      -      -      -      -      -      -      -      - \n"
      "    1      -      -      -     50      7      0      0      -      -      -      - \n");
  EXPECT_EQ(Shown(MonitorKind::kGpus, "mt"),
            "# gpu     fb   bar1   ccpm  rxpci  txpci \n"
            "# Idx     MB     MB     MB   MB/s   MB/s \n"
            "    0    569      -      -      -      - \n"
            "    1    569      2      -      -      - \n");
}

TEST(Dmon, ShowsDateAndTime) {
  EXPECT_EQ(Shown(MonitorKind::kGpus, "c", "T"),
            "#Time         gpu   mclk   pclk \n"
            "#HH:MM:SS     Idx    MHz    MHz \n"
            " 15:36:05       0      -      - \n"
            " 15:36:05       1      -      - \n");
  EXPECT_EQ(Shown(MonitorKind::kGpus, "c", "DT"),
            "#Date        Time         gpu   mclk   pclk \n"
            "#YYYYMMDD    HH:MM:SS     Idx    MHz    MHz \n"
            " 20261121    15:36:05       0      -      - \n"
            " 20261121    15:36:05       1      -      - \n");
}

TEST(Pmon, LooksAsNvidiaSmis) {
  EXPECT_EQ(
      Shown(MonitorKind::kProcesses, ""),
      "# gpu         pid   type     sm    mem    enc    dec    jpg    ofa    command \n"
      "# Idx           #    C/G      %      %      %      %      %      %    name \n"
      "    0          -     -      -      -      -      -      -      -    -              \n"
      "    1          7     C     50      7      0      0      -      -    python3        \n"
      "    1      12345   C+G      -      -      -      -      -      -    column         \n");
  EXPECT_EQ(Shown(MonitorKind::kProcesses, "m"),
            "# gpu         pid   type     fb   ccpm    command \n"
            "# Idx           #    C/G     MB     MB    name \n"
            "    0          -     -      -      -    -              \n"
            "    1          7     C    569      -    python3        \n"
            "    1      12345   C+G      1      -    column         \n");
}

TEST(Pmon, NamesTheShimOfProcessesThatCannotBeToldApart) {
  Report report = TwoGpus();
  report.gpus.erase(report.gpus.begin());
  report.gpus[0].containers[0].divided = true;
  const auto options = ParseMonitor(MonitorKind::kProcesses, "", "");
  const std::string shown = RenderMonitor(*options, report, kMoment);
  EXPECT_NE(shown.find("    1         99     C     40      5      0      0      -      -    "
                       "cgpu-shim      \n"),
            std::string::npos)
      << shown;
}

TEST(ParseMonitor, RefusesUnknownLetters) {
  for (const auto& [groups, options] : {std::pair{"x", ""}, {"pq", ""}, {"u", "X"}, {"u", "t"}}) {
    EXPECT_FALSE(ParseMonitor(MonitorKind::kGpus, groups, options).ok()) << groups << options;
  }
  EXPECT_FALSE(ParseMonitor(MonitorKind::kProcesses, "p", "").ok());
}

}  // namespace
}  // namespace cgpu::smi
