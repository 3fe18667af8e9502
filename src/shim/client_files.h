// The open files that RM clients of the container were made on, each with a duplicate of ours, so
// that the shim ends the clients and not the close of the file.
//
// When a file with clients is closed for the last time, the driver undoes the clients' CPU mappings
// only if the user or the process that closes it is the one that made the client, which is the
// shim: rs_client.c clientUnmapResourceRefMappings() calls serverUnmap() with the security
// information of nobody, and client.c _rmclientUserClientSecurityCheck() then takes the current
// process (NVIDIA/open-gpu-kernel-modules 580.142). Where that refuses, the driver forgets the
// mapping, and its part of BAR1 stays taken until the driver is loaded anew: a container that maps
// memory and ends, again and again, would take BAR1 from all.
//
// So a client ends when no process of the container has a descriptor of its file. In the driver it
// ends when nothing refers to the file any more. Three things refer to a file that no process has:
//
// * A message in a socket, until somebody receives it. The kernel does not tell which file is in a
//   socket, only whether any is. While one is, a client whose file no process has lives for
//   kInFlight.
// * A GPU's file that was registered with it (NV_ESC_REGISTER_FD), and a mapping of it. Programs on
//   record keep the file as well. Here the client ends.
//
// Processes are those that have made calls, and those below the first one or its parent
// (processes.h). Where a container has the PID namespace of the host or of another container, a
// process that was forked twice and has made no call is none of them.
#ifndef CGPU_SHIM_CLIENT_FILES_H_
#define CGPU_SHIM_CLIENT_FILES_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <vector>

#include "base/fd.h"
#include "base/mutex.h"
#include "ledger/ledger.h"
#include "shim/driver.h"
#include "shim/handover.h"
#include "shim/hurry.h"
#include "shim/kept_files.h"
#include "shim/pending.h"
#include "shim/processes.h"

namespace cgpu::shim {

// Thread-safe, but one thread at a time calls Reconcile().
class ClientFiles {
 public:
  // How long a receiver may take.
  static constexpr std::chrono::seconds kInFlight{2};

  // All outlive this. `proc`: an open /proc. `driver`: null only where nothing is called.
  ClientFiles(int proc, const Driver* driver, const ContainerProcesses& processes,
              const Hurry& hurry);

  // Finds the file of the client that the call names. While the call has it, the shim does not end
  // the client.
  void Find(Pending& pending);
  // Returns a duplicate of the file that the client lies on; not valid: it is not known.
  [[nodiscard]] UniqueFd FileOf(ledger::Handle client) const;
  // Returns the file itself, likewise; null: it is not known. While the caller has it, the shim
  // does not end the client.
  [[nodiscard]] KeptFiles::Pointer KeptFileOf(ledger::Handle client) const;
  // Keeps the file of the call, which has made `client` on it. Returns false if there is no room.
  [[nodiscard]] bool Keep(Pending& pending, ledger::ClientRef client);
  // Forgets a client that exists no more, and its file if there are no others on it.
  void Forget(ledger::ClientRef client);

  // Returns a descriptor that is readable when there is a file and was none; then call Reset().
  [[nodiscard]] int began() const { return began_.get(); }
  void Reset();
  // Returns true if each file's last user has it still. Cheap.
  [[nodiscard]] bool InUse() const;
  [[nodiscard]] bool Empty() const { return files_.size() == 0; }

  // Ends the clients whose files no process of the container has. Asks the driver. Returns true if
  // there was one. `at_leisure`: see Hurry.
  bool Reconcile(bool at_leisure);

  // Hand-over, with the descriptors. `processes`: those of the container.
  void Save(ServerState& state) const;
  void TakeOver(const ServerState& state, const ProcessesBySerial& processes);

 private:
  using Clock = std::chrono::steady_clock;
  struct Client {
    std::uint64_t serial = 0;  // of the ledger
    std::uint64_t key = 0;     // of its file
  };

  [[nodiscard]] std::vector<KeptFiles::Pointer> LeftBehind(bool at_leisure);
  void TakeUnused();
  [[nodiscard]] std::vector<ledger::ClientRef> ClientsOn(const KeptFile& file) const
      CGPU_REQUIRES(mutex_);

  const int proc_;
  const Driver* const driver_;
  const ContainerProcesses& processes_;
  const Hurry& hurry_;
  const UniqueFd began_;  // an eventfd
  KeptFiles files_{1};
  // Held from when a file is seen to have clients, or none, until it is added or taken. That of the
  // files comes after it.
  mutable Mutex mutex_;
  std::map<ledger::Handle, Client> clients_ CGPU_GUARDED_BY(mutex_);
  // Since when no process has had a file, by its key.
  std::map<std::uint64_t, Clock::time_point> left_since_ CGPU_GUARDED_BY(mutex_);
};

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_CLIENT_FILES_H_
