#include "shim/receiver.h"

#include <sys/syscall.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/result.h"

namespace cgpu::shim {
namespace {

using os::Notification;

// Reads the tenant's memory through its pinned process, and notes whether the address space was
// gone. Copies the page of the first read as a whole: parameters and what they point to often lie
// on one page of a stack, and the copy costs less than a second system call.
class CallerMemory final : public boundary::TenantMemory {
 public:
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): bytes_ is filled when it is needed
  explicit CallerMemory(const os::Caller& caller) : caller_(caller) {}

  bool Read(std::uint64_t address, void* into, std::size_t size) override {
    const std::uint64_t page = address & ~(kPage - 1);
    if (address + size < address || address + size > page + kPage || (filled_ && page != page_)) {
      return Copy(address, into, size);
    }
    if (!filled_) {
      if (!Copy(page, bytes_.data(), kPage)) {
        return false;
      }
      page_ = page;
      filled_ = true;
    }
    std::memcpy(into, bytes_.data() + (address - page), size);
    return true;
  }
  [[nodiscard]] bool gone() const { return gone_; }

 private:
  static constexpr std::uint64_t kPage = 4096;  // x86-64's, at least

  bool Copy(std::uint64_t address, void* into, std::size_t size) {
    const ssize_t n = caller_.Read(address, into, size);
    gone_ = gone_ || n == 0;
    return n == static_cast<ssize_t>(size);
  }

  const os::Caller& caller_;
  bool gone_ = false;
  bool filled_ = false;
  std::uint64_t page_ = 0;
  std::array<std::byte, kPage> bytes_;
};

}  // namespace

std::unique_ptr<Pending> Receiver::Receive(const SourcePtr& source,
                                           const Notification& notification) {
  if (processes_.condemned()) {
    CountAnswered(notification, boundary::CallKind::kOther);
    (void)pool_.Answer(*source, notification.id, EIO);
    return nullptr;
  }
  managed_.NoteThread(notification.tid);
  if (sandbox::IsProof(notification)) {
    proof_.Take(source, notification);
    return nullptr;
  }
  if (notification.nr == SYS_mmap || notification.nr == SYS_mremap) {
    SeeMapping(*source, notification);
    return nullptr;
  }
  const auto request = static_cast<std::uint32_t>(notification.args[1]);
  if (notification.nr != SYS_ioctl || !rm::AnyDriverAccepts(request)) {
    // Refused by the registers alone: no GPU file of any supported driver does anything for this
    // number.
    pool_.ListenSoon();
    CountAnswered(notification, boundary::CallKind::kOther);
    (void)source->listener.Continue(notification.id);
    return nullptr;
  }
  return CopyIn(source, notification);
}

std::unique_ptr<Pending> Receiver::CopyIn(const SourcePtr& source,
                                          const Notification& notification) {
  bool again = false;
  auto pending = TryCopyIn(source, notification, false, &again);
  return again ? TryCopyIn(source, notification, true, nullptr) : std::move(pending);
}

// Copies a call in. `again`: set when the cached caller turned out to be out of date.
std::unique_ptr<Pending> Receiver::TryCopyIn(const SourcePtr& source,
                                             const Notification& notification, bool fresh,
                                             bool* again) {
  std::shared_ptr<const os::Process> process;
  const auto answer = [&](int error) {
    if (process != nullptr) {
      recorder_.Refused(*process, static_cast<std::uint32_t>(notification.args[1]), error);
    }
    Fail(*source, notification, boundary::CallKind::kOther, error);
    return nullptr;
  };
  auto caller = callers_.Find(notification.tid, fresh);
  if (!caller.ok()) {
    if (caller.error().code == Code::kExhausted) {
      accounting_.CountRefused(boundary::Reason::kQuota, caller.error().what);
    }
    return answer(EIO);
  }
  process = (*caller)->process;
  auto taken = files_.Take(**caller, static_cast<int>(notification.args[0]));
  if (!taken.ok()) {
    const int error = taken.error().sys_errno;
    if (error == ESRCH && again != nullptr) {
      *again = true;
      return nullptr;
    }
    if (error == ENOTTY) {
      accounting_.CountRefused(boundary::Reason::kInvalid, "a GPU command on another file");
    }
    return answer(error == EMFILE ? EIO : error == ENOTTY ? ENOTTY : EBADF);
  }
  auto pending = std::make_unique<Pending>();
  pending->source = source;
  pending->notification = notification;
  pending->caller = *caller;
  pending->file = std::move(taken->file);
  pending->call.file = taken->known;
  pending->call.process = process->serial;
  if (!taken->known.granted) {
    accounting_.CountRefused(boundary::Reason::kGpuNotGranted, "a file of another GPU");
    return answer(EPERM);
  }
  CallerMemory memory(**caller);
  const auto request = static_cast<std::uint32_t>(notification.args[1]);
  const bool of_uvm = taken->known.kind == boundary::FileKind::kUvm;
  const int error = (of_uvm ? boundary::DecodeUvm : boundary::Decode)(
      abi_, request, notification.args[2], memory, pending->call);
  if (of_uvm) {
    spaces_.Find(*pending);
  }
  if (memory.gone() && again != nullptr) {
    *again = true;
    return nullptr;
  }
  if (error != 0) {
    return answer(error);
  }
  TakeArgument(*pending);
  // Everything above was found by a number. If the caller still waits, it was the caller's.
  return source->listener.Valid(notification.id) ? std::move(pending) : nullptr;
}

void Receiver::CopyInRest(Pending& pending) {
  const std::size_t due = boundary::BytesDue(pending.call);
  if (due != 0) {
    pending.rest = rest_.Take(due);
    CallerMemory memory(*pending.caller);
    boundary::CopyInRest(memory, pending.call);
  }
}

void Receiver::Fail(const Source& source, const Notification& notification, boundary::CallKind kind,
                    int error) {
  if (source.listener.Valid(notification.id)) {
    CountAnswered(notification, kind);
    (void)pool_.Answer(source, notification.id, error);
  }
}

// Takes the file behind a descriptor number inside the parameters.
bool Receiver::TakeArgument(Pending& pending) {
  if (!pending.call.fd) {
    return true;
  }
  auto taken = files_.Take(*pending.caller, pending.call.fd->number);
  if (!taken.ok()) {
    return false;
  }
  pending.call.fd->file = taken->known;
  pending.argument = std::move(taken->file);
  return true;
}

}  // namespace cgpu::shim
