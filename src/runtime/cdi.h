// Reads what a host's Container Device Interface specifications say of NVIDIA's driver: the
// libraries and programs of it that containers need (tags.cncf.io/container-device-interface
// SPEC.md; `nvidia-ctk cdi generate` writes them).
//
// It takes the mounts, the variables and the hooks that all devices have in common, and of the
// hooks only those that make libraries be found (NvidiaHook::kLibraries). It takes no devices and
// nothing that belongs to one device alone: cgpu gives the GPUs.
#ifndef CGPU_RUNTIME_CDI_H_
#define CGPU_RUNTIME_CDI_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "runtime/spec.h"

namespace cgpu {

struct DriverFiles {
  std::vector<SpecMount> mounts;  // all read-only
  std::vector<std::pair<std::string, std::string>> environment;
  std::vector<SpecHook> hooks;
  std::vector<std::string> left_out;  // other hooks, as they are called
};

// Returns the files of a specification, in YAML or JSON; nothing where it is of a kind other than
// "nvidia.com/gpu". kInvalid for what is no specification. Pure.
[[nodiscard]] Result<DriverFiles> ParseCdi(std::string_view text);

// Reads the specifications in the last of `folders` that has any, and no others. As in CDI,
// /var/run/cdi comes last and so replaces /etc/cdi. Folders need not exist. Files that cannot be
// read or understood and that may be about NVIDIA's GPUs are errors.
[[nodiscard]] Result<DriverFiles> ReadCdi(const std::vector<std::string>& folders);

}  // namespace cgpu

#endif  // CGPU_RUNTIME_CDI_H_
