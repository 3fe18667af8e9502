// Orders to the driver about channels that are not one's own, as a shim of cgpu gives them: what
// the driver says to each, how long it takes, what it holds up for others, and whether it works.
#ifndef CGPU_TESTS_GPU_ORDERS_ORDERS_H_
#define CGPU_TESTS_GPU_ORDERS_ORDERS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gpu/orders/seen.h"
#include "load/burn/load.h"
#include "rmclient/gpus.h"

namespace cgpu::orders {

// A program of CUDA in this process, and beside it a client of our own, whose orders are about it.
class Bench {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Bench>> Make(const burn::Shape& shape);

  // Keeps the GPU's queue full.
  void Feed();
  // The same for so long; how many launches ended meanwhile.
  std::uint64_t Run(std::uint64_t us);
  [[nodiscard]] const burn::Load& load() const { return *load_; }
  [[nodiscard]] std::string Channels() const;  // JSON: what the library made

  // An order on all groups or channels for graphics and compute; of several answers the first that
  // is no success.
  using Order = std::function<rmclient::Outcome()>;
  [[nodiscard]] rmclient::Outcome DupGroups();  // before the orders on groups
  [[nodiscard]] rmclient::Outcome DupChannel();
  [[nodiscard]] rmclient::Outcome SetTimeslice(std::uint64_t us);
  // By the handles of its owner, on a file of ours.
  [[nodiscard]] rmclient::Outcome SetTimesliceForeign(std::uint64_t us);
  [[nodiscard]] rmclient::Outcome Preempt();
  [[nodiscard]] rmclient::Outcome Schedule(bool on);
  [[nodiscard]] rmclient::Outcome Disable(bool off);
  [[nodiscard]] rmclient::Outcome SetInterleaveLevel(rm::NvU32 level);
  // FIFO_DISABLE_CHANNELS about these.
  [[nodiscard]] rmclient::Outcome Switch(const std::vector<SeenObject>& channels, bool off);
  // The channels for graphics and compute that the program had when it was made.
  [[nodiscard]] const std::vector<SeenObject>& channels() const { return channels_; }

 private:
  Bench(rmclient::Client client, std::vector<rmclient::Gpu> gpus, std::size_t gpu)
      : client_(std::move(client)), gpus_(std::move(gpus)), gpu_(gpus_[gpu]) {}
  template <class Params>
  rmclient::Outcome OnGroups(rm::NvU32 command, Params params, std::size_t size);

  rmclient::Client client_;
  std::vector<rmclient::Gpu> gpus_;
  rmclient::Gpu& gpu_;
  std::unique_ptr<burn::Load> load_;
  std::vector<SeenObject> seen_;
  std::vector<SeenObject> groups_;    // for graphics and compute
  std::vector<SeenObject> channels_;  // in those
  std::vector<rm::NvHandle> copies_;  // ours of the groups
};

}  // namespace cgpu::orders

#endif  // CGPU_TESTS_GPU_ORDERS_ORDERS_H_
