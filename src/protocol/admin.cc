#include "protocol/admin.h"

#include <algorithm>
#include <limits>
#include <set>

#include "base/result.h"
#include "protocol/text.h"

namespace cgpu {
namespace {

constexpr std::size_t kMaxCards = 256;
constexpr std::uint64_t kMaxU64 = std::numeric_limits<std::uint64_t>::max();

Error Bad(const char* what) {
  return Error{Code::kInvalid, 0, what, {}};
}

bool DecodeCard(const Words& line, CardStatus& card) {
  if (line.size() < 8) {
    return false;
  }
  card.uuid = line[1];
  return ToUnsigned(line[2], card.index) && ToUnsigned(line[3], card.host_index) &&
         ToNumber(line[4], 10, kMaxU64, card.limit_bytes) &&
         ToNumber(line[5], 10, kMaxU64, card.used_bytes) &&
         ToNumber(line[6], 10, kMaxU64, card.peak_bytes) &&
         ToNumber(line[7], 10, kMaxU64, card.denied);
}

// Decodes a line. An unknown key is a later version's.
bool DecodeScalar(const Words& line, ContainerStatus& status) {
  if (line.size() < 2) {
    return false;
  }
  const std::string& key = line[0];
  const std::string& value = line[1];
  if (key == "id") {
    status.id = value;
    return IsId(value);
  }
  if (key == "name") {
    status.name = value;
    return IsName(value);
  }
  if (key == "pid") {
    return ToUnsigned(value, status.pid);
  }
  if (key == "shim") {
    return ToUnsigned(value, status.shim);
  }
  if (key == "user") {
    return ToUnsigned(value, status.user);
  }
  if (key == "state") {
    status.state = value;
    return IsName(value);
  }
  return key != "since" || ToNumber(value, 10, kMaxU64, status.since);
}

// Decodes a line of CardMemory. Numbers of processes rise from line to line. An unknown key is a
// later version's.
bool DecodeMemoryLine(const Words& line, unsigned& last, std::set<std::string>& seen,
                      CardMemory& memory) {
  if (line[0] == "process") {
    if (memory.processes.size() == kMaxProcesses || line.size() < 3) {
      return false;
    }
    ProcessMemory& process = memory.processes.emplace_back();
    const bool good = ToUnsigned(line[1], process.pid) && process.pid > last &&
                      ToNumber(line[2], 10, kMaxU64, process.bytes);
    last = process.pid;
    return good;
  }
  if (!seen.insert(line[0]).second || line.size() < 2) {
    return false;
  }
  if (line[0] == "limit") {
    return ToNumber(line[1], 10, kMaxU64, memory.limit_bytes);
  }
  return line[0] != "used" || ToNumber(line[1], 10, kMaxU64, memory.used_bytes);
}

// Bits of an order's marks.
constexpr std::uint32_t kHigh = 1;
constexpr std::uint32_t kMayRest = 2;

std::string EncodeOrder(const std::string& uuid, const governor::Order& order) {
  const auto text = [](std::uint32_t number) { return std::to_string(number); };
  return JoinLine({"order", uuid, text(order.slice_us), text(order.duty.period_us),
                   text(order.duty.on_us), text(order.duty.phase_us),
                   text((order.high ? kHigh : 0) | (order.may_rest ? kMayRest : 0)),
                   text(order.turns)});
}

bool DecodeOrder(const Words& words, AdminRequest& request) {
  std::uint32_t marks = 0;
  governor::Order& order = request.order;
  if (words[0] != "order" || words.size() != 8 || !ToUnsigned(words[2], order.slice_us) ||
      !ToUnsigned(words[3], order.duty.period_us) || !ToUnsigned(words[4], order.duty.on_us) ||
      !ToUnsigned(words[5], order.duty.phase_us) || !ToUnsigned(words[6], marks) ||
      marks > (kHigh | kMayRest) || !ToUnsigned(words[7], order.turns)) {
    return false;
  }
  request.kind = AdminRequest::Kind::kOrder;
  request.uuid = words[1];
  order.high = (marks & kHigh) != 0;
  order.may_rest = (marks & kMayRest) != 0;
  return IsSound(order);
}

// Returns a sentence in one line, whatever was in it.
std::string OneLine(std::string text) {
  std::replace_if(text.begin(), text.end(), [](char c) { return c >= 0 && c < ' '; }, ' ');
  return text.substr(0, kMaxLine / 2);
}

}  // namespace

std::string EncodeRequest(const AdminRequest& request) {
  switch (request.kind) {
    case AdminRequest::Kind::kPs:
      return JoinLine({"ps"});
    case AdminRequest::Kind::kRefused:
      return JoinLine({"refused"});
    case AdminRequest::Kind::kTrace:
      return JoinLine({"trace"});
    case AdminRequest::Kind::kWatch:
      return JoinLine({"watch"});
    case AdminRequest::Kind::kUpgrade:
      return JoinLine({"upgrade"});
    case AdminRequest::Kind::kMemory:
      return JoinLine({"memory", request.uuid});
    case AdminRequest::Kind::kOrder:
      return EncodeOrder(request.uuid, request.order);
    case AdminRequest::Kind::kSet:
      break;
  }
  return JoinLine({"set", request.uuid, std::to_string(request.bytes)});
}

Result<AdminRequest> DecodeRequest(std::string_view line) {
  CGPU_ASSIGN_OR_RETURN(const auto lines, SplitLines(line));
  if (lines.size() != 1) {
    return Bad("expected one request line");
  }
  const Words& words = lines[0];
  AdminRequest request;
  if (words[0] == "ps" && words.size() == 1) {
    return request;
  }
  if (words[0] == "refused" && words.size() == 1) {
    request.kind = AdminRequest::Kind::kRefused;
    return request;
  }
  if (words[0] == "watch" && words.size() == 1) {
    request.kind = AdminRequest::Kind::kWatch;
    return request;
  }
  if (words[0] == "upgrade" && words.size() == 1) {
    request.kind = AdminRequest::Kind::kUpgrade;
    return request;
  }
  if (words[0] == "trace" && words.size() == 1) {
    request.kind = AdminRequest::Kind::kTrace;
    return request;
  }
  if (DecodeOrder(words, request)) {
    return request;
  }
  if (words[0] == "order") {
    return Bad("that is no order that can be carried out");
  }
  if (words[0] == "set" && words.size() == 3 && ToNumber(words[2], 10, kMaxU64, request.bytes)) {
    request.kind = AdminRequest::Kind::kSet;
    request.uuid = words[1];
    return request;
  }
  if (words[0] == "memory" && words.size() == 2) {
    request.kind = AdminRequest::Kind::kMemory;
    request.uuid = words[1];
    return request;
  }
  return Bad(
      "unknown request; known are: ps, memory UUID, set UUID BYTES, refused, trace, watch, "
      "upgrade");
}

std::string EncodeStatus(const ContainerStatus& status) {
  std::string text;
  text += JoinLine({"id", status.id});
  text += JoinLine({"name", status.name});
  text += JoinLine({"pid", std::to_string(status.pid)});
  text += JoinLine({"shim", std::to_string(status.shim)});
  text += JoinLine({"user", std::to_string(status.user)});
  text += JoinLine({"state", status.state});
  text += JoinLine({"since", std::to_string(status.since)});
  for (const CardStatus& card : status.cards) {
    text +=
        JoinLine({"card", card.uuid, std::to_string(card.index), std::to_string(card.host_index),
                  std::to_string(card.limit_bytes), std::to_string(card.used_bytes),
                  std::to_string(card.peak_bytes), std::to_string(card.denied)});
  }
  return text + ".\n";
}

Result<ContainerStatus> DecodeStatus(std::string_view text) {
  if (!text.ends_with("\n.\n")) {
    return Bad("the container's answer is cut off");
  }
  CGPU_ASSIGN_OR_RETURN(const auto lines, SplitLines(text.substr(0, text.size() - 2)));
  ContainerStatus status;
  std::set<std::string> seen;
  for (const Words& line : lines) {
    const bool good = line[0] == "card" ? status.cards.size() < kMaxCards &&
                                              DecodeCard(line, status.cards.emplace_back())
                                        : seen.insert(line[0]).second && DecodeScalar(line, status);
    if (!good) {
      return Bad("the container's answer has a bad line");
    }
  }
  for (const char* key : {"id", "name", "pid", "user", "state", "since"}) {
    if (!seen.contains(key)) {
      return Bad("the container's answer is incomplete");
    }
  }
  return status;
}

std::string EncodeCardMemory(const CardMemory& memory) {
  std::vector<ProcessMemory> most = memory.processes;
  std::sort(most.begin(), most.end(), [](const auto& a, const auto& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.pid < b.pid;
  });
  most.resize(std::min(most.size(), kMaxProcesses));
  std::sort(most.begin(), most.end(), [](const auto& a, const auto& b) { return a.pid < b.pid; });
  std::string text;
  text += JoinLine({"limit", std::to_string(memory.limit_bytes)});
  text += JoinLine({"used", std::to_string(memory.used_bytes)});
  for (const ProcessMemory& process : most) {
    text += JoinLine({"process", std::to_string(process.pid), std::to_string(process.bytes)});
  }
  return text + ".\n";
}

Result<CardMemory> DecodeCardMemory(std::string_view text) {
  if (text.starts_with("error ")) {
    Error error = DecodeOutcome(text).error();
    error.code = Code::kUnsupported;
    error.hint = "after an update: cgpu upgrade";
    return error;
  }
  if (!text.ends_with("\n.\n")) {
    return Bad("the container's answer is cut off");
  }
  CGPU_ASSIGN_OR_RETURN(const auto lines, SplitLines(text.substr(0, text.size() - 2)));
  CardMemory memory;
  std::set<std::string> seen;
  unsigned last = 0;
  for (const Words& line : lines) {
    if (!DecodeMemoryLine(line, last, seen, memory)) {
      return Bad("the container's answer has a bad line");
    }
  }
  if (!seen.contains("limit") || !seen.contains("used")) {
    return Bad("the container's answer is incomplete");
  }
  return memory;
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
  return JoinLine({"ok", std::to_string(microseconds)});
}

Result<std::uint64_t> DecodeUpgraded(std::string_view text) {
  const auto lines = SplitLines(text);
  std::uint64_t microseconds = 0;
  if (lines.ok() && lines->size() == 1 && lines->front().size() == 2 && lines->front()[0] == "ok" &&
      ToNumber(lines->front()[1], 10, kMaxU64, microseconds)) {
    return microseconds;
  }
  const auto outcome = DecodeOutcome(text);
  return outcome.ok() ? Error{Code::kInternal, 0, "the container gave a strange answer", {}}
                      : outcome.error();
}

}  // namespace cgpu
