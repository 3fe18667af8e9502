#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include "base/fd.h"
#include "os/mounts.h"
#include "sandbox/proof.h"

namespace cgpu::sandbox {
namespace {

constexpr std::uint32_t kNoFile = 0xffffffff;

std::string ReadAt(int folder, const std::string& name) {
  const UniqueFd fd(openat(folder, name.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  char piece[16 * 1024];
  ssize_t n = 0;
  while (fd.valid() && (n = read(fd.get(), piece, sizeof(piece))) > 0) {
    text.append(piece, static_cast<std::size_t>(n));
  }
  return text;
}

}  // namespace

bool IsProof(const os::Notification& call) {
  return call.nr == SYS_ioctl && static_cast<std::uint32_t>(call.args[0]) == kNoFile &&
         static_cast<std::uint32_t>(call.args[1]) == kProofRequest;
}

std::int64_t ProofAnswer(std::string_view id) {
  std::uint32_t hash = 0x811c9dc5U;  // FNV-1a: distinguishes the containers of a host
  for (const char c : id) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x01000193U;
  }
  return std::max<std::int64_t>(hash & 0x7fffffffU, 1);
}

Result<> ProveFilter(std::string_view id) {
  const long answer = syscall(SYS_ioctl, kNoFile, kProofRequest, 0UL);
  if (answer == ProofAnswer(id)) {
    return {};
  }
  const int error = answer < 0 ? errno : 0;
  const bool passed = error == EBADF || error == ENOSYS;
  Error refused = ErrnoError(
      Code::kPermission, error,
      passed ? "the container runs under another filter than cgpu's, or nobody listens to it"
             : "the container's filter does not hand ioctl over to its shim");
  refused.hint = passed ? "see what else in its configuration has the OCI runtime take a filter"
                        : "its seccomp profile must let ioctl pass";
  return refused;
}

std::optional<Program> ProgramOf(int proc, pid_t pid) {
  const std::string folder = std::to_string(pid);
  struct statx info{};
  // Attributes that the kernel knows already: the file system may be the image's author's.
  if (statx(proc, (folder + "/exe").c_str(), AT_STATX_DONT_SYNC, STATX_INO | STATX_MNT_ID, &info) !=
      0) {
    return std::nullopt;
  }
  Program program;
  program.device = makedev(info.stx_dev_major, info.stx_dev_minor);
  program.inode = info.stx_ino;
  if ((info.stx_mask & STATX_MNT_ID) != 0) {
    const std::vector<MountEntry> mounts = ParseMounts(ReadAt(proc, folder + "/mountinfo"));
    program.of_image = std::ranges::any_of(
        mounts, [&](const MountEntry& mount) { return mount.id == info.stx_mnt_id; });
  }
  return program;
}

}  // namespace cgpu::sandbox
