// Reads how busy a GPU's engine for graphics and compute was, from the driver's own samples.
#ifndef CGPU_RMCLIENT_UTILISATION_H_
#define CGPU_RMCLIENT_UTILISATION_H_

#include <cstdint>

#include "base/result.h"
#include "rmclient/cards.h"
#include "rmclient/client.h"

namespace cgpu::rmclient {

// The newest sample, of 1/7 s. The same time as before: nothing has happened since.
struct Utilisation {
  std::uint64_t time = 0;
  double busy = 0;        // 0 to 1
  std::uint32_t pid = 0;  // last process that was seen active on it, or 0
};
[[nodiscard]] Result<Utilisation> ReadUtilisation(Client& client, const Card& card);

}  // namespace cgpu::rmclient

#endif  // CGPU_RMCLIENT_UTILISATION_H_
