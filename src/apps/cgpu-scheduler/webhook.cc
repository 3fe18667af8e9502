#include "apps/cgpu-scheduler/webhook.h"

#include <httplib.h>
#include <openssl/ssl.h>

#include <optional>
#include <string>
#include <utility>

#include "fleet/custom_metrics.h"
#include "kube/admission.h"
#include "page/serving.h"
#include "page/tls.h"

namespace cgpu::kube {
namespace {

// Bytes of a review: an object of the API server has at most 3 MiB, and a review may have two.
constexpr std::size_t kMostReview = std::size_t{16} << 20;

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

// `rules` outlives the server.
void Route(httplib::Server& server, const AdmissionRules& rules, Extender& extender,
           Metrics* metrics) {
  server.set_payload_max_length(kMostReview);
  server.new_task_queue = [] { return new httplib::ThreadPool(kConnections); };
  server.Post("/admit", [&](const httplib::Request& request, httplib::Response& response) {
    AdmissionRules now = rules;
    now.largest = extender.LargestGpu();
    response.set_content(Review(request.body, now), "application/json");
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
  std::unique_ptr<httplib::SSLServer> server;
  std::optional<page::Serving> serving;  // ends first
};

Result<std::unique_ptr<Webhook>> Webhook::Open(const Options& options, Extender& extender,
                                               Metrics* metrics) {
  auto state = std::make_unique<State>(options);
  Result<> presented;
  state->server = std::make_unique<httplib::SSLServer>([&](SSL_CTX& context) {
    presented = page::Present(context, state->certificate);
    if (metrics != nullptr) {
      AskForCertificate(context);
    }
    return presented.ok();
  });
  CGPU_TRY(presented);
  Route(*state->server, state->rules, extender, metrics);
  const int port = static_cast<int>(options.webhook_port);
  if (!state->server->bind_to_port("0.0.0.0", port)) {
    return Error{Code::kUnavailable, 0, "cannot listen at port " + std::to_string(port),
                 "see `ss -ltnp` for what does"};
  }
  state->serving.emplace(*state->server);
  return std::unique_ptr<Webhook>(new Webhook(std::move(state)));
}

Webhook::Webhook(std::unique_ptr<State> state) : state_(std::move(state)) {}

Webhook::~Webhook() = default;

}  // namespace cgpu::kube
