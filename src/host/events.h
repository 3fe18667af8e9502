// The events of this host, as `cgpu events` tells them: one JSON object a line,
//
//   {"time":"2026-01-02T03:04:05.678Z","kind":"memory_refused","container":"3f2a00bc11de",
//    "name":"train","gpu":"0","count":42,...}
//
// A value is a text or a number that is not negative. Fields that events of several kinds have:
//   container, name, engine_id   the container's id, its name, and its engine's name for it
//   gpu, uuid                    the host's index of the GPU, or several with commas; its UUID
//   count, total, over_ms        of things that were merged: how many since the last such event,
//   how
//                                many since the container began, and the time since that event
// Pure. Others' words are in the values: they are cut when they are encoded, and what is read is
// trusted with nothing.
#ifndef CGPU_HOST_EVENTS_H_
#define CGPU_HOST_EVENTS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "base/result.h"

namespace cgpu {

using EventValue = std::variant<std::string, std::uint64_t>;
using EventFields = std::map<std::string, EventValue>;

struct Event {
  std::uint64_t time_ms = 0;  // of Unix time
  std::string kind;           // one of those below; a later version may have others
  EventFields fields;

  bool operator==(const Event&) const = default;
};

namespace events {
inline constexpr char kStarted[] = "started";
inline constexpr char kStartRefused[] = "start_refused";
inline constexpr char kMemoryRefused[] = "memory_refused";
inline constexpr char kCallsRefused[] = "calls_refused";
inline constexpr char kMemorySet[] = "memory_set";
inline constexpr char kComputeSet[] = "compute_set";
inline constexpr char kPolicySet[] = "policy_set";
inline constexpr char kUpgraded[] = "upgraded";
inline constexpr char kUpgradeRefused[] = "upgrade_refused";
inline constexpr char kForced[] = "forced";
inline constexpr char kEnded[] = "ended";
inline constexpr char kGpuLost[] = "gpu_lost";
inline constexpr char kGpuBack[] = "gpu_back";
inline constexpr char kDaemonStarted[] = "daemon_started";
inline constexpr char kDaemonUpgraded[] = "daemon_upgraded";
inline constexpr char kDaemonStopped[] = "daemon_stopped";
inline constexpr char kLeftOut[] = "left_out";
}  // namespace events

// Longest text of a value, in bytes; a longer one is cut.
inline constexpr std::size_t kMaxEventText = 240;
// Longest line that is read.
inline constexpr std::size_t kMaxEventLine = 8 * 1024;

// Returns the line, with its newline.
[[nodiscard]] std::string EncodeEvent(const Event& event);
// Returns nothing for a line that is no event.
[[nodiscard]] std::optional<Event> DecodeEvent(std::string_view line);

// Returns a field as text; "" if there is none.
[[nodiscard]] std::string TextOf(const Event& event, const std::string& key);
// Returns a field as a number; 0 if there is none.
[[nodiscard]] std::uint64_t NumberOf(const Event& event, const std::string& key);

// Returns what happened in plain words, in printable ASCII: "train (3f2a00bc11de) was refused 42
// allocations ...".
[[nodiscard]] std::string SentenceOf(const Event& event);

struct EventFilter {
  std::uint64_t since_ms = 0;
  std::string container;  // a name, or the beginning of an id or of an engine's id; empty: any
  std::string gpu;        // an index or a UUID; empty: any
  std::string id{};       // of a container that `container` means, too; empty: none
};
[[nodiscard]] bool Matches(const EventFilter& filter, const Event& event);

// Parses "90s", "15m", "1h" or "7d" as milliseconds. kInvalid for other text.
[[nodiscard]] Result<std::uint64_t> ParseAge(std::string_view text);

}  // namespace cgpu

#endif  // CGPU_HOST_EVENTS_H_
