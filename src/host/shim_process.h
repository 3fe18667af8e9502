// Starts the shim of a container: out of reach of the terminal, the job and the container, with no
// more privilege than it needs.
#ifndef CGPU_HOST_SHIM_PROCESS_H_
#define CGPU_HOST_SHIM_PROCESS_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "host/reservation.h"
#include "protocol/config.h"

namespace cgpu {

// Uids of the shims that root starts, one per container. The range lies above what shadow-utils and
// systemd hand out (1879048192 to 2147483647 is unused in systemd's "Users, Groups, UIDs and GIDs
// on systemd Systems"), so that a shim shares its uid with nobody.
inline constexpr uid_t kShimUidFirst = 2'000'000'000;
inline constexpr uid_t kShimUidCount = 65'536;

// Returns a uid of the range that none of `live` has; the search begins at a place made from
// `random`.
[[nodiscard]] uid_t PickShimUid(const std::vector<Reservation>& live, unsigned random);

// Descriptors that a shim is given, see protocol/config.h.
struct ShimDescriptors {
  UniqueFd admin;    // the listening admin socket
  UniqueFd record;   // file to record calls in, or none
  UniqueFd agent;    // the listening socket for seccomp listeners, or none
  UniqueFd creator;  // with an agent: a pidfd of the process that creates the container
};

// Word that makes cgpud become a shim. Where systemd runs the host, a shim that cgpud starts gets a
// scope of its own (systemd.scope(5)), so that it does not depend on cgpud's unit.
//
// systemd-run(1) makes the scope and then becomes the next program, in the same process. That
// process must still be root's, so the next program is not the shim but cgpud's own once more, as
//   cgpud become-shim UID
// which only then becomes the shim.
inline constexpr char kBecomeShim[] = "become-shim";

// Does that word's work: becomes the shim. The process has the descriptors of a shim that is being
// started. Returns only what went wrong.
[[nodiscard]] Error BecomeShimInScope(const std::string& uid);

// Returns whether systemd is the host's service manager (sd_booted(3)).
[[nodiscard]] bool SystemdRuns();

class ShimProcess {
 public:
  // Starts cgpu-shim in a session of its own and as nobody's child, hands it `descriptors`, and
  // waits until it has taken `config`. As root it runs under `uid` with kShimCapabilities; else as
  // the caller. With an agent it serves from then on, and this object is only needed to see its
  // end. kUnavailable, or what the shim itself said.
  //
  // `scope`: the name, without ".scope", of the shim's unit; empty: none. The running program must
  // know kBecomeShim. Where systemd gives no scope, the shim starts without one: why_no_scope().
  [[nodiscard]] static Result<ShimProcess> Start(const ShimConfig& config,
                                                 ShimDescriptors descriptors, uid_t uid,
                                                 const std::string& scope = {});

  // Returns a sentence, if the shim was to have a scope and has none.
  [[nodiscard]] const std::string& why_no_scope() const { return why_no_scope_; }

  // Hands over the seccomp listener; the container's first process is `pid`. Not with an agent.
  [[nodiscard]] Result<> Attach(UniqueFd listener, pid_t pid);

  // Returns a descriptor that is readable (end of stream) once the shim has ended.
  [[nodiscard]] int control() const { return control_.get(); }

  // Tells the shim that nothing more will come, and waits at most `timeout_ms` for its end. Returns
  // whether it has ended.
  [[nodiscard]] bool WaitForEnd(int timeout_ms);

 private:
  explicit ShimProcess(UniqueFd control) : control_(std::move(control)) {}

  UniqueFd control_;
  std::string why_no_scope_;
};

// Starts the helper that sets interleave levels and restarts lists for a shim (protocol/config.h),
// as nobody's child, under the shim's `uid` with kInterleaverCapabilities. Returns the shim's end
// of the helper's socket; the helper ends when no process has that end any more. Must be root.
[[nodiscard]] Result<UniqueFd> StartInterleaver(uid_t uid);

// Returns the path of a program of this project: beside the running one, or in the folder
// CGPU_LIBEXEC.
[[nodiscard]] Result<std::string> ProgramPath(const std::string& name);

}  // namespace cgpu

#endif  // CGPU_HOST_SHIM_PROCESS_H_
