#include "sim/fuse/gpu_link.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <new>

#include "os/messages.h"

namespace cgpu::sim {
namespace {

constexpr int kLowest = 10;  // above the engines' descriptors
constexpr std::chrono::seconds kAccountingTimeout{10};
// As many as a query of utilisation returns, of some groups each.
constexpr std::size_t kKeptSamples = 4096;

// In the forked child. Only async-signal-safe calls.
[[noreturn]] void BecomeEngine(int socket, int shared, char* const* argv) {
  // It ends with the driver's process, of which it is no tenant's business that it is two.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  dup2(socket, wire::kSocketFd);  // both are above
  dup2(shared, wire::kSharedFd);
  execv("/proc/self/exe", argv);
  _exit(127);
}

}  // namespace

Result<GpuLink*> GpuLink::Start(const GpuOptions& options) {
  auto ends = MakeMessagePair();
  if (!ends.ok()) {
    return ends.error();
  }
  const UniqueFd socket(fcntl(ends->second.get(), F_DUPFD_CLOEXEC, kLowest));
  const UniqueFd memory(memfd_create("cgpu-sim-engines", MFD_CLOEXEC));
  const UniqueFd file(fcntl(memory.get(), F_DUPFD_CLOEXEC, kLowest));
  if (!socket.valid() || !file.valid() || ftruncate(file.get(), sizeof(wire::Shared)) != 0) {
    return ErrnoError(Code::kUnavailable, errno, "making memory for the GPUs' engines");
  }
  void* const shared =
      mmap(nullptr, sizeof(wire::Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (shared == MAP_FAILED) {
    return ErrnoError(Code::kUnavailable, errno, "mapping memory for the GPUs' engines");
  }
  std::vector<std::string> words = {"cgpu-sim",
                                    "engine",
                                    std::to_string(options.context_switch_us),
                                    std::to_string(options.preempt_us),
                                    std::to_string(options.copy_gbps),
                                    std::to_string(static_cast<int>(options.slice_effect)),
                                    std::to_string(static_cast<int>(options.disable_effect))};
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) {
    argv.push_back(word.data());
  }
  argv.push_back(nullptr);
  const pid_t pid = fork();
  if (pid < 0) {
    return ErrnoError(Code::kUnavailable, errno, "starting the GPUs' engines");
  }
  if (pid == 0) {
    BecomeEngine(socket.get(), file.get(), argv.data());
  }
  return new GpuLink(std::move(ends->first), new (shared) wire::Shared, pid, options);
}

void GpuLink::Serve(Driver& driver, std::function<std::shared_ptr<Pages>(Block&)> pages) {
  driver_ = &driver;
  pages_ = std::move(pages);
  driver.SetEngines(this);
  std::thread([this] { RunSender(); }).detach();
  std::thread([this] { RunReceiver(); }).detach();
}

void GpuLink::Enqueue(std::string_view bytes, int borrowed) {
  if (!alive_) {
    return;
  }
  Outgoing message{std::string(bytes), UniqueFd()};
  if (borrowed >= 0) {
    message.fd = UniqueFd(fcntl(borrowed, F_DUPFD_CLOEXEC, 0));
  }
  outgoing_.push_back(std::move(message));
  shared_->sent.fetch_add(1, std::memory_order_release);
  to_send_.NotifyOne();
}

void GpuLink::RunSender() {
  MutexLock lock(mutex_);
  while (alive_) {
    if (outgoing_.empty()) {
      to_send_.Wait(mutex_);
      continue;
    }
    const Outgoing message = std::move(outgoing_.front());
    outgoing_.pop_front();
    lock.Unlock();
    (void)SendMessage(socket_.get(), message.bytes, message.fd.get());
    lock.Lock();
  }
}

void GpuLink::RunReceiver() {
  while (true) {
    const Result<Message> message = ReceiveMessage(socket_.get(), -1);
    if (!message.ok()) {
      Died();
      return;
    }
    Receive(message->text);
  }
}

void GpuLink::Died() {
  int status = 0;
  (void)waitpid(pid_, &status, 0);
  std::fprintf(stderr,
               "cgpu-sim: the process of the GPUs' engines (pid %d) ended with wait status 0x%x; "
               "nothing runs on the GPUs any more\n",
               pid_, static_cast<unsigned>(status));
  const MutexLock lock(mutex_);
  alive_ = false;
  outgoing_.clear();
  to_send_.NotifyAll();
  changed_.NotifyAll();
}

void GpuLink::Receive(std::string_view bytes) {
  const auto kind = wire::KindOf(bytes);
  if (!kind) {
    return;
  }
  if (const auto ask = wire::As<wire::Translate>(bytes)) {
    AnswerTranslate(*ask);
  } else if (const auto find = wire::As<wire::FindBlock>(bytes)) {
    AnswerFind(*find);
  } else if (const auto done = wire::As<wire::Done>(bytes)) {
    const MutexLock lock(mutex_);
    pending_.erase(done->key);
    changed_.NotifyAll();
  } else if (const auto fault = wire::As<wire::Fault>(bytes)) {
    const MutexLock lock(mutex_);
    faults_[fault->group] = fault->code;
  } else if (const auto sample = wire::As<wire::Sample>(bytes)) {
    const MutexLock lock(mutex_);
    std::deque<GpuSample>& kept = samples_[static_cast<int>(sample->gpu)];
    kept.push_back(
        {sample->end_ns, sample->length_ns, sample->group, sample->busy_ns, sample->active != 0});
    if (kept.size() > kKeptSamples) {
      kept.pop_front();
    }
  } else {
    ReceiveAccounting(*kind, bytes);
  }
}

void GpuLink::ReceiveAccounting(wire::Kind kind, std::string_view bytes) {
  const MutexLock lock(mutex_);
  if (const auto group = wire::As<wire::GroupAccounting>(bytes)) {
    accounting_.groups.push_back(*group);
  } else if (const auto channel = wire::As<wire::ChannelAccounting>(bytes)) {
    accounting_.channels.push_back(*channel);
  } else if (const auto runlist = wire::As<wire::RunlistAccounting>(bytes)) {
    accounting_.runlists.push_back(*runlist);
  } else if (const auto starts = wire::As<wire::Starts>(bytes)) {
    for (std::uint64_t i = 0; i < starts->count && i < wire::Starts::kMost; ++i) {
      accounting_.starts.emplace_back(static_cast<int>(starts->gpu), starts->starts[i]);
    }
  } else if (kind == wire::Kind::kAccountingEnd) {
    if (const auto end = wire::As<wire::AccountingEnd>(bytes)) {
      pending_.erase(end->key);
      changed_.NotifyAll();
    }
  }
}

Result<EngineAccounting> GpuLink::AskAccounting(std::uint64_t starts_from) {
  const MutexLock one(asking_);
  const MutexLock lock(mutex_);
  accounting_ = {};
  const GpuTicket ticket = next_ticket_++;
  pending_.insert(ticket);
  Enqueue(wire::Bytes(wire::AskAccounting{.key = ticket, .value = starts_from}), -1);
  const bool answered = WaitFor(ticket, std::chrono::steady_clock::now() + kAccountingTimeout);
  pending_.erase(ticket);
  if (!answered) {
    return Error{Code::kUnavailable, 0, "the GPUs' engines do not answer",
                 "their process may have been stopped; see pid " + std::to_string(pid_)};
  }
  accounting_.alive = alive_;
  accounting_.faults = faults_;
  return accounting_;
}

bool GpuLink::WaitFor(GpuTicket ticket, std::chrono::steady_clock::time_point until) {
  while (alive_ && pending_.contains(ticket) && changed_.WaitUntil(mutex_, until)) {
  }
  return !alive_ || !pending_.contains(ticket);
}

// --- Messages of the driver.

void GpuLink::AddGroup(const GpuGroupSetup& group) {
  wire::AddGroup message;
  message.gpu = static_cast<std::uint32_t>(group.gpu);
  message.key = group.key;
  message.runlist = group.engine_type;
  message.interleave = group.interleave;
  message.timeslice_us = group.timeslice_us;
  message.pid = group.pid;
  message.user = group.user;
  Send(message);
}

void GpuLink::RemoveGroup(GpuKey group) {
  const MutexLock lock(mutex_);
  faults_.erase(group);
  Enqueue(wire::Bytes(wire::RemoveGroup{.key = group}), -1);
}

void GpuLink::SetTimeslice(GpuKey group, rm::NvU64 us) {
  Send(wire::SetTimeslice{.key = group, .value = us});
}

void GpuLink::SetInterleave(GpuKey group, rm::NvU32 level) {
  Send(wire::SetInterleave{.key = group, .value = level});
}

void GpuLink::AddChannel(const GpuChannelSetup& channel) {
  wire::AddChannel message;
  message.entries = channel.entries;
  message.key = channel.key;
  message.group = channel.group;
  message.space = channel.space;
  message.gpfifo = channel.gpfifo;
  message.userd_offset = channel.userd_offset;
  message.id = channel.id;
  const auto userd = channel.userd.lock();
  const auto errors = channel.errors.lock();
  const MutexLock lock(mutex_);
  if (userd != nullptr) {
    blocks_[userd->id] = userd;
    message.userd = userd->id;
  }
  if (errors != nullptr) {
    blocks_[errors->id] = errors;
    message.errors = errors->id;
  }
  Enqueue(wire::Bytes(message), -1);
}

void GpuLink::RemoveChannel(GpuKey channel) {
  Send(wire::RemoveChannel{.key = channel});
}

void GpuLink::SetEventBuffer(const GpuEventBuffer& buffer) {
  const auto header = buffer.header.lock();
  const auto records = buffer.records.lock();
  if (header == nullptr || records == nullptr) {
    return;
  }
  wire::EventBuffer message;
  message.bound = buffer.gpu >= 0 ? 1 : 0;
  message.key = buffer.key;
  message.header = header->id;
  message.records = records->id;
  message.record_bytes = buffer.record_bytes;
  message.record_count = buffer.record_count;
  message.gpu = static_cast<std::uint32_t>(std::max(buffer.gpu, 0));
  message.enabled = buffer.enabled ? 1 : 0;
  message.keep_newest = buffer.keep_newest ? 1 : 0;
  message.get = buffer.get;
  message.all_users = buffer.all_users ? 1 : 0;
  message.admin = buffer.admin ? 1 : 0;
  message.user = buffer.user;
  const MutexLock lock(mutex_);
  blocks_[header->id] = header;
  blocks_[records->id] = records;
  Enqueue(wire::Bytes(message), -1);
}

void GpuLink::RemoveEventBuffer(GpuKey buffer) {
  Send(wire::RemoveEventBuffer{.key = buffer});
}

void GpuLink::Invalidate(rm::NvU64 space) {
  Send(wire::Invalidate{.key = space});
}

GpuTicket GpuLink::SendOrder(wire::Order::What what, std::span<const GpuKey> keys,
                             bool only_scheduling) {
  const MutexLock lock(mutex_);
  GpuTicket ticket = 0;
  // Those of one order are done in the order of the messages: the last one's answer is for all.
  for (std::size_t at = 0; at < keys.size(); at += wire::Order::kMost) {
    const auto part = keys.subspan(at, std::min<std::size_t>(wire::Order::kMost, keys.size() - at));
    wire::Order order;
    order.what = what;
    order.only_scheduling = only_scheduling ? 1 : 0;
    order.count = static_cast<std::uint32_t>(part.size());
    std::copy(part.begin(), part.end(), order.keys);
    if (at + part.size() == keys.size()) {
      ticket = next_ticket_++;
      pending_.insert(ticket);
      order.ticket = ticket;
    }
    Enqueue(wire::Bytes(order), -1);
  }
  return ticket;
}

GpuTicket GpuLink::Schedule(std::span<const GpuKey> channels, bool on) {
  return SendOrder(on ? wire::Order::What::kSchedule : wire::Order::What::kUnschedule, channels,
                   false);
}

GpuTicket GpuLink::Disable(std::span<const GpuKey> channels, bool off, bool only_scheduling) {
  return SendOrder(off ? wire::Order::What::kDisable : wire::Order::What::kEnable, channels,
                   only_scheduling);
}

GpuTicket GpuLink::Preempt(GpuKey group) {
  return SendOrder(wire::Order::What::kPreempt, std::span(&group, 1), false);
}

GpuTicket GpuLink::Restart(GpuKey channel) {
  return SendOrder(wire::Order::What::kRestart, std::span(&channel, 1), false);
}

GpuTicket GpuLink::Stop(GpuKey channel) {
  return SendOrder(wire::Order::What::kStop, std::span(&channel, 1), false);
}

GpuPort::Waited GpuLink::Await(GpuTicket ticket, rm::NvU64 timeout_us) {
  const auto start = std::chrono::steady_clock::now();
  const MutexLock lock(mutex_);
  if (timeout_us == 0) {
    while (alive_ && pending_.contains(ticket)) {
      changed_.Wait(mutex_);
    }
  } else if (!WaitFor(ticket, start + std::chrono::microseconds(timeout_us))) {
    return Waited::kTimeout;
  }
  return pending_.erase(ticket) == 0 ? Waited::kDone : Waited::kDead;
}

std::vector<GpuSample> GpuLink::Samples(int gpu) {
  const MutexLock lock(mutex_);
  const std::deque<GpuSample>& kept = samples_[gpu];
  return {kept.begin(), kept.end()};
}

}  // namespace cgpu::sim
