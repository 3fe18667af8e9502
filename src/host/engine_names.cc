#include "host/engine_names.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "json/json.h"
#include "protocol/text.h"

namespace cgpu {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxFile = std::size_t{16} << 20;

// Returns the text of a regular file; "": it is none. Its path came with a container, and may lead
// to anything.
std::string TextOf(const std::string& path) {
  const auto file = OpenFile(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW);
  struct stat status{};
  if (!file.ok() || fstat(file->get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return {};
  }
  return ReadAll(file->get(), path, kMaxFile).value_or("");
}

std::string NameIn(const Json& all, std::string_view engine_id) {
  if (all.is_object()) {
    const std::string name = TextAt(all, "Name");
    return name.substr(name.starts_with('/') ? 1 : 0);
  }
  for (const Json& one : all) {
    if (At(one, "id") == engine_id) {
      const Json& names = At(one, "names");
      return names.is_array() && !names.empty() && names[0].is_string()
                 ? names[0].get<std::string>()
                 : std::string();
    }
  }
  return {};
}

}  // namespace

std::vector<Reservation> WithEngineNames(std::vector<Reservation> live) {
  std::map<std::string, Json> files;  // podman has one for all its containers
  for (Reservation& one : live) {
    if (one.names_file.empty()) {
      continue;
    }
    const auto [file, is_new] = files.try_emplace(one.names_file);
    if (is_new) {
      file->second = ParseJson(TextOf(file->first));
    }
    const std::string name = NameIn(file->second, one.engine_id);
    one.name = IsName(name) ? name : one.name;
  }
  return live;
}

void TakeNames(const std::vector<Reservation>& named, std::vector<ContainerStatus>& containers) {
  for (ContainerStatus& container : containers) {
    const auto one = std::ranges::find(named, container.id, &Reservation::id);
    container.name = one == named.end() ? container.name : one->name;
  }
}

Result<Reservation> FindNamed(std::string_view reference, const std::vector<Reservation>& named) {
  const auto count = std::ranges::count(named, reference, &Reservation::name);
  if (count > 1 && std::ranges::count(named, reference, &Reservation::id) == 0) {
    return Error{Code::kInvalid, 0,
                 std::to_string(count) + " containers are called \"" + std::string(reference) +
                     "\", by different engines",
                 "give the id"};
  }
  CGPU_ASSIGN_OR_RETURN(const auto found, FindReservation(reference, named));
  return named[found];
}

}  // namespace cgpu
