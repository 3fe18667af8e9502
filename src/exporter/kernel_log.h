// Reads which errors NVIDIA's driver has written to the kernel's log ("Xid").
//
// Sources: NVIDIA, "Xid Errors" (docs.nvidia.com/deploy/xid-errors): a line is
// "NVRM: Xid (PCI:0000:01:00): 79, ...", with domain, bus and device of the GPU, and the number.
// Linux, Documentation/ABI/testing/dev-kmsg: a record is "PRIORITY,SEQUENCE,TIME,FLAGS;TEXT", one
// for each read(2). The priority has the facility in the bits from 3 on, and the kernel's own is 0.
// No process can write a record of that facility.
#ifndef CGPU_EXPORTER_KERNEL_LOG_H_
#define CGPU_EXPORTER_KERNEL_LOG_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/fd.h"

namespace cgpu::exporter {

struct Xid {
  std::string device;  // "0000:01:00"
  unsigned number = 0;
};

// Returns the error of a record of the log; nothing: it is another record.
[[nodiscard]] std::optional<Xid> XidIn(std::string_view record);

// For one thread at a time.
class KernelLog {
 public:
  explicit KernelLog(const std::string& path = "/dev/kmsg");

  // Reads what is new; does not wait.
  void Read();
  // Returns the number of the last error of the GPU at this bus address ("0000:01:00.0"), as far
  // back as the log went when this was made; 0: none. Nothing: the log cannot be read.
  [[nodiscard]] std::optional<unsigned> LastXid(std::string_view bdf) const;

 private:
  UniqueFd file_;
  std::map<std::string, unsigned, std::less<>> last_;  // by device
};

}  // namespace cgpu::exporter

#endif  // CGPU_EXPORTER_KERNEL_LOG_H_
