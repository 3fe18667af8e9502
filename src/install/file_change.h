// Changing one configuration file so that whoever reads it finds the old content or the new one and
// nothing between, also after a crash; and keeping what it was.
#ifndef CGPU_INSTALL_FILE_CHANGE_H_
#define CGPU_INSTALL_FILE_CHANGE_H_

#include <cstddef>
#include <optional>
#include <string>

#include "base/fd.h"
#include "base/result.h"

namespace cgpu::install {

// A configuration is small; a longer file is none.
inline constexpr std::size_t kMaxFile = std::size_t{1} << 20;

// The file that `path` leads to, through links; its folder need not be there yet. kInvalid for a
// link to nothing and for what is no regular file, kPermission where one may not look.
[[nodiscard]] Result<std::string> RealFile(const std::string& path);

// The content, or nothing if there is no such file.
[[nodiscard]] Result<std::optional<std::string>> ReadIfThere(const std::string& file);

// Where the content of `file` from before the installation is kept: beside it, with
// ".before-cgpu" behind its name. Engines read all files of a folder whose name ends in ".d" (CRI-O
// whatever they are called), so what belongs to one of those lies in the folder above.
[[nodiscard]] std::string OriginalOf(const std::string& file);

// Until it is destroyed, nobody else in this program's ways changes files of the folder of `file`.
// Waits for its turn. The folder is made if it is missing.
[[nodiscard]] Result<UniqueFd> LockFolderOf(const std::string& file);

// Puts `content` in the place of what is there, by a new file with the same owner, mode and
// extended attributes that takes the name; `like`: the file to take them from (default: itself;
// without one: the caller's, 0644). Missing folders are made. kPermission says to run as root.
// Under the lock.
[[nodiscard]] Result<> ReplaceFile(const std::string& file, const std::string& content,
                                   const std::string& like = {});

// Takes the file away; no error if it is not there.
[[nodiscard]] Result<> DeleteFile(const std::string& file);

}  // namespace cgpu::install

#endif  // CGPU_INSTALL_FILE_CHANGE_H_
