#include "page/server.h"

#include <httplib.h>

#include <ctime>
#include <optional>
#include <string_view>
#include <utility>

#include "page/assets.h"
#include "page/guarded_server.h"
#include "page/serving.h"

namespace cgpu::page {
namespace {

// Seconds for which an idle connection keeps its thread.
constexpr std::time_t kIdleSeconds = 1;
// Time between two looks whether the server has ended.
constexpr timespec kTick{0, 200'000'000};

Reply Says(int status, const char* text) {
  return {status, Reply().type, text};
}

// Answers requests. Their bodies are not read.
class Answering {
 public:
  explicit Answering(const Site& site) : site_(site) {}

  void To(const httplib::Request& request, httplib::Response& response) const {
    for (const auto& [name, value] : kHeaders) {
      response.set_header(name, value);
    }
    const Reply reply = ReplyTo(request);
    if (reply.status == 401) {
      response.set_header("WWW-Authenticate", kAskForToken);
    } else if (reply.status == 405) {
      response.set_header("Allow", "GET, HEAD");
    }
    response.status = reply.status;
    response.set_content(reply.text, reply.type);
  }

 private:
  [[nodiscard]] Reply ReplyTo(const httplib::Request& request) const {
    if (site_.token.empty() && !NamesNoSite(request.get_header_value("Host"))) {
      return Says(421, "without a token, there are answers at an IP address alone\n");
    }
    const bool healthz = request.path == kHealthPath;
    if (!site_.token.empty() && !healthz &&
        !Carries(request.get_header_value("Authorization"), site_.token)) {
      return Says(401, "the token is missing or wrong\n");
    }
    const auto answer = site_.answers.find(request.path);
    const Asset* const asset = FindAsset(request.path);
    if (!healthz && answer == site_.answers.end() && asset == nullptr) {
      return Says(404, "there is nothing at this path\n");
    }
    if (request.method != "GET" && request.method != "HEAD") {
      return Says(405, "only GET and HEAD\n");
    }
    if (healthz) {
      return Says(200, "ok\n");
    }
    return asset == nullptr ? answer->second()
                            : Reply{200, std::string(asset->type), std::string(asset->bytes)};
  }

  const Site& site_;
};

void Configure(httplib::Server& server, const Answering& answering) {
  server.set_pre_routing_handler(
      [&answering](const httplib::Request& request, httplib::Response& response) {
        answering.To(request, response);
        return httplib::Server::HandlerResponse::Handled;
      });
  server.set_keep_alive_max_count(1);
  server.set_keep_alive_timeout(kIdleSeconds);
}

// Makes the server of a site, which outlives it.
Result<std::unique_ptr<GuardedServer>> Make(const Site& site) {
  if (site.certificate.empty()) {
    return std::make_unique<GuardedServer>(0, nullptr);
  }
  Result<> presented;
  auto server = std::make_unique<GuardedServer>(0, [&](SSL_CTX& context) {
    presented = Present(context, site.certificate);
    return presented.ok();
  });
  if (!presented.ok()) {
    return presented.error();
  }
  return server;
}

Error Cannot(const Address& address) {
  return {Code::kUnavailable, 0,
          "cannot listen at " + address.host + ":" + std::to_string(address.port),
          "see `ss -ltnp` for what does"};
}

}  // namespace

struct Server::State {
  explicit State(Site given) : site(std::move(given)), answering(site) {}

  const Site site;
  const Answering answering;
  std::unique_ptr<GuardedServer> server;
  std::optional<Serving> serving;  // ends first
};

Result<std::unique_ptr<Server>> Server::Open(Site site) {
  auto state = std::make_unique<State>(std::move(site));
  CGPU_ASSIGN_OR_RETURN(state->server, Make(state->site));
  Configure(*state->server, state->answering);
  const Address& address = state->site.address;
  if (!state->server->Bind(address.host, address.port)) {
    return Cannot(address);
  }
  state->serving.emplace(*state->server);
  return std::unique_ptr<Server>(new Server(std::move(state)));
}

Server::Server(std::unique_ptr<State> state) : state_(std::move(state)) {}

Server::~Server() = default;

Result<> Server::Wait(const sigset_t& ends_by) {
  while (!state_->serving->ended()) {
    if (sigtimedwait(&ends_by, nullptr, &kTick) > 0) {
      return {};
    }
  }
  return Cannot(state_->site.address);
}

}  // namespace cgpu::page
