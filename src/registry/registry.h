// The folder in which the containers of this machine (root's, or one user's) are known to each
// other: /run/cgpu for root, $XDG_RUNTIME_DIR/cgpu or else /tmp/cgpu-UID for a user. It holds
//   lock        taken (flock) by whoever adds a container or changes a grant
//   <id>.sock   the admin socket; its shim holds the listening end, so a container lives exactly as
//               long as connecting is not refused
//   <id>.grant  what it holds of the node (reservation.h)
//   <id>.agent  of what a daemon started the shim for: where seccomp listeners are sent; its user's
//   <uuid>.card  what was set for a card (card_settings.h)
// and, where a node's daemon runs, its socket (creation.h), and where cgpu-km does, its lock and
// its files in `km` (km/server.h). Nobody else can list root's folder (0711) or use what is root's
// in it, but users reach the sockets that are for them. Leftovers of containers that ended are
// removed under the lock.
#ifndef CGPU_REGISTRY_REGISTRY_H_
#define CGPU_REGISTRY_REGISTRY_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "registry/admin.h"
#include "registry/card_settings.h"
#include "registry/creation.h"
#include "registry/reservation.h"

namespace cgpu {

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
  // The caller's registry; makes the folder where it is missing. kPermission when somebody
  // else owns it or can write to it.
  [[nodiscard]] static Result<Registry> Open();
  // The same for a folder of the caller's choice.
  [[nodiscard]] static Result<Registry> OpenAt(std::string folder);

  [[nodiscard]] const std::string& folder() const { return folder_; }

  // Waits for the lock.
  [[nodiscard]] Result<RegistryLock> Lock() const;

  // The containers that live, oldest first; removes what is left of others.
  [[nodiscard]] Result<std::vector<Reservation>> List(const RegistryLock& lock) const;
  // The same for one who changes nothing: as they were a moment ago.
  [[nodiscard]] Result<std::vector<Reservation>> Live() const;

  // Announces a container: the listening admin socket for its shim. It lives as long as any process
  // holds that descriptor.
  [[nodiscard]] Result<UniqueFd> Add(const RegistryLock& lock,
                                     const Reservation& reservation) const;

  // The listening socket that an OCI runtime hands the container's seccomp listeners to; for its
  // shim, as the admin socket. Its path is AgentPath(); only `user` and root can connect.
  [[nodiscard]] Result<UniqueFd> AddAgent(const RegistryLock& lock, const std::string& id,
                                          unsigned user) const;
  [[nodiscard]] std::string AgentPath(const std::string& id) const;
  // Whether it has one.
  [[nodiscard]] bool HasAgent(const std::string& id) const;

  // Replaces what it holds.
  [[nodiscard]] Result<> Update(const RegistryLock& lock, const Reservation& reservation) const;

  // Removes its files, if it does not live any more.
  void RemoveIfDead(const RegistryLock& lock, const std::string& id) const;

  // What was set for the card `uuid`: nothing, unless somebody has. kInvalid: its file says
  // something else, or that is no name of a card.
  [[nodiscard]] Result<CardSettings> SettingsOf(const RegistryLock& lock,
                                                const std::string& uuid) const;
  [[nodiscard]] Result<> SetCard(const RegistryLock& lock, const std::string& uuid,
                                 const CardSettings& settings) const;

  // One request to the shim of `id`, and its whole answer. kNotFound when the container has ended,
  // kUnavailable when its shim gives no answer within seconds.
  [[nodiscard]] Result<std::string> Ask(const std::string& id, const AdminRequest& request) const;
  // The same begun: the stream of the answer; nothing is waited for. With what is read comes
  // SCM_CREDENTIALS: the shim's process. `fd` goes along; -1: none does.
  [[nodiscard]] Result<UniqueFd> Request(const std::string& id, const AdminRequest& request,
                                         int fd = -1) const;
  // The stream that answers "watch"; nothing is waited for. Errors as Ask().
  [[nodiscard]] Result<UniqueFd> Watch(const std::string& id) const;
  // A connection to the shim, for a talk (admin.h, "upgrade"). Errors as Ask(); it does not block.
  [[nodiscard]] Result<UniqueFd> ConnectTo(const std::string& id) const;
  // As Ask(), of many shims at once; answers in the order of `ids`. They have those seconds
  // together, however many are silent, and two once another one has answered. Takes an open file
  // for each.
  [[nodiscard]] std::vector<Result<std::string>> AskAll(const std::vector<std::string>& ids,
                                                        const AdminRequest& request) const;

 private:
  explicit Registry(std::string folder) : folder_(std::move(folder)) {}
  [[nodiscard]] std::string PathOf(std::string_view id, std::string_view suffix) const;

  std::string folder_;
};

// The socket of a node's daemon, for it and for whoever asks it (SOCK_SEQPACKET). Root can
// connect, and members of the group of that number, if there is one. kConflict: somebody listens
// there already, and lives. kNotFound: nobody does. kPermission: not a member.
[[nodiscard]] Result<UniqueFd> ListenAsDaemon(const RegistryLock& lock, const std::string& path,
                                              std::optional<unsigned> group);
[[nodiscard]] Result<UniqueFd> ConnectToDaemon(const std::string& path);
// What to say to whom kPermission keeps out.
[[nodiscard]] Error NotAMember(const std::string& group);
// A slice, over such a connection; waits for the answer.
[[nodiscard]] Result<CreationReply> AskDaemon(const UniqueFd& daemon,
                                              const CreationRequest& request);

// A connection to the socket AgentPath(), for one listener. It hangs up when the shim has ended.
[[nodiscard]] Result<UniqueFd> ConnectToAgent(const std::string& path);

}  // namespace cgpu

#endif  // CGPU_REGISTRY_REGISTRY_H_
