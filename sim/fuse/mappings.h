// Finds the address spaces that have files of nvidia-uvm mapped, from /proc.
#ifndef CGPU_SIM_FUSE_MAPPINGS_H_
#define CGPU_SIM_FUSE_MAPPINGS_H_

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/fd.h"
#include "sim/fuse/open_files.h"
#include "sim/fuse/proc_caller.h"
#include "sim/model/uvm_seen.h"

namespace cgpu::sim {

// Remembers the address spaces that it has seen with such mappings. What a process maps outlives it
// where another shares its memory (CLONE_VM), and a process that executes another program leaves
// its memory. So an address space is followed by an open /proc/PID/mem, which tells its end, and
// by comparing the processes (kcmp). Thread-compatible; looks never fail.
class Mappings {
 public:
  // Looks at these processes, or at all when there are none. May wait for a process that changes
  // its own mappings: never under the driver's lock.
  [[nodiscard]] UvmSeen Look(const NodeIdentity& node, const OpenFiles& files,
                             std::set<std::uint32_t> processes);

 private:
  using Process = std::pair<std::uint32_t, std::uint64_t>;  // number, start
  // Where the kernel put a program: processes in one address space have the same.
  using Places = std::array<std::uint64_t, 4>;
  struct Known {
    UvmOwner name;
    UniqueFd memory;
    Places places{};
    std::set<Process> members;
    bool seen = false;  // in this look
    bool left = false;  // a process has executed another program
  };
  struct Stat {
    char state = 'X';
    std::uint64_t started = 0;
    Places places{};
  };

  [[nodiscard]] static std::optional<Stat> ReadStat(const std::string& folder);
  [[nodiscard]] static std::string WithMemory(std::uint32_t tgid, const Stat& stat);
  [[nodiscard]] static bool IsUsed(const Known& known);
  [[nodiscard]] static bool Lives(const Process& member);
  void AddMembers(std::set<std::uint32_t>& processes) const;
  void LookAt(std::uint32_t tgid, const NodeIdentity& node, const OpenFiles& files, UvmSeen* seen);
  Known* Find(const Process& process, const Places& places);
  Known& Name(const Process& process, const Places& places);

  std::vector<Known> known_;
  std::uint64_t programs_ = 0;
};

}  // namespace cgpu::sim

#endif  // CGPU_SIM_FUSE_MAPPINGS_H_
