// The signals that ask a program to end.
#ifndef CGPU_OS_END_SIGNALS_H_
#define CGPU_OS_END_SIGNALS_H_

#include <csignal>

namespace cgpu::os {

// Blocks SIGTERM and SIGINT in the calling thread and in those that it starts from then on. Returns
// them, for sigwait(3) and the like.
inline sigset_t BlockEndSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  (void)pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

}  // namespace cgpu::os

#endif  // CGPU_OS_END_SIGNALS_H_
