// What NVIDIA's container toolkit, and engines at its word, put into a container's configuration:
// files of cards, sockets of GPUs' daemons, and hooks (NVIDIA/nvidia-container-toolkit
// pkg/nvcdi, internal/discover/hooks.go, internal/modifier/stable.go; containerd
// contrib/nvidia/nvidia.go; moby daemon/nvidia_linux.go).
//
// Pure.
#ifndef CGPU_RUNTIME_NVIDIA_H_
#define CGPU_RUNTIME_NVIDIA_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cgpu {

// A file of a card or of the driver, by its path on the node or in a container.
[[nodiscard]] bool IsGpuFile(std::string_view path);

// Where a daemon that serves all of the node's cards listens, or a folder of such.
[[nodiscard]] bool IsGpuSocket(std::string_view path);

// N of /dev/nvidiaN; nothing for any other file.
[[nodiscard]] std::optional<unsigned> CardMinor(std::string_view path);

enum class NvidiaHook {
  kNone,       // not of the toolkit
  kLibraries,  // makes the driver's libraries be found: links, the linker's cache
  kNeedless,   // about files that a slice has from us alone
  kCards,      // puts cards and libraries in when the configuration is read already
  kUnknown,    // of the toolkit, and nothing more is known
};

// `arguments` from argv[0] on.
[[nodiscard]] NvidiaHook NvidiaHookOf(std::string_view path,
                                      const std::vector<std::string>& arguments);

// Whether the value of NVIDIA_VISIBLE_DEVICES makes NVIDIA's runtime put cards in.
[[nodiscard]] bool NamesCards(std::string_view visible_devices);

}  // namespace cgpu

#endif  // CGPU_RUNTIME_NVIDIA_H_
