#include "shim/server.h"

#include <cerrno>
#include <thread>

#include "base/result.h"
#include "rm/nv_controls.h"
#include "rm/nv_status.h"

namespace cgpu::shim {
namespace {

using boundary::Decision;
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
               std::vector<boundary::CardIds> cards, std::unique_ptr<os::CallerLookup> callers,
               UniqueFd record, GpuCalls& calls)
    : config_(std::move(config)),
      abi_(abi),
      driver_(std::move(driver)),
      recorder_(std::move(record)),
      callers_(std::move(callers)),
      accounting_(config_, abi, std::move(cards)),
      pool_(*this, callers_->proc_fd()),
      admission_(config_.cards.size() + 1),
      scheduler_(config_.cards.size(), driver_.get(),
                 [this](std::size_t card, std::uint64_t seen) {
                   return accounting_.ChannelsOf(card, seen);
                 }),
      export_tags_(accounting_, driver_.get(), hurry_),
      processes_(accounting_, *callers_, pool_),
      proof_(config_, callers_->proc_fd(), accounting_, pool_, processes_),
      files_(config_, callers_->proc_fd(), processes_),
      executor_(calls, !rm::NotCompared(config_.driver).empty()),
      spaces_(abi, callers_->proc_fd(), accounting_, executor_, processes_, hurry_),
      questions_(abi, accounting_, executor_, spaces_.files()),
      managed_(callers_->proc_fd(), accounting_, spaces_.files(), questions_, processes_, hurry_,
               [this] { ReconcileForCall(); }) {}

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
  if (auto pending = Prepare(source, notification)) {
    Admit(std::move(pending), pool_.NearlyFull());
  }
}

void Server::Admit(std::unique_ptr<Pending> pending, bool hold) {
  // A thread is in one call at a time: a call that is parked for it was interrupted, and holds
  // files.
  (void)admission_.Purge(
      [&](const Pending& parked) { return parked.notification.tid == pending->notification.tid; });
  boundary::Needs needs;
  {
    const MutexLock lock(accounting_.mutex);
    needs = accounting_.boundary.NeedsOf(pending->call);
  }
  pending->claim.exclusive.assign(needs.clients.begin(), needs.clients.end());
  if (needs.space) {
    pending->claim.exclusive.push_back(*needs.space == boundary::kAnySpace ? kAnySpaceKey
                                                                           : *needs.space);
  }
  if (!config_.killable && pending->call.ChangesState()) {
    // A restarted call waits for the one it repeats.
    pending->claim.exclusive.push_back(kThreadKey |
                                       static_cast<std::uint32_t>(pending->notification.tid));
  }
  // RM's locks are shared by calls that name no GPU; nvidia-uvm's belong to an address space.
  const bool of_rm = pending->call.uvm_request == 0;
  const int no_card = of_rm ? static_cast<int>(config_.cards.size()) : -1;
  pending->claim.card = needs.card ? static_cast<int>(*needs.card) : no_card;
  pending->claim.releases = pending->call.Releases();
  hold = hold && !pending->claim.releases;
  pending->waited = true;  // a call that Start() keeps is checked again when it gets its turn
  if (auto ready = admission_.Start(std::move(pending), hold)) {
    ready->waited = false;
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

void Server::Run(std::unique_ptr<Pending> pending) {
  const Notification notification = pending->notification;
  const Claim claim = pending->claim;
  bool copy_out = false;
  int error = 0;
  // Without killable waits a signal can have ended the call even before its turn, and its
  // repetition may be over.
  bool alive =
      (!pending->waited && config_.killable) || pending->source->listener.Valid(notification.id);
  if (alive && pending->waited && !config_.killable) {
    // Its parameters may be what an earlier execution of the same call wrote meanwhile.
    auto renewed = CopyIn(pending->source, notification, false, nullptr);
    if (renewed && (renewed->call.client != pending->call.client ||
                    renewed->call.source_client != pending->call.source_client)) {
      Finish(claim);
      Admit(std::move(renewed), false);  // another call now, which needs other clients
      return;
    }
    alive = renewed != nullptr;
    if (alive) {
      pending = std::move(renewed);
    }
  }
  if (alive) {
    if (!config_.killable) {
      const MutexLock lock(replay_mutex_);
      replay_.Begin(KeyOf(*pending));
    }
    error = SeeThrough(*pending, &copy_out);
  }
  if (config_.killable) {
    Finish(claim);  // the caller waits: the next call need not
    if (alive) {
      Deliver(*pending, copy_out, error);
    }
    return;
  }
  // While the claim is held no repetition is answered, so the caller has not continued and put
  // other parameters into this memory. A repetition gets the results from the record.
  if (alive && pending->source->listener.Valid(notification.id)) {
    Deliver(*pending, copy_out, error);
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

// Decides; where there is no room, after a look at what has been closed meanwhile.
Decision Server::Decide(Pending& pending) {
  const auto decide = [&] {
    const MutexLock lock(accounting_.mutex);
    Decision decision = accounting_.boundary.Decide(pending.call);
    accounting_.NoteRefusals();
    return decision;
  };
  Decision decision = decide();
  if (decision.over_limit) {
    ReconcileForCall();
    decision = decide();
  }
  if (decision.over_limit) {
    const MutexLock lock(accounting_.mutex);
    accounting_.ledger.CountDenial(*decision.card);
  }
  if (decision.effects.makes_space) {
    if (const auto refused = spaces_.Refuse(pending)) {
      decision.action = Decision::Action::kAnswer;
      boundary::SetStatus(pending.call, *refused);
    }
  }
  return decision;
}

// Executes the call and accounts for it. Returns the errno for the tenant.
int Server::ExecuteDecided(Pending& pending, Decision& decision) {
  if (decision.effects.shows_memory) {
    (void)managed_.Settle();
  }
  const auto no_questions = questions_.KeepOut(decision);
  const auto schedules = CardOfSchedule(pending.call, decision);
  int error = decision.error;
  if (schedules &&
      !scheduler_.BeforeSchedule(*schedules, pending.call.client, pending.call.object)) {
    boundary::SetStatus(pending.call, rm::NV_ERR_NOT_SUPPORTED);
    accounting_.CountRefused("a channel that cannot be given its share");
  } else if (decision.effects.switches_channels) {
    error = SwitchChannels(pending, *decision.card);
  } else {
    error = executor_.Execute(pending);
  }
  if (schedules) {
    scheduler_.AfterSchedule(*schedules);
  }
  std::optional<boundary::Undo> undo;
  {
    const MutexLock lock(accounting_.mutex);
    undo = accounting_.boundary.Account(pending.call, decision, error);
  }
  if (decision.effects.frees_objects) {
    scheduler_.AfterFree();
  }
  if (undo) {
    driver_->Free(pending.file.get(), undo->client, undo->object);
    const MutexLock lock(accounting_.mutex);
    accounting_.boundary.Undone(pending.call, decision);
    accounting_.NoteRefusals();
  }
  return error;
}

// Sees the call through. Returns the errno for the tenant.
int Server::SeeThrough(Pending& pending, bool* copy_out) {
  ReplayKey key;
  Image input;
  const bool recorded = !config_.killable && pending.call.ChangesState();
  if (recorded && Replayed(pending, key, input)) {
    *copy_out = true;
    return 0;
  }
  if (!export_tags_.Prepare(pending)) {
    return ENOMEM;
  }
  Decision decision = Decide(pending);
  int error = decision.error;
  pending.proceed = decision.action == Decision::Action::kContinue;
  if (decision.effects.lists_processes) {
    AnswerOfProcesses(pending.call, decision);
  }
  if (decision.action == Decision::Action::kExecute) {
    if (const auto ready = PrepareDevice(decision); !ready.ok()) {
      const MutexLock lock(accounting_.mutex);
      (void)accounting_.boundary.Account(pending.call, decision, EIO);
      return EIO;  // an allocation without a tag
    }
    error = ExecuteDecided(pending, decision);
  }
  const bool done = error == 0 && boundary::StatusOf(pending.call) == rm::NV_OK;
  if (decision.effects.makes_space && done) {
    spaces_.Keep(pending);
  }
  export_tags_.Settle(pending, done);
  *copy_out = error == 0 && decision.action != Decision::Action::kFail && !pending.proceed;
  recorder_.Call(*pending.caller->process, pending.call, error,
                 decision.action == Decision::Action::kExecute || pending.proceed);
  if (recorded) {
    const MutexLock lock(replay_mutex_);
    replay_.Add({key, std::move(input), ImageOf(pending.call), error});
  }
  return error;
}

void Server::AnswerOfProcesses(boundary::Call& call, const Decision& decision) {
  if (decision.effects.shows_memory) {
    (void)managed_.Settle();
  }
  const auto pids = ContainerPids();
  const MutexLock lock(accounting_.mutex);
  accounting_.boundary.AnswerOfProcesses(call, decision, pids);
}

// Returns the GPU of the channels that the call schedules, if it does.
std::optional<ledger::Card> Server::CardOfSchedule(const boundary::Call& call,
                                                   const Decision& decision) {
  if (!decision.effects.schedules_channels) {
    return std::nullopt;
  }
  const MutexLock lock(accounting_.mutex);
  const auto client = accounting_.ledger.FindClient(call.client);
  return client ? accounting_.ledger.CardOf(client->ref, call.object) : std::nullopt;
}

// Switches channels for their owner. The driver is asked only for channels that are not off by
// order; the tenant sees what it asked for.
int Server::SwitchChannels(Pending& pending, ledger::Card card) {
  using Params = rm::NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS;
  boundary::Bytes& bytes = pending.call.nested[0].bytes;
  const auto asked = boundary::Load<Params>(bytes);
  std::vector<Scheduler::ChannelName> channels;
  for (std::size_t i = 0; i < asked.numChannels; ++i) {
    channels.emplace_back(asked.hClientList[i], asked.hChannelList[i]);
  }
  int error = 0;
  boundary::SetStatus(pending.call, rm::NV_OK);
  scheduler_.SwitchByOwner(card, channels, asked.bDisable == 0,
                           [&](const std::vector<std::size_t>& places) {
                             Params params = asked;
                             params.numChannels = 0;
                             for (const std::size_t place : places) {
                               const std::size_t at = params.numChannels++;
                               params.hClientList[at] = asked.hClientList[place];
                               params.hChannelList[at] = asked.hChannelList[place];
                             }
                             boundary::Store(bytes, params);
                             error = executor_.Execute(pending);
                             return error == 0 && boundary::StatusOf(pending.call) == rm::NV_OK;
                           });
  boundary::Store(bytes, asked);
  return error;
}

// Opens the GPU that the call is about to use, and tells the boundary its sizes.
Result<> Server::PrepareDevice(const Decision& decision) {
  if (!decision.effects.opens_gpu || !decision.card) {
    return {};
  }
  std::uint32_t instance = 0;
  {
    const MutexLock lock(accounting_.mutex);
    instance = accounting_.boundary.cards()[*decision.card].device_instance;
  }
  CGPU_TRY(driver_->OpenCard(*decision.card, instance));
  const boundary::CardFigures figures = driver_->FiguresOf(*decision.card);
  const MutexLock lock(accounting_.mutex);
  accounting_.boundary.SetFigures(*decision.card, figures);
  return {};
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

std::map<ledger::ProcessKey, std::uint32_t> Server::ContainerPids() const {
  std::map<ledger::ProcessKey, std::uint32_t> pids;
  for (const auto& process : callers_->Processes()) {
    pids[process->serial] = static_cast<std::uint32_t>(process->ns_pid);
  }
  return pids;
}

}  // namespace cgpu::shim
