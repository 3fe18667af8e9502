#include "sim/node/wire.h"

#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "json/json.h"

namespace cgpu::sim {

Result<std::string> ReadLine(int fd) {
  constexpr std::size_t kMaxLine = 16U << 20;
  std::string line;
  char buffer[4096];
  while (line.size() < kMaxLine) {
    const ssize_t n = read(fd, buffer, sizeof(buffer));
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n <= 0) {
      return ErrnoError(Code::kUnavailable, n < 0 ? errno : ECONNRESET,
                        "reading from the node's control socket");
    }
    line.append(buffer, static_cast<std::size_t>(n));
    if (line.back() == '\n') {
      line.pop_back();
      return line;
    }
  }
  return Error{Code::kExhausted, 0, "a line on the control socket is too long", ""};
}

std::string ErrorReply(const Error& error) {
  const nlohmann::json reply = {{"error",
                                 {{"code", static_cast<int>(error.code)},
                                  {"errno", error.sys_errno},
                                  {"what", error.what},
                                  {"hint", error.hint}}}};
  return reply.dump();
}

Result<std::string> ResultOf(const std::string& reply_json) {
  const auto reply = ParseJson(reply_json);
  if (!reply.is_object()) {
    return Error{Code::kInternal, 0, "the node's answer is not JSON", ""};
  }
  if (reply.contains("error")) {
    const nlohmann::json& error = reply["error"];
    return Error{static_cast<Code>(error.value("code", static_cast<int>(Code::kInternal))),
                 error.value("errno", 0), error.value("what", std::string("unknown error")),
                 error.value("hint", std::string())};
  }
  return reply.value("result", nlohmann::json::object()).dump();
}

std::string ResultReply(const std::string& result_json) {
  return "{\"result\":" + result_json + "}";
}

}  // namespace cgpu::sim
