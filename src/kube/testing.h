// Keys for the tests of decisions.
#ifndef CGPU_KUBE_TESTING_H_
#define CGPU_KUBE_TESTING_H_

#include <openssl/evp.h>
#include <openssl/pem.h>

#include <memory>
#include <string>

#include "kube/decision.h"
#include "kube/state.h"

namespace cgpu::kube {

inline constexpr Clock::time_point kNow{};

// A key of Ed25519, and the public part of it, in PEM.
struct PemKey {
  std::string whole;
  std::string public_part;
};

inline PemKey MakePemKey() {
  using Bio = std::unique_ptr<BIO, decltype(&BIO_free)>;
  const auto text_of = [](BIO* bio) {
    char* data = nullptr;
    const long size = BIO_get_mem_data(bio, &data);
    return std::string(data, static_cast<std::size_t>(size));
  };
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(
      EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"), EVP_PKEY_free);
  const Bio whole(BIO_new(BIO_s_mem()), BIO_free);
  const Bio public_part(BIO_new(BIO_s_mem()), BIO_free);
  (void)PEM_write_bio_PrivateKey(whole.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  (void)PEM_write_bio_PUBKEY(public_part.get(), key.get());
  return {text_of(whole.get()), text_of(public_part.get())};
}

inline Key MakeKey() {
  return *Key::ReadPrivate(MakePemKey().whole);
}

}  // namespace cgpu::kube

#endif  // CGPU_KUBE_TESTING_H_
