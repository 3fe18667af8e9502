// Messages over a SOCK_SEQPACKET socket, each with at most one descriptor. For the short talks
// between a launcher and the processes it starts. Over a SOCK_STREAM socket a message may come in
// parts, the descriptor with the first.
#ifndef CGPU_KERNEL_MESSAGES_H_
#define CGPU_KERNEL_MESSAGES_H_

#include <string>
#include <string_view>
#include <utility>

#include "base/fd.h"
#include "base/result.h"

namespace cgpu {

// Both ends, O_CLOEXEC.
[[nodiscard]] Result<std::pair<UniqueFd, UniqueFd>> MakeMessagePair();

struct Message {
  std::string text;
  UniqueFd fd;  // not valid when none came along
};

// `fd` is borrowed; -1 for none. kUnavailable when the other side is gone.
[[nodiscard]] Result<> SendMessage(int socket, std::string_view text, int fd = -1);

// Waits at most `timeout_ms` (-1: for ever). kUnavailable when the other side is gone or nothing
// came in time.
[[nodiscard]] Result<Message> ReceiveMessage(int socket, int timeout_ms);

// The same from a peer whose descriptors nobody wants. None of them is ever this process's, so none
// is closed as an open file is: that asks the file's file system, which may be the peer's own, and
// waits for its answer beyond every signal.
[[nodiscard]] Result<std::string> ReceiveText(int socket, int timeout_ms);

}  // namespace cgpu

#endif  // CGPU_KERNEL_MESSAGES_H_
