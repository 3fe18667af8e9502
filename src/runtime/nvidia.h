// Recognises what NVIDIA's container toolkit, and container engines for it, put into a container's
// configuration: files of GPUs, sockets of GPUs' daemons, and hooks
// (NVIDIA/nvidia-container-toolkit pkg/nvcdi, internal/discover/hooks.go,
// internal/modifier/stable.go; containerd contrib/nvidia/nvidia.go; moby daemon/nvidia_linux.go).
//
// Pure.
#ifndef CGPU_RUNTIME_NVIDIA_H_
#define CGPU_RUNTIME_NVIDIA_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cgpu {

// Returns whether the path, on the host or in a container, is a file of a GPU or of the driver.
[[nodiscard]] bool IsGpuFile(std::string_view path);

// Returns whether the path is a socket of a daemon that serves all of the host's GPUs, or a folder
// of such sockets.
[[nodiscard]] bool IsGpuSocket(std::string_view path);

// Returns N of /dev/nvidiaN; nothing for any other file.
[[nodiscard]] std::optional<unsigned> GpuMinor(std::string_view path);

enum class NvidiaHook {
  kNone,       // not of the toolkit
  kLibraries,  // makes the driver's libraries be found: links, the linker's cache
  kNeedless,   // about files that a slice has from cgpu alone
  kGpus,       // puts GPUs and libraries in after the configuration was read
  kUnknown,    // a hook of the toolkit; nothing more is known
};

// Returns the kind of a hook. `arguments` from argv[0] on.
[[nodiscard]] NvidiaHook NvidiaHookOf(std::string_view path,
                                      const std::vector<std::string>& arguments);

// Returns whether the value of NVIDIA_VISIBLE_DEVICES makes NVIDIA's runtime put GPUs in.
[[nodiscard]] bool NamesGpus(std::string_view visible_devices);

}  // namespace cgpu

#endif  // CGPU_RUNTIME_NVIDIA_H_
