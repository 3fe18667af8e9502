// Hands a server's state to its successor at a hot upgrade, and takes it over from a predecessor.
#include <utility>

#include "base/result.h"
#include "shim/records.h"
#include "shim/server.h"

namespace cgpu::shim {

ServerState Server::Save() {
  DropDead();
  ServerState state;
  state.driver = driver_->Save();
  state.record = recorder_.fd();
  state.orders = scheduler_.Save();
  for (const auto& process : callers_->Processes()) {
    state.processes.push_back({process->serial, process->tgid, process->ns_pid,
                               process->shares_with, process->pidfd.get(), process->mem.get()});
  }
  state.next_serial = callers_->next_serial();
  spaces_.Save(state);
  client_files_.Save(state);
  managed_.Save(state);
  pool_.Save(state);
  proof_.Save(state);
  {
    const MutexLock lock(replay_mutex_);
    state.replay = RecordsOf(replay_);
  }
  accounting_.Save(state);
  export_tags_.Save(state);
  return state;
}

Result<> Server::Load(const ServerState& state) {
  scheduler_.Load(state.orders);
  {
    const MutexLock lock(replay_mutex_);
    CGPU_TRY(LoadRecords(state.replay, replay_));
  }
  CGPU_TRY(accounting_.Load(state, config_));
  export_tags_.Load(state);
  return {};
}

void Server::TakeOver(const ServerState& state) {
  std::vector<std::shared_ptr<const os::Process>> processes;
  for (const ProcessState& one : state.processes) {
    auto process = std::make_shared<os::Process>();
    process->tgid = one.tgid;
    process->ns_pid = one.ns_pid;
    process->serial = one.serial;
    process->shares_with = one.shares_with;
    process->pidfd.reset(one.pidfd);
    process->mem.reset(one.mem);
    process->program = one.serial;
    processes.push_back(std::move(process));
  }
  callers_->Adopt(processes, state.next_serial);
  ProcessesBySerial by_serial;
  for (const auto& process : processes) {
    by_serial[process->serial] = process;
  }
  managed_.TakeOver(state, by_serial);
  spaces_.TakeOver(state, by_serial);
  client_files_.TakeOver(state, by_serial);
  pool_.Load(state);
  proof_.Load(state);
}

Result<> Server::Quiesce(std::chrono::milliseconds timeout) {
  scheduler_.LetThrough();
  const bool quiet = pool_.Quiesce(timeout);
  if (quiet && files_.Idle() && spaces_.Idle()) {
    scheduler_.Pause();
    driver_->FreeDevices();
    return {};
  }
  const std::string busy = quiet ? "the close of a file that does not answer" : pool_.Underway();
  Resume();
  return Error{Code::kConflict, 0, "it is in " + busy, "try again"};
}

void Server::Resume() {
  scheduler_.Resume();
  pool_.Resume();
}

}  // namespace cgpu::shim
