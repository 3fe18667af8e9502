// Checks whether the container's filter is cgpu's (kernel/proof.h).
#include <sys/syscall.h>
#include <unistd.h>

#include "shim/server.h"

namespace cgpu::shim {

void Server::TakeProof(const SourcePtr& source, const kernel::Notification& notification) {
  {
    const std::lock_guard lock(listen_mutex_);
    unproved_ = unproved_ && first_.lock() != source;
  }
  ListenSoon();
  (void)source->listener.Answer(notification.id, kernel::ProofAnswer(config_.id), 0);
}

bool Server::LookForProof() {
  pid_t pid = 0;
  {
    const std::lock_guard lock(listen_mutex_);
    const SourcePtr first = first_.lock();
    if (!unproved_ || first == nullptr) {
      return false;
    }
    pid = first->process.valid() ? first->pid : 0;
  }
  const auto program = pid == 0 ? std::nullopt : kernel::ProgramOf(callers_.proc_fd(), pid);
  if (!program) {
    return true;  // the runtime has not said yet whose listener it is
  }
  const bool runs_image = program->of_image || program != first_program_.value_or(*program);
  first_program_ = program;
  if (!runs_image) {
    return true;
  }
  {
    // The proof comes before the image's program is executed. The program was looked at first: a
    // proof that is not here by now did not come.
    const std::lock_guard lock(listen_mutex_);
    if (!unproved_) {
      return false;
    }
    unproved_ = false;
  }
  CountRefused("a container under a filter that is not cgpu's");
  KillContainer();
  return false;
}

}  // namespace cgpu::shim
