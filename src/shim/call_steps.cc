#include "shim/call_steps.h"

#include <cerrno>
#include <cstddef>
#include <vector>

#include "rm/nv_status.h"

namespace cgpu::shim {

using boundary::Decision;

CallSteps::Outcome CallSteps::Take(Pending& pending) {
  client_files_.Find(pending);
  if (!export_tags_.Prepare(pending)) {
    return {ENOMEM, false, false};
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
      return {EIO, false, false};  // an allocation without a tag
    }
    error = ExecuteDecided(pending, decision);
    KeepClientFile(pending, decision);
  }
  const bool done = error == 0 && boundary::StatusOf(pending.call) == rm::NV_OK;
  if (decision.effects.makes_space && done) {
    spaces_.Keep(pending);
  }
  export_tags_.Settle(pending, done);
  recorder_.Call(*pending.caller->process, pending.call, error,
                 decision.action == Decision::Action::kExecute || pending.proceed);
  return {error, error == 0 && decision.action != Decision::Action::kFail && !pending.proceed,
          true};
}

// Decides; where the call uses what is doubtful, after asking the driver. Each question ends a
// doubt, but a tenant can bring up another one under the same handle meanwhile.
Decision CallSteps::DecideCertain(Pending& pending) {
  constexpr int kMostRounds = 8;
  for (int round = 0; round < kMostRounds; ++round) {
    Decision decision;
    {
      const MutexLock lock(accounting_.mutex);
      decision = accounting_.boundary.Decide(pending.call);
      accounting_.NoteRefusals();
    }
    if (decision.action != Decision::Action::kAsk) {
      return decision;
    }
    for (const ledger::Doubt& doubt : decision.doubts) {
      const auto file = client_files_.KeptFileOf(doubt.client.handle);
      const bool there =
          file != nullptr && driver_->HasObject(file->file.get(), doubt.client.handle,
                                                doubt.object.handle, doubt.parent, doubt.cls);
      const MutexLock lock(accounting_.mutex);
      accounting_.boundary.Settle(doubt, there);
    }
  }
  Decision refusal;
  refusal.error = EAGAIN;
  refusal.refused = boundary::Reason::kInvalid;
  const MutexLock lock(accounting_.mutex);
  accounting_.boundary.CountRefused("a call on what another thread makes again and again");
  accounting_.NoteRefusals();
  return refusal;
}

// Decides; where there is no room, after a look at what has been closed meanwhile.
Decision CallSteps::Decide(Pending& pending) {
  Decision decision = DecideCertain(pending);
  if (decision.over_limit) {
    reconciler_.ReconcileForCall();
    decision = DecideCertain(pending);
  }
  if (decision.over_limit) {
    const MutexLock lock(accounting_.mutex);
    accounting_.CountDenial(*decision.gpu);
  }
  if (decision.refused) {
    accounting_.counters.CountRefused(*decision.refused);
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
int CallSteps::ExecuteDecided(Pending& pending, Decision& decision) {
  if (decision.effects.shows_memory) {
    (void)managed_.Settle();
  }
  const auto no_questions = questions_.KeepOut(decision);
  const auto schedules = WhatIsScheduled(pending.call, decision);
  const auto execute = [&] {
    if (schedules) {
      return Schedule(pending, *schedules);
    }
    return decision.effects.switches_channels ? SwitchChannels(pending, *decision.gpu)
                                              : executor_.Execute(pending);
  };
  const int error = execute();
  Account(pending, decision, error);
  return error;
}

int CallSteps::Schedule(Pending& pending, const Scheduling& what) {
  if (!scheduler_.BeforeSchedule(what.gpu, what.object)) {
    boundary::SetStatus(pending.call, rm::NV_ERR_NOT_SUPPORTED);
    accounting_.CountRefused(boundary::Reason::kNotAllowed,
                             "a channel that cannot be given its share");
    return 0;
  }
  const int error = executor_.Execute(pending);
  using Scheduled = Scheduler::Scheduled;
  const bool done = error == 0 && boundary::StatusOf(pending.call) == rm::NV_OK;
  scheduler_.AfterSchedule(
      what.gpu, what.object,
      !done ? Scheduled::kFailed : (what.on ? Scheduled::kOn : Scheduled::kOff));
  return error;
}

void CallSteps::Account(Pending& pending, Decision& decision, int error) {
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
    accounting_.counters.CountRefused(boundary::Reason::kMemoryLimit);
    accounting_.NoteRefusals();
  }
}

void CallSteps::KeepClientFile(Pending& pending, const Decision& decision) {
  const bool frees = decision.effects.frees_objects && pending.call.object == pending.call.client;
  if (!decision.effects.makes_client && !frees) {
    return;
  }
  const ledger::ClientRef client = decision.client;
  bool exists = false;
  {
    const MutexLock lock(accounting_.mutex);
    const auto now = accounting_.ledger.FindClient(client.handle);
    exists = now && now->ref == client;
  }
  if (!exists) {
    pending.client_file.reset();
    client_files_.Forget(client);
  } else if (decision.effects.makes_client && !client_files_.Keep(pending, client)) {
    driver_->Free(pending.file.get(), client.handle, client.handle);
    boundary::SetStatus(pending.call, rm::NV_ERR_INSUFFICIENT_RESOURCES);
    const MutexLock lock(accounting_.mutex);
    (void)accounting_.ledger.RemoveClient(client);
    accounting_.boundary.DropGoneClients();
  }
}

void CallSteps::AnswerOfProcesses(boundary::Call& call, const Decision& decision) {
  if (decision.effects.shows_memory) {
    (void)managed_.Settle();
  }
  std::map<ledger::ProcessKey, std::uint32_t> pids;
  for (const auto& process : callers_.Processes()) {
    pids[process->serial] = static_cast<std::uint32_t>(process->ns_pid);
  }
  const MutexLock lock(accounting_.mutex);
  accounting_.boundary.AnswerOfProcesses(call, decision, pids);
}

// Returns what the call schedules or takes off its list, if it does.
std::optional<CallSteps::Scheduling> CallSteps::WhatIsScheduled(const boundary::Call& call,
                                                                const Decision& decision) {
  if (!decision.effects.schedules_channels) {
    return std::nullopt;
  }
  const MutexLock lock(accounting_.mutex);
  const auto client = accounting_.ledger.FindClient(call.client);
  if (!client) {
    return std::nullopt;
  }
  const auto gpu = accounting_.ledger.GpuOf(client->ref, call.object);
  const auto object = accounting_.ledger.ChannelOrGroup(client->ref, call.object);
  if (!gpu || !object) {
    return std::nullopt;
  }
  // bEnable comes first in the parameters of all of them (ctrla06c.h, ctrla06fgpfifo.h).
  const auto& params = call.nested[0].bytes;
  return Scheduling{*gpu, *object, !params.empty() && boundary::Load<rm::NvBool>(params) != 0};
}

// Switches channels for their owner. The driver is asked only for channels that are not off by
// order; the tenant sees what it asked for.
int CallSteps::SwitchChannels(Pending& pending, ledger::Gpu gpu) {
  using Params = rm::NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS;
  boundary::Bytes& bytes = pending.call.nested[0].bytes;
  const auto asked = boundary::Load<Params>(bytes);
  std::vector<Scheduler::ChannelName> channels;
  channels.reserve(asked.numChannels);
  for (std::size_t i = 0; i < asked.numChannels; ++i) {
    channels.emplace_back(asked.hClientList[i], asked.hChannelList[i]);
  }
  int error = 0;
  boundary::SetStatus(pending.call, rm::NV_OK);
  scheduler_.SwitchByOwner(gpu, channels, asked.bDisable == 0,
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
Result<> CallSteps::PrepareDevice(const Decision& decision) {
  if (!decision.effects.opens_gpu || !decision.gpu) {
    return {};
  }
  std::uint32_t instance = 0;
  {
    const MutexLock lock(accounting_.mutex);
    instance = accounting_.boundary.gpus()[*decision.gpu].device_instance;
  }
  CGPU_TRY(driver_->OpenGpu(*decision.gpu, instance));
  const boundary::GpuSizes sizes = driver_->SizesOf(*decision.gpu);
  const MutexLock lock(accounting_.mutex);
  accounting_.boundary.SetSizes(*decision.gpu, sizes);
  return {};
}

}  // namespace cgpu::shim
