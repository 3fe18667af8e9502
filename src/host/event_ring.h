// Keeps the events of this host (events.h) on disk. The folder kEventsFolder, which root owns and
// the members of cgpu's group may read, holds
//
//   events     the newer ones, a line each
//   events.1   the older ones: when `events` is full, it takes this one's place
//   lock       a lock (flock) that a process takes to write; root's alone
//
// So the ring has at most twice kMaxFile bytes. A writer that is killed in the middle of a line
// costs that line: the next one begins a line of its own. A crash of the host may cost the last
// ones.
//
// cgpud makes the folder. Where there is none, nothing is kept.
#ifndef CGPU_HOST_EVENT_RING_H_
#define CGPU_HOST_EVENT_RING_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "host/events.h"

namespace cgpu {

inline constexpr char kEventsFolder[] = "/var/lib/cgpu/events";

class EventRing {
 public:
  static constexpr std::size_t kMaxFile = std::size_t{1} << 20;

  explicit EventRing(std::string folder = kEventsFolder, std::size_t max_file = kMaxFile)
      : folder_(std::move(folder)), max_file_(max_file) {}

  // Makes the folder, and lets the group read what is in it, or nobody but root.
  [[nodiscard]] Result<> Make(std::optional<unsigned> group) const;
  // Adds events, as they are. Waits for other writers. kNotFound: there is no folder.
  [[nodiscard]] Result<> Append(const std::vector<Event>& events) const;

 private:
  [[nodiscard]] Result<> Write(std::string_view lines) const;

  const std::string folder_;
  const std::size_t max_file_;
};

// Tells of an event of now, if the caller is root and the folder exists. A lost event stops
// nothing, so there is no error.
void NoteEvent(const std::string& kind, EventFields fields);
[[nodiscard]] std::uint64_t NowMs();  // of Unix time

// Reads the ring, the oldest event first, and then what is added. Takes no lock, so that readers
// hold no writer up. Skips lines that are no events.
class EventReader {
 public:
  // kPermission: the caller may not read it. kNotFound: there is no folder.
  [[nodiscard]] static Result<EventReader> Open(const std::string& folder = kEventsFolder);

  // Returns what was added since the last time. Leaves out what has left the ring meanwhile.
  [[nodiscard]] Result<std::vector<Event>> More();
  // Begins to listen for what is added. Takes an inotify instance of the caller's uid.
  [[nodiscard]] Result<> Watch();
  // Waits until something may have been added since Watch() or the last Wait(). Call Watch() first.
  void Wait() const;

 private:
  explicit EventReader(std::string folder) : folder_(std::move(folder)) {}

  struct File {
    UniqueFd fd;
    std::uint64_t inode = 0;  // 0: there is none
  };
  [[nodiscard]] Result<File> OpenPart(const char* name) const;
  [[nodiscard]] Result<> Turn(std::vector<Event>& events);
  void Take(const File& file, std::vector<Event>& events);

  std::string folder_;
  UniqueFd changes_;  // inotify, after Watch()
  File newer_;        // the file that was the newer one
  std::string text_;  // text of it that is not yet a whole line
};

}  // namespace cgpu

#endif  // CGPU_HOST_EVENT_RING_H_
