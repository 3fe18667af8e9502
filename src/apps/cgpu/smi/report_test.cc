#include "apps/cgpu/smi/report.h"

#include <gtest/gtest.h>

#include <sstream>

namespace cgpu::smi {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

Report TwoCards() {
  Report report;
  report.driver_version = "550.163.01";
  for (unsigned index = 0; index < 2; ++index) {
    Card card;
    card.index = index;
    card.uuid = "GPU-0000000" + std::to_string(index);
    card.name = "Tesla V100-SXM2-16GB";
    card.bus_id = "00000000:00:0" + std::to_string(4 + index) + ".0";
    card.total = 4309 * kMiB;
    card.used = 569 * kMiB;
    card.free = card.total - card.used;
    report.cards.push_back(card);
  }
  report.cards[1].processes = {
      {7, "/usr/bin/python3", 569 * kMiB + 1},
      {12345, "/a/very/long/path/that/does/not/fit/the/column/at/all", kMiB}};
  return report;
}

TEST(RenderTable, LooksAsNvidiaSmis) {
  EXPECT_EQ(RenderTable(TwoCards(), "Fri Nov 21 15:36:05 2026", "0.1.0"),
            R"(Fri Nov 21 15:36:05 2026
+-----------------------------------------------------------------------------------------+
| cgpu smi 0.1.0                    Driver Version: 550.163.01     CUDA Version: N/A      |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  Tesla V100-SXM2-16GB          N/A  |   00000000:00:04.0 N/A |                  N/A |
| N/A   N/A    N/A            N/A /  N/A  |     569MiB /   4309MiB |     N/A          N/A |
|                                         |                        |                  N/A |
+-----------------------------------------+------------------------+----------------------+
|   1  Tesla V100-SXM2-16GB          N/A  |   00000000:00:05.0 N/A |                  N/A |
| N/A   N/A    N/A            N/A /  N/A  |     569MiB /   4309MiB |     N/A          N/A |
|                                         |                        |                  N/A |
+-----------------------------------------+------------------------+----------------------+
)" + std::string(91, ' ') +
                R"(
+-----------------------------------------------------------------------------------------+
| Processes:                                                                              |
|  GPU   GI   CI        PID   Type   Process name                              GPU Memory |
|        ID   ID                                                               Usage      |
|=========================================================================================|
|    1   N/A  N/A         7      C   /usr/bin/python3                              569MiB |
|    1   N/A  N/A     12345      C   ...th/that/does/not/fit/the/column/at/all       1MiB |
+-----------------------------------------------------------------------------------------+
)");
}

TEST(RenderTable, EveryLineIsAsWideAsTheFrame) {
  Report report = TwoCards();
  report.cards[0].name = std::string(60, 'x');
  report.cards[0].total = report.cards[0].used = 999999 * kMiB;
  std::istringstream lines(RenderTable(report, std::string(91, '-'), "0.1.0"));
  for (std::string line; std::getline(lines, line);) {
    EXPECT_EQ(line.size(), 91U) << line;
  }
}

TEST(RenderTable, SaysWhenThereAreNoProcesses) {
  Report report = TwoCards();
  report.cards.clear();
  EXPECT_NE(RenderTable(report, "", "").find("No running processes found"), std::string::npos);
}

TEST(RenderList, OneLinePerCard) {
  EXPECT_EQ(RenderList(TwoCards()),
            "GPU 0: Tesla V100-SXM2-16GB (UUID: GPU-00000000)\n"
            "GPU 1: Tesla V100-SXM2-16GB (UUID: GPU-00000001)\n");
}

TEST(RenderQuery, AsNvidiaSmiPrintsIt) {
  const char* fields =
      "index,uuid,name,memory.total,memory.used,memory.free,driver_version,pci.bus_id";
  const Result<std::string> csv = RenderQuery(TwoCards(), fields, {});
  ASSERT_TRUE(csv.ok());
  EXPECT_EQ(*csv,
            "index, uuid, name, memory.total [MiB], memory.used [MiB], memory.free [MiB], "
            "driver_version, pci.bus_id\n"
            "0, GPU-00000000, Tesla V100-SXM2-16GB, 4309 MiB, 569 MiB, 3740 MiB, 550.163.01, "
            "00000000:00:04.0\n"
            "1, GPU-00000001, Tesla V100-SXM2-16GB, 4309 MiB, 569 MiB, 3740 MiB, 550.163.01, "
            "00000000:00:05.0\n");
}

TEST(RenderQuery, WithoutHeaderAndUnits) {
  EXPECT_EQ(*RenderQuery(TwoCards(), "memory.total, memory.used", {false, false}),
            "4309, 569\n4309, 569\n");
  EXPECT_EQ(*RenderQuery(TwoCards(), "memory.used", {true, false}),
            "memory.used [MiB]\n569\n569\n");
}

TEST(RenderQuery, WhatIsNotKnownIsNotAvailable) {
  EXPECT_EQ(*RenderQuery(TwoCards(), "gpu_name,utilization.gpu", {}),
            "gpu_name, utilization.gpu [%]\nTesla V100-SXM2-16GB, [N/A]\n"
            "Tesla V100-SXM2-16GB, [N/A]\n");
}

TEST(RenderQuery, RefusesUnknownFields) {
  for (const char* fields : {"", "bogus", "index,", "index,,uuid", "memory"}) {
    const Result<std::string> csv = RenderQuery(TwoCards(), fields, {});
    ASSERT_FALSE(csv.ok()) << fields;
    EXPECT_EQ(csv.error().code, Code::kInvalid);
    EXPECT_NE(csv.error().hint.find("memory.total"), std::string::npos);
  }
}

TEST(ParseQueryFormat, TakesCsvAndItsModifiers) {
  EXPECT_TRUE(ParseQueryFormat("csv")->header);
  const Result<QueryFormat> bare = ParseQueryFormat("csv,noheader,nounits");
  ASSERT_TRUE(bare.ok());
  EXPECT_FALSE(bare->header);
  EXPECT_FALSE(bare->units);
  for (const char* text : {"", "xml", "noheader", "csv,bogus", "csv,"}) {
    EXPECT_FALSE(ParseQueryFormat(text).ok()) << text;
  }
}

}  // namespace
}  // namespace cgpu::smi
