// Changes one configuration file so that a reader finds the old content or the new one and nothing
// between, also after a crash.
#ifndef CGPU_INSTALL_FILE_CHANGE_H_
#define CGPU_INSTALL_FILE_CHANGE_H_

#include <cstddef>
#include <optional>
#include <string>

#include "base/fd.h"
#include "base/result.h"

namespace cgpu::install {

// Longest configuration, in bytes; a longer file is none.
inline constexpr std::size_t kMaxFile = std::size_t{1} << 20;

// Returns the file that `path` leads to, through links; its folder need not be there yet. kInvalid
// for a link to nothing and for what is no regular file; kPermission where the caller may not look.
[[nodiscard]] Result<std::string> RealFile(const std::string& path);

// Returns the content, or nothing if there is no such file.
[[nodiscard]] Result<std::optional<std::string>> ReadIfThere(const std::string& file);

// Locks the folder of `file` against other changes by this program until the result is destroyed.
// Waits for its turn. Makes the folder if it is missing.
[[nodiscard]] Result<UniqueFd> LockFolderOf(const std::string& file);

// Puts `content` in the place of what is there: a new file takes the name, with the owner, mode and
// extended attributes of `like` (without such a file: the caller's, 0644). kPermission says to run
// as root. The caller holds the lock.
[[nodiscard]] Result<> ReplaceFile(const std::string& file, const std::string& content,
                                   const std::string& like);

// Deletes the file; no error if it is not there.
[[nodiscard]] Result<> DeleteFile(const std::string& file);

}  // namespace cgpu::install

#endif  // CGPU_INSTALL_FILE_CHANGE_H_
