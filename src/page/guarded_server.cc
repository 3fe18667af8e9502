#include "page/guarded_server.h"

#include <sys/socket.h>

#include <chrono>
#include <thread>
#include <utility>

#include "base/fd.h"
#include "page/request_stream.h"

namespace cgpu::page {
namespace {

constexpr int kBacklog = 512;  // connections that wait; the library has 5 wait

// Gives each connection a thread of its own, also while it is idle. A pool of threads would give
// each scrape another of its threads, and so each thread the memory of a scrape.
class Threads : public httplib::TaskQueue {
 public:
  explicit Threads(Connections& connections) : connections_(connections) {}

  void enqueue(std::function<void()> serve) override {
    connections_.Enter();
    std::thread([this, serve = std::move(serve)] {
      serve();
      connections_.Leave();
    }).detach();
  }
  void shutdown() override { connections_.WaitForNone(); }

 private:
  Connections& connections_;
};

}  // namespace

GuardedServer::GuardedServer(std::size_t most_body, const std::function<bool(SSL_CTX&)>& setup,
                             Connections::Limits limits)
    : most_body_(most_body),
      context_(setup == nullptr ? nullptr : SSL_CTX_new(TLS_server_method()), SSL_CTX_free),
      connections_(limits) {
  new_task_queue = [this] { return new Threads(connections_); };
  // The library's default lets a second program listen at the same port.
  set_socket_options([](int fd) {
    const int on = 1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  });
  if (context_ != nullptr) {
    SSL_CTX_set_options(context_.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_mode(context_.get(), SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                         SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    valid_ = setup(*context_);
  }
}

GuardedServer::~GuardedServer() = default;

bool GuardedServer::Bind(const std::string& host, int port) {
  return valid_ && bind_to_port(host, port) && ::listen(svr_sock_, kBacklog) == 0;
}

bool GuardedServer::process_and_close_socket(socket_t sock) {
  const UniqueFd owned(sock);
  Serve(sock);
  (void)::shutdown(sock, SHUT_RDWR);
  return true;
}

void GuardedServer::Serve(socket_t sock) {
  Connections::One connection(connections_, sock);
  const std::unique_ptr<SSL, decltype(&SSL_free)> ssl(
      context_ == nullptr ? nullptr : SSL_new(context_.get()), SSL_free);
  RequestStream stream(sock, ssl.get(), connection);
  if (!stream.Begin()) {
    return;
  }
  const auto idle = std::chrono::seconds(keep_alive_timeout_sec_);
  const auto setup = [&](httplib::Request& request) { request.ssl = ssl.get(); };
  bool ends = false;
  for (auto left = keep_alive_max_count_; left > 0 && !ends && svr_sock_ >= 0; --left) {
    ends = !stream.ReadHead(idle, most_body_) || !process_request(stream, left == 1, ends, setup) ||
           ends || !stream.ended();
  }
  if (ssl != nullptr) {
    (void)SSL_shutdown(ssl.get());
  }
}

}  // namespace cgpu::page
