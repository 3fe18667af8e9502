// Sends and receives messages over a SOCK_SEQPACKET socket, each with at most one descriptor. A
// launcher talks so with the processes that it starts. Over a SOCK_STREAM socket a message may
// arrive in parts, with the descriptor in the first.
#ifndef CGPU_OS_MESSAGES_H_
#define CGPU_OS_MESSAGES_H_

#include <string>
#include <string_view>
#include <utility>

#include "base/fd.h"
#include "base/result.h"

namespace cgpu {

// Returns both ends, O_CLOEXEC.
[[nodiscard]] Result<std::pair<UniqueFd, UniqueFd>> MakeMessagePair();

struct Message {
  std::string text;
  UniqueFd fd;  // invalid if none came along
};

// Sends a message. `fd` is borrowed; -1: none. kUnavailable: the other side is gone.
[[nodiscard]] Result<> SendMessage(int socket, std::string_view text, int fd = -1);

// Waits at most `timeout_ms` (-1: forever). kUnavailable: the other side is gone, nothing came in
// time, or the message is longer than 64 KiB.
[[nodiscard]] Result<Message> ReceiveMessage(int socket, int timeout_ms);

// Receives as ReceiveMessage() does, from a peer whose descriptors are not wanted. None of them
// ever becomes this process's, so none is closed as an open file is. Such a close asks the file's
// file system, which may be the peer's own, and waits for its answer; no signal interrupts that.
[[nodiscard]] Result<std::string> ReceiveText(int socket, int timeout_ms);

}  // namespace cgpu

#endif  // CGPU_OS_MESSAGES_H_
