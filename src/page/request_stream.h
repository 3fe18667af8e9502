// A connection as cpp-httplib reads requests from it: each request has a head that was judged, a
// body of the length that the head says, and a time to be read in; its answer has one, too.
#ifndef CGPU_PAGE_REQUEST_STREAM_H_
#define CGPU_PAGE_REQUEST_STREAM_H_

#include <httplib.h>

#include <chrono>
#include <string>

#include "page/connections.h"

namespace cgpu::page {

class RequestStream : public httplib::Stream {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Borrows all, and makes the socket non-blocking. `ssl`: null without TLS.
  RequestStream(int fd, SSL* ssl, Connections::One& connection);

  // Shakes hands, if that is to be done.
  [[nodiscard]] bool Begin();
  // Reads the head of the next request, which begins within `idle`, and takes room for its body.
  // Refuses it where it is too large. Returns whether there is a request to be answered.
  [[nodiscard]] bool ReadHead(std::chrono::milliseconds idle, std::size_t most_body);
  // Returns whether the whole request was read, so that another one may follow.
  [[nodiscard]] bool ended() const { return left_ == 0; }

  [[nodiscard]] bool is_readable() const override { return left_ != 0; }
  [[nodiscard]] bool is_writable() const override { return true; }
  ssize_t read(char* bytes, std::size_t size) override;
  ssize_t write(const char* bytes, std::size_t size) override;
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  [[nodiscard]] socket_t socket() const override { return 0; }  // not beyond select()'s

 private:
  // Each ends at `until`, with -1.
  ssize_t Receive(char* bytes, std::size_t size, Time until);
  ssize_t Send(const char* bytes, std::size_t size, Time until);
  // Does a call of the library for TLS until it gets anywhere.
  template <class Call>
  int Drive(const Call& call, Time until);
  bool WaitFor(short events, Time until);
  void Refuse(int status);

  const int fd_;
  SSL* const ssl_;
  Connections::One& connection_;
  std::string buffer_;    // read from the socket, but not by the library
  std::size_t left_ = 0;  // bytes of the request that the library has not read
  Time read_until_;
  Time write_until_{};  // the epoch: the answer has not begun
};

}  // namespace cgpu::page

#endif  // CGPU_PAGE_REQUEST_STREAM_H_
