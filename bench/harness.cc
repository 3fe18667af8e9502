#include "bench/harness.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "base/file.h"

namespace cgpu::bench {
namespace {

pid_t Spawn(const std::vector<std::string>& arguments, int in, int out) {
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
  execv(argv[0], argv.data());
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

Result<Slice> Slice::Start(const Node& node, const std::vector<std::string>& client_arguments) {
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
  const std::string name = node.name();
  std::vector<std::string> command = {BinFolder() + "/cgpu",
                                      "run",
                                      "--node",
                                      node.name(),
                                      "--mem",
                                      "1024MiB",
                                      "--name",
                                      name,
                                      "--",
                                      BinFolder() + "/bench-client"};
  command.insert(command.end(), client_arguments.begin(), client_arguments.end());
  const pid_t pid = Spawn(command, to_read.get(), from_write.get());
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
