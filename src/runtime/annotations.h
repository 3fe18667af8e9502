// Checks which of a container's annotations OCI runtimes act on. Pure.
//
// The container's user sets annotations, for example by `podman run --annotation`. They go past
// everything else that the configuration says: crun takes a seccomp filter from one, in place of
// the configuration's. So a container may have only those acting annotations that are on a short
// list, which change no filter, mount, hook or namespace.
#ifndef CGPU_RUNTIME_ANNOTATIONS_H_
#define CGPU_RUNTIME_ANNOTATIONS_H_

#include <map>
#include <string>
#include <string_view>

#include "base/result.h"

namespace cgpu {

// Returns whether some runtime acts on an annotation of that name and it is not on the list.
[[nodiscard]] bool IsActingAnnotation(std::string_view name);

// Returns kPermission, with the name of an annotation that may not be there. Leaving it out
// silently would give the user another container than asked for.
[[nodiscard]] Result<> CheckAnnotations(const std::map<std::string, std::string>& annotations);

}  // namespace cgpu

#endif  // CGPU_RUNTIME_ANNOTATIONS_H_
