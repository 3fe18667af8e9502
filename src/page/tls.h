// Presents a certificate that is renewed while the program runs.
#ifndef CGPU_PAGE_TLS_H_
#define CGPU_PAGE_TLS_H_

#include <string>

#include "base/result.h"

struct ssl_ctx_st;  // SSL_CTX of OpenSSL

namespace cgpu::page {

// Paths of files in PEM.
struct Certificate {
  std::string chain;  // the certificate, and those up to the authority
  std::string key;

  [[nodiscard]] bool empty() const { return chain.empty(); }
};

// Lets each handshake have the certificate that the files have then. `certificate` outlives the
// context. kInvalid: the files have none now, or the key of another.
[[nodiscard]] Result<> Present(ssl_ctx_st& context, const Certificate& certificate);

}  // namespace cgpu::page

#endif  // CGPU_PAGE_TLS_H_
