#include "protocol/config.h"

#include <sys/sysmacros.h>

#include <charconv>
#include <limits>
#include <set>
#include <utility>

#include "base/result.h"
#include "protocol/text.h"

namespace cgpu {
namespace {

constexpr std::size_t kMaxFiles = 256;
constexpr std::uint64_t kMaxU32 = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint64_t kMaxU64 = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kMaxPid = 1 << 30;

std::string Hex(std::uint64_t value) {
  char buffer[17];
  const auto [tail, ec] = std::to_chars(buffer, buffer + sizeof(buffer), value, 16);
  return ec == std::errc() ? std::string(buffer, tail) : std::string();
}

Error Bad(const Words& line) {
  return Error{Code::kInvalid, 0, "the configuration has a bad line: " + JoinLine(line), {}};
}

const char* KindName(NodeFile::Kind kind) {
  switch (kind) {
    case NodeFile::Kind::kCtl:
      return "ctl";
    case NodeFile::Kind::kUvm:
      return "uvm";
    case NodeFile::Kind::kGpu:
      return "gpu";
    case NodeFile::Kind::kTools:
      return "tools";
  }
  return "";
}

bool ToKind(const std::string& word, NodeFile::Kind& kind) {
  for (const auto candidate :
       {NodeFile::Kind::kCtl, NodeFile::Kind::kUvm, NodeFile::Kind::kGpu, NodeFile::Kind::kTools}) {
    if (word == KindName(candidate)) {
      kind = candidate;
      return true;
    }
  }
  return false;
}

bool ToFlag(const std::string& word, bool& value) {
  value = word == "1";
  return word == "0" || word == "1";
}

bool ToDevice(const std::string& word, NodeFile& file) {
  const std::size_t colon = word.find(':');
  return colon != std::string::npos && ToUnsigned(word.substr(0, colon), file.dev_major) &&
         ToUnsigned(word.substr(colon + 1), file.dev_minor);
}

Words FileLine(const NodeFile& file) {
  Words line{"file",
             KindName(file.kind),
             std::to_string(file.minor),
             file.granted ? "1" : "0",
             file.path,
             file.simulated ? "ino" : "rdev",
             std::to_string(file.dev_major) + ":" + std::to_string(file.dev_minor)};
  if (file.simulated) {
    line.push_back(Hex(file.ino_mask));
    line.push_back(Hex(file.ino_value));
  }
  return line;
}

bool DecodeFile(const Words& line, NodeFile& file) {
  if (line.size() < 7 || !ToKind(line[1], file.kind) || !ToUnsigned(line[2], file.minor) ||
      !ToFlag(line[3], file.granted) || !ToDevice(line[6], file)) {
    return false;
  }
  file.path = line[4];
  file.simulated = line[5] == "ino";
  if (!file.simulated) {
    return line[5] == "rdev" && line.size() == 7;
  }
  return line.size() == 9 && ToNumber(line[7], 16, kMaxU64, file.ino_mask) &&
         ToNumber(line[8], 16, kMaxU64, file.ino_value) && file.ino_mask != 0;
}

Words CardLine(const CardGrant& grant) {
  return {"card",
          grant.card.uuid,
          std::to_string(grant.card.index),
          std::to_string(grant.card.minor),
          grant.card.bdf,
          std::to_string(grant.card.gpu_id),
          std::to_string(grant.limit_bytes),
          std::to_string(grant.card.memory_bytes)};
}

bool DecodeCard(const Words& line, CardGrant& grant) {
  std::uint64_t gpu_id = 0;
  if (line.size() != 8 || line[1].empty() || line[4].empty() ||
      !ToUnsigned(line[2], grant.card.index) || !ToUnsigned(line[3], grant.card.minor) ||
      !ToNumber(line[5], 10, kMaxU32, gpu_id) ||
      !ToNumber(line[6], 10, kMaxU64, grant.limit_bytes) ||
      !ToNumber(line[7], 10, kMaxU64, grant.card.memory_bytes)) {
    return false;
  }
  grant.card.uuid = line[1];
  grant.card.bdf = line[4];
  grant.card.gpu_id = static_cast<std::uint32_t>(gpu_id);
  return grant.limit_bytes <= grant.card.memory_bytes;
}

// Decodes the lines that hold one value and come once.
bool DecodeScalar(const Words& line, ShimConfig& config) {
  if (line.size() != 2) {
    return false;
  }
  const std::string& key = line[0];
  const std::string& value = line[1];
  if (key == "id") {
    config.id = value;
    return IsId(value);
  }
  if (key == "name") {
    config.name = value;
    return IsName(value);
  }
  if (key == "user") {
    return ToUnsigned(value, config.user);
  }
  if (key == "since") {
    return ToNumber(value, 10, kMaxU64, config.since);
  }
  if (key == "pidns") {
    return ToFlag(value, config.pid_namespace);
  }
  if (key == "driver") {
    config.driver = value;
    return true;
  }
  if (key == "prove") {
    return ToFlag(value, config.prove);
  }
  return key == "killable" && ToFlag(value, config.killable);
}

bool DecodeOne(const Words& line, std::set<std::string>& seen, ShimConfig& config) {
  if (line[0] == "file") {
    return config.files.size() < kMaxFiles && DecodeFile(line, config.files.emplace_back());
  }
  if (line[0] == "card") {
    return config.cards.size() < kMaxFiles && DecodeCard(line, config.cards.emplace_back());
  }
  if (line[0] == "watch") {
    config.watches.push_back(line.size() == 2 ? line[1] : std::string());
    return config.watches.size() <= kMaxFiles && !config.watches.back().empty();
  }
  return seen.insert(line[0]).second && DecodeScalar(line, config);
}

}  // namespace

bool NodeFile::Is(std::uint64_t dev, std::uint64_t ino, std::uint64_t rdev) const {
  const std::uint64_t number = makedev(dev_major, dev_minor);
  return simulated ? dev == number && (ino & ino_mask) == ino_value : rdev != 0 && rdev == number;
}

std::string EncodeConfig(const ShimConfig& config) {
  std::string text;
  text += JoinLine({"id", config.id});
  text += JoinLine({"name", config.name});
  text += JoinLine({"user", std::to_string(config.user)});
  text += JoinLine({"since", std::to_string(config.since)});
  text += JoinLine({"pidns", config.pid_namespace ? "1" : "0"});
  text += JoinLine({"driver", config.driver});
  text += JoinLine({"killable", config.killable ? "1" : "0"});
  if (config.prove) {  // earlier versions do not know the word
    text += JoinLine({"prove", "1"});
  }
  for (const NodeFile& file : config.files) {
    text += JoinLine(FileLine(file));
  }
  for (const std::string& watch : config.watches) {
    text += JoinLine({"watch", watch});
  }
  for (const CardGrant& card : config.cards) {
    text += JoinLine(CardLine(card));
  }
  return text;
}

Result<ShimConfig> DecodeConfig(std::string_view text) {
  CGPU_ASSIGN_OR_RETURN(auto lines, SplitLines(text));
  ShimConfig config;
  std::set<std::string> seen;
  for (const Words& line : lines) {
    if (!DecodeOne(line, seen, config)) {
      return Bad(line);
    }
  }
  for (const char* key : {"id", "name", "user", "since", "pidns", "driver", "killable"}) {
    if (!seen.contains(key)) {
      return Error{Code::kInvalid, 0, std::string("the configuration lacks ") + key, {}};
    }
  }
  if (config.files.empty() || config.cards.empty()) {
    return Error{Code::kInvalid, 0, "the configuration names no GPU files or no cards", {}};
  }
  return config;
}

std::string EncodeListener(unsigned pid) {
  return JoinLine({"listener", std::to_string(pid)});
}

Result<unsigned> DecodeListener(std::string_view text) {
  const auto lines = SplitLines(text);
  std::uint64_t pid = 0;
  if (!lines.ok() || lines.value().size() != 1 || lines.value()[0][0] != "listener" ||
      lines.value()[0].size() > 2 ||
      (lines.value()[0].size() == 2 && !ToNumber(lines.value()[0][1], 10, kMaxPid, pid))) {
    return Error{Code::kInvalid, 0, "expected the listener's message", {}};
  }
  return static_cast<unsigned>(pid);
}

}  // namespace cgpu
