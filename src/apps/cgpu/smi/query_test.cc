#include "apps/cgpu/smi/query.h"

#include <gtest/gtest.h>

#include "apps/cgpu/smi/fields.h"
#include "apps/cgpu/smi/sample_testing.h"

namespace cgpu::smi {
namespace {

std::string Gpus(const std::string& fields, QueryFormat format = {}) {
  return *RenderQuery(QueryKind::kGpus, TwoGpus(), kMoment, fields, format);
}

std::string Processes(const Report& report, const std::string& fields, QueryFormat format = {}) {
  return *RenderQuery(QueryKind::kProcesses, report, kMoment, fields, format);
}

TEST(RenderQuery, AsNvidiaSmiPrintsIt) {
  EXPECT_EQ(Gpus("index,uuid,name,memory.total,memory.used,memory.free,driver_version,pci.bus_id"),
            "index, uuid, name, memory.total [MiB], memory.used [MiB], memory.free [MiB], "
            "driver_version, pci.bus_id\n"
            "0, GPU-00000000, Tesla V100-SXM2-16GB, 4309 MiB, 569 MiB, 3740 MiB, 550.163.01, "
            "00000000:04:00.0\n"
            "1, GPU-00000001, Tesla V100-SXM2-16GB, 4309 MiB, 569 MiB, 3740 MiB, 550.163.01, "
            "00000000:05:00.0\n");
  EXPECT_EQ(Gpus("timestamp,count,pci.domain,pci.bus,pci.device", {false, true}),
            "2026/11/21 15:36:05.007, 2, 0x0000, 0x04, 0x00\n"
            "2026/11/21 15:36:05.007, 2, 0x0000, 0x05, 0x00\n");
}

TEST(RenderQuery, WithoutHeaderAndUnits) {
  EXPECT_EQ(Gpus("memory.total, memory.used", {false, false}), "4309, 569\n4309, 569\n");
  EXPECT_EQ(Gpus("memory.used", {true, false}), "memory.used [MiB]\n569\n569\n");
}

TEST(RenderQuery, ShowsAliasesUnderTheFirstName) {
  EXPECT_EQ(Gpus("gpu_name,gpu_bus_id,vbios_version"),
            "name, pci.bus_id, vbios_version\n"
            "Tesla V100-SXM2-16GB, 00000000:04:00.0, [N/A]\n"
            "Tesla V100-SXM2-16GB, 00000000:05:00.0, 88.00.4F.00.09\n");
}

TEST(RenderQuery, WhatIsNotKnownIsNotAvailable) {
  EXPECT_EQ(Gpus("utilization.gpu,utilization.memory,compute_mode,compute_cap,pci.device_id"),
            "utilization.gpu [%], utilization.memory [%], compute_mode, compute_cap, "
            "pci.device_id\n"
            "[N/A], [N/A], [N/A], [N/A], [N/A]\n"
            "50 %, 7 %, Default, 7.0, 0x1DB110DE\n");
  EXPECT_EQ(Gpus("inforom.img,inforom.oem,inforom.ecc,inforom.pwr,pstate", {false, false}),
            "[N/A], [N/A], [N/A], [N/A], [N/A]\nG503.0201.00.03, 1.1, 5.0, [N/A], P0\n");
  EXPECT_EQ(Gpus("temperature.gpu,power.draw", {false, false}), "[N/A], [N/A]\n[N/A], [N/A]\n");
}

TEST(RenderQuery, ShowsModesAndErrors) {
  EXPECT_EQ(Gpus("persistence_mode,mig.mode.current,ecc.mode.current,ecc.mode.pending,"
                 "ecc.errors.corrected.volatile.total,ecc.errors.uncorrected.volatile.total,"
                 "ecc.errors.uncorrected.aggregate.total",
                 {false, true}),
            "[N/A], [N/A], [N/A], [N/A], [N/A], [N/A], [N/A]\n"
            "Enabled, Disabled, Enabled, Disabled, 2, 5, [N/A]\n");
}

TEST(RenderQuery, ListsProcesses) {
  EXPECT_EQ(Processes(TwoGpus(), "pid,process_name,used_memory,gpu_uuid,gpu_name,timestamp"),
            "pid, process_name, used_gpu_memory [MiB], gpu_uuid, gpu_name, timestamp\n"
            "7, /usr/bin/python3, 569 MiB, GPU-00000001, Tesla V100-SXM2-16GB, "
            "2026/11/21 15:36:05.007\n"
            "12345, /a/very/long/path/that/does/not/fit/the/column, 1 MiB, GPU-00000001, "
            "Tesla V100-SXM2-16GB, 2026/11/21 15:36:05.007\n");
}

TEST(RenderQuery, QuotesNamesThatATenantChose) {
  Report report = TwoGpus();
  report.gpus[1].processes = {{7, "a,b \"c\"\n\x1b", "C", kMiB, {}}};
  EXPECT_EQ(Processes(report, "pid,name", {false, true}), "7, \"a,b \"\"c\"\"??\"\n");
}

TEST(RenderQuery, RefusesUnknownFields) {
  for (const char* fields : {"", "bogus", "index,", "index,,uuid", "memory", "cuda_version"}) {
    const Result<std::string> csv = RenderQuery(QueryKind::kGpus, TwoGpus(), kMoment, fields, {});
    ASSERT_FALSE(csv.ok()) << fields;
    EXPECT_EQ(csv.error().code, Code::kInvalid);
    EXPECT_NE(csv.error().hint.find("--help-query-gpu"), std::string::npos);
  }
  EXPECT_FALSE(RenderQuery(QueryKind::kProcesses, TwoGpus(), kMoment, "memory.used", {}).ok());
}

// Every field can be asked for by each of its names, and is in the help.
TEST(RenderQuery, TakesEveryField) {
  for (const QueryKind kind : {QueryKind::kGpus, QueryKind::kProcesses}) {
    const std::string help = QueryHelp(kind);
    for (const Field& field : kind == QueryKind::kGpus ? GpuFields() : ProcessFields()) {
      for (const std::string& name : {field.name, field.alias}) {
        if (!name.empty()) {
          EXPECT_TRUE(RenderQuery(kind, TwoGpus(), kMoment, name, {}).ok()) << name;
          EXPECT_NE(help.find(" " + name), std::string::npos) << name;
        }
      }
    }
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
