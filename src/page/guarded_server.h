// A server of cpp-httplib that clients can neither stop nor make large, however slow they are and
// whatever they send: it bounds the connections (connections.h), what it reads of each
// (request_head.h), and the time for which a request and its answer are under way.
#ifndef CGPU_PAGE_GUARDED_SERVER_H_
#define CGPU_PAGE_GUARDED_SERVER_H_

#include <httplib.h>

#include <functional>
#include <memory>
#include <string>

#include "page/connections.h"

namespace cgpu::page {

// Configured as the library's own servers, but for the queue of tasks.
class GuardedServer : public httplib::Server {
 public:
  // `most_body`: bytes of a request's body; 0: none is read. `setup`: sets TLS up, and returns
  // whether that worked; null: without TLS.
  GuardedServer(std::size_t most_body, const std::function<bool(SSL_CTX&)>& setup,
                Connections::Limits limits = {});
  ~GuardedServer() override;

  [[nodiscard]] bool is_valid() const override { return valid_; }
  // Returns false where it cannot listen there.
  [[nodiscard]] bool Bind(const std::string& host, int port);

 private:
  bool process_and_close_socket(socket_t sock) override;
  void Serve(socket_t sock);

  const std::size_t most_body_;
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_;
  bool valid_ = true;
  Connections connections_;
};

}  // namespace cgpu::page

#endif  // CGPU_PAGE_GUARDED_SERVER_H_
