// What an OCI runtime wrapper, or `cgpu run` of a user, asks the node's daemon for and what it is
// told: over <registry>/cgpud.sock, SOCK_SEQPACKET, one message each way, then the end of the
// stream. Root may ask, and the members of a group; the container is theirs.
//
// The daemon reserves the grant and starts the container's shim, which ends by itself when the
// process that asked (it becomes the OCI runtime) ends without having made the container.
//
// Pure; decoding is bounded and refuses what it does not know.
#ifndef CGPU_REGISTRY_CREATION_H_
#define CGPU_REGISTRY_CREATION_H_

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "grant/flags.h"

namespace cgpu {

inline constexpr char kDaemonSocket[] = "/run/cgpu/cgpud.sock";

// What `cgpu run` asks for.
struct CommandRequest {
  std::string name;  // empty: made up
  std::string stem;  // what a made-up name begins with; may be empty
  std::string node;  // a simulated one; empty: the daemon's
  // Its waits are to be ended by fatal signals alone. Who says so falsely has calls of its own
  // executed twice.
  bool killable = false;
  GrantFlags flags;  // but for the environment, which is below
};

struct CreationRequest {
  std::string engine_id;                  // what the engine calls the container
  std::optional<CommandRequest> command;  // instead of an engine's container
  bool pid_namespace = true;
  std::vector<std::string> environment;  // NAME=VALUE, as far as it may concern a grant
  std::vector<std::pair<std::string, std::string>> annotations;  // who it is: pod, container
  // N of every /dev/nvidiaN that somebody gave the container already, as by CDI; each once.
  std::vector<unsigned> minors;
};

// One device file that the container gets.
struct CreatedDevice {
  std::string path;  // in the container
  unsigned major = 0;
  unsigned minor = 0;

  bool operator==(const CreatedDevice&) const = default;
};

struct CreationReply {
  std::string id;         // ours: 12 hex digits
  std::string listener;   // the socket that the runtime sends seccomp listeners to
  bool killable = false;  // its waits are to be ended by fatal signals alone
  std::vector<CreatedDevice> devices;
  std::vector<unsigned> majors;   // all that files of GPUs have on this node
  std::vector<std::string> cdi;   // folders of the node's CDI specifications (runtime/cdi.h)
  std::vector<std::string> tree;  // the files to mount (kernel/tree_words.h)
};

[[nodiscard]] std::string EncodeCreationRequest(const CreationRequest& request);
[[nodiscard]] Result<CreationRequest> DecodeCreationRequest(std::string_view text);

// The reply, or an error as it was.
[[nodiscard]] std::string EncodeCreationReply(const Result<CreationReply>& reply);
[[nodiscard]] Result<CreationReply> DecodeCreationReply(std::string_view text);

}  // namespace cgpu

#endif  // CGPU_REGISTRY_CREATION_H_
