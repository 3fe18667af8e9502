// The admin socket of a shim, <registry>/<id>.sock: one request line in, reply lines out, end of
// stream. Requests:
//   ps               -> the container's state, EncodeStatus()
//   memory UUID      -> who has what of one card, EncodeCardMemory(), or "error SENTENCE"
//   set UUID BYTES   -> "ok" or "error SENTENCE"; UUID "*" is every card of the grant
//   order UUID SLICE PERIOD ON PHASE MARKS TURNS
//                    -> "ok" or "error SENTENCE": the standing order for one card of the grant,
//                    microseconds, 1 for high priority plus 2 for may_rest, and a number
//                    (governor/order.h). One of high priority may have with it, as its one
//                    SCM_RIGHTS descriptor, the socket of a helper (shim/interleave.h), which takes
//                    the place of the one that the shim has
//   refused          -> "COUNT WHAT" lines: calls refused at the boundary; then "."
//   trace            -> nanoseconds the driver took, a line per call since the last time; then "."
//   watch            -> now and as they come: "pid N" for each process that the container began
//   with
//                       or that was added to it; "refused COUNT WHAT" as above, of those that have
//                       grown, once a second; "ended" when it is over; the stream lasts till then
//   upgrade          the request has the new cgpu-shim with it, as its one SCM_RIGHTS descriptor.
//                    -> "state", with a sealed file; the asker sees what the new program says to it
//                    (`cgpu-shim check`, the file as fd 0: kCanTakeOver on stdout, or why not) and
//                    answers "go", or goes away. -> "ok MICROSECONDS", from the new program: for
//                    how long calls had to wait; or at any time "error SENTENCE": all is as before
//
// Pure; decoding is bounded and trusts neither side. A status may have lines that a later version
// has added: they are passed over.
#ifndef CGPU_REGISTRY_ADMIN_H_
#define CGPU_REGISTRY_ADMIN_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "governor/order.h"
#include "grant/request.h"

namespace cgpu {

struct CardStatus {
  std::string uuid;
  unsigned index = 0;  // inside the container
  unsigned host_index = 0;
  std::uint64_t limit_bytes = 0;
  std::uint64_t used_bytes = 0;
  std::uint64_t peak_bytes = 0;
  std::uint64_t denied = 0;          // allocations refused at the limit
  std::uint64_t reserved_bytes = 0;  // not the shim's to say, as below
};

// Nothing runs in it any more, or nothing will in a moment, since its launcher is gone. It lives on
// until the driver has given everything back.
inline constexpr char kEnded[] = "ended";
inline constexpr char kRunning[] = "running";

struct ContainerStatus {
  std::string id;
  std::string name;
  unsigned pid = 0;         // its first process, see EncodeListener()
  unsigned shim = 0;        // the process that serves it; 0: of before this was told
  unsigned user = 0;        // uid
  std::string state;        // one word: kRunning, kEnded
  std::uint64_t since = 0;  // seconds of Unix time
  // Not the shim's to say: from the container's reservation.
  std::string engine_id;
  std::string origin;
  bool isolated = true;
  ComputeRequest compute;
  std::vector<CardStatus> cards;
};

// One process of the container, as the shim's pid namespace numbers it: that of the machine.
struct ProcessMemory {
  unsigned pid = 0;
  std::uint64_t bytes = 0;
};

// What a container has of a card at one moment. A driver's client, and what is made by way of it,
// belongs to the process that made the client, whoever uses it later. Of what belongs to a process
// that has ended (others can have its files still), and of what only files or calls hold, no
// process is named: it is in `used_bytes` alone.
struct CardMemory {
  std::uint64_t limit_bytes = 0;
  std::uint64_t used_bytes = 0;
  std::vector<ProcessMemory> processes;  // in order of their numbers
};

// An answer names no more than this many, those that have the most.
inline constexpr std::size_t kMaxProcesses = 1024;

struct AdminRequest {
  enum class Kind { kPs, kMemory, kSet, kOrder, kRefused, kTrace, kWatch, kUpgrade };
  Kind kind = Kind::kPs;
  std::string uuid;  // kMemory, kOrder, and kSet: "*" for all
  std::uint64_t bytes = 0;
  governor::Order order = {};
};

[[nodiscard]] std::string EncodeRequest(const AdminRequest& request);
[[nodiscard]] Result<AdminRequest> DecodeRequest(std::string_view line);

// The reply to "ps"; its last line is ".", so that a cut-off reply is noticed.
[[nodiscard]] std::string EncodeStatus(const ContainerStatus& status);
[[nodiscard]] Result<ContainerStatus> DecodeStatus(std::string_view text);

// The reply to "memory"; its last line is ".". Decoding "error SENTENCE" gives kUnsupported: a shim
// of an earlier version knows no such request.
[[nodiscard]] std::string EncodeCardMemory(const CardMemory& memory);
[[nodiscard]] Result<CardMemory> DecodeCardMemory(std::string_view text);

// "ok\n" and "error SENTENCE\n". Decoding an error gives it back as kConflict with the sentence.
[[nodiscard]] std::string EncodeOutcome(const Result<>& outcome);
[[nodiscard]] Result<> DecodeOutcome(std::string_view text);

// A program that is no shim would not say so.
inline constexpr std::string_view kCanTakeOver = "can take over\n";

// "ok MICROSECONDS\n", or an error as above.
[[nodiscard]] std::string EncodeUpgraded(std::uint64_t microseconds);
[[nodiscard]] Result<std::uint64_t> DecodeUpgraded(std::string_view text);

}  // namespace cgpu

#endif  // CGPU_REGISTRY_ADMIN_H_
