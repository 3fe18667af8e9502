#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "apps/cgpu/smi/report.h"
#include "base/file.h"
#include "rmclient/cards.h"

namespace cgpu::smi {
namespace {

// "0000:0a:00.0" as nvidia-smi writes it: "00000000:0A:00.0".
std::string BusId(std::string bdf) {
  std::ranges::transform(bdf, bdf.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return "0000" + bdf;
}

std::string ProgramOf(std::uint32_t pid) {
  const std::string folder = "/proc/" + std::to_string(pid);
  std::array<char, 4096> path{};
  const ssize_t length = readlink((folder + "/exe").c_str(), path.data(), path.size());
  if (length > 0) {
    return {path.data(), static_cast<std::size_t>(length)};
  }
  const Result<std::string> line = ReadFile(folder + "/cmdline");
  if (!line.ok() || line->empty()) {
    return "[Not Found]";
  }
  return line->substr(0, line->find('\0'));
}

Result<Card> GatherCard(rmclient::Client& client, const rmclient::Card& from) {
  CGPU_ASSIGN_OR_RETURN(const auto memory, rmclient::ReadFbInfo(client, from));
  CGPU_ASSIGN_OR_RETURN(const auto uses, rmclient::ReadProcesses(client, from));
  Card card;
  card.index = from.index;
  card.uuid = from.uuid;
  card.name = from.name;
  card.bus_id = BusId(from.bdf);
  card.total = memory.total;
  card.used = memory.used();
  card.free = memory.free;
  for (const rmclient::ProcessUse& use : uses) {
    if (use.bytes != 0 && use.pid != static_cast<std::uint32_t>(getpid())) {
      card.processes.push_back({use.pid, ProgramOf(use.pid), use.bytes});
    }
  }
  return card;
}

}  // namespace

Result<Report> Gather(const rmclient::DevicePaths& paths) {
  CGPU_ASSIGN_OR_RETURN(auto client, rmclient::Client::Open(paths));
  CGPU_ASSIGN_OR_RETURN(const auto cards, rmclient::OpenCards(client));
  Report report;
  report.driver_version = client.driver_version();
  for (const rmclient::Card& from : cards) {
    CGPU_ASSIGN_OR_RETURN(auto card, GatherCard(client, from));
    report.cards.push_back(std::move(card));
  }
  return report;
}

}  // namespace cgpu::smi
