#include "shim/filter_proof.h"

namespace cgpu::shim {

void FilterProof::Take(const SourcePtr& source, const os::Notification& notification) {
  if (pool_.IsFirst(*source)) {
    unproved_.store(false);
  }
  pool_.ListenSoon();
  (void)source->listener.Answer(notification.id, sandbox::ProofAnswer(config_.id), 0);
}

bool FilterProof::Look() {
  const std::optional<pid_t> pid = unproved_.load() ? pool_.FirstProcess() : std::nullopt;
  if (!pid) {
    return false;
  }
  const auto program = *pid == 0 ? std::nullopt : sandbox::ProgramOf(proc_, *pid);
  if (!program) {
    return true;  // the runtime has not said yet whose listener it is
  }
  const bool runs_image = program->of_image || program != first_program_.value_or(*program);
  first_program_ = program;
  if (!runs_image) {
    return true;
  }
  // The proof comes before the image's program is executed. The program was looked at first: a
  // proof that is not here by now did not come.
  if (!unproved_.exchange(false)) {
    return false;
  }
  accounting_.CountRefused(boundary::Reason::kNotAllowed,
                           "a container under a filter that is not cgpu's");
  processes_.Kill();
  return false;
}

}  // namespace cgpu::shim
