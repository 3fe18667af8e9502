// The configuration that a launcher gives a shim at its start, and its text form.
//
// The launcher starts cgpu-shim with fd 3, a SOCK_SEQPACKET socket to itself, fd 4, a listening
// AF_UNIX SOCK_STREAM socket (protocol/admin.h), and fd 5, a file to record calls in. Then, one
// message each:
//   launcher  the configuration, EncodeConfig()
//   shim      "ready" or "error SENTENCE"
//   launcher  EncodeListener(), with the seccomp listener as its one SCM_RIGHTS descriptor
//   shim      "ok" or "error SENTENCE"
// Only then does the container's command run. When the launcher goes away, the shim serves on until
// the listener hangs up.
//
// Where an OCI runtime or a user's `cgpu run` makes the container, there are two more descriptors.
// Fd 6 is the agent: a listening AF_UNIX SOCK_STREAM socket over which the runtime hands its
// seccomp listeners to the shim (shim/agent.h), one for the container's first process and one for
// every process that is brought into it later. Fd 7 is a pidfd of the runtime that creates the
// container. Then the shim serves from "ready" on, and nothing more is said over fd 3. It serves
// until every listener has hung up and none is on its way; if none ever came, until the creator has
// exited.
//
// With the word kInterleaverWord the program is the helper of a shim (shim/interleave.h): its fd 3
// is the socket to that shim.
//
// A number from 4 to 7 whose descriptor does not exist may be any other file.
//
// Pure; decoding is bounded and refuses what it does not know.
#ifndef CGPU_PROTOCOL_CONFIG_H_
#define CGPU_PROTOCOL_CONFIG_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "grant/grant.h"

namespace cgpu {

inline constexpr int kShimControlFd = 3;
inline constexpr int kShimAdminFd = 4;
inline constexpr int kShimRecordFd = 5;
inline constexpr int kShimAgentFd = 6;
inline constexpr int kShimCreatorFd = 7;

inline constexpr char kInterleaverWord[] = "interleave";

// One device file of the host, granted or not. A real one is known by its device number, a
// simulated one by its file system and a pattern of its inode number.
struct NodeFile {
  // Kind of file. kTools: nvidia-uvm-tools, which exists so that no program tries to make it, and
  // which takes no call.
  enum class Kind { kCtl, kUvm, kGpu, kTools };
  Kind kind = Kind::kCtl;
  unsigned minor = 0;
  bool granted = false;
  std::string path;
  bool simulated = false;
  unsigned dev_major = 0;  // st_rdev of a real file, st_dev of a simulated one
  unsigned dev_minor = 0;
  std::uint64_t ino_mask = 0;
  std::uint64_t ino_value = 0;

  // Returns whether this is the open file of that device and inode. `rdev`: of a character device,
  // else 0.
  [[nodiscard]] bool Is(std::uint64_t dev, std::uint64_t ino, std::uint64_t rdev) const;
};

// A control of the GPU's firmware in one size, which root lets slices send beside those that cgpu
// lists (`firmware` in runtime/settings.h).
struct FirmwareControl {
  unsigned command = 0;
  unsigned bytes = 0;  // of its parameters

  friend bool operator==(const FirmwareControl&, const FirmwareControl&) = default;
};
inline constexpr std::size_t kMostFirmwareControls = 64;

struct ShimConfig {
  std::string id;  // 12 hex digits
  std::string name;
  unsigned user = 0;          // uid of the user that started the container
  std::uint64_t since = 0;    // seconds of Unix time
  bool pid_namespace = true;  // the container has its own
  std::string driver;         // "550.163.01"
  std::vector<NodeFile> files;
  std::vector<std::string> watches;  // paths to watch for the last close of a device file
  std::vector<GpuGrant> gpus;        // in grant order; Gpu::model is not carried
  // Whether a call must have come from the container before its image runs (sandbox/proof.h).
  bool prove = false;
  // Metadata of the container's own listeners; empty: any may come. The agent's state has it then.
  std::string word;
  bool killable = true;                   // the listener has SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
  std::vector<FirmwareControl> firmware;  // at most kMostFirmwareControls
};

[[nodiscard]] std::string EncodeConfig(const ShimConfig& config);
[[nodiscard]] Result<ShimConfig> DecodeConfig(std::string_view text);

// Encode and decode the message that carries the listener. `pid` is the container's first process
// as the launcher's pid namespace numbers it, or 0 when it is not known.
[[nodiscard]] std::string EncodeListener(unsigned pid);
[[nodiscard]] Result<unsigned> DecodeListener(std::string_view text);

}  // namespace cgpu

#endif  // CGPU_PROTOCOL_CONFIG_H_
