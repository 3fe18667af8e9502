#include <bit>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "os/messages.h"
#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"
#include "rmclient/raw.h"
#include "shim/interleave.h"

namespace cgpu::shim {
namespace {

// Timeout of an answer. The driver may be busy with others' calls; one that is stuck must not delay
// orders forever.
constexpr int kAnswerMs = 2'000;

struct LevelRequest {
  std::uint32_t client = 0;
  std::uint32_t group = 0;
  std::uint32_t level = 0;
};
// Told from the other by its length.
struct RestartRequest {
  std::uint32_t client = 0;
  std::uint32_t channel = 0;
};

struct Answer {
  std::int32_t error = 0;  // errno
  std::uint32_t status = 0;
};

// Both sides are one program on one machine, perhaps in two versions: these structures stay as they
// are.
template <class T>
std::string BytesOf(const T& value) {
  return {std::bit_cast<const char*>(&value), sizeof(value)};
}

template <class T>
std::optional<T> FromBytes(std::string_view bytes) {
  T value;
  if (bytes.size() != sizeof(value)) {
    return std::nullopt;
  }
  std::memcpy(&value, bytes.data(), sizeof(value));
  return value;
}

Answer SetLevel(int control, const LevelRequest& request) {
  rm::NVA06C_CTRL_INTERLEAVE_LEVEL_PARAMS level{request.level};
  const auto set =
      rmclient::Control(control, request.client, request.group,
                        rm::NVA06C_CTRL_CMD_SET_INTERLEAVE_LEVEL, &level, sizeof(level));
  return {set.sys_errno, set.status};
}

// Forced, since the driver skips it otherwise while the channel's group runs (bForceRestart in
// ctrl/ctrla06f/ctrla06fgpfifo.h, 580.142). Returns when the context switch is complete.
Answer RestartRunlist(int file, const RestartRequest& request) {
  rm::NVA06F_CTRL_RESTART_RUNLIST_PARAMS params{};
  params.bForceRestart = 1;
  const auto done = rmclient::Control(file, request.client, request.channel,
                                      rm::NVA06F_CTRL_CMD_RESTART_RUNLIST, &params, sizeof(params));
  return {done.sys_errno, done.status};
}

}  // namespace

Result<std::uint32_t> Interleaver::Set(int control, std::uint32_t client, std::uint32_t group,
                                       std::uint32_t level) {
  return Ask(BytesOf(LevelRequest{client, group, level}), control);
}

Result<std::uint32_t> Interleaver::Restart(int file, std::uint32_t client, std::uint32_t channel) {
  return Ask(BytesOf(RestartRequest{client, channel}), file);
}

Result<std::uint32_t> Interleaver::Ask(const std::string& request, int file) {
  if (!helper_.valid()) {
    return Error{Code::kUnavailable, 0, "there is no helper for priorities", {}};
  }
  std::optional<Answer> answer;
  const auto sent = SendMessage(helper_.get(), request, file);
  if (!sent.ok() && sent.error().sys_errno == ETOOMANYREFS) {
    return Error{Code::kExhausted,
                 ETOOMANYREFS,
                 "others under the uid of the shim have too many descriptors in flight",
                 {}};
  }
  if (sent.ok()) {
    if (const auto message = ReceiveMessage(helper_.get(), kAnswerMs); message.ok()) {
      answer = FromBytes<Answer>(message->text);
    }
  }
  if (!answer) {
    helper_.reset();
    return Error{Code::kUnavailable, 0, "the helper for priorities gives no answer", {}};
  }
  if (answer->error != 0) {
    return ErrnoError(Code::kInternal, answer->error, "the driver does not do what it was asked");
  }
  return answer->status;
}

void ServeInterleaver(int socket) {
  while (true) {
    const auto message = ReceiveMessage(socket, -1);
    if (!message.ok()) {
      return;
    }
    std::optional<Answer> answer;
    if (const auto level = FromBytes<LevelRequest>(message->text)) {
      answer = SetLevel(message->fd.get(), *level);
    } else if (const auto restart = FromBytes<RestartRequest>(message->text)) {
      answer = RestartRunlist(message->fd.get(), *restart);
    }
    if (!answer || !SendMessage(socket, BytesOf(*answer)).ok()) {
      return;
    }
  }
}

}  // namespace cgpu::shim
