#include "sim/node/control_server.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "base/file.h"
#include "json/json.h"
#include "rm/control_table.h"
#include "rm/escape_table.h"
#include "sim/node/accounting_json.h"
#include "sim/node/libraries.h"
#include "sim/node/wire.h"

namespace cgpu::sim {
namespace {

using nlohmann::json;

constexpr std::chrono::milliseconds kSyncTimeout{30000};
constexpr std::chrono::milliseconds kDefaultWait{30000};

std::optional<std::uint32_t> ParseNumber(std::string_view text) {
  const bool hex = text.starts_with("0x") || text.starts_with("0X");
  if (hex) {
    text.remove_prefix(2);
  }
  std::uint32_t value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value, hex ? 16 : 10);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) {
    return std::nullopt;
  }
  return value;
}

Error Invalid(const std::string& what, const std::string& hint) {
  return Error{Code::kInvalid, 0, what, hint};
}

Result<rm::NvU8> FindEscapeNumber(const std::string& text) {
  if (const auto number = ParseNumber(text); number && *number <= 0xFF) {
    return static_cast<rm::NvU8>(*number);
  }
  for (const rm::EscapeRow& row : rm::EscapeRows()) {
    if (row.name == text || row.name == "NV_ESC_" + text || row.name == "NV_ESC_RM_" + text) {
      return row.nr;
    }
  }
  return Invalid("--escape: there is no escape '" + text + "'",
                 "give its number or the vendor's name, as in NV_ESC_RM_ALLOC or 0x2b");
}

Result<rm::NvU32> FindControlNumber(const std::string& text) {
  if (const auto number = ParseNumber(text)) {
    return *number;
  }
  for (const rm::ControlRow& row : rm::ControlRows()) {
    if (row.name == text) {
      return row.cmd;
    }
  }
  return Invalid("--control: there is no control '" + text + "'",
                 "give its number or the vendor's name, as in NV2080_CTRL_CMD_FB_GET_INFO_V2");
}

Result<FaultRule> ParseFault(const json& request) {
  FaultRule rule;
  if (const std::string text = request.value("escape", std::string()); !text.empty()) {
    const auto nr = FindEscapeNumber(text);
    if (!nr.ok()) {
      return nr.error();
    }
    rule.escape = *nr;
  }
  if (const std::string text = request.value("control", std::string()); !text.empty()) {
    const auto cmd = FindControlNumber(text);
    if (!cmd.ok()) {
      return cmd.error();
    }
    rule.control = *cmd;
  }
  if (const std::string text = request.value("class", std::string()); !text.empty()) {
    const auto cls = ParseNumber(text);
    if (!cls) {
      return Invalid("--class: '" + text + "' is not a number", "as in 0x40");
    }
    rule.cls = cls;
  }
  rule.value = request.value("value", 0U);
  rule.count = request.value("count", std::uint64_t{1});
  const std::string effect = request.value("effect", std::string());
  if (effect == "delay") {
    rule.effect = FaultRule::Effect::kDelay;
  } else if (effect == "status") {
    rule.effect = FaultRule::Effect::kStatus;
  } else if (effect == "errno") {
    rule.effect = FaultRule::Effect::kErrno;
  } else if (effect == "hold") {
    rule.effect = FaultRule::Effect::kHold;
  } else {
    return Invalid("a fault needs an effect", "--delay-ms, --status, --errno or --hold");
  }
  if (rule.count == 0) {
    return Invalid("--count must be at least 1", "");
  }
  return rule;
}

}  // namespace

std::string DescribeNode(const Driver& driver, const FuseServer& files, const NodeDir& dir,
                         bool caps) {
  json node = {{"name", dir.Name()},
               {"server_pid", getpid()},
               {"driver", driver.VersionText()},
               {"mount", dir.Mount()},
               {"files", json::array()},
               {"gpus", json::array()},
               {"libraries", NvmlFolder()},
               {"caps", caps}};
  static constexpr const char* kKinds[] = {"", "ctl", "uvm", "gpu"};
  for (const Tree::DeviceFileInfo& file : files.GetTree().Devices()) {
    char mask[24];
    char value[24];
    std::snprintf(mask, sizeof(mask), "%016lx", kDeviceInoMask);
    std::snprintf(value, sizeof(value), "%016lx",
                  DeviceIno(file.device.kind, file.device.minor, 0));
    const std::string folder = dir.Mount() + "/" + file.folder;
    node["files"].push_back({{"name", file.name},
                             {"kind", kKinds[static_cast<unsigned>(file.device.kind)]},
                             {"minor", file.device.minor},
                             {"dir", folder},
                             {"path", folder + "/" + file.name},
                             {"ino_mask", mask},
                             {"ino_value", value}});
  }
  for (const Gpu& gpu : driver.Gpus()) {
    node["gpus"].push_back({{"index", gpu.index},
                            {"uuid", gpu.UuidText()},
                            {"bdf", gpu.Bdf()},
                            {"minor", gpu.minor},
                            {"gpu_id", gpu.gpu_id},
                            {"model", gpu.model->key},
                            {"name", gpu.model->name},
                            {"memory_bytes", gpu.memory_bytes}});
  }
  return node.dump(2) + "\n";
}

std::string DescribeForCdi(const Driver& driver, const FuseServer& files, const NodeDir& dir) {
  json common = json::array();
  if (const std::string folder = NvmlFolder(); !folder.empty()) {
    common.push_back({{"hostPath", folder + "/" + kNvmlName},
                      {"containerPath", std::string(kContainerFolder) + "/" + kNvmlName},
                      {"options", {"ro", "nosuid", "nodev", "bind"}}});
  }
  std::map<unsigned, json> of_gpus;
  for (const Tree::DeviceFileInfo& file : files.GetTree().Devices()) {
    const json mount = {{"hostPath", dir.Mount() + "/" + file.folder + "/" + file.name},
                        {"containerPath", "/dev/" + file.name},
                        {"options", {"bind", "rw", "nosuid"}}};
    if (file.device.kind == FileKind::kGpu) {
      of_gpus[file.device.minor] = mount;
    } else {
      common.push_back(mount);
    }
  }
  json devices = json::array();
  for (const Gpu& gpu : driver.Gpus()) {
    for (const std::string& name : {std::to_string(gpu.index), gpu.UuidText()}) {
      devices.push_back({{"name", name}, {"containerEdits", {{"mounts", {of_gpus[gpu.minor]}}}}});
    }
  }
  const json spec = {
      {"cdiVersion", "0.3.0"},
      {"kind", "nvidia.com/gpu"},
      {"devices", devices},
      {"containerEdits", {{"env", {"NVIDIA_VISIBLE_DEVICES=void"}}, {"mounts", common}}}};
  return spec.dump(2) + "\n";
}

Result<> ControlServer::Listen() {
  const std::string path = dir_.ControlSocket();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return Error{Code::kInvalid, 0, path + " is too long for a socket", "choose a shorter name"};
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  socket_ = UniqueFd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const mode_t before = umask(0177);  // root alone
  const bool bound =
      socket_.valid() &&
      bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  const int error = errno;
  umask(before);
  if (!bound || listen(socket_.get(), 64) != 0) {
    return ErrnoError(Code::kInternal, bound ? errno : error, "listening on " + path);
  }
  return {};
}

void ControlServer::Run() {
  while (true) {
    UniqueFd connection(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!connection.valid()) {
      if (errno == EINTR || errno == ECONNABORTED) {
        continue;
      }
      std::perror("cgpu-sim: accepting on the control socket");
      std::exit(1);  // NOLINT(concurrency-mt-unsafe): the one place that ends the server so
    }
    std::thread([this, fd = std::move(connection)] { Serve(fd); }).detach();
  }
}

void ControlServer::Serve(const UniqueFd& connection) {
  while (true) {
    const Result<std::string> line = ReadLine(connection.get());
    if (!line.ok() || !WriteAll(connection.get(), Answer(line.value()) + "\n").ok()) {
      return;
    }
    if (line.value().find("\"stop\"") != std::string::npos) {
      Stop();
    }
  }
}

void ControlServer::Stop() {
  files_.Unmount();
  const Result<> removed = dir_.Remove();
  if (!removed.ok()) {
    std::fprintf(stderr, "%s\n", FormatError(removed.error()).c_str());
  }
  // Threads may wait for callers' memory: nothing but the end of the process ends them.
  _exit(removed.ok() ? 0 : 1);
}

std::string ControlServer::Answer(const std::string& line) {
  const json request = ParseJson(line);
  if (!request.is_object()) {
    return ErrorReply(Invalid("the request is not a JSON object", ""));
  }
  const std::string command = request.value("command", std::string());
  if (command == "ping" || command == "stop") {
    return ResultReply("{}");
  }
  if (command == "books") {
    return AccountingReply(request.value("starts_from", ~std::uint64_t{0}),
                           request.value("mappings", true));
  }
  if (command == "objects") {
    return ResultReply(ObjectsJson(driver_.Objects()));
  }
  if (command == "sync") {
    const Result<> done = files_.Sync(kSyncTimeout);
    return done.ok() ? ResultReply("{}") : ErrorReply(done.error());
  }
  if (command == "fault") {
    return AddFault(line);
  }
  if (command == "lose" || command == "restore") {
    const auto index = request.value("gpu", ~0U);
    if (index >= driver_.Gpus().size()) {
      return ErrorReply(Invalid("the node has no such GPU", "`cgpu sim books` lists them"));
    }
    driver_.SetLost(index, command == "lose");
    files_.GetPollers().WakeAll();
    return ResultReply("{}");
  }
  if (command == "clear") {
    files_.GetFaults().Clear();
    return ResultReply("{}");
  }
  if (command == "keep-mapped") {
    files_.KeepMapped(true);
    return ResultReply("{}");
  }
  if (command == "release") {
    files_.KeepMapped(false);
    return ResultReply(json{{"released", files_.GetFaults().Release()}}.dump());
  }
  if (command == "wait") {
    const std::chrono::milliseconds timeout(
        request.value("timeout_ms", static_cast<std::int64_t>(kDefaultWait.count())));
    const auto count = request.value("count", std::size_t{1});
    if (files_.GetFaults().WaitHeld(count, timeout)) {
      return ResultReply("{}");
    }
    return ErrorReply(Error{Code::kUnavailable, 0,
                            std::to_string(files_.GetFaults().Held()) + " of " +
                                std::to_string(count) + " calls are held after " +
                                std::to_string(timeout.count()) + " ms",
                            ""});
  }
  return ErrorReply(Invalid("unknown command '" + command + "'", ""));
}

// Errors of a GPU: no rule about calls, since they happen at once.
std::string ControlServer::HurtGpu(unsigned index, const std::string& effect, std::uint32_t value) {
  if (index >= driver_.Gpus().size()) {
    return ErrorReply(Invalid("--gpu: the node has no such GPU", "`cgpu sim books` lists them"));
  }
  if (effect == "xid") {
    files_.GetPollers().Wake(driver_.RaiseError(index, value));
  } else {
    driver_.AddEccErrors(index,
                         effect == "ecc-corrected" ? EccErrors{value, 0} : EccErrors{0, value});
  }
  return ResultReply("{}");
}

std::string ControlServer::AddFault(const std::string& line) {
  const json request = ParseJson(line);
  const std::string effect = request.value("effect", std::string());
  if (effect == "ecc-corrected" || effect == "ecc-uncorrected" || effect == "xid") {
    return HurtGpu(request.value("gpu", 0U), effect, request.value("value", 0U));
  }
  const Result<FaultRule> rule = ParseFault(request);
  if (!rule.ok()) {
    return ErrorReply(rule.error());
  }
  files_.GetFaults().Add(*rule);
  return ResultReply("{}");
}

std::string ControlServer::AccountingReply(std::uint64_t starts_from, bool mappings) {
  AllAccounting accounting;
  if (mappings) {
    files_.SettleMappings();
  }
  accounting.driver = driver_.GetAccounting(&accounting.counts);
  accounting.uvm = driver_.GetUvmAccounting();
  Result<EngineAccounting> gpu = engines_.AskAccounting(starts_from);
  accounting.engines_answer = gpu.ok() && gpu->alive;
  if (gpu.ok()) {
    accounting.engines = std::move(gpu).value();
  }
  return ResultReply(AccountingJson(driver_, engines_, accounting));
}

}  // namespace cgpu::sim
