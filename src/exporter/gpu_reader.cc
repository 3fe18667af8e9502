#include "exporter/gpu_reader.h"

#include <thread>
#include <utility>

#include "base/mutex.h"
#include "base/result.h"
#include "exporter/shim_users.h"
#include "rmclient/client.h"
#include "rmclient/gpus.h"
#include "rmclient/readings.h"

namespace cgpu::exporter {
namespace {

Result<GpuReader::Reading> Read(rmclient::Session& session) {
  CGPU_ASSIGN_OR_RETURN(const auto info, rmclient::ReadFbInfo(session.client, session.gpu));
  CGPU_ASSIGN_OR_RETURN(const auto uses, rmclient::ReadProcesses(session.client, session.gpu));
  GpuReader::Reading reading{session.gpu.name, {info.used(), info.free}};
  for (const rmclient::ProcessUse& use : uses) {
    const auto user = UserOf(use.pid);
    if (use.bytes != 0 && user && !IsShimUser(*user)) {
      reading.memory.unmanaged += use.bytes;
      ++reading.memory.unmanaged_processes;
    }
  }
  return reading;
}

}  // namespace

struct GpuReader::State {
  Mutex mutex;
  CondVar changed;
  bool stop CGPU_GUARDED_BY(mutex) = false;
  std::uint64_t asked CGPU_GUARDED_BY(mutex) = 0;
  std::uint64_t answered CGPU_GUARDED_BY(mutex) = 0;  // the `asked` that `reading` is for
  std::optional<Reading> reading CGPU_GUARDED_BY(mutex);
};

GpuReader::GpuReader(const Node& node, const Gpu& gpu) : state_(std::make_shared<State>()) {
  std::thread([state = state_, paths = PathsOf(node), minor = gpu.minor] {
    Run(state, paths, minor);
  }).detach();
}

GpuReader::~GpuReader() {
  const MutexLock lock(state_->mutex);
  state_->stop = true;
  state_->changed.NotifyAll();
}

void GpuReader::Run(const std::shared_ptr<State>& state, const rmclient::DevicePaths& paths,
                    unsigned minor) {
  std::optional<rmclient::Session> session;
  MutexLock lock(state->mutex);
  while (true) {
    while (!state->stop && state->asked == state->answered) {
      state->changed.Wait(state->mutex);
    }
    if (state->stop) {
      return;
    }
    const std::uint64_t asked = state->asked;
    lock.Unlock();
    if (!session) {
      if (auto opened = rmclient::OpenSession(paths, minor); opened.ok()) {
        session.emplace(*std::move(opened));
      }
    }
    std::optional<Reading> reading;
    if (session) {
      if (auto read = Read(*session); read.ok()) {
        reading = *std::move(read);
      } else {
        session.reset();  // the driver may have been loaded again
      }
    }
    lock.Lock();
    state->answered = asked;
    state->reading = std::move(reading);
    state->changed.NotifyAll();
  }
}

void GpuReader::Ask() {
  const MutexLock lock(state_->mutex);
  ++state_->asked;
  state_->changed.NotifyAll();
}

std::optional<GpuReader::Reading> GpuReader::Answer(std::chrono::steady_clock::time_point until) {
  const MutexLock lock(state_->mutex);
  while (state_->answered != state_->asked && state_->changed.WaitUntil(state_->mutex, until)) {
  }
  return state_->answered == state_->asked ? state_->reading : std::nullopt;
}

}  // namespace cgpu::exporter
