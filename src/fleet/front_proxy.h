// Recognises the aggregation layer of the API server by its client certificate, as Kubernetes'
// extension API servers do (apiserver/pkg/authentication/request/x509/x509.go, Verifier). The API
// server says in a ConfigMap which authority signs it, and for which names. It has checked who asks
// and what they may before it hands a request on.
//
// Thread-safe.
#ifndef CGPU_FLEET_FRONT_PROXY_H_
#define CGPU_FLEET_FRONT_PROXY_H_

#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "base/mutex.h"

// OpenSSL's X509 and STACK_OF(X509).
struct x509_st;
struct stack_st_X509;

namespace cgpu::fleet {

// Path of the list that has the ConfigMap, at the API server.
inline constexpr char kFrontProxyPath[] =
    "/api/v1/namespaces/kube-system/configmaps"
    "?fieldSelector=metadata.name%3Dextension-apiserver-authentication";

class FrontProxy {
 public:
  FrontProxy();
  FrontProxy(const FrontProxy&) = delete;
  FrontProxy& operator=(const FrontProxy&) = delete;
  ~FrontProxy();

  // Takes the ConfigMap's JSON. From what is none, nobody is recognised; so before the first call.
  void Set(std::string_view json);

  // Returns whether a peer is the aggregation layer. `certificate`: the peer's, which has shown
  // that it has the key; null: it has none. `others`: that it sent with it, or null.
  [[nodiscard]] bool Knows(x509_st* certificate, stack_st_X509* others) const;

 private:
  struct Authority;

  mutable Mutex mutex_;
  std::shared_ptr<const Authority> authority_ CGPU_GUARDED_BY(mutex_);
};

}  // namespace cgpu::fleet

#endif  // CGPU_FLEET_FRONT_PROXY_H_
