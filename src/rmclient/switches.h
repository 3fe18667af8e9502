// Reads which process had the engine for graphics and compute when: the driver's list of context
// switches of a GPU, of all users' processes. For root.
//
// Sources in rm/nv_events.h. A context that has nothing to do stays on the engine until another
// comes, and is then on this list for all that time. Times are the GPU's, in nanoseconds; only
// differences mean something. The driver writes them about 30 times a second.
#ifndef CGPU_RMCLIENT_SWITCHES_H_
#define CGPU_RMCLIENT_SWITCHES_H_

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "rmclient/client.h"
#include "rmclient/gpus.h"

namespace cgpu::rmclient {

struct Switch {
  std::uint32_t pid = 0;  // the driver's number of the process, which is the host's
  std::uint64_t time_ns = 0;
  bool begins = false;  // the context came onto the engine; else it left
};

// Thread-compatible. `client` must outlive it.
class SwitchLog {
 public:
  // Opens the log from now on. kUnsupported and others: the driver does not tell.
  [[nodiscard]] static Result<SwitchLog> Make(Client& client, const Gpu& gpu);

  // Switches since the last time, oldest first. When more came than are kept, the older ones are
  // lost and `lost` is true.
  struct News {
    std::vector<Switch> switches;
    bool lost = false;
  };
  [[nodiscard]] News Read();

 private:
  SwitchLog(Mapping header, Mapping records)
      : header_(std::move(header)), records_(std::move(records)) {}

  Mapping header_;
  Mapping records_;
  std::uint32_t next_ = 0;  // place of the next record
  std::uint16_t sequence_ = 0;
};

}  // namespace cgpu::rmclient

#endif  // CGPU_RMCLIENT_SWITCHES_H_
