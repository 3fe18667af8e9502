// Chooses what the OCI runtime gets of the environment that a container engine called cgpu-runtime
// with. Pure.
//
// Variables change what runtimes do behind the configuration's back: crun sends seccomp listeners
// where RUN_OCI_SECCOMP_RECEIVER says, the dynamic linker loads what LD_PRELOAD names. Container
// engines hand on what they were started with, and users of rootless ones whatever they like.
#ifndef CGPU_RUNTIME_RUNTIME_ENVIRONMENT_H_
#define CGPU_RUNTIME_RUNTIME_ENVIRONMENT_H_

#include <string>
#include <vector>

namespace cgpu {

// Folders where programs are looked for without a PATH, and by the hooks that cgpu puts in.
inline constexpr char kPlainPath[] =
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

// Returns the entries of `environment` (NAME=VALUE) that runtimes need. Keeps only absolute folders
// of PATH: the working directory is often the container's.
[[nodiscard]] std::vector<std::string> RuntimeEnvironment(
    const std::vector<std::string>& environment);

}  // namespace cgpu

#endif  // CGPU_RUNTIME_RUNTIME_ENVIRONMENT_H_
