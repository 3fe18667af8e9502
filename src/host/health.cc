#include "host/health.h"

#include <optional>
#include <utility>

#include "base/mutex.h"
#include "rmclient/client.h"
#include "rmclient/gpus.h"

namespace cgpu {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

struct HealthWatch::State {
  struct Gpu {
    bool asking = false;
    bool healthy = true;
    bool reported = true;
  };
  Mutex mutex;
  CondVar changed;
  std::vector<Gpu> gpus CGPU_GUARDED_BY(mutex);
  bool stop CGPU_GUARDED_BY(mutex) = false;
};

HealthWatch::HealthWatch(std::vector<Ask> asks, std::chrono::milliseconds period, Report report)
    : period_(period), report_(std::move(report)), state_(std::make_shared<State>()) {
  {
    const MutexLock lock(state_->mutex);
    state_->gpus.resize(asks.size());
  }
  for (std::size_t i = 0; i < asks.size(); ++i) {
    std::thread([state = state_, i, ask = std::move(asks[i])] {
      AskAgainAndAgain(state, i, ask);
    }).detach();
  }
  thread_ = std::thread([this] { Run(); });
}

HealthWatch::~HealthWatch() {
  {
    const MutexLock lock(state_->mutex);
    state_->stop = true;
    state_->changed.NotifyAll();
  }
  thread_.join();
}

void HealthWatch::AskAgainAndAgain(const std::shared_ptr<State>& state, std::size_t gpu,
                                   const Ask& ask) {
  MutexLock lock(state->mutex);
  while (!state->stop) {
    if (!state->gpus[gpu].asking) {
      state->changed.Wait(state->mutex);
      continue;
    }
    lock.Unlock();
    const bool answers = ask();
    lock.Lock();
    state->gpus[gpu].asking = false;
    state->gpus[gpu].healthy = answers;
    state->changed.NotifyAll();
  }
}

void HealthWatch::Run() {
  State& state = *state_;
  MutexLock lock(state.mutex);
  while (!state.stop) {
    for (State::Gpu& gpu : state.gpus) {
      gpu.healthy = gpu.healthy && !gpu.asking;  // still asked from the last period
      gpu.asking = true;
    }
    state.changed.NotifyAll();
    const Clock::time_point until = Clock::now() + period_;
    do {
      lock.Unlock();
      ReportChanges();
      lock.Lock();
    } while (!state.stop && state.changed.WaitUntil(state.mutex, until));
  }
}

void HealthWatch::ReportChanges() {
  MutexLock lock(state_->mutex);
  for (std::size_t i = 0; i < state_->gpus.size() && !state_->stop; ++i) {
    State::Gpu& gpu = state_->gpus[i];
    if (gpu.healthy != gpu.reported) {
      gpu.reported = gpu.healthy;
      lock.Unlock();
      report_(i, gpu.reported);
      lock.Lock();
    }
  }
}

HealthWatch::Ask AskerOf(const Node& node, const Gpu& gpu) {
  const auto session = std::make_shared<std::optional<rmclient::Session>>();
  return [session, paths = PathsOf(node), minor = gpu.minor] {
    if (!session->has_value()) {
      if (auto opened = rmclient::OpenSession(paths, minor); opened.ok()) {
        session->emplace(*std::move(opened));
      }
    }
    const bool answers =
        session->has_value() && rmclient::AskForTime((*session)->client, (*session)->gpu).ok();
    if (!answers) {
      session->reset();
    }
    return answers;
  };
}

}  // namespace cgpu
