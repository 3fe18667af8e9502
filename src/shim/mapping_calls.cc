// The part of the receiver for mmaps and mremaps, which could make managed memory.
#include <sys/syscall.h>

#include <cerrno>
#include <utility>

#include "boundary/managed.h"
#include "shim/receiver.h"

namespace cgpu::shim {

// Returns whether the number leads to a file of nvidia-uvm that a tenant of this shim initialised.
// Another one may be that of another container, which has sent it: memory that is made in its
// address space is nobody's here.
bool Receiver::IsOwnSpace(const os::Caller& caller, int number) {
  auto taken = files_.Take(caller, number);
  if (!taken.ok()) {
    return false;
  }
  const bool own = spaces_.files().Find(taken->file.get()) != nullptr;
  files_.Discard(std::move(taken->file));
  return own;
}

// Handles an mmap that could make managed memory, or an mremap that could bring it back to its
// place. All arguments are registers, so the kernel executes what is judged here, except for the
// file that the descriptor leads to: what lies where its offset says is charged, whatever file it
// is of (os/maps.h).
void Receiver::SeeMapping(const Source& source, const os::Notification& notification) {
  pool_.ListenSoon();
  const auto& args = notification.args;
  const auto refuse = [&](int error = ENOMEM) {
    Fail(source, notification, boundary::CallKind::kMmap, error);
  };
  const auto caller = FindMapper(notification.tid);
  if (caller == nullptr) {
    return refuse();
  }
  bool uvm_file = false;
  boundary::ManagedTracker::Claim claim;
  auto kind = boundary::MmapKind::kHarmless;
  if (notification.nr == SYS_mremap) {
    kind = boundary::JudgeMremap(args[4], args[2], &claim.range);
  } else {
    if (const auto known = files_.LookAt(*caller, static_cast<int>(args[4])); known.ok()) {
      uvm_file = *known && (*known)->kind == boundary::FileKind::kUvm;
    }
    if (uvm_file && !IsOwnSpace(*caller, static_cast<int>(args[4]))) {
      return refuse(EBADFD);  // as the driver says of a file that nobody initialised
    }
    kind =
        boundary::JudgeMmap({args[0], args[1], args[2], args[3], args[5]}, uvm_file, &claim.range);
  }
  if (kind == boundary::MmapKind::kHarmless) {
    CountAnswered(notification, boundary::CallKind::kMmap);
    (void)source.listener.Continue(notification.id);
    return;
  }
  claim.process = caller->process->serial;
  claim.program = caller->process->program;
  claim.witness = managed_.OpenWitness(*caller);
  if (claim.witness == 0) {
    return refuse();
  }
  // The address space was opened by a number. If the thread still waits in its call, the mapping
  // comes to lie in this address space: no other thread can execute a program without ending this
  // one.
  const bool valid = source.listener.Valid(notification.id);
  const bool admitted = valid && managed_.Begin(kind, claim, notification.tid);
  if (!admitted) {
    managed_.DropWitness(claim.witness);
  }
  if (valid && uvm_file) {
    recorder_.Mapping(*caller->process, args[1], admitted ? 0 : ENOMEM);
  }
  if (!admitted) {
    return refuse();
  }
  CountAnswered(notification, boundary::CallKind::kMmap);
  (void)source.listener.Continue(notification.id);
  if (kind == boundary::MmapKind::kSuspect) {
    managed_.CallForLook();
  }
}

// Returns null if the thread is gone, or cannot be looked at. A cached entry for the thread's
// number may be of another thread that has ended, or of a program that its process no longer
// executes.
std::shared_ptr<const os::Caller> Receiver::FindMapper(pid_t thread) {
  auto caller = callers_.Find(thread, false);
  char byte = 0;
  constexpr std::uint64_t kAnywhere = 4096;
  if (caller.ok() && (!(*caller)->Alive() || (*caller)->Read(kAnywhere, &byte, 1) == 0)) {
    caller = callers_.Find(thread, true);
  }
  return caller.ok() ? *caller : nullptr;
}

}  // namespace cgpu::shim
