// Starting the shim of a container: out of reach of the terminal, the job and the container, with
// no more privilege than it needs.
#ifndef CGPU_LAUNCHER_SHIM_PROCESS_H_
#define CGPU_LAUNCHER_SHIM_PROCESS_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "registry/config.h"
#include "registry/reservation.h"

namespace cgpu {

// Shims started by root run under uids of their own, one per container, from this range: above what
// shadow-utils and systemd hand out (1879048192 to 2147483647 is unused in systemd's "Users,
// Groups, UIDs and GIDs on systemd Systems"), so that a shim shares its uid with nobody.
inline constexpr uid_t kShimUidFirst = 2'000'000'000;
inline constexpr uid_t kShimUidCount = 65'536;

// A uid of the range that none of `live` has; the search begins at a place made from `random`.
[[nodiscard]] uid_t PickShimUid(const std::vector<Reservation>& live, unsigned random);

// What a shim is given, see registry/config.h.
struct ShimDescriptors {
  UniqueFd admin;    // the listening admin socket
  UniqueFd record;   // a file to record calls in, or none
  UniqueFd agent;    // the listening socket for seccomp listeners, or none
  UniqueFd creator;  // with an agent: a pidfd of the process that creates the container
};

// Where systemd runs the machine, a shim that a daemon starts is to be in a scope of its own
// (systemd.scope(5)), so that what becomes of the daemon's unit is nothing to it.
//
// systemd-run(1) makes the scope and then becomes the next program, in the same process. That must
// be root's still, so it is not the shim but the daemon's own once more, as
//   cgpud become-shim UID
// which only then becomes the shim.
inline constexpr char kBecomeShim[] = "become-shim";

// That word's work: the process has the descriptors of a shim that is being started. Returns only
// what went wrong.
[[nodiscard]] Error BecomeShimInScope(const std::string& uid);

// Whether systemd is the machine's service manager (sd_booted(3)).
[[nodiscard]] bool SystemdRuns();

class ShimProcess {
 public:
  // Starts cgpu-shim in a session of its own and as nobody's child, hands it `descriptors`, and
  // waits until it has taken `config`. As root it runs under `uid` with kShimCapabilities; else as
  // the caller. With an agent it serves from then on, and this object is only needed to see its
  // end. kUnavailable or what the shim itself said.
  //
  // `scope`: a name of a unit, without ".scope", for the shim to be in; empty: none. The running
  // program must know kBecomeShim. Where systemd gives none, the shim starts without:
  // why_no_scope().
  [[nodiscard]] static Result<ShimProcess> Start(const ShimConfig& config,
                                                 ShimDescriptors descriptors, uid_t uid,
                                                 const std::string& scope = {});

  // A sentence, if it was to have a scope and has none.
  [[nodiscard]] const std::string& why_no_scope() const { return why_no_scope_; }

  // Hands over the seccomp listener; the container's first process is `pid`. Not with an agent.
  [[nodiscard]] Result<> Attach(UniqueFd listener, pid_t pid);

  // Readable (end of stream) once the shim has ended.
  [[nodiscard]] int control() const { return control_.get(); }

  // Says that nothing more will come, and waits at most `timeout_ms` for its end.
  [[nodiscard]] bool WaitForEnd(int timeout_ms);

 private:
  explicit ShimProcess(UniqueFd control) : control_(std::move(control)) {}

  UniqueFd control_;
  std::string why_no_scope_;
};

// Starts the helper that sets interleave levels for a shim (registry/config.h), as nobody's child,
// under the shim's `uid` with kInterleaverCapabilities. Returns the shim's end of its socket; it
// ends when nobody has that any more. Must be root.
[[nodiscard]] Result<UniqueFd> StartInterleaver(uid_t uid);

// Where a program of this project lies: beside the running one, or in the folder CGPU_LIBEXEC.
[[nodiscard]] Result<std::string> ProgramPath(const std::string& name);

}  // namespace cgpu

#endif  // CGPU_LAUNCHER_SHIM_PROCESS_H_
