#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "load/burn/load.h"
#include "sim/cuda/work.h"
#include "sim/engine/timed_kernel.h"

namespace cgpu::burn {
namespace {

class TimedLoad : public Load {
 public:
  TimedLoad(rmclient::Client client, std::vector<rmclient::Gpu> gpus)
      : client_(std::move(client)), gpus_(std::move(gpus)) {}

  [[nodiscard]] Result<> Make(const Shape& shape) {
    CGPU_ASSIGN_OR_RETURN(auto queue, sim::cuda::WorkQueue::Make(client_, gpus_[shape.gpu],
                                                                 shape.queue, shape.graph));
    queue_.emplace(std::move(queue));
    sim::engine::TimedKernel kernel;
    kernel.duration_ns = shape.kernel_us * 1000;
    kernel.flags = shape.rigid ? sim::engine::TimedKernel::kNotPreemptible : 0;
    CGPU_ASSIGN_OR_RETURN(program_, queue_->AddProgram(std::as_bytes(std::span(&kernel, 1))));
    most_ = shape.queue;
    return {};
  }

  bool Launch() override {
    if (launched_ - queue_->Ended() >= most_ || !queue_->Launch(program_)) {
      return false;
    }
    ++launched_;
    return true;
  }

  std::uint64_t Ended() const override { return queue_->Ended(); }

  std::optional<Error> Broken() const override {
    const rm::NvU32 fault = queue_->Fault();
    if (fault == 0) {
      return std::nullopt;
    }
    return Error{Code::kUnavailable, 0,
                 "the GPU ended the channel with error " + std::to_string(fault),
                 "nverror.h of the driver's sources names it"};
  }

 private:
  rmclient::Client client_;
  std::vector<rmclient::Gpu> gpus_;
  std::optional<sim::cuda::WorkQueue> queue_;
  unsigned program_ = 0;
  unsigned most_ = 0;
  std::uint64_t launched_ = 0;
};

}  // namespace

Result<std::unique_ptr<Load>> MakeTimedLoad(const Shape& shape) {
  CGPU_ASSIGN_OR_RETURN(auto client, rmclient::Client::Open());
  CGPU_ASSIGN_OR_RETURN(auto gpus, rmclient::OpenGpus(client));
  if (shape.gpu >= gpus.size()) {
    return NoSuchGpu(shape.gpu, gpus.size());
  }
  auto load = std::make_unique<TimedLoad>(std::move(client), std::move(gpus));
  CGPU_TRY(load->Make(shape));
  return std::unique_ptr<Load>(std::move(load));
}

}  // namespace cgpu::burn
