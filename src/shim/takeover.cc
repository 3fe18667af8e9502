// Hands a server's state to its successor at a hot upgrade, and takes it over from a predecessor.
#include <algorithm>
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
  for (const auto& file : uvm_files_.All()) {
    const UvmFile::User user = uvm_files_.UserOf(*file);
    state.uvm_files.push_back(
        {file->key, file->file.get(), user.process ? user.process->serial : 0, user.number});
  }
  state.next_uvm_key = uvm_files_.next_key();
  for (const auto& [number, space] : witnesses_.All()) {
    state.witnesses.push_back({number, space->mem.get(), space->maps.get()});
  }
  state.uvm_inodes = uvm_files_.Inodes();
  state.mapping = mapping_.load();
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

Result<> Server::LoadBooks(const ServerState& state) {
  scheduler_.Load(state.orders);
  {
    const MutexLock lock(replay_mutex_);
    CGPU_TRY(LoadRecords(state.replay, replay_));
  }
  CGPU_TRY(accounting_.Load(state, config_));
  export_tags_.Load(state);
  return {};
}

// Takes witnesses over. A predecessor that knew only processes has none: its charges to a process
// are from now on charges to the address space that the process has now.
void Server::TakeWitnesses(const ServerState& state,
                           const std::vector<std::shared_ptr<const os::Process>>& processes) {
  for (const WitnessState& one : state.witnesses) {
    os::AddressSpace space;
    space.mem.reset(one.mem);
    space.maps.reset(one.maps);
    witnesses_.Adopt(one.number, std::move(space));
  }
  std::map<boundary::ManagedBook::Witness, ledger::ProcessKey> used;
  {
    const MutexLock lock(accounting_.mutex);
    used = accounting_.boundary.managed().Witnesses();
  }
  for (const auto& [witness, serial] : used) {
    witnesses_.StartAt(witness + 1);
    const auto process = std::find_if(processes.begin(), processes.end(),
                                      [&](const auto& one) { return one->serial == serial; });
    if (witnesses_.Find(witness) != nullptr || process == processes.end()) {
      continue;
    }
    const pid_t number = (*process)->tgid;
    auto space = os::OpenAddressSpace(callers_->proc_fd(), number, number);
    if (space.ok() && !os::HasExited(**process)) {
      witnesses_.Adopt(witness, std::move(*space));
    }
  }
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
  TakeWitnesses(state, processes);
  for (const UvmFileState& one : state.uvm_files) {
    auto file = std::make_shared<UvmFile>();
    file->key = one.key;
    file->file.reset(one.file);
    const auto user = std::find_if(processes.begin(), processes.end(), [&](const auto& process) {
      return process->serial == one.user;
    });
    uvm_files_.SetUser(*file, user == processes.end() ? nullptr : *user, one.number);
    uvm_files_.PutBack(std::move(file));
  }
  uvm_files_.Adopt(state.next_uvm_key, state.uvm_inodes);
  mapping_.store(state.mapping);
  pool_.Load(state);
  proof_.Load(state);
}

Result<> Server::Quiesce(std::chrono::milliseconds patience) {
  scheduler_.LetThrough();
  const bool quiet = pool_.Quiesce(patience);
  if (quiet && files_.Idle() && closer_->Idle()) {
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
