#define FUSE_USE_VERSION 314
#include "sim/fuse/workers.h"

#include <fuse_lowlevel.h>
#include <linux/fuse.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "base/file.h"

namespace cgpu::sim {

void Workers::Start() {
  const MutexLock lock(mutex_);
  Spawn();
}

void Workers::Spawn() {
  Slot* slot = nullptr;
  if (unused_.empty()) {
    slot = slots_.emplace_back(std::make_unique<Slot>()).get();
  } else {
    slot = unused_.back();
    unused_.pop_back();
  }
  ++total_;
  ++idle_;
  std::thread([this, slot] { Run(slot); }).detach();
}

// One thread less is waiting for requests; makes up for it.
void Workers::TakenFrom() {
  const MutexLock lock(mutex_);
  --idle_;
  if (idle_ == 0 && total_ < kMaxThreads) {
    Spawn();
  }
}

bool Workers::MayRest() {
  const MutexLock lock(mutex_);
  if (idle_ >= kMaxIdle) {
    --total_;
    return false;
  }
  ++idle_;
  return true;
}

void Workers::Run(Slot* slot) {
  slot->tid = gettid();
  fuse_buf buffer{};
  while (fuse_session_exited(session_) == 0) {
    slot->reading = true;
    const int size = fuse_session_receive_buf(session_, &buffer);
    if (size > 0) {
      slot->opcode = static_cast<const fuse_in_header*>(buffer.mem)->opcode;
    }
    slot->reading = false;
    if (size == -EINTR || size == -EAGAIN) {
      continue;
    }
    if (size <= 0) {
      break;  // unmounted
    }
    TakenFrom();
    fuse_session_process_buf(session_, &buffer);
    slot->opcode = 0;
    ++slot->cycle;
    if (!MayRest()) {
      std::free(buffer.mem);
      const MutexLock lock(mutex_);
      unused_.push_back(slot);
      return;
    }
  }
  std::free(buffer.mem);
}

bool Workers::AsleepInRead(pid_t tid) {
  // "NUMBER ARGUMENTS..." of the system call it sleeps in, or "running".
  const Result<std::string> text = ReadFile("/proc/self/task/" + std::to_string(tid) + "/syscall");
  return text.ok() && text.value().starts_with("0 ");
}

void Workers::SettleReleases() {
  std::vector<Slot*> slots;
  {
    const MutexLock lock(mutex_);
    for (const auto& slot : slots_) {
      slots.push_back(slot.get());
    }
  }
  for (Slot* slot : slots) {
    const std::uint64_t cycle = slot->cycle;
    const auto settled = [slot] {
      if (slot->reading) {
        return AsleepInRead(slot->tid);
      }
      return slot->opcode != FUSE_RELEASE;
    };
    while (slot->cycle == cycle && !settled()) {
      sched_yield();
    }
  }
}

}  // namespace cgpu::sim
