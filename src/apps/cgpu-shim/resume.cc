#include "resume.h"

#include <unistd.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/file.h"
#include "base/result.h"
#include "make_server.h"
#include "os/messages.h"
#include "os/notify.h"
#include "shim/agent.h"
#include "shim/confine.h"
#include "shim/desk.h"
#include "shim/housekeeping.h"
#include "shim/upgrade.h"

namespace cgpu::shim {
namespace {

Result<Handover> Read(int file) {
  CGPU_ASSIGN_OR_RETURN(auto state, ReadHandover(file));
  const std::set<int>& needed = NeededSystemCalls();
  if (!std::includes(state.allowed.begin(), state.allowed.end(), needed.begin(), needed.end())) {
    return Error{Code::kUnsupported, 0,
                 "this version needs system calls that the running one has given up",
                 "containers that are started from now on get this version"};
  }
  return state;
}

std::unique_ptr<Agent> ResumeAgent(Server& server, const AgentState& state) {
  if (state.socket < 0) {
    return nullptr;
  }
  return Agent::Resume(server, state, server.config().user);
}

}  // namespace

Result<> CheckHandover() {
  CGPU_ASSIGN_OR_RETURN(const auto state, Read(STDIN_FILENO));
  const auto server = MakeServerAgain(state, false);
  return server.ok() ? WriteAll(STDOUT_FILENO, kCanTakeOver) : server.error();
}

Result<> ResumeServing() {
  CGPU_ASSIGN_OR_RETURN(auto state, Read(kStateFd));
  ++state.server.counters.upgrades;
  CGPU_TRY(TakeDescriptors(state));
  CGPU_TRY(ReserveDescriptors());  // and closes the state's file
  UniqueFd upgrader(state.upgrader);
  const UniqueFd launcher(state.launcher);
  CGPU_TRY(CheckPrivileges(state.config.user == getuid() ? state.config.user : 0));
  CGPU_TRY(os::NotifyListener::Prepare());
  CGPU_ASSIGN_OR_RETURN(auto server, MakeServerAgain(state, true));
  auto agent = ResumeAgent(*server, state.agent);
  CGPU_ASSIGN_OR_RETURN(auto housekeeping, Housekeeping::Make(*server, UniqueFd(state.closes)));
  CGPU_ASSIGN_OR_RETURN(
      auto desk, Desk::Make(*server, *housekeeping, UniqueFd(state.admin), std::move(agent)));
  CGPU_TRY(ConfineSystemCalls(state.allowed));
  desk.Inherit(state);
  server->Start();
  CGPU_TRY(housekeeping->Start());
  CGPU_TRY(server->pool().ServeAgain(state.server));
  const auto pause_ns = static_cast<std::uint64_t>(MonotonicNs() - state.quiet_since_ns);
  (void)SendMessage(upgrader.get(), EncodeUpgraded(pause_ns / 1'000));
  upgrader.reset();
  desk.Run();
  _exit(0);
}

}  // namespace cgpu::shim
