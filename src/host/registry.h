// The registry: the folder through which the containers of this host (root's, or one user's) know
// each other. It is /run/cgpu for root, $XDG_RUNTIME_DIR/cgpu or else /tmp/cgpu-UID for a user. It
// holds
//   lock        a lock (flock) that a process takes to add a container or to change a grant
//   <id>.sock   the admin socket; its shim holds the listening end, so a container lives exactly as
//               long as connecting is not refused
//   <id>.grant  what the container holds of the host (reservation.h)
//   <id>.agent  for a shim that a daemon started: where seccomp listeners are sent; its user's
//   <uuid>.card  the settings of a GPU (gpu_settings.h)
// and, where cgpud runs, its socket (creation.h). Nobody else can list root's folder (0711) or use
// what is root's in it, but users reach the sockets that are for them. The files of containers that
// have ended are removed under the lock.
#ifndef CGPU_HOST_REGISTRY_H_
#define CGPU_HOST_REGISTRY_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "host/gpu_settings.h"
#include "host/reservation.h"
#include "protocol/admin.h"
#include "protocol/creation.h"

namespace cgpu {

// One request to the shim of one container.
struct Question {
  std::string id;
  AdminRequest request = {};
};

// Holds the registry's lock from construction to destruction, whatever was forked in between.
class RegistryLock {
 public:
  explicit RegistryLock(UniqueFd fd) : fd_(std::move(fd)) {}
  RegistryLock(RegistryLock&&) = default;
  RegistryLock& operator=(RegistryLock&&) = delete;
  ~RegistryLock();

 private:
  UniqueFd fd_;
};

class Registry {
 public:
  // Opens the caller's registry; makes the folder where it is missing. kPermission: another user
  // owns it or can write to it.
  [[nodiscard]] static Result<Registry> Open();
  // Opens the registry in a folder of the caller's choice, likewise.
  [[nodiscard]] static Result<Registry> OpenAt(std::string folder);

  [[nodiscard]] const std::string& folder() const { return folder_; }

  // Waits for the lock.
  [[nodiscard]] Result<RegistryLock> Lock() const;

  // Returns the containers that live, oldest first; removes what is left of others.
  [[nodiscard]] Result<std::vector<Reservation>> List(const RegistryLock& lock) const;
  // Returns the same to a caller that changes nothing: the containers as they were a moment ago.
  [[nodiscard]] Result<std::vector<Reservation>> Live() const;

  // Returns the containers that the registry has, oldest first, also such as have ended: for a
  // caller that asks their shims anyway. It wakes no shim.
  [[nodiscard]] Result<std::vector<Reservation>> Recorded(const RegistryLock& lock) const;

  // Announces a container. Returns the listening admin socket for its shim. The container lives as
  // long as any process holds that descriptor.
  [[nodiscard]] Result<UniqueFd> Add(const RegistryLock& lock,
                                     const Reservation& reservation) const;

  // Returns the listening socket that an OCI runtime hands the container's seccomp listeners to. It
  // is for the shim, as the admin socket is. Its path is AgentPath(); only `user` and root can
  // connect.
  [[nodiscard]] Result<UniqueFd> AddAgent(const RegistryLock& lock, const std::string& id,
                                          unsigned user) const;
  [[nodiscard]] std::string AgentPath(const std::string& id) const;
  // Returns whether the container has such a socket.
  [[nodiscard]] bool HasAgent(const std::string& id) const;

  // Replaces what the container holds.
  [[nodiscard]] Result<> Update(const RegistryLock& lock, const Reservation& reservation) const;

  // Removes the container's files, if it does not live any more.
  void RemoveIfDead(const RegistryLock& lock, const std::string& id) const;

  // Returns the settings of the GPU `uuid`: nothing, unless somebody has set something. kInvalid:
  // the file says something else, or `uuid` is no name of a GPU.
  [[nodiscard]] Result<GpuSettings> SettingsOf(const RegistryLock& lock,
                                               const std::string& uuid) const;
  [[nodiscard]] Result<> SetGpu(const RegistryLock& lock, const std::string& uuid,
                                const GpuSettings& settings) const;

  // Sends one request to the shim of `id` and returns its whole answer. kNotFound: the container
  // has ended. kUnavailable: its shim gives no answer within seconds.
  [[nodiscard]] Result<std::string> Ask(const std::string& id, const AdminRequest& request) const;
  // Begins the same: sends the request and returns the stream of the answer. Waits for nothing.
  // SCM_CREDENTIALS come with what is read: the shim's process. `fd` goes along; -1: none does.
  [[nodiscard]] Result<UniqueFd> Request(const std::string& id, const AdminRequest& request,
                                         int fd = -1) const;
  // Returns the stream that answers "watch". Waits for nothing. Errors as Ask().
  [[nodiscard]] Result<UniqueFd> Watch(const std::string& id) const;
  // Connects to the shim, for a dialogue (admin.h, "upgrade"). The connection does not block.
  // Errors as Ask().
  [[nodiscard]] Result<UniqueFd> ConnectTo(const std::string& id) const;
  // Asks many questions at once, as Ask(); returns the answers in the order of the questions. The
  // shims have those seconds together, however many are silent, and 2 s once another one has
  // answered. Takes an open file for each question.
  [[nodiscard]] std::vector<Result<std::string>> AskAll(
      const std::vector<Question>& questions) const;

 private:
  explicit Registry(std::string folder) : folder_(std::move(folder)) {}
  [[nodiscard]] Result<Reservation> GrantOf(const std::string& id) const;
  [[nodiscard]] std::string PathOf(std::string_view id, std::string_view suffix) const;

  std::string folder_;
};

// Open cgpud's socket (SOCK_SEQPACKET), for cgpud and for its clients. Root can connect, and
// members of the group of that number, if there is one. kConflict: a live process listens there
// already. kNotFound: no process does. kPermission: the caller is not a member.
[[nodiscard]] Result<UniqueFd> ListenAsDaemon(const RegistryLock& lock, const std::string& path,
                                              std::optional<unsigned> group);
[[nodiscard]] Result<UniqueFd> ConnectToDaemon(const std::string& path);
// Connects. If cgpud has ended and left its socket, as while it starts again, waits for up to 10 s.
[[nodiscard]] Result<UniqueFd> ConnectToDaemonSoon(const std::string& path);
// Returns the error for a caller that kPermission keeps out.
[[nodiscard]] Error NotAMember(const std::string& group);
// Asks cgpud for a slice, over such a connection, and waits for the answer.
[[nodiscard]] Result<CreationReply> AskDaemon(const UniqueFd& daemon,
                                              const CreationRequest& request);

// Connects to the socket AgentPath(), for one listener. The connection hangs up when the shim has
// ended.
[[nodiscard]] Result<UniqueFd> ConnectToAgent(const std::string& path);

}  // namespace cgpu

#endif  // CGPU_HOST_REGISTRY_H_
