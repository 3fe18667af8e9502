#include "protocol/admin.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "protocol/lines.h"
#include "protocol/text.h"

namespace cgpu {
namespace {

constexpr std::size_t kMaxGpus = 256;

Error Bad(const char* what) {
  return Error{Code::kInvalid, 0, what, {}};
}

void VisitCounters(LineCodec& io, CallCounters& counters) {
  io.Values(counters.upgrades, counters.duration_ns);
  const auto visit = [&](auto& counts) {
    for (std::uint64_t& count : counts) {
      io.Word(count);
    }
  };
  visit(counters.calls);
  visit(counters.refused);
  visit(counters.durations);
}

void Fields(LineCodec& io, ContainerStatus& status) {
  io.One("id", status.id);
  io.Check(IsId(status.id));
  io.One("name", status.name);
  io.Check(IsName(status.name));
  io.One("pid", status.pid);
  // Shims of earlier versions do not say.
  io.Line("shim", true, [&] { io.Word(status.shim); });
  io.One("user", status.user);
  io.One("state", status.state);
  io.Check(IsName(status.state));
  io.One("since", status.since);
  CallCounters counters = status.counters.value_or(CallCounters());
  if (io.Line("counters", status.counters.has_value(), [&] { VisitCounters(io, counters); })) {
    status.counters = counters;
  }
  io.Each("card", status.gpus, kMaxGpus, [&](GpuStatus& gpu) {
    io.Values(gpu.uuid, gpu.index, gpu.host_index, gpu.limit_bytes, gpu.used_bytes, gpu.peak_bytes,
              gpu.denied);
    if (io.More(true)) {
      io.Word(gpu.throttled_ns);
    }
  });
}

// Numbers of processes rise from line to line.
void Fields(LineCodec& io, GpuMemory& memory) {
  unsigned last = 0;
  io.One("limit", memory.limit_bytes);
  io.One("used", memory.used_bytes);
  io.Each("process", memory.processes, kMaxProcesses, [&](ProcessMemory& process) {
    io.Values(process.pid, process.bytes);
    io.Check(process.pid > last);
    last = process.pid;
  });
}

template <class T>
constexpr LineFormat<T> kAnswer{
    .what = "the container's answer", .fields = Fields, .unknown = UnknownLines::kSkipped};

void VisitPause(LineCodec& io, std::uint64_t& microseconds) {
  io.One("ok", microseconds);
}

constexpr LineFormat<std::uint64_t> kUpgraded{"the answer", VisitPause, TextEnd::kNone};

void VisitOrder(LineCodec& io, governor::Order& order) {
  // Bits of an order's marks.
  constexpr std::uint32_t kHigh = 1;
  constexpr std::uint32_t kMayRest = 2;
  constexpr std::uint32_t kTrigger = 4;  // of the lower of its two bits
  constexpr std::uint32_t kTriggers = 3;
  std::uint32_t marks = (order.high ? kHigh : 0) | (order.may_rest ? kMayRest : 0) |
                        static_cast<std::uint32_t>(order.trigger) * kTrigger;
  io.Values(order.slice_us, order.duty.period_us, order.duty.on_us, order.duty.phase_us);
  io.Word(marks, 0, kHigh | kMayRest | kTriggers * kTrigger);
  io.Word(order.turns);
  order.high = (marks & kHigh) != 0;
  order.may_rest = (marks & kMayRest) != 0;
  order.trigger = static_cast<governor::Trigger>(marks / kTrigger & kTriggers);
  io.Check(IsSound(order));
}

void VisitRequest(LineCodec& io, AdminRequest& request) {
  using Kind = AdminRequest::Kind;
  if (request.kind == Kind::kMemory || request.kind == Kind::kSet || request.kind == Kind::kOrder) {
    io.Word(request.uuid);
  }
  if (request.kind == Kind::kSet) {
    io.Word(request.bytes);
  }
  if (request.kind == Kind::kOrder) {
    VisitOrder(io, request.order);
  }
}

void Fields(LineCodec& io, AdminRequest& request) {
  // In the order of AdminRequest::Kind.
  constexpr const char* kKinds[] = {"ps",      "memory", "set",   "order",
                                    "refused", "trace",  "watch", "upgrade"};
  int found = 0;
  for (std::size_t i = 0; i < std::size(kKinds); ++i) {
    const auto kind = static_cast<AdminRequest::Kind>(i);
    const bool there = io.Line(kKinds[i], request.kind == kind, [&] {
      request.kind = kind;
      VisitRequest(io, request);
    });
    found += there ? 1 : 0;
  }
  io.Require(found == 1, "one request");
}

constexpr LineFormat<AdminRequest> kRequest{"a request", Fields, TextEnd::kNone};

// Returns a sentence in one line, whatever was in it.
std::string OneLine(std::string text) {
  std::ranges::replace_if(text, [](char c) { return c >= 0 && c < ' '; }, ' ');
  return text.substr(0, kMaxLine / 2);
}

}  // namespace

std::string EncodeRequest(const AdminRequest& request) {
  return kRequest.Encode(request);
}

Result<AdminRequest> DecodeRequest(std::string_view line) {
  auto request = kRequest.Decode(line);
  if (request.ok()) {
    return request;
  }
  return Bad(line.starts_with("order ")
                 ? "that is no order that can be carried out"
                 : "unknown request; known are: ps, memory UUID, set UUID BYTES, refused, trace, "
                   "watch, upgrade");
}

std::string EncodeStatus(const ContainerStatus& status) {
  return kAnswer<ContainerStatus>.Encode(status);
}

Result<ContainerStatus> DecodeStatus(std::string_view text) {
  return kAnswer<ContainerStatus>.Decode(text);
}

std::string EncodeGpuMemory(const GpuMemory& memory) {
  GpuMemory most = memory;
  auto& processes = most.processes;
  std::ranges::sort(processes, [](const auto& a, const auto& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.pid < b.pid;
  });
  processes.resize(std::min(processes.size(), kMaxProcesses));
  std::ranges::sort(processes, [](const auto& a, const auto& b) { return a.pid < b.pid; });
  return kAnswer<GpuMemory>.Encode(most);
}

Result<GpuMemory> DecodeGpuMemory(std::string_view text) {
  if (text.starts_with("error ")) {
    Error error = DecodeOutcome(text).error();
    error.code = Code::kUnsupported;
    error.hint = "after an update: cgpu upgrade";
    return error;
  }
  return kAnswer<GpuMemory>.Decode(text);
}

std::string EncodeOutcome(const Result<>& outcome) {
  return outcome.ok() ? "ok\n" : "error " + OneLine(outcome.error().what) + "\n";
}

Result<> DecodeOutcome(std::string_view text) {
  if (text == "ok\n") {
    return {};
  }
  constexpr std::string_view kError = "error ";
  if (text.starts_with(kError) && text.ends_with('\n') && text.size() > kError.size() + 1 &&
      text.size() <= kMaxLine) {
    text.remove_prefix(kError.size());
    text.remove_suffix(1);
    return Error{Code::kConflict, 0, OneLine(std::string(text)), {}};
  }
  return Error{Code::kUnavailable, 0, "the container gave no answer", "it may have just ended"};
}

std::string EncodeUpgraded(std::uint64_t microseconds) {
  return kUpgraded.Encode(microseconds);
}

Result<std::uint64_t> DecodeUpgraded(std::string_view text) {
  auto microseconds = kUpgraded.Decode(text);
  if (microseconds.ok()) {
    return microseconds;
  }
  const auto outcome = DecodeOutcome(text);
  return outcome.ok() ? Error{Code::kInternal, 0, "the container gave a strange answer", {}}
                      : outcome.error();
}

}  // namespace cgpu
