#include "host/upgrade.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>

#include "base/child.h"
#include "base/fd.h"
#include "base/file.h"
#include "os/messages.h"
#include "os/privileges.h"

namespace cgpu {
namespace {

// Time for a shim's answer: it answers at once, or after the calls that are under way have had
// their time.
constexpr int kUpgradeAnswerMs = 10'000;
constexpr int kTries = 5;
constexpr int kBetweenTriesMs = 100;

// Becomes the child of Check() and says on `says` why not. It parses what a shim wrote, so it has
// no more rights on files than that shim.
[[noreturn]] void BecomeChecker(int program, int state, int says, uid_t user) {
  if (dup2(state, STDIN_FILENO) < 0 || dup2(says, STDOUT_FILENO) < 0 ||
      dup2(says, STDERR_FILENO) < 0) {
    _exit(126);
  }
  if (geteuid() == 0 && !BecomeUser(user, 0).ok()) {
    _exit(126);
  }
  char name[] = "cgpu-shim";
  char what[] = "check";
  char* const argv[] = {name, what, nullptr};
  char* const envp[] = {nullptr};
  execveat(program, "", argv, envp, AT_EMPTY_PATH);
  _exit(127);
}

// Asks the program whether it can take over the state.
Result<> Check(int program, int state, uid_t user) {
  CGPU_ASSIGN_OR_RETURN(auto pipe, MakePipe());
  CGPU_ASSIGN_OR_RETURN(const auto child, Fork());
  if (child == 0) {
    BecomeChecker(program, state, pipe.to.get(), user);
  }
  pipe.to.reset();
  CGPU_ASSIGN_OR_RETURN(auto said, ReadAll(pipe.from.get(), "what the new version says"));
  (void)TEMP_FAILURE_RETRY(waitpid(child, nullptr, 0));
  if (said == kCanTakeOver) {
    return {};
  }
  std::ranges::replace(said, '\n', ' ');
  return Error{Code::kUnsupported, 0, "the new version cannot take over its state: " + said,
               "choose another version with --program, or start the container again"};
}

Result<std::uint64_t> UpgradeShim(const Registry& registry, const Reservation& reservation,
                                  int program) {
  CGPU_ASSIGN_OR_RETURN(const auto connection, registry.ConnectTo(reservation.id));
  AdminRequest request;
  request.kind = AdminRequest::Kind::kUpgrade;
  CGPU_TRY(SendMessage(connection.get(), EncodeRequest(request), program));
  auto answer = ReceiveMessage(connection.get(), kUpgradeAnswerMs);
  UniqueFd state;
  if (answer.ok() && answer->text == kFileWord) {
    state.reset(memfd_create("cgpu-state", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!state.valid()) {
      return ErrnoError(Code::kExhausted, errno, "cannot make a file for its state");
    }
    CGPU_TRY(SendMessage(connection.get(), kFileWord, state.get()));
    answer = ReceiveMessage(connection.get(), kUpgradeAnswerMs);
  }
  if (!answer.ok()) {
    const auto again = registry.ConnectTo(reservation.id);
    const bool ended = !again.ok() && again.error().code == Code::kNotFound;
    return ended ? again.error()
                 : Error{Code::kUnavailable, 0, "its shim gives no answer",
                         "try again; `cgpu upgrade --force` ends the container"};
  }
  state = state.valid() ? std::move(state) : std::move(answer->fd);
  if (answer->text != kStateWord || !state.valid()) {
    return DecodeUpgraded(answer->text);
  }
  CGPU_TRY(Check(program, state.get(), reservation.shim_uid));
  // Sending fails where the shim has stopped waiting for it; then the shim's answer says that.
  (void)SendMessage(connection.get(), "go\n");
  answer = ReceiveMessage(connection.get(), kUpgradeAnswerMs);
  if (!answer.ok()) {
    return Error{Code::kInternal, 0, "the new version gives no answer",
                 "`cgpu ps` shows whether it runs"};
  }
  return DecodeUpgraded(answer->text);
}

bool IsBusy(const Upgraded& one) {
  return !one.pause_us.ok() && one.pause_us.error().code == Code::kConflict;
}

Result<std::vector<Reservation>> Chosen(const Registry& registry,
                                        const std::vector<std::string>& containers) {
  auto live = registry.Live();
  if (!live.ok() || containers.empty()) {
    return live;
  }
  std::vector<Reservation> chosen;
  for (const std::string& container : containers) {
    CGPU_ASSIGN_OR_RETURN(const auto found, FindReservation(container, *live));
    chosen.push_back((*live)[found]);
  }
  return chosen;
}

}  // namespace

Result<std::vector<Upgraded>> UpgradeShims(const Registry& registry, const std::string& program,
                                           const std::vector<std::string>& containers) {
  CGPU_ASSIGN_OR_RETURN(const auto file, OpenFile(program, O_RDONLY));
  CGPU_ASSIGN_OR_RETURN(const auto chosen, Chosen(registry, containers));
  std::vector<Upgraded> results;
  results.reserve(chosen.size());
  for (const Reservation& reservation : chosen) {
    results.push_back(
        {reservation.id, reservation.name, UpgradeShim(registry, reservation, file.get())});
  }
  for (int tries = 1; tries < kTries && std::ranges::any_of(results, IsBusy); ++tries) {
    (void)poll(nullptr, 0, kBetweenTriesMs);
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (IsBusy(results[i])) {
        results[i].pause_us = UpgradeShim(registry, (chosen)[i], file.get());
      }
    }
  }
  return results;
}

Result<bool> UpgradeDaemon(const std::string& socket) {
  const auto connection = ConnectToDaemon(socket);
  if (!connection.ok()) {
    return connection.error().code == Code::kNotFound ? Result<bool>(false) : connection.error();
  }
  ucred daemon{};
  socklen_t size = sizeof(daemon);
  if (getsockopt(connection->get(), SOL_SOCKET, SO_PEERCRED, &daemon, &size) != 0 ||
      kill(daemon.pid, SIGHUP) != 0) {
    return ErrnoError(Code::kPermission, errno, "cannot tell the daemon at " + socket);
  }
  // The daemon looks at signals before it looks at requests, and answers a request that it does not
  // know.
  CGPU_ASSIGN_OR_RETURN(const auto again, ConnectToDaemon(socket));
  CGPU_TRY(SendMessage(again.get(), "are you there\n"));
  const auto answer = ReceiveMessage(again.get(), kUpgradeAnswerMs);
  return answer.ok() ? Result<bool>(true) : answer.error();
}

}  // namespace cgpu
