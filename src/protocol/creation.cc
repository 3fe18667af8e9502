#include "protocol/creation.h"

#include <algorithm>
#include <cctype>
#include <cstdint>

#include "base/result.h"
#include "protocol/text.h"

namespace cgpu {
namespace {

// Returns whether OCI runtimes take `id` for a container's id (runc's idRegex,
// libcontainer/factory_linux.go).
bool IsEngineId(std::string_view id) {
  return id != "." && id != ".." && std::all_of(id.begin(), id.end(), [](char c) {
           return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '+' ||
                  c == '-' || c == '.';
         });
}

Error Bad(const std::string& what) {
  return Error{Code::kInvalid, 0, "a message to or from cgpud " + what,
               "they must be of the same release"};
}

// Returns the lines of a message that ends as a whole one does.
Result<std::vector<Words>> LinesOf(std::string_view text) {
  if (!text.ends_with("\n.\n")) {
    return Bad("is cut off");
  }
  return SplitLines(text.substr(0, text.size() - 2));
}

// Takes a line that only `cgpu run` sends. Returns false for any other.
bool Take(const Words& line, CommandRequest& command) {
  const std::string& key = line[0];
  const std::string& value = line[1];
  if (key == "name") {
    command.name = value;
  } else if (key == "stem") {
    command.stem = value;
  } else if (key == "node") {
    command.node = value;
  } else if (key == "gpus") {
    command.flags.gpus = value;
  } else if (key == "mem") {
    command.flags.memory = value;
  } else if (key == "units") {
    command.flags.units = value;
  } else if (key == "compute") {
    command.flags.compute = value;
  } else if (key == "compute-max") {
    command.flags.compute_max = value;
  } else if (key == "weight") {
    command.flags.weight = value;
  } else if (key == "priority") {
    command.flags.priority = value;
  } else {
    return false;
  }
  return true;
}

bool Take(const Words& line, CreationRequest& request) {
  if (line[0] == "annotation" && line.size() <= 3 && line.size() >= 2) {
    request.annotations.emplace_back(line[1], line.size() == 3 ? line[2] : std::string());
    return true;
  }
  if (line.size() != 2) {
    return false;
  }
  if (line[0] == "create") {
    request.engine_id = line[1];
    return true;
  }
  if (line[0] == "run") {
    request.command.emplace().killable = line[1] == "killable";
    return line[1] == "killable" || line[1] == "-";
  }
  if (request.command && Take(line, *request.command)) {
    return true;
  }
  if (line[0] == "env") {
    request.environment.push_back(line[1]);
    return true;
  }
  if (line[0] == "minor") {
    return ToUnsigned(line[1], request.minors.emplace_back());
  }
  request.pid_namespace = line[1] == "1";
  return line[0] == "pidns" && (line[1] == "0" || line[1] == "1");
}

bool Take(const Words& line, CreationReply& reply) {
  if (line[0] == "device") {
    CreatedDevice device;
    if (line.size() != 4 || !ToUnsigned(line[2], device.major) ||
        !ToUnsigned(line[3], device.minor)) {
      return false;
    }
    device.path = line[1];
    reply.devices.push_back(std::move(device));
    return true;
  }
  if (line.size() != 2) {
    return false;
  }
  if (line[0] == "created") {
    reply.id = line[1];
    return IsId(reply.id);
  }
  if (line[0] == "listener") {
    reply.listener = line[1];
    return true;
  }
  if (line[0] == "killable") {
    reply.killable = line[1] == "1";
    return line[1] == "0" || line[1] == "1";
  }
  if (line[0] == "cdi") {
    reply.cdi.push_back(line[1]);
    return true;
  }
  if (line[0] == "tree") {
    reply.tree.push_back(line[1]);
    return true;
  }
  unsigned major = 0;
  if (line[0] != "major" || !ToUnsigned(line[1], major)) {
    return false;
  }
  reply.majors.push_back(major);
  return true;
}

std::string EncodeCommand(const CommandRequest& command) {
  std::string text = JoinLine({"run", command.killable ? "killable" : "-"});
  const GrantFlags& flags = command.flags;
  for (const auto& [key, value] : {std::pair<std::string, std::string>{"name", command.name},
                                   {"stem", command.stem},
                                   {"node", command.node},
                                   {"gpus", flags.gpus.value_or("")},
                                   {"mem", flags.memory.value_or("")},
                                   {"units", flags.units.value_or("")},
                                   {"compute", flags.compute.value_or("")},
                                   {"compute-max", flags.compute_max.value_or("")},
                                   {"weight", flags.weight.value_or("")},
                                   {"priority", flags.priority.value_or("")}}) {
    text += value.empty() ? "" : JoinLine({key, value});
  }
  return text;
}

}  // namespace

std::string EncodeCreationRequest(const CreationRequest& request) {
  std::string text =
      request.command ? EncodeCommand(*request.command) : JoinLine({"create", request.engine_id});
  text += JoinLine({"pidns", request.pid_namespace ? "1" : "0"});
  for (const std::string& variable : request.environment) {
    text += JoinLine({"env", variable});
  }
  for (const auto& [name, value] : request.annotations) {
    text += value.empty() ? JoinLine({"annotation", name}) : JoinLine({"annotation", name, value});
  }
  for (const unsigned minor : request.minors) {
    text += JoinLine({"minor", std::to_string(minor)});
  }
  return text + ".\n";
}

Result<CreationRequest> DecodeCreationRequest(std::string_view text) {
  CGPU_ASSIGN_OR_RETURN(const auto lines, LinesOf(text));
  CreationRequest request;
  for (const Words& line : lines) {
    if (!Take(line, request)) {
      return Bad("has a line that is not understood: " + JoinLine(line));
    }
  }
  if (request.engine_id.empty() == !request.command) {
    return Bad("is neither for a container nor for a command");
  }
  if (!request.engine_id.empty() && !IsEngineId(request.engine_id)) {
    return Bad("names a container in a way that no engine does: " + request.engine_id);
  }
  return request;
}

std::string EncodeCreationReply(const Result<CreationReply>& result) {
  if (!result.ok()) {
    return JoinError(result.error()) + ".\n";
  }
  const CreationReply& reply = result.value();
  std::string text = JoinLine({"created", reply.id});
  text += JoinLine({"listener", reply.listener});
  text += JoinLine({"killable", reply.killable ? "1" : "0"});
  for (const CreatedDevice& device : reply.devices) {
    text += JoinLine(
        {"device", device.path, std::to_string(device.major), std::to_string(device.minor)});
  }
  for (const unsigned major : reply.majors) {
    text += JoinLine({"major", std::to_string(major)});
  }
  for (const std::string& folder : reply.cdi) {
    text += JoinLine({"cdi", folder});
  }
  for (const std::string& word : reply.tree) {
    text += JoinLine({"tree", word});
  }
  return text + ".\n";
}

Result<CreationReply> DecodeCreationReply(std::string_view text) {
  CGPU_ASSIGN_OR_RETURN(const auto lines, LinesOf(text));
  if (lines.size() == 1) {
    if (auto error = ErrorFrom(lines[0])) {
      return *std::move(error);
    }
  }
  CreationReply reply;
  for (const Words& line : lines) {
    if (!Take(line, reply)) {
      return Bad("has a line that is not understood: " + JoinLine(line));
    }
  }
  if (reply.id.empty() || reply.listener.empty()) {
    return Bad("is incomplete");
  }
  return reply;
}

}  // namespace cgpu
