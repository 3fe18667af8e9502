// Reads and writes whole small files (/proc, configuration, tests). All opens are O_CLOEXEC. Errors
// carry the path.
#ifndef CGPU_BASE_FILE_H_
#define CGPU_BASE_FILE_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace cgpu {

[[nodiscard]] Result<UniqueFd> OpenFile(const std::string& path, int flags, unsigned mode = 0);

// Reads to the end of the file; kExhausted if it is longer than `limit` bytes.
[[nodiscard]] Result<std::string> ReadFile(const std::string& path, std::size_t limit = 1 << 20);

// Reads what `fd` has until its end; `name` is for errors. kExhausted: that is more than `limit`
// bytes.
[[nodiscard]] Result<std::string> ReadAll(int fd, const std::string& name,
                                          std::size_t limit = std::size_t{1} << 24);

// Replaces the file's content (creates it with `mode`).
[[nodiscard]] Result<> WriteFile(const std::string& path, std::string_view content,
                                 unsigned mode = 0644);

// Puts a file of this content and mode, whatever the umask, in the place of `path`. Others see the
// old file or the new one, each whole. After a crash of the host that holds if it is `durable`; the
// old one may be back then. Writes to `path`.new meanwhile, so two callers need a lock.
[[nodiscard]] Result<> ReplaceFile(const std::string& path, std::string_view content, unsigned mode,
                                   bool durable = false);

// Writes everything or fails; retries EINTR and short writes. For blocking descriptors.
[[nodiscard]] Result<> WriteAll(int fd, std::string_view bytes);

// Returns the path of the running program: the file that it was executed from, or what has taken
// its place.
[[nodiscard]] Result<std::string> OwnProgram();

// Returns whether `path` is `folder` or lies below it. Compares the words alone, for paths without
// a "/" at the end. Pure.
[[nodiscard]] bool IsAtOrBelow(std::string_view path, std::string_view folder);

// Returns the names in a folder, sorted, without "." and "..".
[[nodiscard]] Result<std::vector<std::string>> NamesIn(const std::string& folder);

// Makes the directory and its parents, as mkdir -p, each new one with `mode`.
[[nodiscard]] Result<> MakeDirectories(const std::string& path, unsigned mode = 0755);

}  // namespace cgpu

#endif  // CGPU_BASE_FILE_H_
