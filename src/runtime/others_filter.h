// Keeps a container without a slice off GPU files, whatever it is handed: a seccomp filter that
// `cgpu-runtime` puts on itself before it becomes the OCI runtime. The container's processes
// inherit it, beside the filter that the runtime makes of the container's profile; of two answers
// the kernel takes the stricter one.
//
// The filter answers ENODEV to every request that some supported driver accepts on any of its
// files, but for those that other devices need and that are harmless on a GPU's file (kHarmless in
// others_filter.cc has each with its reason). It costs an ioctl well under a microsecond, and
// other calls nothing.
//
// A profile's rules could not say this: libseccomp has no "all but these", and the many rules that
// say it in another way make more instructions than a filter may have.
#ifndef CGPU_RUNTIME_OTHERS_FILTER_H_
#define CGPU_RUNTIME_OTHERS_FILTER_H_

#include <linux/filter.h>

#include <cstdint>
#include <vector>

#include "base/result.h"

namespace cgpu {

// Returns true if the filter refuses an ioctl with this request number. The filter's own rule, for
// decisions and tests. Pure.
[[nodiscard]] bool IsRefusedToOthers(std::uint32_t request);
[[nodiscard]] std::vector<sock_filter> BuildOthersFilter();

// Puts the filter on the calling thread, and on all that it starts or becomes. kPermission: the
// caller has neither no_new_privs nor CAP_SYS_ADMIN in its user namespace. kUnsupported: the kernel
// has no seccomp filters.
[[nodiscard]] Result<> InstallOthersFilter();

}  // namespace cgpu

#endif  // CGPU_RUNTIME_OTHERS_FILTER_H_
