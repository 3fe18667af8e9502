// Spin kernels by CUDA's driver API.
//
// Events show what has ended: each launch, a graph as a whole, is followed by one, and they come in
// order. Asking for one neither waits nor calls the kernel, and answers with the error when the
// context has one; the kernel needs no memory that it shares with the machine.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <thread>
#include <utility>
#include <vector>

#include "base/result.h"
#include "load/burn/cuda.h"
#include "load/burn/load.h"
#include "load/burn/spin_kernel.h"

namespace cgpu::burn {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr unsigned kThreads = 32;  // in a block: one warp
// Constants of the calibration. Launches are short, so that a neighbour on the GPU leaves at least
// one of them uninterrupted. Their least times are compared, so that the time of a launch itself
// cancels out. Before that the GPU is kept busy until its clocks have risen.
constexpr Seconds kShort{200e-6};
constexpr Seconds kWarmUp{0.3};
constexpr unsigned kTries = 20;
constexpr unsigned kLonger = 5;
constexpr double kClearly = 1.5;
constexpr std::uint64_t kFirstSteps = 1024;
constexpr std::uint64_t kMostSteps = std::uint64_t{1} << 50;
constexpr Seconds kTimeout{30};

class CudaLoad : public Load {
 public:
  explicit CudaLoad(const Cuda& cuda) : cuda_(cuda) {}

  [[nodiscard]] Result<> Make(const Shape& shape) {
    CGPU_TRY(Open(shape));
    CGPU_TRY(Try(cuda_.cuStreamCreate(&stream_, kCudaNonBlocking), "making a stream"));
    events_.resize(shape.queue);
    for (CudaHandle& event : events_) {
      CGPU_TRY(Try(cuda_.cuEventCreate(&event, kCudaNoTiming), "making an event"));
    }
    if (shape.steps) {
      steps_ = *shape.steps;
    } else {
      CGPU_TRY(Calibrate(shape.kernel_us));
    }
    return shape.graph == 1 ? Result<>() : MakeGraph(shape.graph);
  }

  bool Launch() override {
    if (error_ || launched_ - Ended() >= events_.size()) {
      return false;
    }
    const CudaStatus status =
        graph_ == nullptr ? LaunchKernel(steps_) : cuda_.cuGraphLaunch(graph_, stream_);
    if (!Note(status, "launching") ||
        !Note(cuda_.cuEventRecord(events_[launched_ % events_.size()], stream_),
              "recording an event")) {
      return false;
    }
    ++launched_;
    return true;
  }

  std::uint64_t Ended() const override {
    while (!error_ && ended_ < launched_) {
      const CudaStatus status = cuda_.cuEventQuery(events_[ended_ % events_.size()]);
      if (status == kCudaNotReady || !Note(status, "waiting for a kernel")) {
        break;
      }
      ++ended_;
    }
    return ended_;
  }

  std::optional<Error> Broken() const override { return error_; }
  std::optional<std::uint64_t> Steps() const override { return steps_; }

 private:
  [[nodiscard]] Result<> Try(CudaStatus status, const char* what) const {
    return status == kCudaSuccess ? Result<>() : Result<>(cuda_.MakeError(status, what));
  }
  bool Note(CudaStatus status, const char* what) const {
    if (status != kCudaSuccess && !error_) {
      error_ = cuda_.MakeError(status, what);
    }
    return status == kCudaSuccess;
  }

  [[nodiscard]] Result<> Open(const Shape& shape) {
    CGPU_TRY(Try(cuda_.cuInit(0), "cuInit"));
    int count = 0;
    CGPU_TRY(Try(cuda_.cuDeviceGetCount(&count), "counting GPUs"));
    if (shape.gpu >= static_cast<unsigned>(count)) {
      return NoSuchGpu(shape.gpu, static_cast<std::size_t>(count));
    }
    int device = 0;
    CudaHandle context = nullptr;
    CudaHandle module = nullptr;
    CGPU_TRY(Try(cuda_.cuDeviceGet(&device, static_cast<int>(shape.gpu)), "opening the GPU"));
    CGPU_TRY(Try(cuda_.cuDevicePrimaryCtxRetain(&context, device), "making a context"));
    CGPU_TRY(Try(cuda_.cuCtxSetCurrent(context), "making a context"));
    if (shape.wide) {
      int blocks = 0;
      CGPU_TRY(Try(cuda_.cuDeviceGetAttribute(&blocks, kCudaMultiprocessors, device),
                   "asking for the multiprocessors"));
      blocks_ = static_cast<unsigned>(std::max(blocks, 1));
    }
    CGPU_TRY(Try(LoadSpinKernel(cuda_, &module), "translating the kernel"));
    return Try(cuda_.cuModuleGetFunction(&kernel_, module, kSpinKernelName), "finding the kernel");
  }

  CudaStatus LaunchKernel(std::uint64_t steps) const {
    void* arguments[] = {&steps};
    return cuda_.cuLaunchKernel(kernel_, blocks_, 1, 1, kThreads, 1, 1, 0, stream_, arguments,
                                nullptr);
  }

  // Returns how long one launch takes, to its end.
  [[nodiscard]] Result<Seconds> Time(std::uint64_t steps) const {
    const Clock::time_point begin = Clock::now();
    CGPU_TRY(Try(LaunchKernel(steps), "launching"));
    while (true) {
      const CudaStatus status = cuda_.cuStreamQuery(stream_);
      const Seconds took = Clock::now() - begin;
      if (status == kCudaSuccess) {
        return took;
      }
      if (status != kCudaNotReady) {
        return cuda_.MakeError(status, "waiting for a kernel");
      }
      if (took > kTimeout) {
        return Error{Code::kUnavailable, 0, "a kernel of microseconds has not ended in 30 s",
                     "is the container off the GPU? see cgpu top"};
      }
      std::this_thread::yield();
    }
  }

  [[nodiscard]] Result<Seconds> Least(std::uint64_t steps, unsigned tries) const {
    Seconds least = Seconds::max();
    for (unsigned i = 0; i < tries; ++i) {
      const Result<Seconds> one = Time(steps);
      if (!one.ok()) {
        return one;
      }
      least = std::min(least, *one);
    }
    return least;
  }

  struct Lengths {
    std::uint64_t steps = 0;
    Seconds once{0};  // the least time of so many steps
    Seconds thrice{0};
  };
  [[nodiscard]] Result<> Compare(std::uint64_t steps, Lengths* lengths) const {
    *lengths = {steps, Seconds::max(), Seconds::max()};
    for (unsigned i = 0; i < kTries; ++i) {
      const Result<Seconds> one = Time(steps);
      const Result<Seconds> three = one.ok() ? Time(3 * steps) : one;
      if (!three.ok()) {
        return three.error();
      }
      lengths->once = std::min(lengths->once, *one);
      lengths->thrice = std::min(lengths->thrice, *three);
    }
    return {};
  }

  // Finds how many steps a kernel of this length has on a GPU of its own.
  [[nodiscard]] Result<> Calibrate(std::uint64_t kernel_us) {
    std::uint64_t steps = kFirstSteps;
    Result<Seconds> least = Least(steps, 3);
    while (least.ok() && *least < kShort && steps < kMostSteps) {
      steps *= 2;
      least = Least(steps, 3);
    }
    if (!least.ok()) {
      return least.error();
    }
    for (const Clock::time_point begin = Clock::now(); Clock::now() - begin < kWarmUp;) {
      const Result<Seconds> one = Time(steps);
      if (!one.ok()) {
        return one.error();
      }
    }
    Lengths lengths;
    // If even the shortest time is due to something else, longer kernels are tried.
    for (unsigned longer = 0; longer < kLonger; ++longer, steps *= 4) {
      CGPU_TRY(Compare(steps, &lengths));
      if (lengths.thrice > kClearly * lengths.once) {
        break;
      }
    }
    if (lengths.thrice <= kClearly * lengths.once) {
      return Error{Code::kUnavailable, 0, "what a kernel takes cannot be told on this GPU now",
                   "its neighbours may leave it too little; give --steps"};
    }
    const double per_second =
        2 * static_cast<double>(lengths.steps) / (lengths.thrice - lengths.once).count();
    const double wanted = per_second * static_cast<double>(kernel_us) / 1e6;
    steps_ = static_cast<std::uint64_t>(std::llround(std::max(1.0, wanted)));
    return {};
  }

  [[nodiscard]] Result<> MakeGraph(unsigned kernels) {
    CudaHandle graph = nullptr;
    CGPU_TRY(
        Try(cuda_.cuStreamBeginCapture_v2(stream_, kCudaCaptureOfThisThread), "beginning a graph"));
    for (unsigned i = 0; i < kernels; ++i) {
      CGPU_TRY(Try(LaunchKernel(steps_), "adding a kernel to a graph"));
    }
    CGPU_TRY(Try(cuda_.cuStreamEndCapture(stream_, &graph), "ending a graph"));
    return Try(cuda_.cuGraphInstantiateWithFlags(&graph_, graph, 0), "making a graph");
  }

  Cuda cuda_;
  CudaHandle kernel_ = nullptr;
  CudaHandle stream_ = nullptr;
  CudaHandle graph_ = nullptr;
  unsigned blocks_ = 1;
  std::uint64_t steps_ = 1;
  std::vector<CudaHandle> events_;  // the n-th launch uses the n-th, in a ring
  std::uint64_t launched_ = 0;
  mutable std::uint64_t ended_ = 0;
  mutable std::optional<Error> error_;
};

}  // namespace

Result<std::unique_ptr<Load>> MakeCudaLoad(const Shape& shape) {
  if (shape.rigid) {
    return Error{Code::kUnsupported, 0,
                 "CUDA has no kernels that a GPU cannot take off: --rigid is for simulated GPUs",
                 "leave it out"};
  }
  // GPUs are counted as the rest of cgpu counts them. There is only one thread yet.
  // NOLINTNEXTLINE(concurrency-mt-unsafe)
  if (setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1) != 0) {
    return ErrnoError(Code::kInternal, errno, "setting CUDA_DEVICE_ORDER");
  }
  CGPU_ASSIGN_OR_RETURN(const auto cuda, Cuda::Load());
  auto load = std::make_unique<CudaLoad>(cuda);
  CGPU_TRY(load->Make(shape));
  return std::unique_ptr<Load>(std::move(load));
}

}  // namespace cgpu::burn
