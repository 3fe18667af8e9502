// Keeps a load going and reports on it.
#ifndef CGPU_TESTS_LOAD_BURN_BURN_H_
#define CGPU_TESTS_LOAD_BURN_BURN_H_

#include "base/result.h"
#include "load/burn/load.h"
#include "load/burn/options.h"

namespace cgpu::burn {

// Blocks SIGINT and SIGTERM for this process, so that Burn() alone takes them. Call it first.
void TakeSignals();

// Launches as `options` say until the time is over, or one of these signals comes. Prints a line at
// the begin, one each second and two at the end. Returns an error when the GPU ends no launches any
// more.
[[nodiscard]] Result<> Burn(Load& load, const Options& options);

}  // namespace cgpu::burn

#endif  // CGPU_TESTS_LOAD_BURN_BURN_H_
