// Keeps a load going and tells of it.
#ifndef CGPU_APPS_CGPU_BURN_BURN_H_
#define CGPU_APPS_CGPU_BURN_BURN_H_

#include "apps/cgpu-burn/load.h"
#include "apps/cgpu-burn/options.h"
#include "base/result.h"

namespace cgpu::burn {

// Blocks SIGINT and SIGTERM for this process, so that Burn() alone takes them. Call it first.
void TakeSignals();

// Launches as `options` say until it is time, or one of these signals comes; prints a line at the
// begin, one each second and two at the end. An error: the card ends no launches any more.
[[nodiscard]] Result<> Burn(Load& load, const Options& options);

}  // namespace cgpu::burn

#endif  // CGPU_APPS_CGPU_BURN_BURN_H_
