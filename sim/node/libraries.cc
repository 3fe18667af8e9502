#include "sim/node/libraries.h"

#include <filesystem>
#include <system_error>

namespace cgpu::sim {

std::string NvmlFolder() {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto above = program.parent_path().parent_path();
  for (const auto& folder : {above / "lib" / "cgpu", above / "nvml"}) {
    if (!error && std::filesystem::exists(folder / kNvmlName, error)) {
      return folder;
    }
  }
  return {};
}

}  // namespace cgpu::sim
