// The signals of `cgpu run`: its command gets those it was meant to get, once.
#ifndef CGPU_LAUNCHER_SIGNALS_H_
#define CGPU_LAUNCHER_SIGNALS_H_

#include <csignal>

#include "base/fd.h"
#include "base/result.h"

namespace cgpu {

// What the process was started with, for the command to have again.
struct SignalState {
  sigset_t mask{};
  struct sigaction child{};
};

// Blocks all signals but those a fault raises and those that stop a background job at its
// terminal, and makes sure that children can be waited for. Returns what was before.
[[nodiscard]] Result<SignalState> BlockSignals();
void RestoreSignals(const SignalState& state);

// A descriptor from which the blocked signals are read.
[[nodiscard]] Result<UniqueFd> OpenSignals();

// Reads one signal and passes it to the process `target` (a pidfd), unless the terminal sent it:
// then the command, in the same process group, has got it already. A stop signal stops this process
// too.
void PassSignalOn(int signals, int target);

}  // namespace cgpu

#endif  // CGPU_LAUNCHER_SIGNALS_H_
