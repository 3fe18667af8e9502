#include "exporter/kernel_log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace cgpu::exporter {
namespace {

constexpr char kLost[] =
    "3,1042,5061871534,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=1122, GPU has fallen off the bus.\n";

TEST(XidIn, IsWhatTheDriverWrote) {
  const auto lost = XidIn(kLost);
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->device, "0000:3b:00");
  EXPECT_EQ(lost->number, 79U);
  const auto fault = XidIn(
      "4,7,1,-;NVRM: Xid (PCI:0000:08:00): 31, Ch 0000003b, intr 10000000. MMU Fault: ENGINE\n"
      " SUBSYSTEM=pci\n");
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->number, 31U);
}

TEST(XidIn, IsNothingElse) {
  for (const char* record :
       {"", ";", "3,1,1,-", "x,1,1,-;NVRM: Xid (PCI:0000:3b:00): 79, x", "3,1,1,-;NVRM: loading",
        "3,1,1,-;NVRM: Xid (PCI:0000:3b:00): x", "3,1,1,-;NVRM: Xid (PCI:0000:3b:00",
        "3,1,1,-; NVRM: Xid (PCI:0000:3b:00): 79, x",
        // A process's own record: facility 1.
        "12,1,1,-;NVRM: Xid (PCI:0000:3b:00): 79, x"}) {
    EXPECT_FALSE(XidIn(record)) << record;
  }
}

TEST(KernelLogTest, KeepsTheLastOfEachGpu) {
  // A file stands for the log: each read gets what was written since.
  char path[] = "/tmp/kernel_log_test.XXXXXX";
  const UniqueFd file(mkstemp(path));
  const std::string text = kLost;
  ASSERT_EQ(write(file.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  KernelLog log(path);
  EXPECT_EQ(log.LastXid("0000:3b:00.0"), 0U) << "nothing was read yet";
  log.Read();
  EXPECT_EQ(log.LastXid("0000:3b:00.0"), 79U);
  EXPECT_EQ(log.LastXid("0000:3c:00.0"), 0U);
  const std::string later = "3,1,1,-;NVRM: Xid (PCI:0000:3b:00): 94, x\n";
  ASSERT_EQ(write(file.get(), later.data(), later.size()), static_cast<ssize_t>(later.size()));
  log.Read();
  EXPECT_EQ(log.LastXid("0000:3b:00.0"), 94U);
  unlink(path);
}

TEST(KernelLogTest, TheKernelsOwnIsReadToItsEnd) {
  KernelLog log;
  log.Read();  // it neither waits nor fails
  KernelLog none("/nowhere");
  none.Read();
  EXPECT_FALSE(none.LastXid("0000:3b:00.0"));
}

}  // namespace
}  // namespace cgpu::exporter
