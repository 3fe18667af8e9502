// Signals of `cgpu run`: its command gets those it was meant to get, once.
#ifndef CGPU_RUN_SIGNALS_H_
#define CGPU_RUN_SIGNALS_H_

#include <csignal>

#include "base/fd.h"
#include "base/result.h"

namespace cgpu {

// Signal state that the process was started with, for the command to have again.
struct SignalState {
  sigset_t mask{};
  struct sigaction child{};
};

// Blocks all signals except those that a fault raises and those that stop a background job at its
// terminal, and makes sure that children can be waited for. Returns the state before.
[[nodiscard]] Result<SignalState> BlockSignals();
void RestoreSignals(const SignalState& state);

// Opens a descriptor from which the blocked signals are read.
[[nodiscard]] Result<UniqueFd> OpenSignals();

// Reads one signal and passes it to the process `target` (a pidfd). Skips a signal that the
// terminal sent: the command, in the same process group, has already got it. A stop signal stops
// this process too.
void PassSignalOn(int signals, int target);

}  // namespace cgpu

#endif  // CGPU_RUN_SIGNALS_H_
