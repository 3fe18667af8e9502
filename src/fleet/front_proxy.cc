#include "fleet/front_proxy.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "json/json.h"

namespace cgpu::fleet {
namespace {

using Json = nlohmann::json;

struct Free {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(X509_STORE* store) const { X509_STORE_free(store); }
  void operator()(X509_STORE_CTX* context) const { X509_STORE_CTX_free(context); }
};

// A store with one certificate, which is trusted. OpenSSL tries no second one of the same name.
using Store = std::unique_ptr<X509_STORE, Free>;

std::vector<Store> ReadStores(const std::string& pem) {
  const std::unique_ptr<BIO, Free> bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  std::vector<Store> stores;
  while (true) {
    const std::unique_ptr<X509, Free> one(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
    Store store(one == nullptr ? nullptr : X509_STORE_new());
    if (store == nullptr || X509_STORE_add_cert(store.get(), one.get()) != 1) {
      break;
    }
    X509_STORE_set_flags(store.get(), X509_V_FLAG_PARTIAL_CHAIN);
    stores.push_back(std::move(store));
  }
  ERR_clear_error();
  return stores;
}

bool Verifies(X509_STORE* store, X509* certificate, STACK_OF(X509) * others) {
  const std::unique_ptr<X509_STORE_CTX, Free> context(X509_STORE_CTX_new());
  const bool verifies = context != nullptr &&
                        X509_STORE_CTX_init(context.get(), store, certificate, others) == 1 &&
                        X509_STORE_CTX_set_purpose(context.get(), X509_PURPOSE_SSL_CLIENT) == 1 &&
                        X509_verify_cert(context.get()) == 1;
  ERR_clear_error();  // the connection's next call would take them for its own
  return verifies;
}

// Returns the one common name of a certificate's subject; "": it has none, or several.
std::string CommonName(const X509* certificate) {
  const X509_NAME* const subject = X509_get_subject_name(certificate);
  const int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  if (at < 0 || X509_NAME_get_index_by_NID(subject, NID_commonName, at) >= 0) {
    return "";
  }
  unsigned char* text = nullptr;
  const int length =
      ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
  std::string name;
  if (length > 0) {
    name.assign(text, text + length);
  }
  OPENSSL_free(text);
  return name;
}

}  // namespace

struct FrontProxy::Authority {
  std::vector<Store> stores;
  std::set<std::string> names;  // empty: any
};

FrontProxy::FrontProxy() = default;
FrontProxy::~FrontProxy() = default;

void FrontProxy::Set(std::string_view json) {
  const Json map = ParseJson(json);
  const Json& data = At(map, "data");
  auto authority = std::make_shared<Authority>();
  authority->stores = ReadStores(TextAt(data, "requestheader-client-ca-file"));
  const std::string list = TextAt(data, "requestheader-allowed-names");
  const Json names = ParseJson(list.empty() ? "[]" : list);
  bool sound = !authority->stores.empty() && (names.is_array() || names.is_null());
  for (const Json& name : names) {
    sound = sound && name.is_string() && !name.get<std::string>().empty();
    authority->names.insert(name.is_string() ? name.get<std::string>() : "");
  }
  const MutexLock lock(mutex_);
  authority_ = sound ? std::move(authority) : nullptr;
}

bool FrontProxy::Knows(x509_st* certificate, stack_st_X509* others) const {
  std::shared_ptr<const Authority> authority;
  {
    const MutexLock lock(mutex_);
    authority = authority_;
  }
  if (authority == nullptr || certificate == nullptr ||
      (!authority->names.empty() && !authority->names.contains(CommonName(certificate)))) {
    return false;
  }
  return std::ranges::any_of(authority->stores, [&](const Store& store) {
    return Verifies(store.get(), certificate, others);
  });
}

}  // namespace cgpu::fleet
