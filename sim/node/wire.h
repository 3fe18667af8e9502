// Lines on the control socket. Internal to sim/node.
#ifndef CGPU_SIM_NODE_WIRE_H_
#define CGPU_SIM_NODE_WIRE_H_

#include <string>

#include "base/result.h"

namespace cgpu::sim {

// Reads up to and without the next newline. kUnavailable when the other side closed first;
// kExhausted past 16 MiB.
[[nodiscard]] Result<std::string> ReadLine(int fd);

// Return {"error":{...}}, as a line without its end, and {"result":RESULT}.
[[nodiscard]] std::string ErrorReply(const Error& error);
[[nodiscard]] std::string ResultReply(const std::string& result_json);

// Returns RESULT, {} if there is none, or the error, of such a line. kInternal: it is no JSON
// object.
[[nodiscard]] Result<std::string> ResultOf(const std::string& reply_json);

}  // namespace cgpu::sim

#endif  // CGPU_SIM_NODE_WIRE_H_
