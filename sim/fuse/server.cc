#define FUSE_USE_VERSION 314
#include "sim/fuse/server.h"

#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <linux/fuse.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/fd.h"
#include "rm/uvm_table.h"
#include "sim/fuse/mappings.h"
#include "sim/fuse/ops.h"
#include "sim/fuse/pages.h"

namespace cgpu::sim {
namespace {

constexpr std::chrono::milliseconds kReleaseTimeout{1000};

}  // namespace

FuseServer::FuseServer(Driver& driver, std::string mount_point)
    : driver_(driver),
      mount_point_(std::move(mount_point)),
      tree_(driver.Gpus(), driver.VersionText()),
      faults_([this](std::uint64_t ticket) { Resume(ticket); },
              [this](std::uint64_t ticket) { return IsKilled(ticket); }) {}

FuseServer::~FuseServer() {
  if (session_ != nullptr) {
    fuse_session_unmount(session_);
    fuse_session_destroy(session_);
  }
}

Result<> FuseServer::Start() {
  char program[] = "cgpu-sim";
  char option[] = "-o";
  char values[] = "allow_other,fsname=cgpu-sim,subtype=cgpu-sim";
  char* argv[] = {program, option, values};
  fuse_args args = FUSE_ARGS_INIT(3, argv);
  session_ = fuse_session_new(&args, &FuseOps::Table(), sizeof(FuseOps::Table()), this);
  if (session_ == nullptr) {
    return Error{Code::kInternal, 0, "libfuse refused the simulated node's options", ""};
  }
  if (fuse_session_mount(session_, mount_point_.c_str()) != 0) {
    return ErrnoError(Code::kUnavailable, errno, "mounting a FUSE file system on " + mount_point_);
  }
  workers_ = std::make_unique<Workers>(session_);
  workers_->Start();
  struct statx info{};
  if (statx(AT_FDCWD, mount_point_.c_str(), AT_STATX_DONT_SYNC, STATX_INO, &info) != 0) {
    return ErrnoError(Code::kInternal, errno, "looking at " + mount_point_);
  }
  node_ = NodeIdentity::Of(makedev(info.stx_dev_major, info.stx_dev_minor));
  return {};
}

void FuseServer::Unmount() {
  (void)umount2(mount_point_.c_str(), MNT_DETACH);
}

void FuseServer::Reply(fuse_req* request, int error) {
  if (error != 0) {
    fuse_reply_err(request, error);
  } else {
    fuse_reply_ioctl(request, 0, nullptr, 0);
  }
}

void FuseServer::Ioctl(fuse_req* request, FileKind kind, FileId file, std::uint32_t number,
                       std::uint64_t argument, pid_t tid) {
  if (tid == 0) {
    fuse_reply_err(request, EIO);  // a task that this pid namespace has no number for
    return;
  }
  auto caller = std::make_unique<ProcCaller>(tid, node_, open_files_);
  if (kind == FileKind::kUvm) {
    if (number == rm::UVM_INITIALIZE || !driver_.UvmIsIdle()) {
      std::set<std::uint32_t> processes = driver_.UvmOwners(file);
      processes.insert(caller->Tgid());
      SettleMappings(std::move(processes));
    }
    Reply(request, driver_.UvmIoctl(file, number, argument, *caller));
    return;
  }
  Call call = driver_.Prepare(file, number, argument, *caller);
  if (const auto rule = faults_.Match(call)) {
    switch (rule->effect) {
      case FaultRule::Effect::kStatus:
        driver_.FailWithStatus(call, rule->value);
        break;
      case FaultRule::Effect::kErrno:
        driver_.FailWithErrno(call, static_cast<int>(rule->value));
        break;
      case FaultRule::Effect::kDelay:
      case FaultRule::Effect::kHold:
        Park(request, std::move(call), std::move(caller), *rule);
        return;
    }
  }
  if (Driver::AsksForMemory(call) && !driver_.UvmIsIdle()) {
    SettleMappings();
  }
  driver_.Execute(call, *caller);
  NoteMapping(call, *caller);
  Reply(request, driver_.Finish(call, *caller));
  RenewSharedData();
}

void FuseServer::Park(fuse_req* request, Call call, std::unique_ptr<ProcCaller> caller,
                      const FaultRule& rule) {
  const std::uint64_t ticket = next_ticket_++;
  {
    const MutexLock lock(parked_mutex_);
    parked_[ticket] = Parked{request, std::move(call), std::move(caller)};
  }
  // In this order: once parked, the call may be answered and `request` gone.
  FuseOps::WatchInterrupt(request, ticket);
  faults_.Park(ticket, rule);
}

bool FuseServer::IsKilled(std::uint64_t ticket) {
  const MutexLock lock(parked_mutex_);
  const auto found = parked_.find(ticket);
  return found != parked_.end() && found->second.caller->IsKilled();
}

void FuseServer::Resume(std::uint64_t ticket) {
  Parked parked;
  {
    const MutexLock lock(parked_mutex_);
    auto node = parked_.extract(ticket);
    if (node.empty()) {
      return;
    }
    parked = std::move(node.mapped());
  }
  FuseOps::UnwatchInterrupt(parked.request);
  faults_.Forget(ticket);
  driver_.Execute(parked.call, *parked.caller);
  NoteMapping(parked.call, *parked.caller);
  Reply(parked.request, driver_.Finish(parked.call, *parked.caller));
}

void FuseServer::SettleMappings(std::set<std::uint32_t> processes) {
  const MutexLock lock(settle_mutex_);
  UvmSeen seen = mappings_.Look(node_, open_files_, std::move(processes));
  seen.keeps_ended = keep_mapped_;
  driver_.SettleUvm(seen);
}

void FuseServer::KeepMapped(bool kept) {
  const MutexLock lock(settle_mutex_);
  keep_mapped_ = kept;
}

void FuseServer::BarrierReleased(Ino barrier) {
  const MutexLock lock(barrier_mutex_);
  barriers_.erase(barrier);
  barrier_changed_.NotifyAll();
}

bool FuseServer::AwaitBarrier(Ino barrier, std::chrono::steady_clock::time_point until) {
  const MutexLock lock(barrier_mutex_);
  while (barriers_.contains(barrier) && barrier_changed_.WaitUntil(barrier_mutex_, until)) {
  }
  return !barriers_.contains(barrier);
}

Result<> FuseServer::Sync(std::chrono::milliseconds timeout) {
  CGPU_TRY(AwaitReleases(timeout));
  SettleMappings();
  return {};
}

Result<> FuseServer::AwaitReleases(std::chrono::milliseconds timeout) {
  UniqueFd file(open((mount_point_ + "/" + FuseOps::kBarrierName).c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info{};
  if (!file.valid() || fstat(file.get(), &info) != 0) {
    return ErrnoError(Code::kUnavailable, errno, "opening a file of the node's own mount");
  }
  const Ino barrier = info.st_ino;
  {
    const MutexLock lock(barrier_mutex_);
    barriers_.insert(barrier);
  }
  file.reset();
  if (!AwaitBarrier(barrier, std::chrono::steady_clock::now() + timeout)) {
    return Error{Code::kUnavailable, 0,
                 "files that were closed have not all been released in " +
                     std::to_string(timeout.count()) + " ms",
                 "the machine may be very busy; try again"};
  }
  workers_->SettleReleases();
  return {};
}

std::shared_ptr<Pages> FuseServer::PagesOf(Block& block) {
  const MutexLock lock(pages_mutex_);
  if (block.pages == nullptr) {
    auto pages = FilePages::Create(block.length);
    if (pages.ok()) {
      block.pages = std::move(pages).value();
    }
  }
  return block.pages;
}

std::shared_ptr<Pages> FuseServer::ManagedPagesOf(FileId file) {
  if (!driver_.IsUvmSpace(file)) {
    return nullptr;
  }
  const MutexLock lock(pages_mutex_);
  std::shared_ptr<Pages>& managed = managed_pages_[file];
  if (managed == nullptr) {
    auto pages = FilePages::Create(static_cast<rm::NvU64>(kAddresses));
    if (pages.ok()) {
      managed = std::move(pages).value();
    }
  }
  return managed;
}

void FuseServer::ForgetManagedPages(FileId file) {
  const MutexLock lock(pages_mutex_);
  managed_pages_.erase(file);
}

void FuseServer::SetEngines(GpuLink* engines) {
  engines_ = engines;
  engines->Serve(driver_, [this](Block& block) { return PagesOf(block); });
}

// The caller waits for its answer, so its file is still there unless another of its threads has
// closed it, which the second look tells.
void FuseServer::NoteMapping(const Call& call, const ProcCaller& caller) {
  if (engines_ == nullptr || call.mapped_file == 0) {
    return;
  }
  UniqueFd path = caller.PathOf(call.mapped_fd);
  struct statx info{};
  if (!path.valid() ||
      statx(path.get(), "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO, &info) != 0 ||
      open_files_.Find(info.stx_ino) != call.mapped_file) {
    return;
  }
  const auto context = driver_.MapContextOf(call.mapped_file);
  if (!context) {
    return;
  }
  // Files that were closed may not have been released yet. What the engines wrote through them must
  // be in the block before the program reads it through this one, and not come later.
  bool others = false;
  driver_.WithBlock(context->block,
                    [&](const Block& block) { others = engines_->UsesOthers(block.id); });
  if (others) {
    (void)AwaitReleases(kReleaseTimeout);
  }
  driver_.WithBlock(context->block, [&](const Block& block) {
    engines_->Mapped(info.stx_ino, std::move(path), *context, block);
  });
  if (others) {
    engines_->Settle();
  }
  if (open_files_.Find(info.stx_ino) != call.mapped_file) {
    Unmapped(info.stx_ino);
  }
}

void FuseServer::Unmapped(Ino ino) {
  if (engines_ != nullptr) {
    engines_->Unmapped(ino);
  }
}

void FuseServer::ReadSharedData(Ino ino, int gpu, std::size_t at, std::span<std::byte> out) {
  {
    const MutexLock lock(shared_data_mutex_);
    shared_data_files_.insert(ino);
  }
  const std::vector<std::byte> page = driver_.SharedData(gpu);
  const std::size_t from = std::min(at, page.size());
  std::copy_n(page.begin() + static_cast<std::ptrdiff_t>(from),
              std::min(out.size(), page.size() - from), out.begin());
}

void FuseServer::ForgetSharedData(Ino ino) {
  const MutexLock lock(shared_data_mutex_);
  shared_data_files_.erase(ino);
}

void FuseServer::RenewSharedData() {
  std::set<Ino> files;
  {
    const MutexLock lock(shared_data_mutex_);
    if (shared_data_files_.empty()) {
      return;
    }
    const std::uint64_t version = driver_.SharedDataVersion();
    if (version == shared_data_version_) {
      return;
    }
    shared_data_version_ = version;
    files = shared_data_files_;
  }
  for (const Ino ino : files) {
    FuseOps::ForgetPages(session_, ino);
  }
}

}  // namespace cgpu::sim
