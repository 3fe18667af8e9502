#include "page/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <memory>

namespace cgpu::page {
namespace {

bool Use(SSL* ssl, const Certificate& certificate) {
  return SSL_use_certificate_chain_file(ssl, certificate.chain.c_str()) == 1 &&
         SSL_use_PrivateKey_file(ssl, certificate.key.c_str(), SSL_FILETYPE_PEM) == 1 &&
         SSL_check_private_key(ssl) == 1;
}

int UseNow(SSL* ssl, void* certificate) {
  return Use(ssl, *static_cast<const Certificate*>(certificate)) ? 1 : 0;
}

}  // namespace

Result<> Present(ssl_ctx_st& context, const Certificate& certificate) {
  SSL_CTX_set_min_proto_version(&context, TLS1_2_VERSION);
  SSL_CTX_set_cert_cb(&context, UseNow, const_cast<Certificate*>(&certificate));
  const std::unique_ptr<SSL, decltype(&SSL_free)> trial(SSL_new(&context), SSL_free);
  const bool works = trial != nullptr && Use(trial.get(), certificate);
  ERR_clear_error();
  return works ? Result<>()
               : Error{Code::kInvalid, 0,
                       certificate.chain + " has no certificate in PEM that " + certificate.key +
                           " has the key of",
                       "see `openssl x509 -in FILE -text` for what it has"};
}

}  // namespace cgpu::page
