// A Caller looked at through /proc and process_vm_readv().
#ifndef CGPU_SIM_FUSE_PROC_CALLER_H_
#define CGPU_SIM_FUSE_PROC_CALLER_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/fd.h"
#include "sim/driver/caller.h"
#include "sim/fuse/open_files.h"

namespace cgpu::sim {

// The node's own place, which "initial namespace" and "this node's files" are measured by.
struct NodeIdentity {
  dev_t device = 0;     // of the mount
  std::string user_ns;  // readlink of /proc/self/ns/user
  std::string pid_ns;

  [[nodiscard]] static NodeIdentity Of(dev_t device);
};

class ProcCaller final : public Caller {
 public:
  // `tid` is what FUSE calls pid: the number of the thread. Both references outlive the caller.
  ProcCaller(pid_t tid, const NodeIdentity& node, const OpenFiles& files)
      : tid_(tid), node_(node), files_(files) {}

  [[nodiscard]] bool Read(rm::NvP64 address, std::span<std::byte> bytes) override;
  [[nodiscard]] bool Write(rm::NvP64 address, std::span<const std::byte> bytes) override;
  [[nodiscard]] std::shared_ptr<Pages> PagesAt(rm::NvP64 address, rm::NvU64 length) override;
  [[nodiscard]] std::uint32_t Tgid() override { return Get().tgid; }
  [[nodiscard]] std::uint32_t Euid() override { return Get().euid; }
  [[nodiscard]] bool IsAdmin() override;
  [[nodiscard]] bool IsNice() override;
  [[nodiscard]] FileId ResolveFd(int fd) override;
  [[nodiscard]] std::map<int, FileId> FilesByFd() override;
  [[nodiscard]] std::set<unsigned> OpenMinors() override;
  void LookAhead(bool files) override;
  [[nodiscard]] std::optional<std::uint32_t> PidAsSeen(std::uint32_t tgid) override;

  // Returns the descriptor's file without opening it (O_PATH); not valid if there is none.
  [[nodiscard]] UniqueFd PathOf(int fd) const;

  // Returns whether it has been killed. It cannot die before it is answered.
  [[nodiscard]] bool IsKilled() const;

 private:
  // Calls visit(fd, inode, device) for every open file of this node.
  template <class Visit>
  void ForEachFile(const Visit& visit);
  struct Status {
    std::uint32_t tgid = 0;
    std::uint32_t euid = 0;
    std::uint64_t cap_eff = 0;
    std::uint64_t pending = 0;
    std::vector<std::uint32_t> ns_pids;  // outermost first
  };

  [[nodiscard]] const Status& Get();
  [[nodiscard]] static std::optional<Status> ReadStatus(pid_t pid);
  [[nodiscard]] bool HasCapability(unsigned number);

  const pid_t tid_;
  const NodeIdentity& node_;
  const OpenFiles& files_;
  std::optional<Status> status_;
  std::optional<std::set<unsigned>> minors_;  // what LookAhead() found, until it is asked for
};

}  // namespace cgpu::sim

#endif  // CGPU_SIM_FUSE_PROC_CALLER_H_
