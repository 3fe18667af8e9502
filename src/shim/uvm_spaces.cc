#include "shim/uvm_spaces.h"

#include <cerrno>
#include <utility>

#include "rm/nv_status.h"
#include "rm/uvm_table.h"
#include "shim/own_call.h"

namespace cgpu::shim {

UvmSpaces::UvmSpaces(const rm::Abi& abi, int proc, Accounting& accounting, Executor& executor,
                     const ContainerProcesses& processes, const Hurry& hurry)
    : abi_(abi),
      proc_(proc),
      accounting_(accounting),
      executor_(executor),
      processes_(processes),
      hurry_(hurry),
      files_(boundary::Boundary::kFirstSpace) {}

void UvmSpaces::Start() {
  Reaper::Start(closer_);
}

void UvmSpaces::Find(Pending& pending) {
  pending.uvm = files_.Find(pending.file.get());
  if (pending.uvm != nullptr) {
    pending.call.uvm_space = pending.uvm->key;
    files_.SetUser(*pending.uvm, pending.caller->process,
                   static_cast<int>(pending.notification.args[0]));
  }
}

std::optional<std::uint32_t> UvmSpaces::Refuse(const Pending& pending) {
  if (pending.uvm != nullptr) {
    return std::nullopt;
  }
  if (files_.size() >= UvmFiles::kMost) {
    accounting_.CountRefused(boundary::Reason::kQuota, "more open files of nvidia-uvm than " +
                                                           std::to_string(UvmFiles::kMost));
    return rm::NV_ERR_INSUFFICIENT_RESOURCES;
  }
  if (!os::ShowItsDevice(pending.file.get())) {
    accounting_.CountRefused(boundary::Reason::kNotAllowed,
                             "a device file of nvidia-uvm on btrfs or overlayfs");
    return rm::NV_ERR_NOT_SUPPORTED;
  }
  // In the driver a file stays initialised until its last close. That includes a file that no
  // process had for a while, whose space is ended here; no tracker knows what was mapped on it
  // since. This request tells (kernel-open/nvidia-uvm/uvm_api.h, UVM_ROUTE_CMD_STACK_INIT_CHECK).
  boundary::Call asked = OwnCall(0, rm::UVM_CLEAN_UP_ZOMBIE_RESOURCES, abi_, std::uint32_t{0});
  if (executor_.ExecuteUvm(pending.file.get(), asked) != 0 ||
      boundary::StatusOf(asked) != rm::NV_ERR_ILLEGAL_ACTION) {
    accounting_.CountRefused(boundary::Reason::kNotAllowed,
                             "a file of nvidia-uvm that no process had for a while");
    return rm::NV_ERR_INVALID_STATE;
  }
  files_.Expect(pending.file.get());
  return std::nullopt;
}

void UvmSpaces::Keep(Pending& pending) {
  std::shared_ptr<KeptFile> file = files_.Find(pending.file.get());
  if (file == nullptr) {
    UniqueFd duplicate = os::Duplicate(pending.file.get());
    if (!duplicate.valid()) {
      return;  // useless to the tenant: from now on it is answered as not initialised
    }
    file = files_.Add(std::move(duplicate));
    const MutexLock lock(accounting_.mutex);
    accounting_.boundary.AddSpace(file->key, pending.call.process);
  }
  files_.SetUser(*file, pending.caller->process, static_cast<int>(pending.notification.args[0]));
}

bool UvmSpaces::Reconcile(bool at_leisure) {
  const auto enough = [&] { return hurry_.CutsShort(at_leisure); };
  bool changed = false;
  for (const auto& file : files_.LeftBehind(proc_, [this] { return processes_.All(); }, enough)) {
    if (enough()) {
      break;
    }
    if (files_.Take(file)) {
      changed = End(file) || changed;
    }
  }
  return changed;
}

// Returns the requests that give back what is in the space. In the tables' order: objects that hold
// others go last.
std::vector<boundary::Call> UvmSpaces::CallsToEmpty(std::uint64_t key) {
  std::vector<boundary::Call> calls;
  const MutexLock lock(accounting_.mutex);
  const boundary::UvmSpace* space = accounting_.boundary.FindSpace(key);
  if (space == nullptr) {
    return calls;
  }
  const auto& gpus = accounting_.boundary.gpus();
  for (const auto& [client, channel] : space->Channels()) {
    const rm::NvProcessorUuid uuid = gpus[space->GpuOfChannel({client, channel})].uuid;
    boundary::Call call =
        abi_.branch >= rm::Branch::k590
            ? OwnCall(key, rm::UVM_UNREGISTER_CHANNEL, abi_,
                      rm::UVM_UNREGISTER_CHANNEL_PARAMS_V590{client, channel, 0})
            : OwnCall(key, rm::UVM_UNREGISTER_CHANNEL, abi_,
                      rm::UVM_UNREGISTER_CHANNEL_PARAMS_V535{uuid, client, channel, 0});
    call.client = client;
    call.object = channel;
    calls.push_back(std::move(call));
  }
  for (const auto& [base, length] : space->Ranges()) {
    calls.push_back(OwnCall(key, rm::UVM_FREE, abi_, rm::UVM_RANGE_HEAD{base, length}));
  }
  calls.push_back(OwnCall(key, rm::UVM_CLEAN_UP_ZOMBIE_RESOURCES, abi_, std::uint32_t{0}));
  for (const ledger::Gpu gpu : space->va_spaces()) {
    calls.push_back(OwnCall(key, rm::UVM_UNREGISTER_GPU_VASPACE, abi_, gpus[gpu].uuid));
  }
  for (const ledger::Gpu gpu : space->gpus()) {
    calls.push_back(OwnCall(key, rm::UVM_UNREGISTER_GPU, abi_, gpus[gpu].uuid));
  }
  return calls;
}

// Asks the driver to give back what is in the space, by requests that the boundary accounts as a
// tenant's.
bool UvmSpaces::End(const std::shared_ptr<KeptFile>& file) {
  std::vector<boundary::Call> calls = CallsToEmpty(file->key);
  if (calls.empty()) {
    return false;  // there is no such space
  }
  bool driver_ended = false;  // a simulated driver: it holds nothing any more
  for (boundary::Call& call : calls) {
    const int error = executor_.ExecuteUvm(file->file.get(), call);
    driver_ended = driver_ended || error == ENOTCONN;
    const MutexLock lock(accounting_.mutex);
    boundary::Decision decision;
    (void)accounting_.boundary.Account(call, decision, error);
  }
  bool in_use = false;
  {
    const MutexLock lock(accounting_.mutex);
    const boundary::UvmSpace* space = accounting_.boundary.FindSpace(file->key);
    in_use = !driver_ended &&
             (space->ranges() != 0 || !space->Channels().empty() || !space->gpus().empty());
    if (!in_use) {
      accounting_.boundary.RemoveSpace(file->key);
    }
  }
  if (in_use) {
    files_.PutBack(file);  // another time
    return false;
  }
  (void)closer_->Add(file->file);  // or here, with the last of those that hold it
  return true;
}

void UvmSpaces::Save(ServerState& state) const {
  for (const auto& file : files_.All()) {
    const KeptFile::User user = files_.UserOf(*file);
    state.uvm_files.push_back(
        {file->key, file->file.get(), user.process ? user.process->serial : 0, user.number});
  }
  state.next_uvm_key = files_.next_key();
  state.uvm_inodes = files_.Inodes();
}

void UvmSpaces::TakeOver(const ServerState& state, const ProcessesBySerial& processes) {
  for (const UvmFileState& one : state.uvm_files) {
    auto file = std::make_shared<KeptFile>();
    file->key = one.key;
    file->file.reset(one.file);
    const auto user = processes.find(one.user);
    files_.SetUser(*file, user == processes.end() ? nullptr : user->second, one.number);
    files_.PutBack(std::move(file));
  }
  files_.SetNextKey(state.next_uvm_key);
  files_.Adopt(state.uvm_inodes);
}

}  // namespace cgpu::shim
