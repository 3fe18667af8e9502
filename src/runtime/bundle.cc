#include "runtime/bundle.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "base/file.h"
#include "runtime/spec.h"

namespace cgpu {
namespace {

// Returns the FNV-1a hash, which tells texts apart; nobody gains by making two alike.
std::string Digest(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  }
  char digits[17];
  (void)std::snprintf(digits, sizeof(digits), "%016lx", hash);
  return digits;
}

// Writes a new file with the owner and mode of `like`, which takes the place of `path`.
Result<> WriteInPlace(const std::string& path, const std::string& text, const struct stat& like) {
  const std::string part = path + ".new";
  unlink(part.c_str());
  CGPU_ASSIGN_OR_RETURN(const auto file,
                        OpenFile(part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
  CGPU_TRY(WriteAll(file.get(), text));
  // A process other than root cannot give it another owner, and need not.
  const bool owned = fchown(file.get(), like.st_uid, like.st_gid) == 0 || geteuid() != 0;
  if (!owned || fchmod(file.get(), like.st_mode & 07777) != 0 ||
      rename(part.c_str(), path.c_str()) != 0) {
    const int error = errno;
    unlink(part.c_str());
    return ErrnoError(Code::kUnavailable, error, "cannot write " + path);
  }
  return {};
}

}  // namespace

std::string Bundle::KeptPath(const std::string& replacement) const {
  return path_ + ".before-cgpu-" + Digest(replacement);
}

Result<Bundle> Bundle::Open(const std::string& folder, const std::string& config) {
  std::string path = std::filesystem::path(folder) / config;
  CGPU_ASSIGN_OR_RETURN(auto text, ReadFile(path, kMaxSpec));
  Bundle bundle(std::move(path), std::move(text));
  std::string kept = bundle.KeptPath(bundle.text_);
  auto original = ReadFile(kept, kMaxSpec);
  if (original.ok()) {
    bundle.text_ = std::move(*original);
    bundle.kept_ = std::move(kept);
  } else if (original.error().code != Code::kNotFound) {
    return original.error();
  }
  return bundle;
}

Result<> Bundle::Replace(const std::string& text) {
  if (text == text_ && kept_.empty()) {
    return {};
  }
  struct stat info{};
  if (stat(path_.c_str(), &info) != 0) {
    return ErrnoError(Code::kUnavailable, errno, "cannot look at " + path_);
  }
  const std::string kept = KeptPath(text);
  CGPU_TRY(WriteInPlace(kept, text_, info));
  CGPU_TRY(WriteInPlace(path_, text, info));
  if (!kept_.empty() && kept_ != kept) {
    unlink(kept_.c_str());
  }
  kept_ = kept;
  return {};
}

}  // namespace cgpu
