// A file system of the tenant's own with one file, as far as attacks have it in common.
#ifndef CGPU_TESTS_ADVERSARY_FUSE_H_
#define CGPU_TESTS_ADVERSARY_FUSE_H_

#include <linux/fuse.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace cgpu::adversary {

inline constexpr std::uint64_t kFuseFileBytes = 4 << 20;

struct FuseMount {
  int dev = -1;
  std::string file;  // its name
};

// In user and mount namespaces of one's own. Says why and ends where there cannot be one. The
// kernel asks its server for pages on behalf of those only whose users the namespace knows:
// `all_ids`.
FuseMount MountFuse(bool all_ids = false);
void Reply(int dev, std::uint64_t unique, const void* body, std::size_t size, int error = 0);
// Any request but those that an attack is about.
void Answer(int dev, const fuse_in_header& in, const char* body);
// Serves until the mount is gone, with `read_file` for reads of the file: it gets the request's
// number and the offset, and replies.
[[noreturn]] void ServeFuse(int dev,
                            const std::function<void(std::uint64_t, std::uint64_t)>& read_file);

}  // namespace cgpu::adversary

#endif  // CGPU_TESTS_ADVERSARY_FUSE_H_
