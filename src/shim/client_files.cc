#include "shim/client_files.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <set>
#include <utility>

#include "os/spare.h"

namespace cgpu::shim {

ClientFiles::ClientFiles(int proc, const Driver* driver, const ContainerProcesses& processes,
                         const Hurry& hurry)
    : proc_(proc),
      driver_(driver),
      processes_(processes),
      hurry_(hurry),
      began_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void ClientFiles::Reset() {
  eventfd_t count = 0;
  (void)eventfd_read(began_.get(), &count);
}

void ClientFiles::Find(Pending& pending) {
  const MutexLock lock(mutex_);
  const auto found = clients_.find(pending.call.client);
  pending.client_file = found == clients_.end() ? nullptr : files_.Get(found->second.key);
  if (pending.client_file != nullptr) {
    left_since_.erase(pending.client_file->key);
  }
}

KeptFiles::Pointer ClientFiles::KeptFileOf(ledger::Handle client) const {
  const MutexLock lock(mutex_);
  const auto found = clients_.find(client);
  return found == clients_.end() ? nullptr : files_.Get(found->second.key);
}

UniqueFd ClientFiles::FileOf(ledger::Handle client) const {
  const auto file = KeptFileOf(client);
  return file == nullptr ? UniqueFd() : os::Duplicate(file->file.get());
}

bool ClientFiles::Keep(Pending& pending, ledger::ClientRef client) {
  const MutexLock lock(mutex_);
  KeptFiles::Pointer file = files_.Find(pending.file.get());
  if (file == nullptr) {
    UniqueFd duplicate = os::Frugally(os::Duplicate(pending.file.get()));
    if (!duplicate.valid()) {
      return false;
    }
    file = files_.Add(std::move(duplicate));
    if (files_.size() == 1) {
      (void)eventfd_write(began_.get(), 1);
    }
  }
  files_.SetUser(*file, pending.caller->process, static_cast<int>(pending.notification.args[0]));
  clients_[client.handle] = {client.serial, file->key};
  return true;
}

void ClientFiles::Forget(ledger::ClientRef client) {
  KeptFiles::Pointer file;  // closed when the lock is given back
  const MutexLock lock(mutex_);
  const auto found = clients_.find(client.handle);
  if (found == clients_.end() || found->second.serial != client.serial) {
    return;
  }
  file = files_.Get(found->second.key);
  clients_.erase(found);
  if (file != nullptr && ClientsOn(*file).empty()) {
    (void)files_.Take(file);
  }
}

bool ClientFiles::InUse() const {
  return std::ranges::all_of(files_.All(),
                             [this](const auto& file) { return files_.InUse(*file); });
}

// Returns the files that no process has, and that nobody will receive.
std::vector<KeptFiles::Pointer> ClientFiles::LeftBehind(bool at_leisure) {
  const auto enough = [&] { return hurry_.CutsShort(at_leisure); };
  const auto processes = [this] { return processes_.All(); };
  auto left = files_.LeftBehind(proc_, processes, enough);
  const bool in_flight = !left.empty() && os::HasFilesInFlight(proc_, processes(), enough);
  if (!left.empty() && !in_flight) {
    // One may have been received between the two looks.
    const auto again = files_.LeftBehind(proc_, processes, enough);
    std::erase_if(left, [&](const auto& file) { return std::ranges::count(again, file) == 0; });
    return left;
  }
  const auto now = Clock::now();
  const MutexLock lock(mutex_);
  std::map<std::uint64_t, Clock::time_point> since;
  for (const auto& file : left) {
    const auto known = left_since_.find(file->key);
    since[file->key] = known == left_since_.end() ? now : known->second;
  }
  left_since_ = std::move(since);
  std::erase_if(left, [&](const auto& file) CGPU_REQUIRES(mutex_) {
    return now - left_since_.at(file->key) < kInFlight;
  });
  return left;
}

// Closes the files without clients that a call had when its client was forgotten.
void ClientFiles::TakeUnused() {
  const auto files = files_.All();
  const MutexLock lock(mutex_);
  std::set<std::uint64_t> used;
  for (const auto& [handle, client] : clients_) {
    used.insert(client.key);
  }
  for (const auto& file : files) {
    if (!used.contains(file->key)) {
      (void)files_.Take(file);
    }
  }
}

bool ClientFiles::Reconcile(bool at_leisure) {
  TakeUnused();
  bool changed = false;
  for (const auto& file : LeftBehind(at_leisure)) {
    std::vector<ledger::ClientRef> clients;
    {
      const MutexLock lock(mutex_);
      if (!files_.Take(file)) {
        continue;  // a call has it
      }
      clients = ClientsOn(*file);
    }
    for (const ledger::ClientRef client : clients) {
      if (hurry_.CutsShort(at_leisure)) {
        files_.PutBack(file);
        return changed;
      }
      driver_->Free(file->file.get(), client.handle, client.handle);
      Forget(client);
      changed = true;
    }
  }
  return changed;
}

std::vector<ledger::ClientRef> ClientFiles::ClientsOn(const KeptFile& file) const {
  std::vector<ledger::ClientRef> found;
  for (const auto& [handle, client] : clients_) {
    if (client.key == file.key) {
      found.push_back({handle, client.serial});
    }
  }
  return found;
}

void ClientFiles::Save(ServerState& state) const {
  const MutexLock lock(mutex_);
  std::map<std::uint64_t, ClientFileState> by_key;
  for (const auto& file : files_.All()) {
    const KeptFile::User user = files_.UserOf(*file);
    by_key[file->key] = {
        file->file.get(), user.process ? user.process->serial : 0, user.number, {}, {}};
  }
  for (const auto& [handle, client] : clients_) {
    by_key.at(client.key).clients.push_back(handle);
    by_key.at(client.key).serials.push_back(client.serial);
  }
  for (auto& [key, file] : by_key) {
    state.client_files.push_back(std::move(file));
  }
}

void ClientFiles::TakeOver(const ServerState& state, const ProcessesBySerial& processes) {
  const MutexLock lock(mutex_);
  for (const ClientFileState& one : state.client_files) {
    const KeptFiles::Pointer file = files_.Add(UniqueFd(one.file));
    const auto user = processes.find(one.user);
    files_.SetUser(*file, user == processes.end() ? nullptr : user->second, one.number);
    for (std::size_t i = 0; i < std::min(one.clients.size(), one.serials.size()); ++i) {
      clients_[one.clients[i]] = {one.serials[i], file->key};
    }
  }
}

}  // namespace cgpu::shim
