// Answers an interrupted call from its record instead of executing it twice.
//
// Where the kernel or runtime cannot wait killably, a signal makes the tenant's thread leave a call
// that the shim is executing, and restart it. The driver has then already done the work. The
// restarted call has the same instruction pointer and arguments. Its parameters are either what
// they were (the results were not delivered) or exactly what we wrote (the results were written but
// the wake-up was lost, which the kernel does not tell). In both cases the record's results are the
// answer. The record of a call that was answered ends with the thread's next call. The record of an
// interrupted call is kept, because a signal handler may make calls of its own.
//
// Cost: a thread that repeats its last call, at once and with parameters exactly as we wrote them,
// gets the same results again. That happens only without killable waits.
//
// Pure; not thread-safe.
#ifndef CGPU_SHIM_REPLAY_H_
#define CGPU_SHIM_REPLAY_H_

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "base/result.h"

namespace cgpu {
class StateReader;
class StateWriter;
}  // namespace cgpu

namespace cgpu::shim {

struct ReplayKey {
  std::uint64_t process = 0;  // serial
  pid_t tid = 0;
  std::uint64_t ip = 0;
  std::array<std::uint64_t, 3> args{};
  friend bool operator==(const ReplayKey&, const ReplayKey&) = default;
};

// A call's memory: the parameters, then each nested block.
using Image = std::vector<std::vector<std::byte>>;

struct ReplayRecord {
  ReplayKey key;
  Image input;
  Image output;
  int error = 0;
  bool answered = false;  // to the caller, as far as the kernel tells
};

class ReplayLog {
 public:
  // Returns the record that answers this call, or null: then the call is new. Valid until the next
  // Add().
  [[nodiscard]] const ReplayRecord* Find(const ReplayKey& key, const Image& now) const;

  // Keeps the record as the last of its thread's call at that place.
  void Add(ReplayRecord record);

  // Notes that the thread makes this call: its earlier calls that were answered are over.
  void Begin(const ReplayKey& key);
  // Notes that the call's results were delivered.
  void Answered(const ReplayKey& key);

  // Forgets the threads of a process that has exited.
  void DropProcess(std::uint64_t process);

  // Hand-over (base/state.h): records within the open one. kInvalid: the bytes are no log.
  void Save(StateWriter& writer) const;
  [[nodiscard]] Result<> Load(StateReader& reader);

 private:
  static constexpr std::size_t kPerThread = 8;  // calls nested in signal handlers
  std::map<pid_t, std::vector<ReplayRecord>> threads_;
};

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_REPLAY_H_
