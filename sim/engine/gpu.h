// One simulated GPU at work: what its runlists choose, and what its channels do.
//
// Pure: no clock, no threads, no kernel. The only clock is the argument of Advance(); every other
// call happens at Now(), so call Advance() first. All that can happen by itself happens in the
// order of its time and at its time, however late Advance() is called: a kernel that ended at t is
// followed by the next one at t. Calling it more often changes nothing in the accounting. What
// happens outside (a GP_PUT, a semaphore that a processor writes) is seen at Poll().
//
// The model
//   Runlists. One per RunlistId, independent of each other. A runlist is a list of groups; its
//   engine goes round it and runs the next group that has work until its time slice is over, it has
//   nothing more to do, or all its channels wait for semaphores. All channels of a group share its
//   time slice. A group that stays costs nothing; another one costs context_switch_ns, during which
//   no time slice runs. With nobody else to run, the time slice begins again. NVIDIA/open-gpu-doc
//   manuals/ampere/ga100/dev_ram.ref.txt (runlists); the shares that come of it are inference.
//   A submission (a group that comes, goes or is scheduled) expires the current time slice; the
//   next in line is the one behind it (Costs::submission_restarts).
//   Interleave. A HIGH group stands before each entry of a lower level, a MEDIUM one before each
//   LOW one: M and L1, L2 give M L1 M L2; with H too H M H L1 H M H L2. So a HIGH group waits for
//   at most one time slice of others, and for those of other HIGH groups. The list is made by
//   software: in RM's closed part; this is how nvgpu (drivers/gpu/nvgpu/common/fifo/runlist.c,
//   nvgpu_runlist_append_med()) places HIGH before MEDIUM.
//   Time slices. TIMEOUT << SCALE units of 1024 ns, with 8 bits of TIMEOUT: 1 ms becomes 976 units.
//   When a time slice that is set takes effect, and FIFO_DISABLE_CHANNELS: Costs::slice_effect,
//   disable_effect. GPUs differ.
//   A group's channels take turns: an entry of one, an entry of the next. Within a channel things
//   happen one after the other: a method behind a launch waits for its end.
//   A semaphore acquire that fails makes the channel wait. If no other channel of its group can
//   run, the group yields, and is looked at again when its turn comes; without ACQUIRE_SWITCH it
//   keeps the engine until the semaphore comes or its time slice is over. Kernels and copies stop
//   at the end of a time slice and go on later; a kernel flagged as not preemptible runs on, up to
//   context_switch_timeout_ns, then its group ends with an error. channel.h and methods_*.cc say
//   which GPFIFO entries, pushbuffers and classes are understood.
//
// Owns nothing of its memory and events, which must outlive it. Thread-compatible.
// Ignores keys that are not there; the calls then say that they are done now.
#ifndef CGPU_SIM_ENGINE_GPU_H_
#define CGPU_SIM_ENGINE_GPU_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "sim/engine/accounting.h"
#include "sim/engine/gpu_memory.h"
#include "sim/engine/types.h"

namespace cgpu::sim::engine {

// The places that RM_ALLOC of a channel names.
struct ChannelPlace {
  SpaceId space = 0;
  std::uint64_t gpfifo_address = 0;  // in that space
  std::uint32_t gpfifo_entries = 0;  // a power of two by the class, any number here
  BlockId userd_block = 0;
  std::uint64_t userd_offset = 0;
};

class Gpu {
 public:
  Gpu(const Costs& costs, GpuMemory& memory, GpuEvents& events, Time start);
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;
  ~Gpu();

  // --- Time.

  [[nodiscard]] Time Now() const;
  // Executes all that happens up to and including `now`. `budget` bounds the work of one call: an
  // entry, a method, a time slice, a switch or 4 KiB of a copy is one. Returns false if it was
  // spent: Now() is the time that was reached, and the caller calls again. A time before Now() does
  // nothing.
  bool Advance(Time now, std::uint64_t budget = 1'000'000);
  // Returns when something will happen by itself that others can notice or that decides who runs;
  // nullopt: nothing will without Poll() or another call. Leaves out time slices that end with
  // nobody else to run.
  [[nodiscard]] std::optional<Time> NextEvent() const;
  // Returns whether some channel that may run waits for a semaphore that only somebody outside can
  // write. Then call Poll() from time to time, though nothing rings.
  [[nodiscard]] bool Waits() const;

  // --- Work.

  // Reads GP_PUT of every scheduled channel, and lets semaphores that were waited for in vain be
  // looked at again. Returns true if something can now run that could not before, or more can.
  bool Poll();
  // Reads GP_PUT of one channel, whose doorbell was rung; looks at no semaphores. A GP_PUT beyond
  // the ring is a fault. A channel that is not scheduled keeps what was read.
  bool Ring(ChannelKey channel);

  // --- Groups and channels. A group's runlist comes into being with it.

  void AddGroup(GroupKey group, RunlistId runlist);
  // Removes the group with its channels. Its work is gone at once, also work that is not
  // preemptible, for which a real GPU would have to be reset.
  void RemoveGroup(GroupKey group);
  void AddChannel(ChannelKey channel, GroupKey group, const ChannelPlace& place);
  void RemoveChannel(ChannelKey channel);

  // --- Orders. Those that return a time say when they are done: when none of what they name is on
  // an engine any more. That is rm_preempt_ns from now when it is on one, later if a kernel that
  // is not preemptible ends later, Now() when it is on none. In between it runs nothing
  // but the rest of such a kernel.

  // Do GPFIFO_SCHEDULE of a group, for the channels that it has now, or of one channel. A channel
  // that is added later must be scheduled itself or with the group again. Off: as Disable(), and a
  // submission.
  [[nodiscard]] Time Schedule(GroupKey group, bool on);
  [[nodiscard]] Time ScheduleChannel(ChannelKey channel, bool on);
  // Does FIFO_DISABLE_CHANNELS. Channels of a group that is on its engine make the whole group
  // leave it, as RM preempts a TSG; the others of it go on when their turn comes.
  // `only_scheduling`: takes nobody off, and leaves them out from the next choice of a group on.
  [[nodiscard]] Time Disable(std::span<const ChannelKey> channels, bool off, bool only_scheduling);
  // Does NVA06C_CTRL_CMD_PREEMPT: takes it off its engine once. It stays in the round.
  [[nodiscard]] Time Preempt(GroupKey group);
  // Does RESTART_RUNLIST of the channel's runlist: what was set and did not take effect does, and
  // it is a submission.
  [[nodiscard]] Time Restart(ChannelKey channel);
  // Does STOP_CHANNEL and RESET_CHANNEL: this channel never runs again. Tells no event.
  [[nodiscard]] Time Stop(ChannelKey channel);
  // Sets the time slice in microseconds, as NVA06C_CTRL_CMD_SET_TIMESLICE does: rounded down to
  // what the hardware can hold, at least 1024 ns.
  void SetTimeslice(GroupKey group, std::uint64_t timeslice_us);
  // Sets the interleave level. It is a submission too.
  void SetInterleave(GroupKey group, Interleave level);
  // Reports a fault as if the channel had caused it, for tests of errors that the model cannot
  // bring about.
  void InjectFault(ChannelKey channel, Fault fault);

  // --- Accounting, up to Now().

  [[nodiscard]] std::optional<GroupAccounting> Group(GroupKey group) const;
  [[nodiscard]] std::optional<ChannelAccounting> Channel(ChannelKey channel) const;
  [[nodiscard]] RunlistAccounting Runlist(RunlistId runlist) const;
  // Those with this number and later ones, as far as they are kept (Costs::kept_starts).
  [[nodiscard]] std::vector<Start> Starts(std::uint64_t from) const;
  [[nodiscard]] std::vector<Residence> Residences(std::uint64_t from) const;
  [[nodiscard]] std::uint64_t NextResidence() const;  // the number that it will have

  class State;  // private to the engine

 private:
  std::unique_ptr<State> state_;
};

}  // namespace cgpu::sim::engine

#endif  // CGPU_SIM_ENGINE_GPU_H_
