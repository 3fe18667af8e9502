#include "shim/processes.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <set>

#include "os/open_files.h"

namespace cgpu::shim {

std::vector<pid_t> ContainerProcesses::All() const {
  std::set<pid_t> seen;
  std::vector<pid_t> pids;
  const auto add = [&](pid_t pid) {
    if (seen.insert(pid).second) {
      pids.push_back(pid);
    }
  };
  for (const auto& process : callers_.Processes()) {
    add(process->tgid);
  }
  for (const WorkerPool::Root& root : pool_.Roots()) {
    for (const pid_t pid :
         os::Descendants(callers_.proc_fd(), os::WithOrphans(callers_.proc_fd(), root.pid))) {
      add(pid);
    }
  }
  return pids;
}

void ContainerProcesses::Kill() {
  for (const auto& process : callers_.Processes()) {
    (void)syscall(SYS_pidfd_send_signal, process->pidfd.get(), SIGKILL, nullptr, 0);
  }
  pool_.KillRoots();
}

void ContainerProcesses::Condemn(const std::string& why) {
  if (!condemned_.exchange(true)) {
    accounting_.CountRefused(boundary::Reason::kNotAllowed, why);
    Kill();
  }
}

}  // namespace cgpu::shim
