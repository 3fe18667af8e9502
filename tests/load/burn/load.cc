#include "load/burn/load.h"

#include <sys/stat.h>

#include "rmclient/raw.h"

namespace cgpu::burn {
namespace {

// Returns true unless the files are a simulated node's, which are regular files.
bool IsRealDriver() {
  struct stat status{};
  return stat(rmclient::DevicePaths::InFolder("/dev").ctl.c_str(), &status) == 0 &&
         S_ISCHR(status.st_mode);
}

}  // namespace

Result<std::unique_ptr<Load>> MakeLoad(const Shape& shape) {
  if (shape.cuda || IsRealDriver()) {
    return MakeCudaLoad(shape);
  }
  if (shape.wide || shape.steps) {
    return Error{Code::kInvalid, 0,
                 "--wide and --steps are for CUDA's kernels, and this is a simulated GPU",
                 "leave them out"};
  }
  return MakeTimedLoad(shape);
}

Error NoSuchGpu(unsigned gpu, std::size_t count) {
  return Error{
      Code::kNotFound, 0,
      "there is no GPU " + std::to_string(gpu) + "; there are " + std::to_string(count) + " here",
      "--gpu counts from 0, in order of bus address"};
}

}  // namespace cgpu::burn
