// Asks the driver, and the shims of this host's containers, for what `cgpu smi` shows.
#ifndef CGPU_APPS_CGPU_SMI_GATHER_H_
#define CGPU_APPS_CGPU_SMI_GATHER_H_

#include <vector>

#include "apps/cgpu/smi/report.h"
#include "base/result.h"
#include "rmclient/client.h"
#include "rmclient/gpus.h"

namespace cgpu::smi {

// The GPUs of a node, or of the slice that this process is in, open from the first reading to the
// last. Not thread-safe.
class Source {
 public:
  // Opens all GPUs that this process may open. Errors: as of Client::Open() and OpenGpus().
  [[nodiscard]] static Result<Source> Open(const rmclient::DevicePaths& paths);

  // Reads everything once. A GPU that has stopped to answer is in `silent` alone. The driver names
  // a container's shim for what the container's processes hold; the report has these processes in
  // its place, where this user may ask the shim. In a slice the driver shows the processes of the
  // slice.
  [[nodiscard]] Result<Report> Read();

 private:
  Source(rmclient::Client client, std::vector<rmclient::Gpu> opened)
      : client_(std::move(client)), opened_(std::move(opened)) {}

  rmclient::Client client_;
  std::vector<rmclient::Gpu> opened_;
  std::vector<Gpu> fixed_;  // what no reading changes, in the order of `opened_`
};

}  // namespace cgpu::smi

#endif  // CGPU_APPS_CGPU_SMI_GATHER_H_
