#include "sandbox/own_folders.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/fd.h"
#include "base/file.h"

namespace cgpu {
namespace {

// Returns the rest of `path` after `folder`: "" for the folder itself, else "/..."; nothing if
// `path` is not in it.
std::optional<std::string> Below(const std::string& path, const std::string& folder) {
  if (!IsAtOrBelow(path, folder)) {
    return std::nullopt;
  }
  return folder == "/" && path != "/" ? path : path.substr(folder.size());
}

// Takes the text before the next `end`, and that `end`, off `text`. With `escapes`, an `end` after
// a backslash does not count.
std::string_view TakeUntil(std::string_view& text, char end, bool escapes = false) {
  std::size_t i = 0;
  while (i < text.size() && text[i] != end) {
    i += escapes && text[i] == '\\' ? 2 : 1;
  }
  i = std::min(i, text.size());
  const std::string_view taken = text.substr(0, i);
  text.remove_prefix(std::min(i + 1, text.size()));
  return taken;
}

std::string WithoutBackslashes(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    i += text[i] == '\\' && i + 1 < text.size() ? 1 : 0;
    plain += text[i];
  }
  return plain;
}

// Adds layers, in both forms that Linux writes: from 6.5 on without overlayfs's backslashes in
// names, before that as they were given (fs/overlayfs/params.c, super.c). The form cannot be told,
// so both are read.
void AddLayers(std::string_view value, bool list, std::set<std::string>& layers) {
  const std::string given = UnescapeMountWord(value);
  std::string_view before = given;
  do {
    layers.insert(UnescapeMountWord(list ? TakeUntil(value, ':') : std::exchange(value, {})));
  } while (!value.empty());
  do {
    layers.insert(WithoutBackslashes(list ? TakeUntil(before, ':', /*escapes=*/true)
                                          : std::exchange(before, {})));
  } while (!before.empty());
}

bool Touch(const FilePlace& a, const FilePlace& b) {
  return a.device == b.device && (IsAtOrBelow(a.path, b.path) || IsAtOrBelow(b.path, a.path));
}

Result<> CheckLayers(const MountEntry& mount, const std::vector<FilePlace>& places,
                     const std::vector<MountEntry>& mounts) {
  for (const std::string& layer : LayersOf(mount)) {
    const auto place = FindPlace(layer, mounts);
    if (!place.ok() && place.error().code == Code::kPermission) {
      continue;  // unreachable for this user, who so cannot have asked for it
    }
    if (!place.ok()) {
      return place.error();
    }
    // An overlay is no layer of itself: it may cover its own layer, as one of /etc on /etc does.
    if (place->has_value() && (*place)->device != mount.device &&
        std::ranges::any_of(places, [&](const FilePlace& own) { return Touch(**place, own); })) {
      return Error{Code::kConflict, 0,
                   "the container would have " + layer + " of cgpu itself, in an overlay",
                   "leave that mount out"};
    }
  }
  return {};
}

}  // namespace

Result<std::optional<FilePlace>> FindPlace(const std::string& path,
                                           const std::vector<MountEntry>& mounts) {
  std::error_code gone;
  const std::string real = std::filesystem::canonical(path, gone);
  const UniqueFd fd(gone ? -1 : open(real.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  if (gone == std::errc::no_such_file_or_directory || gone == std::errc::not_a_directory ||
      (!gone && !fd.valid() && errno == ENOENT)) {
    return std::optional<FilePlace>();
  }
  if (!fd.valid()) {
    errno = gone ? gone.value() : errno;
    return MountError("cannot find " + path);
  }
  CGPU_ASSIGN_OR_RETURN(const auto found, FindMount(fd.get(), path));
  for (const MountEntry& mount : mounts) {
    const auto rest = mount.id == found.id ? Below(real, mount.point) : std::nullopt;
    if (rest) {
      return std::optional(FilePlace{mount.device, (mount.root == "/" ? "" : mount.root) + *rest});
    }
  }
  return Error{Code::kInternal, 0, "cannot find the mount of " + path,
               "it may have been mounted this moment: try again"};
}

std::vector<std::string> WhereTheyShow(const std::vector<FilePlace>& places,
                                       const std::string& root,
                                       const std::vector<MountEntry>& mounts) {
  std::vector<std::string> shown;
  for (const MountEntry& mount : mounts) {
    const auto point = Below(mount.point, root);
    for (const FilePlace& place : places) {
      if (!point || mount.device != place.device) {
        continue;
      }
      if (const auto rest = Below(place.path, mount.root)) {
        shown.push_back(*point + *rest);
      } else if (IsAtOrBelow(mount.root, place.path)) {
        shown.push_back(*point);
      }
    }
  }
  for (std::string& path : shown) {
    path = path.empty() ? "/" : path;
  }
  std::ranges::sort(shown);
  shown.erase(std::unique(shown.begin(), shown.end()), shown.end());
  return shown;
}

std::set<std::string> LayersOf(const MountEntry& mount) {
  std::set<std::string> layers;
  std::string_view rest = mount.type == "overlay" ? std::string_view(mount.options) : "";
  while (!rest.empty()) {
    std::string_view value = TakeUntil(rest, ',');
    const std::string_view name = TakeUntil(value, '=');
    if (name == "lowerdir" || name == "lowerdir+" || name == "datadir+" || name == "upperdir") {
      AddLayers(value, name == "lowerdir", layers);
    }
  }
  std::erase_if(layers, [](const std::string& layer) { return !layer.starts_with('/'); });
  return layers;
}

Result<std::vector<std::string>> FindOwnFolders(const std::vector<std::string>& own,
                                                const std::string& root,
                                                const std::vector<MountEntry>& mounts) {
  std::vector<FilePlace> places;
  for (const std::string& folder : own) {
    CGPU_ASSIGN_OR_RETURN(auto place, FindPlace(folder, mounts));
    if (place.has_value()) {
      places.push_back(std::move(*place));
    }
  }
  for (const MountEntry& mount : mounts) {
    if (IsAtOrBelow(mount.point, root)) {
      CGPU_TRY(CheckLayers(mount, places, mounts));
    }
  }
  return WhereTheyShow(places, root, mounts);
}

}  // namespace cgpu
