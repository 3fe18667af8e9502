// The actions of rmtool. Each returns the exit status and prints its result.
#ifndef CGPU_TESTS_LOAD_RMTOOL_VERBS_H_
#define CGPU_TESTS_LOAD_RMTOOL_VERBS_H_

#include "load/rmtool/options.h"
#include "rm/nv_types.h"
#include "rmclient/gpus.h"

namespace cgpu::rmtool {

inline constexpr int kWorked = 0;
inline constexpr int kUsage = 1;  // also: no driver to talk to
inline constexpr int kOutOfMemory = 2;
inline constexpr int kRefused = 3;

// Prints FormatError() on stderr and returns kUsage.
int Fail(const Error& error);
// Returns the `attr` word of an allocation with that page size.
rm::NvU32 PageAttr(Page page);
void WaitForEndOfStdin();

// The client and the GPU that an Options names.
struct Target {
  rmclient::Client client;
  rmclient::Gpu gpu;
};
[[nodiscard]] Result<Target> OpenTarget(const Options& options);

int Info(const Options& options);
int Alloc(const Options& options);  // alloc and hold
int RawAlloc(const Options& options);
int RawIoctl(const Options& options);

}  // namespace cgpu::rmtool

#endif  // CGPU_TESTS_LOAD_RMTOOL_VERBS_H_
