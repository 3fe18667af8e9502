#include "apps/cgpu-scheduler/webhook.h"

#include <httplib.h>
#include <openssl/ssl.h>

#include <ctime>
#include <optional>
#include <semaphore>
#include <string>
#include <utility>

#include "fleet/custom_metrics.h"
#include "kube/admission.h"
#include "page/guarded_server.h"
#include "page/serving.h"
#include "page/tls.h"

namespace cgpu::kube {
namespace {

// Bytes of a review: the API server takes at most 1.5 MiB for an object, and a review may have two.
constexpr std::size_t kMostReview = std::size_t{3} << 20;
// Bytes of a review that is small, as those of nearly all pods are.
constexpr std::size_t kSmallReview = std::size_t{64} << 10;
// Reviews that are judged at a time. A large one keeps no small one waiting.
constexpr std::ptrdiff_t kSmallAtATime = 4;
constexpr std::ptrdiff_t kLargeAtATime = 1;
// Requests that a connection carries, and seconds that it waits for the next one.
constexpr std::size_t kRequests = 100;
constexpr std::time_t kIdleSeconds = 5;

// Asks clients for a certificate and takes any, or none: a request is judged by it, not a
// connection. There are no sessions to resume, since these would come without one.
void AskForCertificate(SSL_CTX& context) {
  SSL_CTX_set_verify(&context, SSL_VERIFY_PEER, [](int, X509_STORE_CTX*) { return 1; });
  SSL_CTX_set_session_cache_mode(&context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(&context, SSL_OP_NO_TICKET);
}

fleet::MetricsAnswer AnswerMetrics(const httplib::Request& request, Metrics& metrics) {
  if (!metrics.front_proxy().Knows(SSL_get0_peer_certificate(request.ssl),
                                   SSL_get_peer_cert_chain(request.ssl))) {
    return fleet::Refuse(401, "Unauthorized", "only the API server may ask");
  }
  return metrics.Answer({request.path, request.get_param_value("labelSelector"),
                         request.get_param_value("metricLabelSelector")});
}

// Judges a few reviews at a time: a value takes many times the memory of its text.
class Reviewing {
 public:
  std::string Judge(const std::string& body, const AdmissionRules& rules) {
    auto& turns = body.size() <= kSmallReview ? small_ : large_;
    turns.acquire();
    std::string answer = Review(body, rules);
    turns.release();
    return answer;
  }

 private:
  std::counting_semaphore<> small_{kSmallAtATime};
  std::counting_semaphore<> large_{kLargeAtATime};
};

// All but the server outlive it.
void Route(httplib::Server& server, Reviewing& reviewing, const AdmissionRules& rules,
           Extender& extender, Metrics* metrics) {
  server.set_keep_alive_max_count(kRequests);
  server.set_keep_alive_timeout(kIdleSeconds);
  server.Post("/admit", [&](const httplib::Request& request, httplib::Response& response) {
    AdmissionRules now = rules;
    now.largest = extender.LargestGpu();
    response.set_content(reviewing.Judge(request.body, now), "application/json");
  });
  if (metrics != nullptr) {
    server.Get("/apis/.*", [metrics](const httplib::Request& request, httplib::Response& response) {
      const auto answer = AnswerMetrics(request, *metrics);
      response.status = answer.status;
      response.set_content(answer.json, "application/json");
    });
  }
}

}  // namespace

struct Webhook::State {
  explicit State(const Options& given)
      : rules(given.rules), certificate{given.certificate_file, given.certificate_key_file} {}

  const AdmissionRules rules;
  const page::Certificate certificate;
  Reviewing reviewing;
  std::unique_ptr<page::GuardedServer> server;
  std::optional<page::Serving> serving;  // ends first
};

Result<std::unique_ptr<Webhook>> Webhook::Open(const Options& options, Extender& extender,
                                               Metrics* metrics) {
  auto state = std::make_unique<State>(options);
  Result<> presented;
  state->server = std::make_unique<page::GuardedServer>(kMostReview, [&](SSL_CTX& context) {
    presented = page::Present(context, state->certificate);
    if (metrics != nullptr) {
      AskForCertificate(context);
    }
    return presented.ok();
  });
  CGPU_TRY(presented);
  Route(*state->server, state->reviewing, state->rules, extender, metrics);
  const int port = static_cast<int>(options.webhook_port);
  if (!state->server->Bind("0.0.0.0", port)) {
    return Error{Code::kUnavailable, 0, "cannot listen at port " + std::to_string(port),
                 "see `ss -ltnp` for what does"};
  }
  state->serving.emplace(*state->server);
  return std::unique_ptr<Webhook>(new Webhook(std::move(state)));
}

Webhook::Webhook(std::unique_ptr<State> state) : state_(std::move(state)) {}

Webhook::~Webhook() = default;

}  // namespace cgpu::kube
