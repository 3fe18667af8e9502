#include <sys/ioctl.h>

#include <chrono>
#include <utility>

#include "shim/executor.h"
#include "shim/worker_pool.h"

namespace cgpu::shim {
namespace {

constexpr std::size_t kMaxTrace = 1 << 16;

using Clock = std::chrono::steady_clock;

}  // namespace

int Executor::Execute(Pending& pending) {
  boundary::Call& call = pending.call;
  if (room_) {
    boundary::MakeRoom(call);
  }
  boundary::PointInside(call, pending.argument.get());
  // nvidia-uvm's requests are whole numbers.
  const unsigned long request = call.uvm_request != 0
                                    ? call.uvm_request
                                    : _IOC(_IOC_READ | _IOC_WRITE, 'F', call.nr, call.image.size());
  const bool traced = tracing_.load(std::memory_order_relaxed);
  const Clock::time_point start = traced ? Clock::now() : Clock::time_point();
  WorkerPool::NoteRequest(
      call.uvm_request != 0 ? call.uvm_request : std::uint64_t{call.nr} << 32 | call.command,
      pending.notification.tid);
  const int error = calls_.Call(pending.file.get(), request, call.image.data());
  WorkerPool::NoteRequest(0, 0);
  if (traced) {
    const auto took = Clock::now() - start;
    const MutexLock lock(trace_mutex_);
    if (trace_.size() < kMaxTrace) {
      trace_.push_back(static_cast<std::uint32_t>(std::chrono::nanoseconds(took).count()));
    }
  }
  boundary::PointBack(call);
  return error;
}

int Executor::ExecuteUvm(int file, boundary::Call& call) {
  if (room_) {
    boundary::MakeRoom(call);
  }
  return calls_.Call(file, call.uvm_request, call.image.data());
}

std::vector<std::uint32_t> Executor::TakeTrace() {
  tracing_.store(true, std::memory_order_relaxed);
  const MutexLock lock(trace_mutex_);
  return std::exchange(trace_, {});
}

}  // namespace cgpu::shim
