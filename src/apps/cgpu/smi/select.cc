#include <algorithm>
#include <iterator>
#include <utility>

#include "apps/cgpu/smi/report.h"
#include "apps/cgpu/smi/text.h"

namespace cgpu::smi {
namespace {

bool Names(const std::string& id, const Card& card) {
  const auto address = ParseBus(id);
  return id == std::to_string(card.index) || id == card.uuid ||
         (address && address == ParseBus(card.bus_id));
}

}  // namespace

Result<> Select(Report& report, const std::string& ids) {
  std::vector<bool> chosen(report.cards.size());
  for (const std::string& id : Split(ids)) {
    const auto card =
        std::ranges::find_if(report.cards, [&](const Card& one) { return Names(id, one); });
    if (card == report.cards.end()) {
      return Error{Code::kNotFound, 0, "No devices were found: there is no GPU \"" + id + "\"",
                   "`cgpu smi -L` lists them; -i takes an index, a UUID or a PCI address"};
    }
    chosen[static_cast<std::size_t>(std::distance(report.cards.begin(), card))] = true;
  }
  std::vector<Card> cards;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    if (chosen[i]) {
      cards.push_back(std::move(report.cards[i]));
    }
  }
  report.cards = std::move(cards);
  return {};
}

}  // namespace cgpu::smi
