#include "run/plain.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "host/node.h"
#include "os/namespaces.h"
#include "run/command.h"
#include "sandbox/mount_tree.h"

namespace cgpu {
Result<> EnterPlainNode(const std::string& name) {
  CGPU_ASSIGN_OR_RETURN(const auto node, FindSimulatedNode(name));
  Grant everything;
  for (const Gpu& gpu : node.gpus) {
    everything.gpus.push_back({gpu, gpu.memory_bytes});
  }
  std::error_code no_directory;
  const auto directory = std::filesystem::current_path(no_directory);
  OfferLibraries(node.libraries);
  CGPU_TRY(EnterPrivateNamespaces());
  CGPU_TRY(MountGpuTree(TreeFor(node, everything, {kSimulatedNodes})));
  // The working directory may have been covered; the path leads to the cover.
  if (!no_directory && chdir(directory.c_str()) != 0) {
    return ErrnoError(Code::kUnavailable, errno,
                      "cannot change to the directory " + directory.string());
  }
  return {};
}

}  // namespace cgpu
