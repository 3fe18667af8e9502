// The server's part for nvidia-uvm: mappings, address spaces and their end.
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <set>
#include <utility>

#include "rm/nv_status.h"
#include "rm/uvm_table.h"
#include "shim/server.h"

namespace cgpu::shim {
namespace {

template <class T>
boundary::Call OwnCall(std::uint64_t space, std::uint32_t request, const rm::Abi& abi,
                       const T& params) {
  const rm::UvmRow* row = rm::FindUvm(request);
  boundary::Call call;
  call.uvm_request = request;
  call.uvm_status = row->status.At(abi.branch);
  call.uvm_space = space;
  call.image.resize(row->size.At(abi.branch));
  std::memcpy(call.image.data(), &params, std::min(sizeof(T), call.image.size()));
  return call;
}

}  // namespace

// An mmap that could make managed memory. All its arguments are registers, so what is judged is
// what the kernel executes, but for the file that the descriptor leads to.
void Server::SeeMmap(const Source& source, const kernel::Notification& notification) {
  ListenSoon();
  const boundary::MmapArgs args = {notification.args[0], notification.args[1], notification.args[2],
                                   notification.args[3], notification.args[5]};
  auto caller = callers_.Find(notification.tid);
  if (!caller.ok()) {
    (void)Answer(source, notification.id, ENOMEM);
    return;
  }
  bool uvm_file = false;
  if (const auto known = LookAt(**caller, static_cast<int>(notification.args[4])); known.ok()) {
    uvm_file = *known && (*known)->kind == boundary::FileKind::kUvm;
  }
  boundary::AddressRange range;
  const boundary::MmapKind kind = boundary::JudgeMmap(args, uvm_file, &range);
  if (kind != boundary::MmapKind::kHarmless && source.listener.Valid(notification.id)) {
    const ledger::ProcessKey process = (*caller)->process->serial;
    if (kind == boundary::MmapKind::kManaged && !ChargeMapping(process, notification.tid, range)) {
      recorder_.Mapping(*(*caller)->process, args.length, ENOMEM);
      (void)Answer(source, notification.id, ENOMEM);
      return;
    }
    if (uvm_file) {
      recorder_.Mapping(*(*caller)->process, args.length, 0);
    }
    if (kind == boundary::MmapKind::kSuspect) {
      const std::lock_guard lock(state_mutex_);
      boundary_.managed().Watch(process, notification.tid, range);
      mapping_.store(true, std::memory_order_relaxed);
    }
  }
  (void)source.listener.Continue(notification.id);
  if (kind == boundary::MmapKind::kSuspect && !uvm_files_.All().empty()) {
    CallForAttention();
  }
}

bool Server::ChargeMapping(ledger::ProcessKey process, pid_t thread, boundary::AddressRange range) {
  const auto charge = [&] {
    const std::lock_guard lock(state_mutex_);
    mapping_.store(true, std::memory_order_relaxed);
    return boundary_.managed().Charge(process, thread, range);
  };
  auto full = charge();
  if (full) {
    ReconcileForCall();
    full = charge();
  }
  if (!full) {
    return true;
  }
  CountRefused("managed memory over the limit");
  const std::lock_guard lock(state_mutex_);
  ledger_.CountDenial(*full);
  return false;
}

// The thread makes another call, so the mapping it was let into is over.
void Server::NoteThread(pid_t thread) {
  if (!mapping_.load(std::memory_order_relaxed)) {
    return;
  }
  std::size_t unsettled = 0;
  {
    const std::lock_guard lock(state_mutex_);
    boundary_.managed().Over(thread);
    unsettled = boundary_.managed().Unsettled();
    mapping_.store(!boundary_.managed().Unfinished().empty(), std::memory_order_relaxed);
  }
  constexpr std::size_t kManyUnsettled = 32;
  if (unsettled >= kManyUnsettled) {
    (void)SettleManaged();
  }
}

// True: something may have been given back.
bool Server::SettleManaged() {
  std::vector<ledger::ProcessKey> processes;
  std::vector<boundary::ManagedBook::Thread> threads;
  {
    const std::lock_guard lock(state_mutex_);
    processes = boundary_.managed().Processes();
    threads = boundary_.managed().Unfinished();
  }
  if (processes.empty()) {
    return false;
  }
  for (const auto thread : threads) {
    if (kernel::HasLeftCall(callers_.proc_fd(), thread, SYS_mmap)) {
      const std::lock_guard lock(state_mutex_);
      boundary_.managed().Over(thread);
    }
  }
  const kernel::InodeSet inodes = uvm_files_.Inodes();
  const auto alive = callers_.Processes();
  for (const ledger::ProcessKey process : processes) {
    const auto found = std::find_if(alive.begin(), alive.end(),
                                    [&](const auto& one) { return one->serial == process; });
    if (found == alive.end()) {
      ForgetMappings(process);
    } else {
      SettleProcess(**found, inodes);
    }
  }
  return true;
}

void Server::SettleProcess(const kernel::Process& process, const kernel::InodeSet& inodes) {
  boundary::ManagedBook::Look look = 0;
  {
    const std::lock_guard lock(state_mutex_);
    look = boundary_.managed().BeginLook();
  }
  const auto mapped = kernel::ReadMappings(callers_.proc_fd(), process.tgid, inodes);
  if (!mapped.ok() || kernel::HasExited(process)) {
    return;  // gone, or about to be: the next look finds it so
  }
  std::vector<boundary::AddressRange> shown;
  shown.reserve(mapped->size());
  for (const kernel::MappedRange& range : *mapped) {
    shown.push_back({range.start, range.end});
  }
  bool fits = true;
  {
    const std::lock_guard lock(state_mutex_);
    fits = boundary_.managed().Settle(process.serial, look, std::move(shown));
  }
  if (!fits) {
    // A watched mapping has become managed memory beyond the limit. Only a tenant that swaps
    // descriptors while the kernel looks gets here, and nothing takes the mapping back but the end
    // of its processes. Those not known here have no shim from now on, and end by whoever minds it.
    KillContainer();
    std::_Exit(1);
  }
}

// With the sharing mode the managed ranges of a process that has ended keep their memory until they
// are cleaned up (kernel-open/nvidia-uvm/uvm.c, uvm_vm_close_managed).
void Server::ForgetMappings(ledger::ProcessKey process) {
  for (const auto& file : uvm_files_.All()) {
    boundary::Call call =
        OwnCall(file->key, rm::UVM_CLEAN_UP_ZOMBIE_RESOURCES, abi_, std::uint32_t{0});
    const int error = ExecuteUvm(file->file.get(), call);
    if (error != ENOTCONN && (error != 0 || boundary::StatusOf(call) != rm::NV_OK)) {
      return;
    }
  }
  const std::lock_guard lock(state_mutex_);
  boundary_.managed().Remove(process);
}

// False: one that another INITIALIZE would make is one too many.
bool Server::HasRoomForSpace(const Pending& pending) {
  if (pending.call.uvm_request != rm::UVM_INITIALIZE || pending.uvm != nullptr ||
      uvm_files_.size() < UvmFiles::kMost) {
    return true;
  }
  CountRefused("more open files of nvidia-uvm than " + std::to_string(UvmFiles::kMost));
  return false;
}

// After a successful INITIALIZE.
void Server::KeepSpace(Pending& pending) {
  std::shared_ptr<UvmFile> file = uvm_files_.Find(pending.file.get());
  if (file == nullptr) {
    UniqueFd duplicate = kernel::Duplicate(pending.file.get());
    if (!duplicate.valid()) {
      return;  // of no use to the tenant: every request finds it not initialised
    }
    file = uvm_files_.Add(std::move(duplicate));
    const std::lock_guard lock(state_mutex_);
    boundary_.AddSpace(file->key, pending.call.process);
  }
  uvm_files_.SetUser(*file, pending.caller->process,
                     static_cast<int>(pending.notification.args[0]));
}

// Ends the spaces whose files no process of the container has any more. True: there was one.
bool Server::ReconcileSpaces() {
  bool changed = false;
  for (const auto& file : LeftBehind()) {
    if (CutShort()) {
      break;
    }
    if (uvm_files_.Take(file)) {
      changed = EndSpace(file) || changed;
    }
  }
  return changed;
}

// The files that no process has.
std::vector<std::shared_ptr<UvmFile>> Server::LeftBehind() {
  auto files = uvm_files_.All();
  std::erase_if(files, [](const auto& file) {
    return file->user && kernel::HasFileAt(*file->user, file->number, file->file.get());
  });
  if (files.empty()) {
    return files;
  }
  std::set<pid_t> seen;
  std::vector<pid_t> pids;
  const auto add = [&](pid_t pid) {
    if (seen.insert(pid).second) {
      pids.push_back(pid);
    }
  };
  for (const auto& process : callers_.Processes()) {
    add(process->tgid);
  }
  for (const pid_t root : Roots()) {
    for (const pid_t pid : kernel::Descendants(callers_.proc_fd(), root)) {
      add(pid);
    }
  }
  std::vector<int> wanted;
  wanted.reserve(files.size());
  for (const auto& file : files) {
    wanted.push_back(file->file.get());
  }
  const auto held =
      kernel::FindHeld(callers_.proc_fd(), pids, wanted, [this] { return CutShort(); });
  if (!held) {
    return {};
  }
  std::vector<std::shared_ptr<UvmFile>> left;
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (!(*held)[i]) {
      left.push_back(std::move(files[i]));
    }
  }
  return left;
}

// Asks the driver to give back what is in the space, by requests that the boundary accounts as a
// tenant's. The tables' order: what holds others goes last.
bool Server::EndSpace(const std::shared_ptr<UvmFile>& file) {
  bool driver_ended = false;  // a simulated one: it holds nothing any more
  const auto run = [&](boundary::Call call) {
    const int error = ExecuteUvm(file->file.get(), call);
    driver_ended = driver_ended || error == ENOTCONN;
    const std::lock_guard lock(state_mutex_);
    boundary::Decision decision;
    (void)boundary_.Account(call, decision, error, {});
  };
  std::vector<boundary::Call> calls;
  {
    const std::lock_guard lock(state_mutex_);
    const boundary::UvmSpace* space = boundary_.FindSpace(file->key);
    if (space == nullptr) {
      return false;
    }
    for (const auto& [client, channel] : space->Channels()) {
      const rm::NvProcessorUuid uuid =
          boundary_.cards()[space->CardOfChannel({client, channel})].uuid;
      boundary::Call call =
          abi_.branch >= rm::Branch::k590
              ? OwnCall(file->key, rm::UVM_UNREGISTER_CHANNEL, abi_,
                        rm::UVM_UNREGISTER_CHANNEL_PARAMS_V590{client, channel, 0})
              : OwnCall(file->key, rm::UVM_UNREGISTER_CHANNEL, abi_,
                        rm::UVM_UNREGISTER_CHANNEL_PARAMS_V535{uuid, client, channel, 0});
      call.client = client;
      call.object = channel;
      calls.push_back(std::move(call));
    }
    for (const auto& [base, length] : space->Ranges()) {
      calls.push_back(OwnCall(file->key, rm::UVM_FREE, abi_, rm::UVM_RANGE_HEAD{base, length}));
    }
    calls.push_back(OwnCall(file->key, rm::UVM_CLEAN_UP_ZOMBIE_RESOURCES, abi_, std::uint32_t{0}));
    for (const ledger::Card card : space->va_spaces()) {
      calls.push_back(
          OwnCall(file->key, rm::UVM_UNREGISTER_GPU_VASPACE, abi_, boundary_.cards()[card].uuid));
    }
    for (const ledger::Card card : space->gpus()) {
      calls.push_back(
          OwnCall(file->key, rm::UVM_UNREGISTER_GPU, abi_, boundary_.cards()[card].uuid));
    }
  }
  for (boundary::Call& call : calls) {
    run(std::move(call));
  }
  bool in_use = false;
  {
    const std::lock_guard lock(state_mutex_);
    const boundary::UvmSpace* space = boundary_.FindSpace(file->key);
    in_use = !driver_ended &&
             (space->ranges() != 0 || !space->Channels().empty() || !space->gpus().empty());
    if (!in_use) {
      boundary_.RemoveSpace(file->key);
    }
  }
  if (in_use) {
    uvm_files_.PutBack(file);  // another time
    return false;
  }
  (void)closer_->Add(file->file);  // or here, with the last of those that hold it
  return true;
}

}  // namespace cgpu::shim
