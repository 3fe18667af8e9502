#include "bench/harness.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>

#include "base/file.h"
#include "rm/nv_escape.h"
#include "rm/nv_structs.h"

namespace cgpu::bench {
namespace {

// The shim and the client inherit the filter. The descriptor tells calls apart: the client makes
// its own on kClientFd, which the shim is to see; the shim its own on what it opens at its start,
// which the driver is to answer; and what the shim executes comes on descriptors between them.
bool AnswerAtOnce() {
  constexpr auto kNr = static_cast<std::uint32_t>(offsetof(seccomp_data, nr));
  constexpr auto kFd = static_cast<std::uint32_t>(offsetof(seccomp_data, args));
  constexpr std::uint32_t kRequest = kFd + 8;
  constexpr std::uint16_t kLoad = BPF_LD | BPF_W | BPF_ABS;
  constexpr std::uint16_t kIfEqual = BPF_JMP | BPF_JEQ | BPF_K;
  constexpr std::uint16_t kIfAtLeast = BPF_JMP | BPF_JGE | BPF_K;
  constexpr std::uint16_t kReturn = BPF_RET | BPF_K;
  constexpr std::uint32_t kFirstTaken = 10;
  sock_filter program[] = {
      {kLoad, 0, 0, kNr},
      {kIfEqual, 0, 6, SYS_ioctl},
      {kLoad, 0, 0, kRequest},
      {kIfEqual, 0, 4, _IOWR('F', rm::NV_ESC_RM_CONTROL, rm::NVOS54_PARAMETERS)},
      {kLoad, 0, 0, kFd},
      {kIfAtLeast, 2, 0, kClientFd},
      {kIfAtLeast, 0, 1, kFirstTaken},
      {kReturn, 0, 0, SECCOMP_RET_ERRNO | 0},
      {kReturn, 0, 0, SECCOMP_RET_ALLOW},
  };
  const sock_fprog prog{sizeof(program) / sizeof(program[0]), program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) == 0;
}

pid_t Spawn(const std::vector<std::string>& arguments, int in, int out,
            Answers answers = Answers::kSimulatedDriver) {
  const pid_t pid = fork();
  if (pid != 0) {
    return pid;
  }
  std::vector<char*> argv;
  for (const std::string& argument : arguments) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);
  if (in >= 0) {
    dup2(in, 0);
  }
  if (out >= 0) {
    dup2(out, 1);
  }
  if (answers == Answers::kSimulatedDriver || AnswerAtOnce()) {
    execv(argv[0], argv.data());
  }
  _exit(127);
}

Result<> RunToEnd(const std::vector<std::string>& arguments) {
  int status = 0;
  const pid_t pid = Spawn(arguments, -1, -1);
  if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) {
    return Error{Code::kUnavailable, 0, arguments[0] + " " + arguments[1] + " failed", {}};
  }
  return {};
}

}  // namespace

std::string BinFolder() {
  std::string path(4096, '\0');
  const ssize_t n = readlink("/proc/self/exe", path.data(), path.size());
  path.resize(n < 0 ? 0 : static_cast<std::size_t>(n));
  return path.substr(0, path.rfind('/'));
}

Result<Node> Node::Start() {
  std::string name = "bench" + std::to_string(getpid());
  CGPU_TRY(
      RunToEnd({BinFolder() + "/cgpu", "sim", "start", "--name", name, "--gpus", "v100-16g:1"}));
  return Node(std::move(name));
}

Node::~Node() {
  if (!name_.empty()) {
    (void)RunToEnd({BinFolder() + "/cgpu", "sim", "stop", "--name", name_}).ok();
  }
}

Result<Slice> Slice::Start(const Node& node, Answers answers) {
  int to[2];
  int from[2];
  if (pipe2(to, O_CLOEXEC) != 0) {
    return ErrnoError(Code::kUnavailable, errno, "pipe");
  }
  const UniqueFd to_read(to[0]);
  UniqueFd to_write(to[1]);
  if (pipe2(from, O_CLOEXEC) != 0) {
    return ErrnoError(Code::kUnavailable, errno, "pipe");
  }
  UniqueFd from_read(from[0]);
  const UniqueFd from_write(from[1]);
  const std::string name = node.name() + (answers == Answers::kAtOnce ? "-at-once" : "");
  const std::vector<std::string> command = {BinFolder() + "/cgpu",
                                            "run",
                                            "--node",
                                            node.name(),
                                            "--mem",
                                            "1024MiB",
                                            "--name",
                                            name,
                                            "--",
                                            BinFolder() + "/bench-client"};
  const pid_t pid = Spawn(command, to_read.get(), from_write.get(), answers);
  if (pid < 0) {
    return ErrnoError(Code::kUnavailable, errno, "fork");
  }
  Slice slice(name, pid, std::move(to_write), std::move(from_read));
  const auto ready = slice.Read(6);
  if (!ready.ok() || *ready != "ready\n") {
    return Error{Code::kUnavailable, 0, "the slice did not start", {}};
  }
  return slice;
}

Slice::~Slice() {
  to_.reset();  // the client ends at the end of its input
  if (pid_ > 0) {
    waitpid(pid_, nullptr, 0);
  }
}

Result<> Slice::Say(const std::string& line) {
  return WriteAll(to_.get(), line + "\n");
}

Result<std::string> Slice::Read(std::size_t size) {
  std::string text(size, '\0');
  std::size_t done = 0;
  while (done < size) {
    const ssize_t n = read(from_.get(), text.data() + done, size - done);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n <= 0) {
      return Error{Code::kUnavailable, n < 0 ? errno : 0, "the client ended early", {}};
    }
    done += static_cast<std::size_t>(n);
  }
  return text;
}

double Percentile(std::vector<double>& values, double fraction) {
  std::sort(values.begin(), values.end());
  const auto last = static_cast<double>(values.size() - 1);
  return values[static_cast<std::size_t>(last * fraction + 0.5)];
}

int Fail(const Error& error) {
  (void)std::fprintf(stderr, "%s\n", FormatError(error).c_str());
  return 1;
}

}  // namespace cgpu::bench
