#include "page/request_stream.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "page/request_head.h"

namespace cgpu::page {
namespace {

using SteadyClock = std::chrono::steady_clock;

// Times for a whole request, with the handshake where it is the first, and for a whole answer.
constexpr std::chrono::seconds kRequestTime{5};
constexpr std::chrono::seconds kAnswerTime{10};
constexpr std::size_t kChunk = 4096;  // bytes
constexpr char kEndOfHead[] = "\r\n\r\n";
// Bodies of so many bytes are too small to be counted: there are few connections.
constexpr std::size_t kSmallBody = std::size_t{64} << 10;
constexpr int kBusy = 503;

}  // namespace

RequestStream::RequestStream(int fd, SSL* ssl, Connections::One& connection)
    : fd_(fd), ssl_(ssl), connection_(connection), read_until_(SteadyClock::now() + kRequestTime) {
  const int flags = fcntl(fd_, F_GETFL);
  (void)fcntl(fd_, F_SETFL, flags | O_NONBLOCK);
}

bool RequestStream::Begin() {
  return ssl_ == nullptr ||
         (SSL_set_fd(ssl_, fd_) == 1 && Drive([&] { return SSL_accept(ssl_); }, read_until_) == 1);
}

bool RequestStream::ReadHead(std::chrono::milliseconds idle, std::size_t most_body) {
  auto until = std::min(read_until_, SteadyClock::now() + idle);
  if (write_until_ != Time()) {  // there was a request before
    until = SteadyClock::now() + idle;
    read_until_ = until + kRequestTime;
  }
  write_until_ = {};
  std::size_t end = buffer_.find(kEndOfHead);
  while (end == std::string::npos && buffer_.size() <= kMostHead) {
    char chunk[kChunk];
    const ssize_t got = Receive(chunk, sizeof(chunk), buffer_.empty() ? until : read_until_);
    if (got <= 0) {
      return false;
    }
    buffer_.append(chunk, static_cast<std::size_t>(got));
    end = buffer_.find(kEndOfHead);
  }
  if (end == std::string::npos || end > kMostHead) {
    Refuse(kHeadTooLarge);
    return false;
  }
  end += std::strlen(kEndOfHead);
  std::string head = buffer_.substr(0, end);
  const HeadVerdict verdict = JudgeHead(head, most_body);
  if (verdict.refusal != 0) {
    Refuse(verdict.refusal);
    return false;
  }
  if (!connection_.TakeBody(verdict.body > kSmallBody ? verdict.body : 0)) {
    Refuse(kBusy);
    return false;
  }
  buffer_.replace(0, end, head);
  left_ = end + verdict.body;
  return true;
}

ssize_t RequestStream::read(char* bytes, std::size_t size) {
  size = std::min(size, left_);
  if (size == 0) {
    return 0;
  }
  ssize_t got = 0;
  if (buffer_.empty()) {
    got = Receive(bytes, size, read_until_);
  } else {
    size = std::min(size, buffer_.size());
    std::memcpy(bytes, buffer_.data(), size);
    buffer_.erase(0, size);
    got = static_cast<ssize_t>(size);
  }
  left_ -= static_cast<std::size_t>(std::max<ssize_t>(got, 0));
  return got;
}

ssize_t RequestStream::write(const char* bytes, std::size_t size) {
  if (write_until_ == Time()) {
    write_until_ = SteadyClock::now() + kAnswerTime;
  }
  return size == 0 ? 0 : Send(bytes, size, write_until_);
}

ssize_t RequestStream::Receive(char* bytes, std::size_t size, Time until) {
  if (ssl_ != nullptr) {
    return Drive([&] { return SSL_read(ssl_, bytes, static_cast<int>(size)); }, until);
  }
  while (true) {
    const ssize_t got = recv(fd_, bytes, size, 0);
    if (got >= 0 || (errno != EAGAIN && errno != EINTR) || !WaitFor(POLLIN, until)) {
      return got;
    }
  }
}

ssize_t RequestStream::Send(const char* bytes, std::size_t size, Time until) {
  if (ssl_ != nullptr) {
    const auto part = static_cast<int>(std::min(size, std::size_t{1} << 30));
    return Drive([&] { return SSL_write(ssl_, bytes, part); }, until);
  }
  while (true) {
    const ssize_t sent = send(fd_, bytes, size, MSG_NOSIGNAL);
    if (sent >= 0 || (errno != EAGAIN && errno != EINTR) || !WaitFor(POLLOUT, until)) {
      return sent;
    }
  }
}

template <class Call>
int RequestStream::Drive(const Call& call, Time until) {
  while (true) {
    ERR_clear_error();
    const int done = call();
    if (done > 0) {
      return done;
    }
    const int why = SSL_get_error(ssl_, done);
    if (why == SSL_ERROR_ZERO_RETURN) {
      return 0;
    }
    const short events = why == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT;
    if ((why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE) || !WaitFor(events, until)) {
      return -1;
    }
  }
}

bool RequestStream::WaitFor(short events, Time until) {
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(until - SteadyClock::now());
  if (left.count() <= 0) {
    return false;
  }
  pollfd one{fd_, events, 0};
  connection_.SetWaits(true);
  const int ready = poll(&one, 1, static_cast<int>(left.count()));
  connection_.SetWaits(false);
  return ready > 0 || (ready < 0 && errno == EINTR);
}

void RequestStream::Refuse(int status) {
  (void)httplib::Stream::write_format(
      "HTTP/1.1 %d Refused\r\nConnection: close\r\n"
      "Content-Length: 0\r\n\r\n",
      status);
}

}  // namespace cgpu::page
