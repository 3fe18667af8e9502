#include "shim/tenant_files.h"

#include <fcntl.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include "os/spare.h"

namespace cgpu::shim {
namespace {

// Timeout for room among the files to close, with a worker's thread.
constexpr std::chrono::milliseconds kCloseTimeout{1'000};

boundary::FileKind KindOf(NodeFile::Kind kind) {
  switch (kind) {
    case NodeFile::Kind::kCtl:
      return boundary::FileKind::kControl;
    case NodeFile::Kind::kUvm:
      return boundary::FileKind::kUvm;
    case NodeFile::Kind::kGpu:
    case NodeFile::Kind::kTools:
      break;
  }
  return boundary::FileKind::kGpu;
}

}  // namespace

void TenantFiles::Start() {
  Reaper::Start(reaper_);
}

std::optional<boundary::File> TenantFiles::Recognise(const os::FileIdentity& identity) const {
  for (const NodeFile& file : config_.files) {
    if (file.kind != NodeFile::Kind::kTools && file.Is(identity.dev, identity.ino, identity.rdev)) {
      return boundary::File{KindOf(file.kind), file.minor, file.granted};
    }
  }
  return std::nullopt;
}

void TenantFiles::Discard(UniqueFd file) {
  if (file.valid() && !reaper_->Add(file, kCloseTimeout)) {
    processes_.Condemn(
        "more files whose close does not return than any program has: the container is ended");
    (void)file.release();  // its close is what cannot be waited for
  }
}

Result<std::optional<boundary::File>> TenantFiles::LookAt(const os::Caller& caller,
                                                          int number) const {
  const auto identity = caller.Identify(proc_, number);
  if (identity.ok()) {
    return Recognise(*identity);
  }
  Error error = identity.error();
  if (error.sys_errno != ENOENT) {
    return std::optional<boundary::File>();  // its file system does not allow the look
  }
  error.sys_errno = caller.Alive() ? EBADF : ESRCH;
  return error;
}

Result<TenantFiles::Taken> TenantFiles::Take(const os::Caller& caller, int number) {
  const auto foreign = [] { return Error{Code::kInvalid, ENOTTY, "not a file of a GPU", {}}; };
  os::UsualNumbers& usual = caller.process->usual;
  const bool trusted = usual.Contains(number) && !wary_.load(std::memory_order_relaxed);
  if (!trusted) {
    CGPU_ASSIGN_OR_RETURN(const auto known, LookAt(caller, number));
    if (!known) {
      return foreign();
    }
  }
  CGPU_ASSIGN_OR_RETURN(auto file, caller.TakeFd(number));
  const auto identity = os::Identify(file.get());
  const auto known = identity.ok() ? Recognise(*identity) : std::nullopt;
  if (!known) {
    if (trusted && !wary_.exchange(true)) {
      // Kept open as long as this process lives, in whatever version. It is one file, and while its
      // close hung nothing could be upgraded.
      (void)fcntl(file.release(), F_SETFD, 0);
    }
    Discard(std::move(file));
    return foreign();
  }
  if (os::IsSpare(file.get())) {
    return Error{Code::kExhausted, EMFILE, "no room for another descriptor", {}};
  }
  usual.Add(number);
  return Taken{std::move(file), *known};
}

}  // namespace cgpu::shim
