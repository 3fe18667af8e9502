#include "exporter/server.h"

#include <arpa/inet.h>
#include <httplib.h>
#include <openssl/crypto.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <ctime>
#include <system_error>
#include <thread>
#include <utility>

#include "base/file.h"
#include "base/mutex.h"

namespace cgpu::exporter {
namespace {

// Connections at a time; the next one waits.
constexpr std::size_t kConnections = 128;
// Seconds for which an idle connection keeps its thread.
constexpr std::time_t kIdleSeconds = 1;
constexpr std::size_t kLeastToken = 16;
constexpr char kTextFormat[] = "text/plain; version=0.0.4; charset=utf-8";
constexpr char kPlain[] = "text/plain; charset=utf-8";
constexpr std::string_view kBearer = "Bearer ";

Error Wrong(std::string what, std::string hint) {
  return Error{Code::kInvalid, 0, std::move(what), std::move(hint)};
}

void Answer(httplib::Response& response, int status, const char* text) {
  response.status = status;
  response.set_content(text, kPlain);
}

// Answers a request. Its body is not read.
class Answering {
 public:
  Answering(const std::string& token, const Scrape& scrape) : token_(token), scrape_(scrape) {}

  void To(const httplib::Request& request, httplib::Response& response) {
    if (request.path != "/metrics" && request.path != "/healthz") {
      Answer(response, 404, "there is /metrics and /healthz\n");
    } else if (request.method != "GET") {
      response.set_header("Allow", "GET");
      Answer(response, 405, "only GET\n");
    } else if (request.path == "/healthz") {
      Answer(response, 200, "ok\n");
    } else if (!token_.empty() && !Carries(request.get_header_value("Authorization"), token_)) {
      response.set_header("WWW-Authenticate", "Bearer");
      Answer(response, 401, "the token is missing or wrong\n");
    } else {
      Metrics(response);
    }
  }

 private:
  void Metrics(httplib::Response& response) {
    const MutexLock lock(mutex_);
    auto text = scrape_();
    if (text.ok()) {
      response.status = 200;
      response.set_content(*text, kTextFormat);
    } else {
      Answer(response, 503, (FormatError(text.error()) + "\n").c_str());
    }
  }

  const std::string& token_;
  const Scrape& scrape_;
  Mutex mutex_;
};

// Gives each connection a thread of its own, also while it is idle. A pool of threads would give
// each scrape another of its threads, and so each thread the memory of a scrape.
class Connections : public httplib::TaskQueue {
 public:
  void enqueue(std::function<void()> serve) override {
    {
      const MutexLock lock(mutex_);
      WaitForFewerThan(kConnections);
      ++open_;
    }
    std::thread([this, serve = std::move(serve)] {
      serve();
      const MutexLock lock(mutex_);
      --open_;
      closed_.NotifyAll();
    }).detach();
  }
  void shutdown() override {
    const MutexLock lock(mutex_);
    WaitForFewerThan(1);
  }

 private:
  void WaitForFewerThan(std::size_t count) CGPU_REQUIRES(mutex_) {
    while (open_ >= count) {
      closed_.Wait(mutex_);
    }
  }

  Mutex mutex_;
  CondVar closed_;
  std::size_t open_ CGPU_GUARDED_BY(mutex_) = 0;
};

// Ends the server when one of these signals comes, until it is destroyed.
class Ending {
 public:
  Ending(httplib::Server& server, const sigset_t& ends_by)
      : thread_([this, &server, ends_by] {
          constexpr timespec kTick{0, 200'000'000};
          bool asked = false;
          while (!done_) {  // a server that does not run yet does not hear it
            asked = sigtimedwait(&ends_by, nullptr, &kTick) > 0 || asked;
            if (asked) {
              server.stop();
            }
          }
        }) {}
  Ending(const Ending&) = delete;
  Ending& operator=(const Ending&) = delete;
  ~Ending() {
    done_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> done_{false};
  std::thread thread_;
};

}  // namespace

Result<Address> ParseAddress(const std::string& text) {
  const Error wrong = Wrong("\"" + text + "\" is no IP address with a port",
                            "for example 127.0.0.1:9400, or [::1]:9400");
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) {
    return wrong;
  }
  Address address{text.substr(0, colon), 0};
  const char* const end = text.data() + text.size();
  const auto [tail, error] = std::from_chars(text.data() + colon + 1, end, address.port);
  const bool six =
      address.host.size() > 2 && address.host.front() == '[' && address.host.back() == ']';
  if (six) {
    address.host = address.host.substr(1, address.host.size() - 2);
  }
  in6_addr bytes{};
  if (error != std::errc() || tail != end || address.port < 1 || address.port > 65535 ||
      inet_pton(six ? AF_INET6 : AF_INET, address.host.c_str(), &bytes) != 1) {
    return wrong;
  }
  return address;
}

bool IsLoopback(const Address& address) {
  return address.host == "::1" || address.host.starts_with("127.");
}

Result<std::string> ReadToken(const std::string& path) {
  CGPU_ASSIGN_OR_RETURN(const auto text, ReadFile(path));
  std::string token = text.substr(0, text.find('\n'));
  const bool sound = std::ranges::all_of(token, [](char c) { return c > ' ' && c <= '~'; });
  if (!sound || token.size() < kLeastToken) {
    return Wrong(path + " has no token of at least " + std::to_string(kLeastToken) +
                     " printable characters in its first line",
                 "make one: openssl rand -hex 32");
  }
  return token;
}

bool Carries(std::string_view header, const std::string& token) {
  if (!header.starts_with(kBearer)) {
    return false;
  }
  header.remove_prefix(kBearer.size());
  return header.size() == token.size() &&
         CRYPTO_memcmp(header.data(), token.data(), token.size()) == 0;
}

Result<> Serve(const Address& address, const std::string& token, const Scrape& scrape,
               const sigset_t& ends_by, const std::function<void()>& ready) {
  httplib::Server server;
  Answering answering(token, scrape);
  server.set_pre_routing_handler([&](const httplib::Request& request, httplib::Response& response) {
    answering.To(request, response);
    return httplib::Server::HandlerResponse::Handled;
  });
  server.new_task_queue = [] { return new Connections; };
  server.set_keep_alive_max_count(1);
  server.set_keep_alive_timeout(kIdleSeconds);
  server.set_read_timeout(kIdleSeconds);
  // The library's default lets a second program listen at the same port.
  server.set_socket_options([](int fd) {
    const int on = 1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  });
  const Error cannot{Code::kUnavailable, 0,
                     "cannot listen at " + address.host + ":" + std::to_string(address.port),
                     "see `ss -ltnp` for what does"};
  if (!server.bind_to_port(address.host, address.port)) {
    return cannot;
  }
  const Ending ending(server, ends_by);
  ready();
  return server.listen_after_bind() ? Result<>() : cannot;
}

}  // namespace cgpu::exporter
