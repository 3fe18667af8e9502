// One engine and the round of groups that take turns on it. The rules are in gpu.h.
#ifndef CGPU_SIM_ENGINE_RUNLIST_H_
#define CGPU_SIM_ENGINE_RUNLIST_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "sim/engine/accounting.h"
#include "sim/engine/channel.h"
#include "sim/engine/execute.h"
#include "sim/engine/types.h"

namespace cgpu::sim::engine {

class Runlist;

struct Group {
  GroupKey key = 0;
  Runlist* runlist = nullptr;
  std::vector<Channel*> channels;
  std::size_t turn = 0;  // the channel that runs, or does next
  Duration slice = 0;
  std::optional<Duration> set_slice;  // was set and has not taken effect
  Interleave interleave = Interleave::kLow;
  std::optional<Fault> fault;

  Duration gpu_time = 0;
  std::uint64_t switches = 0;
  std::uint64_t kernels = 0;
  std::uint64_t copied_bytes = 0;

  // For the log of starts: whether it has begun to run its work, and since when it could have.
  bool began = false;
  std::optional<Time> visible;

  [[nodiscard]] bool IsScheduled() const;
};

// Data that all runlists of a GPU share.
struct Shared {
  Costs costs;
  GpuMemory* memory = nullptr;
  GpuEvents* events = nullptr;
  std::uint64_t memory_state = 1;  // another number when some semaphore may have come
  bool wrote = false;              // a runlist wrote memory: the others are to be woken
  std::uint64_t starts = 0;
  std::deque<Start> log;
  std::uint64_t residences = 0;
  std::deque<Residence> residence_log;
};

// Thread-compatible. Groups and channels are the GPU's; they are taken out before they go. Times
// that are passed never go back.
class Runlist {
 public:
  Runlist(RunlistId id, Shared& shared, Time now) : id_(id), shared_(shared), accounted_(now) {}

  [[nodiscard]] RunlistId Id() const { return id_; }
  // Returns when it has something to do by itself, or kNever.
  [[nodiscard]] Time Due() const { return due_; }
  // Returns the same, without ends of time slices that make no difference.
  [[nodiscard]] Time NextEvent() const;
  // Does what is due. Returns the work that it was.
  std::uint64_t Handle();
  // Counts up to `now`.
  void Account(Time now);
  [[nodiscard]] const RunlistAccounting& Accounting() const { return accounting_; }
  [[nodiscard]] const std::vector<Group*>& Groups() const { return groups_; }
  [[nodiscard]] const Group* Current() const { return current_; }
  // Returns whether the engine is at an operation of this channel.
  [[nodiscard]] bool IsAt(const Channel& channel) const {
    return operating_ && InTurn() == &channel;
  }

  // Hears that something may run that could not before, or has a semaphore to look at.
  void Wake(Time now);
  void Add(Group& group) { groups_.push_back(&group); }
  void Remove(Group& group, Time now);
  // Forgets the channel, before it leaves its group.
  void Remove(Channel& channel, Time now);
  // Takes in that groups were scheduled, or left, or changed their level.
  void Submit(Time now);
  // Takes the group off the engine, if it is there; it may be chosen again. Returns when it is off.
  Time Leave(const Group& group, Time now);
  void SetSlice(Group& group, Duration slice, Time now);
  // Hear of a GPFIFO_SCHEDULE or a PREEMPT of the group, before it is done.
  void NoteSchedule(Group& group, Time now);
  void NotePreempt(Group& group, Time now);
  // Submits the list again, with all time slices that were set.
  void Restart(Time now);
  // Ends the group of the channel.
  void Fail(Channel& channel, const FaultReport& report, Time now);
  // Makes visible now what became possible for a group that did not run yet.
  void Show(Group& group, Time now) const;

 private:
  enum class State : std::uint8_t { kIdle, kSwitching, kRunning };

  [[nodiscard]] bool CanRun(const Channel& channel) const;  // looks at nothing
  [[nodiscard]] bool MightRun(const Group& group) const;
  [[nodiscard]] bool HoldIsOver();
  [[nodiscard]] bool Alone() const;
  bool LookAt(Channel& channel) const;
  bool LookAt(Group& group, Time now) const;

  [[nodiscard]] Channel* InTurn() const;
  // Returns whether it is at something that cannot be preempted.
  [[nodiscard]] bool RunsOn() const {
    return operating_ && InTurn()->operation && !InTurn()->operation->preemptible;
  }
  [[nodiscard]] bool PickChannel();
  [[nodiscard]] std::optional<std::size_t> FindNext(Time now);
  [[nodiscard]] Time RunDue(Time now) const;

  std::uint64_t Run(Time now);
  std::uint64_t After(Channel& channel, const Step& step, Time now);
  void Expire(Time now);
  void Pause(Time now);
  void GoTo(std::size_t entry, Time now);
  void Begin(bool switched, Time now);
  void Unload(Time now);
  void NoteResidence(const Group& group, bool begins, Time at) const;
  void Settle(Time now);
  // Chooses the next group, when the current one is off.
  void Choose(Time now);
  void RollSlice(Time now);
  void TakeEffect(Group& group, Time now);
  void MakeRound();

  const RunlistId id_;
  Shared& shared_;
  std::vector<Group*> groups_;
  std::vector<GroupKey> keys_;  // the round
  std::vector<Group*> round_;   // the same
  std::size_t position_ = 0;    // of the entry that ran last

  State state_ = State::kIdle;
  Group* current_ = nullptr;       // that runs or is being loaded
  const Group* loaded_ = nullptr;  // whose context the engine has
  Time due_ = kNever;
  Time slice_end_ = 0;
  bool operating_ = false;  // the operation in turn is under way, since `since_`
  Time since_ = 0;
  Time ready_ = 0;              // else the front end takes its next step then
  std::optional<Time> leaves_;  // since when it should be off, but cannot be preempted
  Time accounted_;
  RunlistAccounting accounting_;
};

}  // namespace cgpu::sim::engine

#endif  // CGPU_SIM_ENGINE_RUNLIST_H_
