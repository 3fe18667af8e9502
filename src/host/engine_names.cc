#include "host/engine_names.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "protocol/text.h"

namespace cgpu {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxFile = std::size_t{16} << 20;

// Returns the text of a regular file; "": it is none. Its path came with a container, and may lead
// to anything.
std::string TextOf(const std::string& path) {
  const auto file = OpenFile(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW);
  struct stat status{};
  if (!file.ok() || fstat(file->get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return {};
  }
  auto text = ReadAll(file->get(), path, kMaxFile);
  return text.ok() ? *std::move(text) : std::string();
}

std::string NameIn(const json& all, std::string_view engine_id) {
  if (all.is_object()) {
    const auto name = all.find("Name");
    if (name == all.end() || !name->is_string()) {
      return {};
    }
    const auto text = name->get<std::string>();
    return text.substr(text.starts_with('/') ? 1 : 0);
  }
  for (const json& one : all) {
    if (!one.is_object() || one.value("id", json()) != engine_id) {
      continue;
    }
    const auto names = one.value("names", json());
    return names.is_array() && !names.empty() && names[0].is_string() ? names[0].get<std::string>()
                                                                      : std::string();
  }
  return {};
}

}  // namespace

std::string EngineName(const std::string& file, std::string_view engine_id) {
  const json all = file.empty() ? json() : json::parse(TextOf(file), nullptr, false);
  std::string name = NameIn(all, engine_id);
  return IsName(name) ? name : std::string();
}

void UseEngineNames(const std::vector<Reservation>& live,
                    std::vector<ContainerStatus>& containers) {
  for (ContainerStatus& container : containers) {
    const auto one = std::ranges::find(live, container.id, &Reservation::id);
    const std::string name =
        one == live.end() ? "" : EngineName(one->names_file, container.engine_id);
    container.name = name.empty() ? container.name : name;
  }
}

Result<std::string> FindId(std::string_view reference, std::vector<Reservation> live) {
  for (Reservation& one : live) {
    const std::string name = EngineName(one.names_file, one.engine_id);
    one.name = name.empty() ? one.name : name;
  }
  const auto named = std::ranges::count(live, reference, &Reservation::name);
  if (named > 1 && std::ranges::count(live, reference, &Reservation::id) == 0) {
    return Error{Code::kInvalid, 0,
                 std::to_string(named) + " containers are called \"" + std::string(reference) +
                     "\", by different engines",
                 "give the id"};
  }
  CGPU_ASSIGN_OR_RETURN(const auto found, FindReservation(reference, live));
  return live[found].id;
}

}  // namespace cgpu
