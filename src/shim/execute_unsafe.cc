// The only place where a tenant's call, or one made for a tenant's file, enters the driver.
#include <sys/ioctl.h>

#include <cerrno>
#include <chrono>

#include "shim/server.h"

namespace cgpu::shim {
namespace {

constexpr std::size_t kMaxTrace = 1 << 16;

using Clock = std::chrono::steady_clock;

}  // namespace

int Server::Execute(Pending& pending) {
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
  NoteCall(&pending);
  const int error = ioctl(pending.file.get(), request, call.image.data()) < 0 ? errno : 0;
  NoteCall(nullptr);
  if (traced) {
    const auto took = Clock::now() - start;
    const std::lock_guard lock(trace_mutex_);
    if (trace_.size() < kMaxTrace) {
      trace_.push_back(static_cast<std::uint32_t>(std::chrono::nanoseconds(took).count()));
    }
  }
  boundary::PointBack(call);
  return error;
}

int Server::ExecuteUvm(int file, boundary::Call& call) {
  if (room_) {
    boundary::MakeRoom(call);
  }
  return ioctl(file, call.uvm_request, call.image.data()) < 0 ? errno : 0;
}

}  // namespace cgpu::shim
