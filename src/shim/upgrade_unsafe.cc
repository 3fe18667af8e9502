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
#include "shim/upgrade.h"

namespace cgpu::shim {
namespace {

// Timeout of the upgrader's word, which takes a program's start and end. Until then calls wait.
constexpr int kWordMs = 1'000;
constexpr std::size_t kMaxState = std::size_t{1} << 30;

bool SetCloseOnExec(const std::vector<int>& files, bool on) {
  bool all = true;
  for (const int fd : files) {
    all = fcntl(fd, F_SETFD, on ? FD_CLOEXEC : 0) == 0 && all;
  }
  return all;
}

Result<UniqueFd> SealedFile(std::string_view bytes) {
  UniqueFd file(memfd_create("cgpu-state", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.valid()) {
    return ErrnoError(Code::kExhausted, errno, "cannot make a file for the state");
  }
  CGPU_TRY(WriteAll(file.get(), bytes));
  if (fcntl(file.get(), F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) !=
      0) {
    return ErrnoError(Code::kInternal, errno, "cannot seal the state");
  }
  return file;
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
  CGPU_ASSIGN_OR_RETURN(const auto file, SealedFile(Encode(state)));
  CGPU_TRY(SendMessage(connection, "state\n", file.get()));
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
