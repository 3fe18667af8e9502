#include "protocol/creation.h"

#include <algorithm>
#include <cctype>
#include <cstddef>

#include "protocol/lines.h"
#include "protocol/text.h"

namespace cgpu {
namespace {

// Returns whether OCI runtimes take `id` for a container's id (runc's idRegex,
// libcontainer/factory_linux.go).
bool IsEngineId(std::string_view id) {
  return id != "." && id != ".." && std::ranges::all_of(id, [](char c) {
           return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '+' ||
                  c == '-' || c == '.';
         });
}

constexpr std::size_t kMany = kMaxMessage;  // as many lines as fit

void VisitCommand(LineCodec& io, CommandRequest& command) {
  GrantFlags& flags = command.flags;
  io.Maybe("name", command.name);
  io.Maybe("stem", command.stem);
  io.Maybe("node", command.node);
  io.Maybe("gpus", flags.gpus);
  io.Maybe("mem", flags.memory);
  io.Maybe("units", flags.units);
  io.Maybe("compute", flags.compute);
  io.Maybe("compute-max", flags.compute_max);
  io.Maybe("weight", flags.weight);
  io.Maybe("priority", flags.priority);
}

void Fields(LineCodec& io, CreationRequest& request) {
  const bool create = io.Line("create", !request.command, [&] {
    io.Word(request.engine_id);
    io.Check(IsEngineId(request.engine_id));
  });
  const bool run = io.Line("run", request.command.has_value(), [&] {
    request.command = request.command.value_or(CommandRequest());
    io.Choice(request.command->killable, {"-", "killable"});
  });
  io.Require(create != run, "one container or one command");
  if (run) {
    VisitCommand(io, *request.command);
  }
  io.One("pidns", request.pid_namespace);
  io.Each("env", request.environment, kMany);
  io.Each("annotation", request.annotations, kMany, [&](auto& annotation) {
    auto& [name, value] = annotation;
    io.Word(name);
    if (io.More(!value.empty())) {
      io.Word(value);
    }
  });
  io.Each("minor", request.minors, kMany);
}

void Fields(LineCodec& io, CreationReply& reply) {
  io.One("created", reply.id);
  io.Check(IsId(reply.id));
  io.One("listener", reply.listener);
  io.One("killable", reply.killable);
  io.Line("word", !reply.word.empty(), [&] { io.Word(reply.word); });
  io.Each("device", reply.devices, kMany,
          [&](CreatedDevice& device) { io.Values(device.path, device.major, device.minor); });
  io.Each("major", reply.majors, kMany);
  io.Each("cdi", reply.cdi, kMany);
  io.Each("tree", reply.tree, kMany);
  io.Each("env", reply.environment, kMany);
}

template <class T>
constexpr LineFormat<T> kFormat{.what = "a message to or from cgpud",
                                .fields = Fields,
                                .hint = "they must be of the same release"};

}  // namespace

std::string EncodeCreationRequest(const CreationRequest& request) {
  return kFormat<CreationRequest>.Encode(request);
}

Result<CreationRequest> DecodeCreationRequest(std::string_view text) {
  return kFormat<CreationRequest>.Decode(text);
}

std::string EncodeCreationReply(const Result<CreationReply>& reply) {
  return reply.ok() ? kFormat<CreationReply>.Encode(*reply) : JoinError(reply.error()) + ".\n";
}

Result<CreationReply> DecodeCreationReply(std::string_view text) {
  const auto lines = SplitLines(text);
  if (lines.ok() && lines->size() == 2 && text.ends_with("\n.\n")) {
    if (auto error = ErrorFrom(lines->front())) {
      return *std::move(error);
    }
  }
  return kFormat<CreationReply>.Decode(text);
}

}  // namespace cgpu
