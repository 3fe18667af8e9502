// Orders about time slices to channel groups of our own.
#ifndef CGPU_CALIBRATION_SLICE_ORDERS_H_
#define CGPU_CALIBRATION_SLICE_ORDERS_H_

#include <cstdint>

#include "governor/order.h"
#include "rmclient/client.h"

namespace cgpu {

// Sets the time slice of a channel group, in microseconds.
[[nodiscard]] rmclient::Outcome SetSlice(rmclient::Client& client, rm::NvHandle group,
                                         std::uint64_t us);

// Does to a channel group, by one of its channels, what makes time slices take effect. kNone: no
// more than a success. A restart needs CAP_SYS_NICE.
[[nodiscard]] rmclient::Outcome Pull(rmclient::Client& client, governor::Trigger trigger,
                                     rm::NvHandle group, rm::NvHandle channel);

}  // namespace cgpu

#endif  // CGPU_CALIBRATION_SLICE_ORDERS_H_
