#include "fleet/front_proxy.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <nlohmann/json.hpp>

namespace cgpu::fleet {
namespace {

using Json = nlohmann::json;

struct Free {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(X509* certificate) const { X509_free(certificate); }
};

// A certificate and its key.
struct Signed {
  std::unique_ptr<EVP_PKEY, Free> key{EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519")};
  std::unique_ptr<X509, Free> certificate{X509_new()};

  void Add(int kind, const char* value) const {
    X509_EXTENSION* const one = X509V3_EXT_conf_nid(nullptr, nullptr, kind, value);
    ASSERT_NE(one, nullptr);
    EXPECT_EQ(X509_add_ext(certificate.get(), one, -1), 1);
    X509_EXTENSION_free(one);
  }
};

void AddName(X509_NAME* subject, const char* name) {
  EXPECT_EQ(X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8,
                                       reinterpret_cast<const unsigned char*>(name), -1, -1, 0),
            1);
}

// Makes a certificate for `name`, of `by` or of its own. `days`: from today on.
Signed Make(const char* name, const Signed* by, const char* use, int days = 1,
            const char* second_name = nullptr) {
  static long serial = 0;
  Signed made;
  X509* const certificate = made.certificate.get();
  X509_set_version(certificate, X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), ++serial);
  X509_gmtime_adj(X509_getm_notBefore(certificate), -2L * 86400);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 86400L * days);
  AddName(X509_get_subject_name(certificate), name);
  if (second_name != nullptr) {
    AddName(X509_get_subject_name(certificate), second_name);
  }
  X509_set_issuer_name(certificate,
                       X509_get_subject_name(by != nullptr ? by->certificate.get() : certificate));
  X509_set_pubkey(certificate, made.key.get());
  made.Add(NID_basic_constraints, use == nullptr ? "critical,CA:TRUE" : "critical,CA:FALSE");
  if (use != nullptr) {
    made.Add(NID_ext_key_usage, use);
  }
  EXPECT_GT(X509_sign(certificate, (by != nullptr ? *by : made).key.get(), nullptr), 0);
  return made;
}

std::string Pem(const Signed& one) {
  const std::unique_ptr<BIO, Free> bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(bio.get(), one.certificate.get());
  char* text = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &text);
  return {text, static_cast<std::size_t>(size)};
}

std::string Map(const std::string& pem, const Json& names) {
  return Json{
      {"data", {{"requestheader-client-ca-file", pem}, {"requestheader-allowed-names", names}}}}
      .dump();
}

class FrontProxyTest : public ::testing::Test {
 protected:
  bool Knows(const Signed& one) const { return proxy_.Knows(one.certificate.get(), nullptr); }

  Signed authority_ = Make("authority", nullptr, nullptr);
  Signed client_ = Make("front-proxy-client", &authority_, "clientAuth");
  FrontProxy proxy_;
};

TEST_F(FrontProxyTest, IsKnownByItsAuthorityAndItsName) {
  EXPECT_FALSE(Knows(client_)) << "the API server has said nothing";
  proxy_.Set(Map(Pem(authority_), R"(["x","front-proxy-client"])"));
  EXPECT_TRUE(Knows(client_));
  EXPECT_FALSE(proxy_.Knows(nullptr, nullptr));
  EXPECT_FALSE(Knows(Make("another", &authority_, "clientAuth")));
  EXPECT_FALSE(Knows(Make("front-proxy-client", &authority_, "serverAuth")));
  EXPECT_FALSE(Knows(Make("front-proxy-client", &authority_, "clientAuth", -1))) << "is too old";
  EXPECT_FALSE(Knows(Make("x", &authority_, "clientAuth", 1, "y"))) << "has two names";
  EXPECT_FALSE(Knows(Make("front-proxy-client", nullptr, "clientAuth"))) << "signed itself";
  const Signed other = Make("authority", nullptr, nullptr);
  EXPECT_FALSE(Knows(Make("front-proxy-client", &other, "clientAuth")));
}

TEST_F(FrontProxyTest, MayHaveAnyNameWhereNoneIsSaid) {
  for (const char* names : {"", "[]", "null"}) {
    proxy_.Set(Map(Pem(authority_), names));
    EXPECT_TRUE(Knows(client_)) << names;
  }
}

TEST_F(FrontProxyTest, IsNobodyWhereTheMapIsNone) {
  const std::string good = Map(Pem(authority_), R"(["front-proxy-client"])");
  for (const std::string& text :
       {std::string(), std::string("{}"), std::string("[]"), Map("", "[]"), Map("x", "[]"),
        Map(Pem(authority_), "x"), Map(Pem(authority_), "[3]"), Map(Pem(authority_), "{}"),
        Map(Pem(authority_), "3"), Map(Pem(authority_), R"([""])")}) {
    proxy_.Set(good);
    ASSERT_TRUE(Knows(client_));
    proxy_.Set(text);
    EXPECT_FALSE(Knows(client_)) << text;
  }
}

TEST_F(FrontProxyTest, MayHaveASuccessorOfItsAuthority) {
  const Signed next = Make("authority", nullptr, nullptr);
  proxy_.Set(Map(Pem(authority_) + Pem(next), "[]"));
  EXPECT_TRUE(Knows(client_));
  EXPECT_TRUE(Knows(Make("front-proxy-client", &next, "clientAuth")));
}

}  // namespace
}  // namespace cgpu::fleet
