// Which of a container's annotations OCI runtimes act on. Pure.
//
// Annotations are the container's user's to set, as by `podman run --annotation`, and go past
// everything else that the configuration says: crun takes a seccomp filter from one, in place of
// the configuration's. So a container has no annotation that a runtime acts on but those of a short
// list, which change no filter, mount, hook or namespace.
#ifndef CGPU_RUNTIME_ANNOTATIONS_H_
#define CGPU_RUNTIME_ANNOTATIONS_H_

#include <map>
#include <string>
#include <string_view>

#include "base/result.h"

namespace cgpu {

// Whether some runtime acts on an annotation of that name, and it is not on the list.
[[nodiscard]] bool IsActingAnnotation(std::string_view name);

// kPermission, with the name of one that is not to be there. It is not silently left out: whoever
// set it would get another container than he asked for.
[[nodiscard]] Result<> CheckAnnotations(const std::map<std::string, std::string>& annotations);

}  // namespace cgpu

#endif  // CGPU_RUNTIME_ANNOTATIONS_H_
