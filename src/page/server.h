// Shows by HTTP, or HTTPS, the page and what a program adds to it. It answers GET and HEAD and
// nothing else: no request changes anything.
#ifndef CGPU_PAGE_SERVER_H_
#define CGPU_PAGE_SERVER_H_

#include <csignal>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/result.h"
#include "page/access.h"
#include "page/tls.h"

namespace cgpu::page {

inline constexpr char kJson[] = "application/json";
inline constexpr char kHealthPath[] = "/healthz";

struct Reply {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string text;
};
// Returns the answer to a request. Called by many threads at a time.
using Answer = std::function<Reply()>;

struct Site {
  Address address;
  std::string token;        // that requests must carry; empty: none
  Certificate certificate;  // empty: without TLS
  // By path, beside those of the page. kHealthPath, which says "ok", is there without a token.
  std::map<std::string, Answer, std::less<>> answers;
};

// Serves from Open() on, on threads of its own.
class Server {
 public:
  // kUnavailable: cannot listen there. Else an error of the certificate.
  [[nodiscard]] static Result<std::unique_ptr<Server>> Open(Site site);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  // Waits for the requests that are under way.
  ~Server();

  // Waits until one of these signals comes, which all threads block. kUnavailable: the server has
  // ended by itself.
  [[nodiscard]] Result<> Wait(const sigset_t& ends_by);

 private:
  struct State;
  explicit Server(std::unique_ptr<State> state);

  const std::unique_ptr<State> state_;
};

}  // namespace cgpu::page

#endif  // CGPU_PAGE_SERVER_H_
