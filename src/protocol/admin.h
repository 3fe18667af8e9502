// The protocol of a shim's admin socket, <registry>/<id>.sock: one request line in, reply lines
// out, end of stream. Requests:
//   ps               -> the container's state, EncodeStatus()
//   memory UUID      -> what each process has of one GPU, EncodeGpuMemory(), or "error SENTENCE"
//   set UUID BYTES   -> "ok" or "error SENTENCE"; UUID "*" is every GPU of the grant
//   order UUID SLICE PERIOD ON PHASE MARKS TURNS
//                    -> "ok" or "error SENTENCE": the standing order for one GPU of the grant,
//                    microseconds, 1 for high priority plus 2 for may_rest plus 4 times the
//                    trigger, and a number (governor/order.h). An order of high priority or with
//                    kRestart may carry, as its one SCM_RIGHTS descriptor, the socket of a helper
//                    (shim/interleave.h), which replaces the one that the shim has
//   refused          -> "COUNT WHAT" lines: calls refused at the boundary; then "."
//   trace            -> nanoseconds the driver took, a line per call since the last time; then "."
//   watch            -> at once and as they come: "pid N" for each process that the container began
//                    with or that was added to it, and after it "start N TICKS", when that process
//                    began (os/start_time.h), which older shims do not say; "refused COUNT WHAT" as
//                    above, for counts that have grown, once a second; likewise "denied COUNT UUID
//                    HOST_INDEX LIMIT" for memory that was refused at the limit of a GPU, bytes;
//                    "ended" when the container has ended. The stream lasts till then
//   upgrade          the request carries the new cgpu-shim as its one SCM_RIGHTS descriptor.
//                    -> "state", with a sealed file. Where the kernel lets the shim send none
//                    (ETOOMANYREFS in unix(7)): -> "file"; the client sends an empty memfd, which
//                    the shim writes and seals; -> "state". The client asks the new program what
//                    it says to the file (`cgpu-shim check`, the file as fd 0: kCanTakeOver on
//                    stdout, or why not) and answers "go", or closes the connection. -> "ok
//                    MICROSECONDS", from the new program: for how long calls had to wait. Or at
//                    any time "error SENTENCE": all is as before
//
// Pure; decoding is bounded and trusts neither side. Decoding skips lines of a status that a later
// version has added.
#ifndef CGPU_PROTOCOL_ADMIN_H_
#define CGPU_PROTOCOL_ADMIN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "governor/order.h"
#include "grant/request.h"
#include "protocol/counters.h"

namespace cgpu {

// Memory of one process of the container. The number is that of the shim's pid namespace, which is
// the host's.
struct ProcessMemory {
  unsigned pid = 0;
  std::uint64_t bytes = 0;
};

struct GpuStatus {
  std::string uuid;
  unsigned index = 0;  // inside the container
  unsigned host_index = 0;
  std::uint64_t limit_bytes = 0;
  std::uint64_t used_bytes = 0;
  std::uint64_t peak_bytes = 0;
  std::uint64_t denied = 0;          // allocations refused at the limit
  std::uint64_t reserved_bytes = 0;  // not from the shim, as below
  // Time for which the clock of a duty cycle kept the container's channels off the GPU. It only
  // grows. 0 too where the shim's version does not tell.
  std::uint64_t throttled_ns = 0;
  // From the answer to "memory". Nothing: nobody asked, or the shim gave none.
  std::optional<std::vector<ProcessMemory>> processes = std::nullopt;
};

// States of a container. kEnded: nothing runs in it any more, or nothing will in a moment, since
// its launcher is gone. It lives on until the driver has given everything back.
inline constexpr char kEnded[] = "ended";
inline constexpr char kRunning[] = "running";

struct ContainerStatus {
  std::string id;
  std::string name;
  unsigned pid = 0;         // its first process, see EncodeListener()
  unsigned shim = 0;        // the process that serves it; 0: the shim's version does not tell
  unsigned user = 0;        // uid
  std::string state;        // one word: kRunning, kEnded
  std::uint64_t since = 0;  // seconds of Unix time
  std::optional<CallCounters> counters = std::nullopt;  // nothing: the shim's version does not tell
  // From the container's reservation, not from the shim.
  std::string engine_id;
  std::string pod;        // uid
  std::string container;  // its name in the pod
  std::string origin;
  bool isolated = true;
  ComputeRequest compute;
  std::vector<GpuStatus> gpus;
};

// The memory of a GPU that a container holds at one moment. A driver's client, and what is made
// through it, belongs to the process that made the client, whichever process uses it later. Two
// kinds of memory have no process here and count in `used_bytes` alone: memory of a process that
// has ended (others can still have its files), and memory that only files or calls reference.
struct GpuMemory {
  std::uint64_t limit_bytes = 0;
  std::uint64_t used_bytes = 0;
  std::vector<ProcessMemory> processes;  // in order of their numbers
};

// Most processes that an answer names: those that hold the most.
inline constexpr std::size_t kMaxProcesses = 1024;

struct AdminRequest {
  enum class Kind { kPs, kMemory, kSet, kOrder, kRefused, kTrace, kWatch, kUpgrade };
  Kind kind = Kind::kPs;
  std::string uuid;  // for kMemory, kOrder and kSet: "*" for all
  std::uint64_t bytes = 0;
  governor::Order order = {};
};

[[nodiscard]] std::string EncodeRequest(const AdminRequest& request);
[[nodiscard]] Result<AdminRequest> DecodeRequest(std::string_view line);

// Encode and decode the reply to "ps". Its last line is ".", so that a cut-off reply is noticed.
[[nodiscard]] std::string EncodeStatus(const ContainerStatus& status);
[[nodiscard]] Result<ContainerStatus> DecodeStatus(std::string_view text);

// Encode and decode the reply to "memory". Its last line is ".". Decoding "error SENTENCE" gives
// kUnsupported: a shim of an earlier version knows no such request.
[[nodiscard]] std::string EncodeGpuMemory(const GpuMemory& memory);
[[nodiscard]] Result<GpuMemory> DecodeGpuMemory(std::string_view text);

// Encode and decode "ok\n" and "error SENTENCE\n". Decoding an error gives it back as kConflict
// with the sentence.
[[nodiscard]] std::string EncodeOutcome(const Result<>& outcome);
[[nodiscard]] Result<> DecodeOutcome(std::string_view text);

// Words of a shim to the client that asked for an upgrade.
inline constexpr std::string_view kStateWord = "state\n";
inline constexpr std::string_view kFileWord = "file\n";

// Words by which a new program says that it is a shim and can take over.
inline constexpr std::string_view kCanTakeOver = "can take over\n";

// Encode and decode "ok MICROSECONDS\n"; decoding takes an error as above, too.
[[nodiscard]] std::string EncodeUpgraded(std::uint64_t microseconds);
[[nodiscard]] Result<std::uint64_t> DecodeUpgraded(std::string_view text);

}  // namespace cgpu

#endif  // CGPU_PROTOCOL_ADMIN_H_
