#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>

#include "gpu/trace/tracer.h"
#include "rm/escape_table.h"
#include "rm/nv_escape.h"
#include "rm/nv_structs.h"
#include "rm/uvm_table.h"

namespace cgpu::trace {
namespace {

constexpr std::uint64_t kCodeSegment64 = 0x33;  // of a system call of x86-64, not of i386
constexpr int kSyscallStop = SIGTRAP | 0x80;    // PTRACE_O_TRACESYSGOOD
constexpr std::uint64_t kMostZeros = 1U << 20U;
constexpr std::size_t kLongestPath = 256;

void* Address(std::uint64_t address) {
  return reinterpret_cast<void*>(address);
}

bool Read(pid_t thread, std::uint64_t address, void* into, std::size_t size) {
  iovec local{into, size};
  iovec remote{Address(address), size};
  return size == 0 ||
         process_vm_readv(thread, &local, 1, &remote, 1, 0) == static_cast<ssize_t>(size);
}

// As many as can be read of `size`, all or none.
Bytes ReadBytes(pid_t thread, std::uint64_t address, std::uint64_t size) {
  Bytes bytes(static_cast<std::size_t>(size));
  return Read(thread, address, bytes.data(), bytes.size()) ? bytes : Bytes();
}

bool Write(pid_t thread, std::uint64_t address, const void* from, std::size_t size) {
  iovec local{const_cast<void*>(from), size};  // only read
  iovec remote{Address(address), size};
  return process_vm_writev(thread, &local, 1, &remote, 1, 0) == static_cast<ssize_t>(size);
}

// A text that may end right before a page that is not there.
std::string ReadText(pid_t thread, std::uint64_t address) {
  std::string text;
  for (char one = 0; text.size() < kLongestPath; text += one) {
    if (!Read(thread, address + text.size(), &one, 1) || one == 0) {
      break;
    }
  }
  return text;
}

std::string LinkOf(pid_t thread, int fd) {
  const std::string path = "/proc/" + std::to_string(thread) + "/fd/" + std::to_string(fd);
  std::array<char, kLongestPath> target{};
  const ssize_t n = readlink(path.c_str(), target.data(), target.size());
  return {target.data(), n < 0 ? 0 : static_cast<std::size_t>(n)};
}

pid_t ProcessOf(pid_t thread) {
  std::ifstream file("/proc/" + std::to_string(thread) + "/status");
  for (std::string word; file >> word;) {
    if (word == "Tgid:") {
      pid_t process = 0;
      return file >> process ? process : thread;
    }
  }
  return thread;
}

// One thread that is followed.
struct Thread {
  bool inside = false;  // a system call: the next stop is its end
  pid_t process = 0;
  std::optional<Call> call;  // an ioctl of the driver's that is under way
};

class Tracer {
 public:
  explicit Tracer(const Options& options) : options_(options) {}

  Result<int> Run();

 private:
  Result<> Begin();
  void Stopped(pid_t thread, int status);
  void SyscallStop(pid_t thread);
  void Enter(pid_t thread, Thread& state, const user_regs_struct& regs);
  void Leave(pid_t thread, Thread& state, const user_regs_struct& regs);
  void LeaveOther(pid_t thread, const Thread& state, const user_regs_struct& regs);
  void LeaveCall(pid_t thread, Thread& state, int error);
  const Answer* Replace(pid_t thread, const Call& call) const;
  void Opened(const Thread& state, const std::string& path, std::int64_t result) const;
  void Path(const Thread& state, const char* what, const std::string& path,
            std::int64_t result) const;
  void Say(const std::string& line) const { std::fprintf(options_.out, "%s\n", line.c_str()); }

  const Options& options_;
  std::map<pid_t, Thread> threads_;
  pid_t first_ = 0;
};

void BecomeTraced(const std::vector<std::string>& command) {
  std::vector<char*> argv;
  for (const std::string& word : command) {
    argv.push_back(const_cast<char*>(word.c_str()));  // execvp's old signature
  }
  argv.push_back(nullptr);
  (void)raise(SIGSTOP);
  execvp(argv[0], argv.data());
  std::fprintf(stderr, "gpu-trace: %s cannot be run\n", argv[0]);
  _exit(errno == ENOENT ? 127 : 126);
}

Result<> Tracer::Begin() {
  first_ = fork();
  if (first_ < 0) {
    return ErrnoError(Code::kUnavailable, errno, "no process can be made");
  }
  if (first_ == 0) {
    BecomeTraced(options_.command);
  }
  int status = 0;
  (void)waitpid(first_, &status, WUNTRACED);
  constexpr long kWhat = PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE |
                         PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC;
  if (ptrace(PTRACE_SEIZE, first_, nullptr, kWhat) != 0) {
    Error error = ErrnoError(Code::kUnsupported, errno, "no process can be traced here");
    error.hint = "in a container it takes CAP_SYS_PTRACE";
    (void)kill(first_, SIGKILL);
    (void)waitpid(first_, &status, 0);
    return error;
  }
  (void)kill(first_, SIGCONT);
  return {};
}

Result<int> Tracer::Run() {
  CGPU_TRY(Begin());
  int result = 0;
  while (true) {
    int status = 0;
    const pid_t thread = waitpid(-1, &status, __WALL);
    if (thread < 0 && errno == EINTR) {
      continue;
    }
    if (thread < 0) {
      return result;  // nobody is left
    }
    if (WIFSTOPPED(status)) {
      Stopped(thread, status);
      continue;
    }
    threads_.erase(thread);
    if (thread == first_) {
      result = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
  }
}

// Fails only for a thread that is gone, which the next waitpid() tells.
void Tracer::Stopped(pid_t thread, int status) {
  const int signal = WSTOPSIG(status);
  const auto event = static_cast<unsigned>(status) >> 16U;
  if (signal == kSyscallStop) {
    SyscallStop(thread);
    (void)ptrace(PTRACE_SYSCALL, thread, nullptr, nullptr);
    return;
  }
  if (event == PTRACE_EVENT_STOP && signal != SIGTRAP) {
    (void)ptrace(PTRACE_LISTEN, thread, nullptr, nullptr);  // it stays stopped
    return;
  }
  if (event == PTRACE_EVENT_EXEC) {
    threads_[thread] = Thread{true, 0, std::nullopt};  // the process's only thread now
  }
  const long deliver = event == 0 ? signal : 0;
  (void)ptrace(PTRACE_SYSCALL, thread, nullptr, deliver);
}

void Tracer::SyscallStop(pid_t thread) {
  Thread& state = threads_[thread];
  user_regs_struct regs{};
  if (ptrace(PTRACE_GETREGS, thread, nullptr, &regs) != 0) {
    return;
  }
  if (state.process == 0) {
    state.process = ProcessOf(thread);
  }
  // A call that begins has no result yet.
  state.inside = !state.inside && regs.rax == static_cast<std::uint64_t>(-ENOSYS);
  if (regs.cs != kCodeSegment64) {
    return;
  }
  if (state.inside) {
    Enter(thread, state, regs);
  } else {
    Leave(thread, state, regs);
  }
}

// Reads what the call's numbers lead to, or nothing.
void ReadCall(pid_t thread, std::uint32_t request, std::uint64_t argument, rm::Branch branch,
              Call& call) {
  std::uint64_t size = 0;
  call.address = argument;
  if (call.file == "uvm") {
    call.request = request;
    const rm::UvmRow* const row = rm::FindUvm(request);
    size = row == nullptr ? 0 : row->size.At(branch);
  } else {
    call.nr = rm::EscapeNr(request);
    size = rm::EscapeSize(request);
    if (rm::nv_ioctl_xfer_t outer{}; call.nr == rm::NV_ESC_IOCTL_XFER_CMD &&
                                     size == sizeof(outer) &&
                                     Read(thread, argument, &outer, sizeof(outer))) {
      call.wrapped = true;
      call.nr = static_cast<std::uint8_t>(outer.cmd);
      call.address = outer.ptr;
      size = std::min(outer.size, rm::NV_ABSOLUTE_MAX_IOCTL_SIZE);
    }
  }
  call.asked = ReadBytes(thread, call.address, size);
  call.image = call.asked;
}

void Tracer::Enter(pid_t thread, Thread& state, const user_regs_struct& regs) {
  state.call.reset();
  if (regs.orig_rax != SYS_ioctl) {
    return;
  }
  Call call;
  call.file = FileName(LinkOf(thread, static_cast<int>(regs.rdi)));
  if (call.file.empty()) {
    return;
  }
  call.fd = static_cast<int>(regs.rdi);
  ReadCall(thread, static_cast<std::uint32_t>(regs.rsi), regs.rdx, options_.line.branch, call);
  call.params = ParamsOf(call, options_.line.branch);
  call.in = ReadBytes(thread, call.params.address,
                      std::min<std::uint64_t>(call.params.size, kShownBytes));
  state.call = std::move(call);
}

void Tracer::Leave(pid_t thread, Thread& state, const user_regs_struct& regs) {
  const auto result = static_cast<std::int64_t>(regs.rax);
  const int error = result < 0 ? static_cast<int>(-result) : 0;
  // Restarted by the kernel: its next entry is the same call (ERESTARTSYS to
  // ERESTART_RESTARTBLOCK).
  if (error >= 512 && error <= 516) {
    return;
  }
  if (state.call) {
    LeaveCall(thread, state, error);
  } else {
    LeaveOther(thread, state, regs);
  }
}

void Tracer::LeaveCall(pid_t thread, Thread& state, int error) {
  Call call = std::move(*state.call);
  state.call.reset();
  call.error = error;
  if (Bytes image = ReadBytes(thread, call.address, call.image.size()); !image.empty()) {
    call.image = std::move(image);
  }
  call.out = ReadBytes(thread, call.params.address, call.in.size());
  const Answer* const answer = error == 0 ? Replace(thread, call) : nullptr;
  Say(Line(state.process, call, answer, options_.line));
}

const Answer* Tracer::Replace(pid_t thread, const Call& call) const {
  const auto command = call.Command();
  const auto number = command ? command : call.Class();
  const auto at = call.StatusAt(options_.line.branch);
  const Answer* const answer =
      number && at ? FindAnswer(options_.answers,
                                command ? Answer::Kind::kControl : Answer::Kind::kAlloc, *number)
                   : nullptr;
  if (answer == nullptr ||
      !Write(thread, call.address + *at, &answer->status, sizeof(answer->status))) {
    return nullptr;
  }
  if (answer->zeros && call.params.size != 0) {
    const Bytes zeros(static_cast<std::size_t>(std::min(call.params.size, kMostZeros)));
    if (!Write(thread, call.params.address, zeros.data(), zeros.size())) {
      return nullptr;
    }
  }
  return answer;
}

void Tracer::LeaveOther(pid_t thread, const Thread& state, const user_regs_struct& regs) {
  const auto result = static_cast<std::int64_t>(regs.rax);
  switch (regs.orig_rax) {
    case SYS_open:
      return Opened(state, ReadText(thread, regs.rdi), result);
    case SYS_openat:
      return Opened(state, ReadText(thread, regs.rsi), result);
    case SYS_mknod:
    case SYS_mknodat: {
      const std::string path = ReadText(thread, regs.orig_rax == SYS_mknod ? regs.rdi : regs.rsi);
      return path.starts_with("/dev/nvidia") ? Path(state, "mknod", path, result) : void();
    }
    case SYS_prctl:
      if (regs.rdi == PR_SET_NAME) {
        const std::string name = ReadText(thread, regs.rsi);
        if (name.starts_with('>')) {
          Say(std::to_string(state.process) + " step " + name.substr(1));
        }
      }
      return;
    default:
      return;
  }
}

void Tracer::Opened(const Thread& state, const std::string& path, std::int64_t result) const {
  const std::string file = FileName(path);
  if (!file.empty()) {
    Say(std::to_string(state.process) + " " + file + " open - - " +
        (result < 0 ? std::to_string(-result) + " kernel"
                    : "0 kernel file=" + std::to_string(result)));
  } else if (path.starts_with("/proc/driver/nvidia")) {
    Path(state, "open", path, result);
  }
}

void Tracer::Path(const Thread& state, const char* what, const std::string& path,
                  std::int64_t result) const {
  Say(std::to_string(state.process) + " path " + what + " " + path + " " +
      std::to_string(result < 0 ? -result : 0));
}

}  // namespace

Result<int> Trace(const Options& options) {
  return Tracer(options).Run();
}

}  // namespace cgpu::trace
