// The agent is the socket over which an OCI runtime (runc, crun) hands the container's seccomp
// listeners to the shim: the configuration's linux.seccomp.listenerPath
// (opencontainers/runtime-spec config-linux.md). A runtime connects once when it creates the
// container and once for every `exec`, and sends the listener with the first byte of a text
// (runtime_state.h).
//
// A user's `cgpu run` does the same, and keeps the connection open to see the end of the shim.
//
// Runtimes treat their connections differently. runc before 1.2.7 leaves them open until it ends.
// crun makes a connection before there is anything to send, and sends it as late as at the
// container's start, or never. So the agent waits for nobody. For one thread; nothing blocks it.
#ifndef CGPU_SHIM_AGENT_H_
#define CGPU_SHIM_AGENT_H_

#include <poll.h>

#include <cstddef>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "shim/handover.h"
#include "shim/runtime_state.h"
#include "shim/server.h"

namespace cgpu::shim {

class Agent {
 public:
  // Most open connections. Beyond that, the oldest that has said everything is closed for the next
  // one; if there is none, the next one waits.
  static constexpr std::size_t kMaxConnections = 64;
  static constexpr std::size_t kMaxText = std::size_t{1} << 20;

  // `socket`: listening; `creator`: a pidfd of the process that creates the container, invalid if
  // it has exited. Takes listeners from root and from `user`, and closes the connections of others.
  // `word`: the metadata that a listener must come with, else its processes are another
  // container's; empty: any will do.
  Agent(Server& server, UniqueFd socket, UniqueFd creator, unsigned user, std::string word)
      : server_(server),
        word_(std::move(word)),
        socket_(std::move(socket)),
        creator_(std::move(creator)),
        user_(user) {}

  // Returns what to poll(2) for: Handle() has something to do when it comes. Not an epoll, whose
  // watches are counted for a uid, and others may take them all.
  [[nodiscard]] std::vector<pollfd> Awaited() const;
  void Handle();

  // Returns true while connections wait for this process to have room for them: handle again soon.
  [[nodiscard]] bool starved() const { return starved_; }

  // Hand-over to a later agent, with the descriptors. kConflict: a runtime is about to hand over a
  // listener; ask again soon.
  [[nodiscard]] Result<AgentState> Save() const;
  static std::unique_ptr<Agent> Resume(Server& server, const AgentState& state, unsigned user);

  // Returns true if no listener is on its way: every connected sender has said something, and if no
  // listener ever came, the creator is gone.
  [[nodiscard]] bool Over() const;

 private:
  struct Connection {
    UniqueFd socket;
    unsigned sender = 0;  // its uid
    RuntimeState state;
    std::size_t read = 0;
    std::vector<UniqueFd> held;  // files, until it is known whose they are
    std::vector<std::weak_ptr<Source>> sources;

    [[nodiscard]] bool Done() const { return state.over() || read > kMaxText; }
  };

  void Accept();
  [[nodiscard]] bool MakeRoom();
  // Returns false if the connection is over.
  bool Receive(Connection& connection);
  void Take(Connection& connection, UniqueFd file);
  // Takes what is held, if it is the container's, once that is known.
  void Settle(Connection& connection);

  Server& server_;
  const std::string word_;
  const UniqueFd socket_;
  UniqueFd creator_;  // invalid once it has exited
  const unsigned user_;
  std::list<Connection> connections_;  // oldest first
  bool accepting_ = true;              // there can be room for another connection
  bool starved_ = false;
};

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_AGENT_H_
