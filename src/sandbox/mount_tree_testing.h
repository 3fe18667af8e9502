// Helpers for tests of mount trees: private namespaces, and a host's files to mount in them.
#ifndef CGPU_SANDBOX_MOUNT_TREE_TESTING_H_
#define CGPU_SANDBOX_MOUNT_TREE_TESTING_H_

#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <system_error>

#include "base/fd.h"
#include "base/file.h"
#include "os/namespaces.h"
#include "sandbox/mount_tree.h"

namespace cgpu {

inline constexpr int kSkip = 77;
inline constexpr uid_t kSomeUser = 47110;

// Runs `body` in a child process in private namespaces. `body` returns what is wrong, or an empty
// text. `uid` 0: the child keeps the caller's uid.
struct Outcome {
  int status = 0;
  std::string message;
};

inline Outcome InNamespaces(uid_t uid, const std::function<std::string()>& body) {
#ifdef __SANITIZE_THREAD__
  // Thread sanitizer runs a thread of its own, and a process with several threads gets no user
  // namespace.
  if (uid != 0) {
    return {kSkip, ""};
  }
#endif
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return {1, "pipe"};
  }
  UniqueFd from(ends[0]);
  UniqueFd to(ends[1]);
  const pid_t child = fork();
  if (child == 0) {
    if (uid != 0 && (setgroups(0, nullptr) != 0 || setgid(uid) != 0 || setuid(uid) != 0)) {
      _exit(kSkip);
    }
    if (const auto entered = EnterPrivateNamespaces(); !entered.ok()) {
      (void)WriteAll(to.get(), entered.error().what);
      _exit(entered.error().code == Code::kPermission ? kSkip : 1);
    }
    umask(077);  // must not matter
    const std::string wrong = body();
    (void)WriteAll(to.get(), wrong);
    _exit(wrong.empty() ? 0 : 1);
  }
  to.reset();
  Outcome outcome;
  char buffer[512];
  for (ssize_t n; (n = read(from.get(), buffer, sizeof(buffer))) > 0;) {
    outcome.message.append(buffer, static_cast<std::size_t>(n));
  }
  waitpid(child, &outcome.status, 0);
  outcome.status = WIFEXITED(outcome.status) ? WEXITSTATUS(outcome.status) : 1;
  return outcome;
}

inline std::set<std::string> List(const std::string& folder) {
  std::set<std::string> names;
  if (DIR* dir = opendir(folder.c_str()); dir != nullptr) {
    while (const dirent* entry = readdir(dir)) {
      names.insert(entry->d_name);
    }
    closedir(dir);
  }
  names.erase(".");
  names.erase("..");
  return names;
}

inline std::string Read(const std::string& path) {
  auto content = ReadFile(path);
  return content.ok() ? *content : "(" + content.error().what + ")";
}

// A host's files in a temporary folder: two GPUs, all device files in folders of their own.
class NodeFolder {
 public:
  NodeFolder() {
    char pattern[] = "/tmp/cgpu-mount-XXXXXX";
    if (mkdtemp(pattern) == nullptr || chmod(pattern, 0755) != 0) {
      std::abort();
    }
    root_ = pattern;
    for (const char* minor : {"0", "1"}) {
      const std::string bdf = std::string("0000:0") + minor + ":00.0";
      Put("dev/gpu" + std::string(minor) + "/nvidia" + minor, std::string("GPU ") + minor);
      Put("proc/gpus/" + bdf + "/information", "information of " + bdf);
      Put("pci/devices/" + bdf + "/vendor", "0x10de\n");
      Put("pci/devices/" + bdf + "/class", "0x030200\n");
    }
    Put("dev/ctl/nvidiactl", "control");
    Put("proc/version", "NVRM version: test\n");
    Put("proc/params", "EnableMSI: 1\nModifyDeviceFiles: 1\nDeviceFileMode: 438\n");
    Put("secret/file", "secret");
  }
  NodeFolder(const NodeFolder&) = delete;
  NodeFolder& operator=(const NodeFolder&) = delete;
  ~NodeFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }

  [[nodiscard]] const std::string& root() const { return root_; }

  void Put(const std::string& path, const std::string& content) const {
    const std::string whole = root_ + "/" + path;
    if (!MakeDirectories(whole.substr(0, whole.rfind('/'))).ok() ||
        !WriteFile(whole, content).ok()) {
      std::abort();
    }
  }

  // Returns a slice with GPU 1 alone.
  [[nodiscard]] GpuTree Slice() const {
    GpuTree tree;
    tree.devices = {{"nvidiactl", root_ + "/dev/ctl", true},
                    {"nvidia1", root_ + "/dev/gpu1", true},
                    {"nvidia-test", "/dev/null", false}};
    tree.proc_source = root_ + "/proc";
    tree.pci_source = root_ + "/pci";
    tree.bdfs = {"0000:01:00.0"};
    tree.hide = {root_ + "/secret", root_ + "/not-there"};
    return tree;
  }

 private:
  std::string root_;
};

}  // namespace cgpu

#endif  // CGPU_SANDBOX_MOUNT_TREE_TESTING_H_
