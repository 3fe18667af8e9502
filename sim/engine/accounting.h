// The engine's counts: the truth that benchmarks and tests compare with.
#ifndef CGPU_SIM_ENGINE_ACCOUNTING_H_
#define CGPU_SIM_ENGINE_ACCOUNTING_H_

#include <cstdint>
#include <optional>

#include "sim/engine/types.h"

namespace cgpu::sim::engine {

struct GroupAccounting {
  RunlistId runlist = 0;
  // The time that it was on its engine with work, without the switches to it.
  Duration gpu_time_ns = 0;
  std::uint64_t switches = 0;  // how often its context was loaded
  std::uint64_t kernels = 0;   // that ended
  std::uint64_t copied_bytes = 0;
  Duration slice_ns = 0;
  Interleave interleave = Interleave::kLow;
  bool scheduled = false;
  bool running = false;   // on its engine now, or being loaded
  bool has_work = false;  // something to do, were it let: a semaphore that is not there is no work
  std::optional<Fault> fault;  // it ended
};

struct ChannelAccounting {
  std::uint32_t gp_get = 0;  // the next entry to fetch
  std::uint32_t gp_put = 0;  // as last read
  std::uint64_t kernels = 0;
  std::uint64_t copied_bytes = 0;
  std::uint64_t ignored_methods = 0;  // that the model does not know
  bool waiting = false;               // for a semaphore
  bool disabled = false;
  bool stopped = false;
};

// busy + switching + idle is the time since the runlist's first group was added.
struct RunlistAccounting {
  Duration busy_ns = 0;
  Duration switching_ns = 0;
  Duration idle_ns = 0;
  std::uint64_t switches = 0;
  std::uint64_t restarts = 0;  // RESTART_RUNLIST
};

// A group that had nothing to do got work, and began to run it.
struct Start {
  std::uint64_t number = 0;  // counts from 0 over the whole GPU, without gaps
  GroupKey group = 0;
  // When its work could first have been run: Poll() saw it in the channel, or what it waited for
  // had come, or it was let run again.
  Time visible_ns = 0;
  Time start_ns = 0;      // after its context was loaded
  bool switched = false;  // whether that was needed: Costs::context_switch_ns of the wait
};

// A context came onto an engine or left it. One that has nothing to do stays until another comes.
struct Residence {
  std::uint64_t number = 0;  // counts from 0 over the whole GPU, without gaps
  RunlistId runlist = 0;
  GroupKey group = 0;
  Time at = 0;
  bool begins = false;  // it was loaded; else it was saved, half a switch after it stopped
};

}  // namespace cgpu::sim::engine

#endif  // CGPU_SIM_ENGINE_ACCOUNTING_H_
