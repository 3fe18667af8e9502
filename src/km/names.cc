#include "km/names.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <set>
#include <utility>

#include "registry/text.h"

namespace cgpu::km {
namespace {

struct File {
  std::string_view name;
  Kind kind;
};

constexpr std::array<File, 3> kCardFiles = {
    {{"policy", Kind::kPolicy}, {"max_inst", Kind::kMaxInst}, {"prio_ratio", Kind::kPrioRatio}}};
constexpr std::array<File, 3> kContainerFiles = {
    {{"id", Kind::kId}, {"memsize", Kind::kMemsize}, {"meminfo", Kind::kMeminfo}}};

template <std::size_t kCount>
std::optional<Kind> KindIn(const std::array<File, kCount>& files, std::string_view name) {
  const auto found =
      std::find_if(files.begin(), files.end(), [&](const File& file) { return file.name == name; });
  return found == files.end() ? std::nullopt : std::optional(found->kind);
}

template <std::size_t kCount>
std::vector<std::string> NamesOf(const std::array<File, kCount>& files) {
  std::vector<std::string> names;
  names.reserve(kCount);
  for (const File& file : files) {
    names.emplace_back(file.name);
  }
  return names;
}

std::string_view TakeComponent(std::string_view& path) {
  const std::size_t end = std::min(path.find('/'), path.size());
  const std::string_view component = path.substr(0, end);
  path.remove_prefix(std::min(end + 1, path.size()));
  return component;
}

}  // namespace

std::optional<Place> ParsePath(std::string_view path) {
  Place place;
  if (path == "/") {
    return place;
  }
  if (path == "/version") {
    place.kind = Kind::kVersion;
    return place;
  }
  if (path.empty() || path.front() != '/' || path.back() == '/') {
    return std::nullopt;
  }
  path.remove_prefix(1);
  const std::string_view card = TakeComponent(path);
  if (!ToUnsigned(card, place.minor) || std::to_string(place.minor) != card) {
    return std::nullopt;
  }
  place.kind = Kind::kCard;
  if (path.empty()) {
    return place;
  }
  const std::string_view second = TakeComponent(path);
  if (const auto file = KindIn(kCardFiles, second)) {
    place.kind = *file;
    return path.empty() ? std::optional(place) : std::nullopt;
  }
  place.kind = Kind::kContainer;
  place.container = second;
  if (path.empty()) {
    return place;
  }
  const auto file = KindIn(kContainerFiles, path);
  if (!file) {
    return std::nullopt;
  }
  place.kind = *file;
  return place;
}

bool IsFolder(Kind kind) {
  return kind == Kind::kRoot || kind == Kind::kCard || kind == Kind::kContainer;
}

bool IsWritable(Kind kind) {
  return kind == Kind::kPolicy || kind == Kind::kPrioRatio || kind == Kind::kMaxInst ||
         kind == Kind::kMemsize;
}

std::vector<std::string> FilesOfCard() {
  return NamesOf(kCardFiles);
}

std::vector<std::string> FilesOfContainer() {
  return NamesOf(kContainerFiles);
}

std::vector<std::string> FolderNames(const std::vector<Reservation>& live) {
  std::vector<std::string> names;
  std::set<std::string> taken;
  for (const Reservation& reservation : live) {
    names.push_back(KindIn(kCardFiles, reservation.name) ? std::string() : reservation.name);
    taken.insert(names.back());
  }
  for (std::size_t i = 0; i < live.size(); ++i) {
    if (!names[i].empty()) {
      continue;
    }
    names[i] = live[i].id;
    while (!taken.insert(names[i]).second) {
      names[i] += "." + live[i].name;
    }
  }
  return names;
}

std::string MeminfoText(const CardMemory& memory) {
  const std::uint64_t free = memory.limit_bytes - std::min(memory.limit_bytes, memory.used_bytes);
  std::string text = "Free: " + std::to_string(free) + "\n";
  for (const ProcessMemory& process : memory.processes) {
    text += "PID: " + std::to_string(process.pid) + " Mem: " + std::to_string(process.bytes) + "\n";
  }
  return text;
}

std::optional<std::uint64_t> ParseValue(std::string_view text) {
  if (text.ends_with('\n')) {
    text.remove_suffix(1);
  }
  std::uint64_t value = 0;
  return ToNumber(text, 10, std::numeric_limits<std::uint64_t>::max(), value) ? std::optional(value)
                                                                              : std::nullopt;
}

}  // namespace cgpu::km
