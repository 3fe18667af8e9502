// The protocol between cgpud and its clients: an OCI runtime wrapper, or a user's `cgpu run`, asks
// for a slice. It goes over <registry>/cgpud.sock, SOCK_SEQPACKET, one message each way, then the
// end of the stream. Root and the members of a group may ask; the container is theirs.
//
// cgpud reserves the grant and starts the container's shim. The shim ends by itself when the
// process that asked (it becomes the OCI runtime) ends without having made the container.
//
// Pure; decoding is bounded and refuses what it does not know.
#ifndef CGPU_PROTOCOL_CREATION_H_
#define CGPU_PROTOCOL_CREATION_H_

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "grant/flags.h"

namespace cgpu {

// Names the annotation by which the OCI runtime says in which file of the container engine the
// container's name is.
inline constexpr char kNamesFile[] = "cgpu.dev/names-file";
inline constexpr char kDaemonSocket[] = "/run/cgpu/cgpud.sock";

// Request of `cgpu run`.
struct CommandRequest {
  std::string name;  // empty: cgpud makes one up
  std::string stem;  // begin of a made-up name; may be empty
  std::string node;  // a simulated node; empty: cgpud's own
  // Whether fatal signals alone end its waits. A client that says so falsely has calls of its own
  // executed twice.
  bool killable = false;
  GrantFlags flags;  // without the environment, which is below
};

struct CreationRequest {
  std::string engine_id;                  // the container engine's name for the container
  std::optional<CommandRequest> command;  // instead of a container engine's container
  bool pid_namespace = true;
  std::vector<std::string> environment;  // NAME=VALUE entries that may concern a grant
  std::vector<std::pair<std::string, std::string>>
      annotations;  // its names: pod, container, file of names
  // N of every /dev/nvidiaN that the container already has, for example through CDI; each once.
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
  std::string id;         // cgpu's id: 12 hex digits
  std::string listener;   // socket that the runtime sends seccomp listeners to
  bool killable = false;  // fatal signals alone end its waits
  std::string word;       // metadata of the listeners; nobody else knows it
  std::vector<CreatedDevice> devices;
  std::vector<unsigned> majors;          // all major numbers of GPU files on this host
  std::vector<std::string> cdi;          // folders of the host's CDI specifications (runtime/cdi.h)
  std::vector<std::string> tree;         // files to mount (sandbox/tree_words.h)
  std::vector<std::string> environment;  // NAME=VALUE entries that the container gets
};

[[nodiscard]] std::string EncodeCreationRequest(const CreationRequest& request);
[[nodiscard]] Result<CreationRequest> DecodeCreationRequest(std::string_view text);

// Encode and decode the reply, or an error as it was.
[[nodiscard]] std::string EncodeCreationReply(const Result<CreationReply>& reply);
[[nodiscard]] Result<CreationReply> DecodeCreationReply(std::string_view text);

}  // namespace cgpu

#endif  // CGPU_PROTOCOL_CREATION_H_
