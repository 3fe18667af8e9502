#include "shim/server.h"

#include <cerrno>
#include <thread>

#include "rm/nv_status.h"

namespace cgpu::shim {
namespace {

using os::Notification;

constexpr std::uint64_t kThreadKey = std::uint64_t{1} << 32;  // above every client handle
constexpr std::uint64_t kAnySpaceKey = std::uint64_t{1} << 39;
static_assert(boundary::Boundary::kFirstSpace > kAnySpaceKey);

Image ImageOf(const boundary::Call& call) {
  Image image;
  image.push_back(call.image);
  for (const boundary::Nested& nested : call.nested) {
    image.push_back(nested.bytes);
  }
  return image;
}

ReplayKey KeyOf(const Pending& pending) {
  const Notification& n = pending.notification;
  return {pending.call.process, n.tid, n.ip, {n.args[0], n.args[1], n.args[2]}};
}

}  // namespace

Server::Server(ShimConfig config, const rm::Abi& abi, std::unique_ptr<Driver> driver,
               std::vector<boundary::GpuIds> gpus, std::unique_ptr<os::CallerLookup> callers,
               UniqueFd record, rmclient::GpuCalls& calls)
    : config_(std::move(config)),
      driver_(std::move(driver)),
      recorder_(std::move(record)),
      callers_(std::move(callers)),
      accounting_(config_, abi, std::move(gpus)),
      pool_(*this, callers_->proc_fd()),
      scheduler_(config_.gpus.size(), driver_.get(),
                 [this](std::size_t gpu, std::uint64_t seen) {
                   return accounting_.ChannelsOf(gpu, seen);
                 }),
      processes_(accounting_, *callers_, pool_),
      proof_(config_, callers_->proc_fd(), accounting_, pool_, processes_),
      files_(config_, callers_->proc_fd(), processes_),
      executor_(calls, !rm::NotCompared(config_.driver).empty()),
      export_tags_(accounting_, driver_.get(), hurry_),
      spaces_(abi, callers_->proc_fd(), accounting_, executor_, processes_, hurry_),
      client_files_(callers_->proc_fd(), driver_.get(), processes_, hurry_),
      questions_(abi, accounting_, executor_, spaces_.files()),
      managed_(callers_->proc_fd(), accounting_, questions_, processes_, hurry_,
               [this] { reconciler_.ReconcileForCall(); }),
      reconciler_(accounting_, driver_.get(), scheduler_, client_files_, export_tags_, managed_,
                  spaces_, hurry_),
      control_(config_, accounting_, scheduler_, driver_.get(), *callers_),
      receiver_(abi, *callers_, recorder_, accounting_, pool_, processes_, proof_, files_, spaces_,
                managed_),
      steps_(accounting_, driver_.get(), scheduler_, *callers_, recorder_, executor_, export_tags_,
             spaces_, client_files_, questions_, managed_, reconciler_),
      admission_(config_.gpus.size() + 1) {
  if (driver_ != nullptr) {
    driver_->FindFilesBy([this](ledger::Handle client) { return client_files_.FileOf(client); });
  }
}

void Server::Start() {
  files_.Start();
  spaces_.Start();
  std::thread(&Server::WatchOverdue, this).detach();
  scheduler_.Resume();
}

// Runs the thread that lets calls continue beside those that take long. It waits while nothing is
// parked.
void Server::WatchOverdue() {
  constexpr std::chrono::milliseconds kLong{2};
  while (true) {
    {
      const MutexLock lock(overdue_mutex_);
      while (admission_.parked() == 0) {
        anything_parked_.Wait(overdue_mutex_);
      }
    }
    std::this_thread::sleep_for(kLong);
    for (auto& call : admission_.Overdue()) {
      if (!pool_.RunElsewhere(call)) {
        admission_.PutBack(std::move(call));
      }
    }
  }
}

void Server::Handle(const SourcePtr& source, const Notification& notification) {
  if (auto pending = receiver_.Receive(source, notification)) {
    Admit(std::move(pending), pool_.NearlyFull(), 0);
  }
}

Claim Server::ClaimOf(const Pending& pending) {
  boundary::Needs needs;
  {
    const MutexLock lock(accounting_.mutex);
    needs = accounting_.boundary.NeedsOf(pending.call);
  }
  Claim claim;
  claim.exclusive.assign(needs.clients.begin(), needs.clients.end());
  if (needs.space) {
    claim.exclusive.push_back(*needs.space == boundary::kAnySpace ? kAnySpaceKey : *needs.space);
  }
  if (!config_.killable && pending.call.ChangesState()) {
    // A restarted call waits for the one it repeats.
    claim.exclusive.push_back(kThreadKey | static_cast<std::uint32_t>(pending.notification.tid));
  }
  // RM's locks are shared by calls that name no GPU; nvidia-uvm's belong to an address space.
  const bool of_rm = pending.call.uvm_request == 0;
  const int no_gpu = of_rm ? static_cast<int>(config_.gpus.size()) : -1;
  claim.gpu = needs.gpu ? static_cast<int>(*needs.gpu) : no_gpu;
  claim.releases = pending.call.Releases();
  return claim;
}

// Lets the call run, or parks it. `changes`: see ParkedCall.
void Server::Admit(std::unique_ptr<Pending> pending, bool hold, int changes) {
  // A thread is in one call at a time: a call that is parked for it was interrupted.
  (void)admission_.Purge([&](const ParkedCall& parked) {
    return parked.notification.tid == pending->notification.tid;
  });
  Claim claim = ClaimOf(*pending);
  hold = hold && !claim.releases;
  if (admission_.Start(claim, hold)) {
    TakeTurn(*pending, claim);
    return;
  }
  auto parked = std::make_unique<ParkedCall>(
      ParkedCall{pending->source, pending->notification, std::move(claim), changes});
  pending.reset();  // its files are closed before another thread can answer the call
  if (auto ready = admission_.Park(std::move(parked), hold)) {
    Run(std::move(ready));
    return;
  }
  const MutexLock lock(overdue_mutex_);
  anything_parked_.NotifyOne();
}

void Server::Finish(const Claim& claim) {
  for (auto& ready : admission_.Finish(claim)) {
    if (!pool_.RunElsewhere(ready)) {  // so that none waits for another's driver call
      Run(std::move(ready));
    }
  }
}

// Continues with a call that was parked and has the claim that it waited for. What it is now may
// need another one: the caller's other threads may have changed it meanwhile, or what it names has
// come or gone.
void Server::Run(std::unique_ptr<ParkedCall> parked) {
  constexpr int kMostChanges = 8;  // no program needs any; one that makes them costs us work
  auto pending = receiver_.CopyIn(parked->source, parked->notification);
  if (pending != nullptr && ClaimOf(*pending) == parked->claim) {
    TakeTurn(*pending, parked->claim);
    return;
  }
  Finish(parked->claim);
  if (pending == nullptr) {
    return;
  }
  if (parked->changes == kMostChanges) {
    receiver_.Fail(*parked->source, parked->notification, pending->call.Kind(), EIO);
    return;
  }
  Admit(std::move(pending), false, parked->changes + 1);
}

// Sees the call through, answers it and gives its claim back.
void Server::TakeTurn(Pending& pending, const Claim& claim) {
  if (!config_.killable) {
    // A signal can have ended the call before it had its claim, and its repetition may be over.
    if (!pending.source->listener.Valid(pending.notification.id)) {
      Finish(claim);
      return;
    }
    const MutexLock lock(replay_mutex_);
    replay_.Begin(KeyOf(pending));
  }
  bool copy_out = false;
  receiver_.CopyInRest(pending);
  const int error = SeeThrough(pending, &copy_out);
  if (config_.killable) {
    Finish(claim);  // the caller waits: the next call need not
    Deliver(pending, copy_out, error);
    return;
  }
  // While the claim is held no repetition is answered, so the caller has not continued and put
  // other parameters into this memory. A repetition gets the results from the record.
  if (pending.source->listener.Valid(pending.notification.id)) {
    Deliver(pending, copy_out, error);
  }
  Finish(claim);
}

void Server::Deliver(Pending& pending, bool copy_out, int error) {
  if (copy_out && !CopyOut(pending)) {
    error = EFAULT;
  }
  // Closed now, because it takes long if the tenant has closed its own meanwhile.
  pending.file.reset();
  pending.argument.reset();
  accounting_.counters.CountAnswered(pending.call.Kind(), pending.notification.received);
  if (pending.proceed) {
    (void)pending.source->listener.Continue(pending.notification.id);
    return;
  }
  if (pool_.Answer(*pending.source, pending.notification.id, error) && !config_.killable) {
    const MutexLock lock(replay_mutex_);
    replay_.Answered(KeyOf(pending));
  }
}

bool Server::Replayed(Pending& pending, ReplayKey& key, Image& input) {
  key = KeyOf(pending);
  input = ImageOf(pending.call);
  const MutexLock lock(replay_mutex_);
  const ReplayRecord* record = replay_.Find(key, input);
  if (record == nullptr || record->error != 0) {
    return false;
  }
  pending.call.image = record->output[0];
  for (std::size_t i = 0; i < pending.call.nested.size(); ++i) {
    pending.call.nested[i].bytes = record->output[i + 1];
  }
  return true;
}

// Sees the call through, unless an earlier execution of it is on record. Returns the errno for the
// tenant.
int Server::SeeThrough(Pending& pending, bool* copy_out) {
  ReplayKey key;
  Image input;
  const bool recorded = !config_.killable && pending.call.ChangesState();
  if (recorded && Replayed(pending, key, input)) {
    *copy_out = true;
    return 0;
  }
  const CallSteps::Outcome outcome = steps_.Take(pending);
  if (recorded && outcome.taken) {
    const MutexLock lock(replay_mutex_);
    replay_.Add({key, std::move(input), ImageOf(pending.call), outcome.error});
  }
  *copy_out = outcome.copy_out;
  return outcome.error;
}

// Copies the results out in the driver's order, which shows where the tenant overlaps memory: what
// parameters lead to, the parameters, the call (control.c serverControlApiCopyOut(), nv.c). Like
// the driver, it continues where one of the inner ones cannot be written, and reports that in the
// status.
bool Server::CopyOut(Pending& pending) {
  const auto write = [&](std::uint64_t address, const boundary::Bytes& bytes) {
    return bytes.empty() || pending.caller->Write(address, bytes.data(), bytes.size()) ==
                                static_cast<ssize_t>(bytes.size());
  };
  bool ok = true;
  auto& nested = pending.call.nested;
  for (std::size_t i = 1; i <= nested.size(); ++i) {
    const boundary::Nested& next = nested[i % nested.size()];  // the parameters, the first, last
    ok = (!next.copy_out || write(next.address, next.bytes)) && ok;
  }
  if (!ok && !boundary::StatusOf(pending.call)) {
    return false;
  }
  if (!ok) {
    boundary::SetStatus(pending.call, rm::NV_ERR_INVALID_ADDRESS);
  }
  return write(pending.call.address, pending.call.image);
}

void Server::DropDead() {
  for (const std::uint64_t process : callers_->DropDead()) {
    const MutexLock lock(replay_mutex_);
    replay_.DropProcess(process);
  }
  // No claim may wait for a caller that is gone.
  (void)admission_.Purge([](const ParkedCall& parked) {
    return !parked.source->listener.Valid(parked.notification.id);
  });
}

}  // namespace cgpu::shim
