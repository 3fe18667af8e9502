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
constexpr std::size_t kMaxOfUser = std::size_t{1} << 20;

// Returns the text of a regular file; "": it is none. Its path came with a container of `user`, and
// may lead to anything. A user's must be the user's own, and small: root reads it.
std::string TextOf(const std::string& path, unsigned user) {
  const auto file = OpenFile(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW);
  struct stat status{};
  if (!file.ok() || fstat(file->get(), &status) != 0 || !S_ISREG(status.st_mode) ||
      (user != 0 && status.st_uid != user)) {
    return {};
  }
  return ReadAll(file->get(), path, user == 0 ? kMaxFile : kMaxOfUser).value_or("");
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
  std::map<std::pair<std::string, unsigned>, std::vector<Reservation*>> files;  // podman has one
  for (Reservation& one : live) {                                               // for all
    if (!one.names_file.empty()) {
      files[{one.names_file, one.user}].push_back(&one);
    }
  }
  for (const auto& [file, named] : files) {
    const Json names = ParseJson(TextOf(file.first, file.second));
    for (Reservation* const one : named) {
      const std::string name = NameIn(names, one->engine_id);
      one->name = IsName(name) ? name : one->name;
    }
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
