#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <climits>
#include <cstddef>
#include <cstring>
#include <ctime>
#include <map>
#include <memory>
#include <thread>
#include <utility>

#include "base/fd.h"
#include "base/file.h"
#include "doctor/facts.h"
#include "doctor/kernel_answers.h"

namespace cgpu::doctor {
namespace {

constexpr std::chrono::seconds kTimeout{10};
constexpr std::size_t kMost = std::size_t{64} << 20;  // bytes of output: all pods of a cluster

Error PathError(const std::string& path) {
  const Code code = errno == EACCES || errno == EPERM ? Code::kPermission : Code::kNotFound;
  return ErrnoError(code, errno, "cannot look at " + path);
}

FileFacts::Kind KindOf(mode_t mode) {
  if (S_ISREG(mode)) {
    return FileFacts::Kind::kRegular;
  }
  if (S_ISDIR(mode)) {
    return FileFacts::Kind::kFolder;
  }
  return S_ISCHR(mode) ? FileFacts::Kind::kCharacterDevice : FileFacts::Kind::kOther;
}

int ConnectAs(int type, const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return ENAMETOOLONG;
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const UniqueFd fd(socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) {
    return errno;
  }
  return connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0
             ? 0
             : errno;
}

class Host final : public Facts {
 public:
  Host(std::string version, std::string program)
      : version_(std::move(version)), program_(std::move(program)) {}

  [[nodiscard]] Result<std::string> Read(const std::string& path) const override {
    // A driver that hangs holds up readers of its files, and a reader that hangs cannot be ended.
    if (path.starts_with("/proc/driver/")) {
      const auto read = Run({"cat", path});
      if (read.ok() && read->status == 0) {
        return read->text;
      }
      return Error{read.ok() ? Code::kNotFound : Code::kUnavailable, 0, "cannot read " + path, {}};
    }
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
      return PathError(path);
    }
    return ReadAll(UniqueFd(fd).get(), path);
  }

  [[nodiscard]] Result<std::vector<std::string>> List(const std::string& folder) const override {
    return cgpu::NamesIn(folder);
  }

  [[nodiscard]] Result<FileFacts> Look(const std::string& path) const override {
    struct stat found{};
    if (stat(path.c_str(), &found) != 0) {
      return PathError(path);
    }
    return FileFacts{KindOf(found.st_mode), found.st_mode & 07777U, found.st_uid,
                     major(found.st_rdev), minor(found.st_rdev)};
  }

  [[nodiscard]] Result<std::string> Link(const std::string& path) const override {
    char target[PATH_MAX];
    const ssize_t size = readlink(path.c_str(), target, sizeof(target));
    if (size < 0) {
      return PathError(path);
    }
    return std::string(target, static_cast<std::size_t>(size));
  }

  [[nodiscard]] Result<Output> Run(const std::vector<std::string>& words) const override {
    const auto known = outputs_.find(words);
    return known != outputs_.end() ? known->second
                                   : outputs_.emplace(words, RunOnce(words)).first->second;
  }

  [[nodiscard]] int Ask(Question question) const override { return AskKernel(question); }

  [[nodiscard]] int Connect(const std::string& socket) const override {
    const int error = ConnectAs(SOCK_STREAM, socket);
    return error == EPROTOTYPE ? ConnectAs(SOCK_SEQPACKET, socket) : error;
  }

  [[nodiscard]] unsigned User() const override { return geteuid(); }
  [[nodiscard]] std::uint64_t Now() const override {
    return static_cast<std::uint64_t>(std::time(nullptr));
  }
  [[nodiscard]] std::string Version() const override { return version_; }
  [[nodiscard]] std::string Program() const override { return program_; }
  void Pause() const override {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    outputs_.clear();
  }

 private:
  [[nodiscard]] static Result<Output> RunOnce(const std::vector<std::string>& words) {
    // An ordinary user's PATH lacks the folders that container runtimes are in.
    std::vector<std::string> all{
        "sh", "-c", "PATH=\"$PATH:/usr/local/sbin:/usr/sbin:/sbin\"; exec \"$0\" \"$@\" 2>&1"};
    all.insert(all.end(), words.begin(), words.end());
    auto output = OutputOf(all, kTimeout, kMost);
    if (output.ok() && output->status == 127) {  // the shell's word for a program that is not there
      return Error{Code::kNotFound, 0, words[0] + " is not installed", {}};
    }
    if (!output.ok()) {
      return Error{Code::kUnavailable, 0, words[0] + " did not end in 10 seconds", {}};
    }
    return output;
  }

  const std::string version_;
  const std::string program_;
  mutable std::map<std::vector<std::string>, Result<Output>> outputs_;
};

}  // namespace

std::unique_ptr<Facts> ThisHost(const std::string& version) {
  return std::make_unique<Host>(version, OwnProgram().value_or(""));
}

}  // namespace cgpu::doctor
