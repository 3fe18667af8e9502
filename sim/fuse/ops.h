// The operations libfuse calls. Internal to sim/fuse.
#ifndef CGPU_SIM_FUSE_OPS_H_
#define CGPU_SIM_FUSE_OPS_H_

#include <cstdint>

struct fuse_lowlevel_ops;  // NOLINT(readability-identifier-naming): libfuse's
struct fuse_req;
struct fuse_session;

namespace cgpu::sim {

struct FuseOps {
  // A file in the root of the mount that is not listed; its RELEASE marks a place in the queue.
  static constexpr const char* kBarrierName = ".barrier";

  [[nodiscard]] static const fuse_lowlevel_ops& Table();
  // Makes the kernel ask again for the pages of a file that programs have mapped.
  static void ForgetPages(fuse_session* session, std::uint64_t ino);
  // Tells the server's faults of `ticket` when a signal arrives for the caller of `request`, until
  // it is unwatched.
  static void WatchInterrupt(fuse_req* request, std::uint64_t ticket);
  static void UnwatchInterrupt(fuse_req* request);

  // libfuse's own signatures, in terms of its types, are in ops.cc.
  struct Impl;
};

}  // namespace cgpu::sim

#endif  // CGPU_SIM_FUSE_OPS_H_
