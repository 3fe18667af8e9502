#include "apps/cgpu/smi/report.h"

#include <gtest/gtest.h>

#include <sstream>

#include "apps/cgpu/smi/sample_testing.h"

namespace cgpu::smi {
namespace {

TEST(RenderTable, LooksAsNvidiaSmis) {
  EXPECT_EQ(RenderTable(TwoGpus(), kMoment, "0.1.0"),
            R"(Fri Nov 21 15:36:05 2026
+-----------------------------------------------------------------------------------------+
| cgpu smi 0.1.0                    Driver Version: 550.163.01     CUDA Version: 12.4     |
+-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  Tesla V100-SXM2-16GB           N/A |   00000000:04:00.0 N/A |                  N/A |
| N/A   N/A    N/A            N/A /  N/A  |     569MiB /   4309MiB |     N/A          N/A |
|                                         |                        |                  N/A |
+-----------------------------------------+------------------------+----------------------+
|   1  Tesla V100-SXM2-16GB           On  |   00000000:05:00.0 N/A |                    5 |
| N/A   N/A    P0             N/A /  N/A  |     569MiB /   4309MiB |     50%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+
)" + std::string(91, ' ') +
                R"(
+-----------------------------------------------------------------------------------------+
| Processes:                                                                              |
|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |
|        ID   ID                                                               Usage      |
|=========================================================================================|
|    1   N/A  N/A               7      C   /usr/bin/python3                        569MiB |
|    1   N/A  N/A           12345    C+G   ...ath/that/does/not/fit/the/column       1MiB |
+-----------------------------------------------------------------------------------------+
| Containers:                                                                             |
|  GPU   Container ID   Name                              GPU-Util           Memory-Usage |
|=========================================================================================|
|    1   d95542eb1e9a   train                                  40%     570MiB /   1024MiB |
+-----------------------------------------------------------------------------------------+
)");
}

// Every line but the first is as wide as the frame, whatever is in it.
void ExpectFrame(const Report& report) {
  std::istringstream lines(RenderTable(report, {std::string(91, '-'), {}, {}, {}}, "0.1.0"));
  for (std::string line; std::getline(lines, line);) {
    EXPECT_EQ(line.size(), 91U) << line;
  }
}

TEST(RenderTable, KeepsItsWidth) {
  Report report = TwoGpus();
  Gpu& gpu = report.gpus[0];
  gpu.name = std::string(60, 'x');
  gpu.bus_id = "00010000:C5:00.0";
  gpu.memory = {10'000'000 * kMiB, 10'000'000 * kMiB, 0};
  gpu.use.graphics = 100;
  gpu.compute_mode = "Exclusive_Process";
  gpu.ecc = Ecc{true, true, UINT64_MAX, UINT64_MAX};
  gpu.processes = {{4'194'304, std::string(90, 'p') + "\n\x1b", "C+G", 10'000'000 * kMiB, {}}};
  gpu.containers = {{std::string(64, 'a'),
                     std::string(80, 'n'),
                     "C",
                     1,
                     10'000'000 * kMiB,
                     10'000'000 * kMiB,
                     {100, 0, 0, 0}}};
  report.driver_version = "550.163.01-and-a-very-long-suffix";
  ExpectFrame(report);
  while (report.gpus.size() < 16) {
    report.gpus.push_back(report.gpus[0]);
    report.gpus.back().index = static_cast<unsigned>(report.gpus.size()) - 1;
  }
  ExpectFrame(report);
  const std::string table = RenderTable(report, kMoment, "0.1.0");
  EXPECT_NE(table.find("10000000MiB/10000000MiB"), std::string::npos);
  EXPECT_NE(table.find("|  15  xxx"), std::string::npos);
}

TEST(RenderTable, SaysWhenThereAreNoProcesses) {
  Report report = TwoGpus();
  report.gpus[1].processes.clear();
  EXPECT_NE(RenderTable(report, kMoment, "").find("No running processes found"), std::string::npos);
  ExpectFrame(report);
  report.gpus.clear();
  EXPECT_EQ(RenderTable(report, kMoment, "").find("Containers"), std::string::npos);
}

TEST(RenderList, OneLinePerGpu) {
  EXPECT_EQ(RenderList(TwoGpus()),
            "GPU 0: Tesla V100-SXM2-16GB (UUID: GPU-00000000)\n"
            "GPU 1: Tesla V100-SXM2-16GB (UUID: GPU-00000001)\n");
}

TEST(Select, TakesIndexUuidAndAddress) {
  for (const char* ids :
       {"1", "GPU-00000001", "00000000:05:00.0", "0000:05:00.0", "05:00.0", "1, 05:00.0"}) {
    Report report = TwoGpus();
    ASSERT_TRUE(Select(report, ids).ok()) << ids;
    ASSERT_EQ(report.gpus.size(), 1U) << ids;
    EXPECT_EQ(report.gpus[0].index, 1U);
    EXPECT_EQ(report.attached, 2U);
  }
  Report report = TwoGpus();
  ASSERT_TRUE(Select(report, "1,0").ok());
  ASSERT_EQ(report.gpus.size(), 2U);
  EXPECT_EQ(report.gpus[0].index, 0U);
}

TEST(Select, RefusesWhatIsNotThere) {
  for (const char* ids : {"", "2", "-1", "0,", "GPU-", "GPU-0000000", "06:00.0", "05:00.0x",
                          "1 "
                          "1"}) {
    Report report = TwoGpus();
    const Result<> done = Select(report, ids);
    ASSERT_FALSE(done.ok()) << ids;
    EXPECT_EQ(done.error().code, Code::kNotFound);
    EXPECT_EQ(report.gpus.size(), 2U);
  }
}

}  // namespace
}  // namespace cgpu::smi
