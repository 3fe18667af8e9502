#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "gpu/orders/hang.h"
#include "gpu/orders/orders.h"
#include "gpu/orders/seen.h"
#include "load/burn/cuda.h"
#include "load/burn/spin_kernel.h"
#include "rm/nv_alloc.h"
#include "rm/nv_classes.h"

namespace cgpu::orders {
namespace {

using Clock = std::chrono::steady_clock;
using Name = std::pair<rm::NvHandle, rm::NvHandle>;  // client, object

constexpr std::uint64_t kStepUs = 5'000;
constexpr double kGoesOn = 0.2;       // seconds
constexpr double kAfterEnabling = 2;  // seconds
// Duty cycle of the questions `cycle` and `kept`.
constexpr std::chrono::milliseconds kOff{4};
constexpr std::chrono::milliseconds kOn{2};

// The functions of libcuda for a context beside the program's first one. Names and numbers:
// docs.nvidia.com/cuda/cuda-driver-api.
class SecondContext {
 public:
  [[nodiscard]] static Result<SecondContext> Load() {
    CGPU_ASSIGN_OR_RETURN(const auto cuda, burn::Cuda::Load());
    SecondContext context(cuda);
    void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);  // it is loaded
    context.create_ = reinterpret_cast<Create*>(dlsym(library, "cuCtxCreate_v2"));
    context.destroy_ = reinterpret_cast<Destroy*>(dlsym(library, "cuCtxDestroy_v2"));
    context.wait_ = reinterpret_cast<Wait*>(dlsym(library, "cuCtxSynchronize"));
    if (context.create_ == nullptr || context.destroy_ == nullptr || context.wait_ == nullptr) {
      return Error{Code::kUnsupported, 0, "libcuda.so.1 lacks a function for contexts", ""};
    }
    return context;
  }

  // Makes the context and has it run one kernel. `step` is what is under way.
  burn::CudaStatus Compute(std::atomic<const char*>* step, int device, std::uint64_t steps) {
    burn::CudaHandle module = nullptr;
    burn::CudaHandle kernel = nullptr;
    void* arguments[] = {&steps};
    *step = "cuCtxCreate";
    burn::CudaStatus status = create_(&context_, 0, device);
    const auto next = [&](const char* name, const auto& call) {
      if (status == burn::kCudaSuccess) {
        *step = name;
        status = call();
      }
    };
    next("cuModuleLoadData", [&] { return burn::LoadSpinKernel(cuda_, &module); });
    next("cuModuleGetFunction",
         [&] { return cuda_.cuModuleGetFunction(&kernel, module, burn::kSpinKernelName); });
    next("cuLaunchKernel", [&] {
      return cuda_.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr);
    });
    next("cuCtxSynchronize", [&] { return wait_(); });
    return status;
  }
  burn::CudaStatus End() { return destroy_(context_); }

 private:
  using Create = burn::CudaStatus(burn::CudaHandle*, unsigned, int);
  using Destroy = burn::CudaStatus(burn::CudaHandle);
  using Wait = burn::CudaStatus();

  explicit SecondContext(const burn::Cuda& cuda) : cuda_(cuda) {}

  burn::Cuda cuda_;
  burn::CudaHandle context_ = nullptr;
  Create* create_ = nullptr;
  Destroy* destroy_ = nullptr;
  Wait* wait_ = nullptr;
};

// Gives the orders of a question when the library makes and schedules channels.
class Orderer final : public Watcher {
 public:
  Orderer(Bench& bench, std::string question) : bench_(bench), question_(std::move(question)) {}

  void Allocated(const SeenObject& object) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (object.cls == rm::KEPLER_CHANNEL_GROUP_A) {
      engines_[{object.client, object.handle}] = object.engine;
      return;
    }
    channels_.push_back(object);
    if (question_ == "unscheduled") {
      OffAndOn({object});
    } else if (question_ == "mixed") {
      OffAndOn({bench_.channels()[0], object});
    }
  }

  void BeforeSchedule() override {
    if (question_ == "kept") {
      mutex_.lock();
      if (!off_.empty()) {
        Order(std::exchange(off_, {}), false);
      }
    }
  }

  void AfterSchedule(bool done, rm::NvHandle client, rm::NvHandle object,
                     const std::function<void()>& again) override {
    std::unique_lock<std::mutex> lock(mutex_, std::defer_lock);
    if (question_ == "kept") {
      lock = std::unique_lock<std::mutex>(mutex_, std::adopt_lock);  // of BeforeSchedule()
    } else {
      lock.lock();
    }
    std::vector<SeenObject> named;
    for (const SeenObject& channel : channels_) {
      if (channel.client == client && (channel.parent == object || channel.handle == object)) {
        named.push_back(channel);
      }
    }
    if (done && !named.empty()) {
      for (const SeenObject& channel : named) {
        scheduled_.insert({channel.client, channel.handle});
      }
      AfterScheduling(named, again);
    }
  }

  // Ends the question `gone`'s first part: the channels so far are those that were freed.
  void AllAreGone() {
    const std::lock_guard<std::mutex> lock(mutex_);
    gone_ = std::exchange(channels_, {});
  }

  // Does one period of a duty cycle. `pass` waits for so long.
  void Cycle(const std::function<void(std::chrono::milliseconds)>& pass) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      off_ = ToTakeOff();
      Order(off_, true);
    }
    pass(kOff);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      Order(question_ == "kept" ? off_ : channels_, false);
      off_.clear();
    }
    pass(kOn);
  }

  void EnableAll() {
    const std::lock_guard<std::mutex> lock(mutex_);
    Order(channels_, false);
  }

  // JSON: what the library made, the orders and the driver's answers.
  [[nodiscard]] std::string Said() {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::string answers;
    for (const auto& [answer, count] : answers_) {
      answers += (answers.empty() ? "\"" : ",\"") + answer + "\":" + std::to_string(count);
    }
    return R"("channels":)" + std::to_string(channels_.size()) + R"(,"copy_channels":)" +
           std::to_string(std::count_if(channels_.begin(), channels_.end(),
                                        [this](const auto& one) { return IsCopy(one); })) +
           R"(,"orders":)" + std::to_string(orders_) + R"(,"answers":{)" + answers + "}";
  }

 private:
  bool IsCopy(const SeenObject& channel) const {
    const auto group = engines_.find({channel.client, channel.parent});
    return group != engines_.end() && group->second != rm::NV2080_ENGINE_TYPE_GRAPHICS;
  }

  std::vector<SeenObject> ToTakeOff() const {
    std::vector<SeenObject> named = channels_;
    if (question_ == "kept") {
      std::erase_if(named, [this](const SeenObject& channel) {
        return IsCopy(channel) || !scheduled_.contains({channel.client, channel.handle});
      });
    }
    return named;
  }

  void AfterScheduling(std::vector<SeenObject> named, const std::function<void()>& again) {
    if (question_ == "gone") {
      TakeOffWithGone(named);
    } else if (question_ == "rescheduled") {
      (void)Order(named, true);
      again();
      (void)Order(named, false);
    } else if (question_ == "copies" && IsCopy(named[0])) {
      named.push_back(bench_.channels()[0]);
      OffAndOn(named);
    } else if (question_ == "enabled") {
      (void)Order(named, false);
    }
  }

  // Puts them back where the driver has taken them off, as it says.
  void TakeOffWithGone(const std::vector<SeenObject>& named) {
    // The library may have given the name of a channel that was freed to a new one.
    const auto gone = std::ranges::find_if(gone_, [this](const SeenObject& one) {
      return std::ranges::none_of(channels_, [&one](const SeenObject& channel) {
        return channel.client == one.client && channel.handle == one.handle;
      });
    });
    if (gone == gone_.end()) {
      return;
    }
    std::vector<SeenObject> with_gone = named;
    with_gone.push_back(*gone);
    if (Order(with_gone, true)) {
      (void)Order(named, false);
    }
  }

  bool Order(const std::vector<SeenObject>& channels, bool off) {
    if (channels.empty()) {
      return true;
    }
    const auto outcome = bench_.Switch(channels, off);
    ++orders_;
    ++answers_[outcome.ok() ? "ok" : rmclient::Describe(outcome)];
    return outcome.ok();
  }
  void OffAndOn(const std::vector<SeenObject>& channels) {
    (void)Order(channels, true);
    (void)Order(channels, false);
  }

  Bench& bench_;
  const std::string question_;
  std::mutex mutex_;
  std::map<Name, rm::NvU32> engines_;  // of the groups
  std::vector<SeenObject> channels_;
  std::vector<SeenObject> gone_;
  std::vector<SeenObject> off_;
  std::set<Name> scheduled_;
  unsigned orders_ = 0;
  std::map<std::string, unsigned> answers_;
};

// The new program, in a thread of its own, and the duty cycle in another one. Neither is waited
// for: a process ends with what hangs in it.
class Attempt {
 public:
  Attempt(SecondContext context, Orderer& orderer, const burn::Shape& shape, std::uint64_t steps)
      : context_(context), orderer_(orderer), device_(static_cast<int>(shape.gpu)), steps_(steps) {}

  void Begin(bool cycles) {
    std::thread([this] {
      status_ = context_.Compute(&step_, device_, steps_);
      over_ = true;
    }).detach();
    if (cycles) {
      cycling_ = true;
      std::thread([this] {
        const std::function<void(std::chrono::milliseconds)> pass = [this](auto time) {
          std::unique_lock<std::mutex> lock(mutex_);
          (void)changed_.wait_for(lock, time, [this] { return stop_; });
        };
        while (!stopped()) {
          orderer_.Cycle(pass);
        }
        cycling_ = false;
      }).detach();
    }
  }
  void StopCycle() {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }

  [[nodiscard]] bool over() const { return over_; }
  [[nodiscard]] bool cycling() const { return cycling_; }
  [[nodiscard]] const char* step() const { return step_; }
  [[nodiscard]] burn::CudaStatus status() const { return status_; }

 private:
  bool stopped() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return stop_;
  }

  SecondContext context_;
  Orderer& orderer_;
  const int device_;
  const std::uint64_t steps_;
  std::atomic<const char*> step_{"nothing"};
  std::atomic<burn::CudaStatus> status_{burn::kCudaSuccess};
  std::atomic<bool> over_{false};
  std::atomic<bool> cycling_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
};

// Keeps the GPU busy in a thread of its own, because a library that hangs may hang there, too.
class Runner {
 public:
  explicit Runner(Bench& bench) {
    std::thread([this, &bench] {
      while (!bench.load().Broken()) {
        ended_ += bench.Run(kStepUs);
      }
      broken_ = true;
    }).detach();
  }
  [[nodiscard]] std::uint64_t ended() const { return ended_; }
  [[nodiscard]] bool broken() const { return broken_; }

 private:
  std::atomic<std::uint64_t> ended_{0};
  std::atomic<bool> broken_{false};
};

bool WaitUntil(double seconds, const std::function<bool()>& over) {
  const auto until = Clock::now() + std::chrono::duration<double>(seconds);
  while (!over() && Clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::microseconds(kStepUs));
  }
  return over();
}

struct Outcome {
  bool computes = false;
  bool recovers = false;  // once its channels were enabled
  double seconds = 0;
};

void Say(const Runner& runner, Orderer& orderer, const Attempt& attempt,
         const std::string& question, std::uint64_t steps, const Outcome& outcome) {
  const std::uint64_t before = runner.ended();
  (void)WaitUntil(kGoesOn, [] { return false; });
  (void)std::printf(R"({"question":"%s","computes":%s,"recovers":%s,"error":%d,"step":"%s",)"
                    R"("seconds":%.3f,"ended":%llu,"broken":%s,"steps":%llu,%s})"
                    "\n",
                    question.c_str(), outcome.computes ? "true" : "false",
                    outcome.recovers ? "true" : "false", attempt.status(), attempt.step(),
                    outcome.seconds, static_cast<unsigned long long>(runner.ended() - before),
                    runner.broken() ? "true" : "false", static_cast<unsigned long long>(steps),
                    orderer.Said().c_str());
  (void)std::fflush(stdout);
}

int Fail(const Error& error) {
  (void)std::fprintf(stderr, "gpu-orders: %s\n", FormatError(error).c_str());
  return 1;
}

// Makes a context and frees it: its channels are gone then.
Result<> MakeGone(SecondContext context, Orderer& orderer, const burn::Shape& shape) {
  std::atomic<const char*> step{""};
  SetWatcher(&orderer);
  burn::CudaStatus status = context.Compute(&step, static_cast<int>(shape.gpu), 1);
  status = status == burn::kCudaSuccess ? context.End() : status;
  SetWatcher(nullptr);
  orderer.AllAreGone();
  return status == burn::kCudaSuccess
             ? Result<>()
             : Result<>(Error{
                   Code::kUnavailable, 0,
                   "a context that is freed again: CUDA's error " + std::to_string(status), ""});
}

}  // namespace

const std::vector<std::string>& HangQuestions() {
  static const auto* const questions = new std::vector<std::string>{
      "none", "unscheduled", "mixed", "gone", "rescheduled", "copies", "enabled", "cycle", "kept"};
  return *questions;
}

int AskHang(const burn::Shape& shape, const std::string& question, double seconds) {
  auto made = Bench::Make(shape);
  if (!made.ok()) {
    return Fail(made.error());
  }
  auto context = SecondContext::Load();
  if (!context.ok()) {
    return Fail(context.error());
  }
  Bench& bench = **made;
  Orderer orderer(bench, question);
  bench.Feed();
  if (question == "gone") {
    if (const auto gone = MakeGone(*context, orderer, shape); !gone.ok()) {
      return Fail(gone.error());
    }
  }
  const std::uint64_t steps = bench.load().Steps().value_or(1);
  Attempt attempt(*context, orderer, shape, steps);
  Runner runner(bench);
  const auto begin = Clock::now();
  SetWatcher(&orderer);
  attempt.Begin(question == "cycle" || question == "kept");
  const auto over = [&attempt] { return attempt.over(); };
  const auto computes = [&] { return attempt.over() && attempt.status() == burn::kCudaSuccess; };
  Outcome outcome;
  (void)WaitUntil(seconds, over);
  outcome.computes = computes();
  outcome.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  attempt.StopCycle();
  (void)WaitUntil(kAfterEnabling, [&attempt] { return !attempt.cycling(); });
  if (!attempt.over()) {
    orderer.EnableAll();
    (void)WaitUntil(kAfterEnabling, over);
    outcome.recovers = computes();
  }
  Say(runner, orderer, attempt, question, steps, outcome);
  SetWatcher(nullptr);
  // Threads may hang in the library. NOLINTNEXTLINE(concurrency-mt-unsafe): nothing runs at this.
  std::_Exit(0);
}

}  // namespace cgpu::orders
