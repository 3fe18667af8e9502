#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "os/messages.h"
#include "protocol/admin.h"
#include "shim/upgrade.h"

namespace cgpu::shim {
namespace {

// Timeout of the upgrader's word, which takes a program's start and end, and of its file. Until
// then calls wait.
constexpr int kWordMs = 1'000;
constexpr std::size_t kMaxState = std::size_t{1} << 30;

bool SetCloseOnExec(const std::vector<int>& files, bool on) {
  bool all = true;
  for (const int fd : files) {
    all = fcntl(fd, F_SETFD, on ? FD_CLOEXEC : 0) == 0 && all;
  }
  return all;
}

Result<> WriteAndSeal(int file, std::string_view bytes) {
  CGPU_TRY(WriteAll(file, bytes));
  if (fcntl(file, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) != 0) {
    return ErrnoError(Code::kInternal, errno, "cannot seal the state");
  }
  return {};
}

// Hands the state to the upgrader in a sealed file, and returns that file.
Result<UniqueFd> SendState(std::string_view bytes, int connection) {
  UniqueFd file(memfd_create("cgpu-state", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.valid()) {
    return ErrnoError(Code::kExhausted, errno, "cannot make a file for the state");
  }
  CGPU_TRY(WriteAndSeal(file.get(), bytes));
  const auto sent = SendMessage(connection, kStateWord, file.get());
  if (sent.ok()) {
    return file;
  }
  // Descriptors in flight count for a uid, and others may have taken it.
  if (sent.error().sys_errno != ETOOMANYREFS) {
    return sent.error();
  }
  CGPU_TRY(SendMessage(connection, kFileWord));
  CGPU_ASSIGN_OR_RETURN(auto answer, ReceiveMessage(connection, kWordMs));
  CGPU_TRY(WriteAndSeal(answer.fd.get(), bytes));
  CGPU_TRY(SendMessage(connection, kStateWord));
  return std::move(answer.fd);
}

}  // namespace

Result<> ReserveDescriptors() {
  for (const int place : {kStateFd, kProgramFd}) {
    if (dup3(STDIN_FILENO, place, O_CLOEXEC) < 0) {
      return ErrnoError(Code::kInternal, errno, "cannot reserve a descriptor");
    }
  }
  return {};
}

Error HandOver(const Handover& state, UniqueFd program, int connection) {
  CGPU_ASSIGN_OR_RETURN(const auto file, SendState(Encode(state), connection));
  const auto word = ReceiveMessage(connection, kWordMs);
  if (!word.ok() || word->text != "go\n") {
    return Error{Code::kConflict, 0, "nobody said in time that the new version can take over", {}};
  }
  std::vector<int> kept = DescriptorsOf(state);
  kept.push_back(kStateFd);
  if (dup3(file.get(), kStateFd, O_CLOEXEC) < 0 || dup3(program.get(), kProgramFd, O_CLOEXEC) < 0 ||
      !SetCloseOnExec(kept, false)) {
    const Error error = ErrnoError(Code::kInternal, errno, "cannot keep the descriptors");
    (void)SetCloseOnExec(kept, true);
    return error;
  }
  char name[] = "cgpu-shim";
  std::string what = kResumeWord;
  char* const argv[] = {name, what.data(), nullptr};
  char* const envp[] = {nullptr};
  execveat(kProgramFd, "", argv, envp, AT_EMPTY_PATH);
  const Error error = ErrnoError(Code::kUnavailable, errno, "cannot execute the new version");
  (void)SetCloseOnExec(kept, true);
  (void)ReserveDescriptors();  // closes both files
  return error;
}

Result<Handover> ReadHandover(int file) {
  struct stat info{};
  if (fstat(file, &info) != 0 || info.st_size < 0 ||
      static_cast<std::size_t>(info.st_size) > kMaxState) {
    return Error{Code::kInvalid, 0, "there is no state to take over", {}};
  }
  std::string bytes(static_cast<std::size_t>(info.st_size), '\0');
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n =
        pread(file, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    if (n <= 0) {
      return ErrnoError(Code::kInvalid, errno, "cannot read the state");
    }
    done += static_cast<std::size_t>(n);
  }
  return DecodeHandover(bytes);
}

Result<> TakeDescriptors(const Handover& state) {
  if (!SetCloseOnExec(DescriptorsOf(state), true)) {
    return ErrnoError(Code::kInvalid, errno, "a descriptor of the state is not open");
  }
  return {};
}

std::int64_t MonotonicNs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace cgpu::shim
