// What a node's Container Device Interface specifications say of NVIDIA's driver: the libraries and
// programs that containers need of it (tags.cncf.io/container-device-interface SPEC.md;
// `nvidia-ctk cdi generate` writes them).
//
// Taken are the mounts, the variables and the hooks that all devices have in common, the hooks only
// so far as they make libraries be found (NvidiaHook::kLibraries). Devices and what belongs to one
// of them alone are not: cards are ours to give.
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
  std::vector<std::string> left_out;  // other hooks, as they are to be called
};

// The files of a specification, in YAML or JSON; nothing where it is of something else than
// "nvidia.com/gpu". kInvalid for what is no specification. Pure.
[[nodiscard]] Result<DriverFiles> ParseCdi(std::string_view text);

// Of the specifications in `folders`, the last of those that have any first: as CDI has it, what
// lies in /var/run/cdi goes before what lies in /etc/cdi. Folders need not be there. Files that
// cannot be read or understood and that may be about NVIDIA's cards are errors.
[[nodiscard]] Result<DriverFiles> ReadCdi(const std::vector<std::string>& folders);

}  // namespace cgpu

#endif  // CGPU_RUNTIME_CDI_H_
