// The grant of a pod: which GPUs of its node it has, and which part of them each container. The
// scheduler signs it, and writes it on the pod in the write that binds the pod. Who may change
// annotations of pods can therefore not make a grant: the node takes only what the scheduler has
// signed for this pod and this node.
#ifndef CGPU_KUBE_DECISION_H_
#define CGPU_KUBE_DECISION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "kube/pod.h"
#include "placement/model.h"

struct evp_pkey_st;  // EVP_PKEY of OpenSSL

namespace cgpu::kube {

// Bounds of decisions. A node publishes those of all its pods in one annotation, and Kubernetes
// lets the annotations of an object have 256 KiB together (TotalAnnotationSizeLimitB in
// apimachinery).
inline constexpr std::size_t kMostParts = 64;                         // of one pod
inline constexpr std::size_t kMostPartsBytes = std::size_t{5} << 10;  // as JSON
inline constexpr std::size_t kMostDecision = std::size_t{8} << 10;    // bytes, as annotation
inline constexpr std::size_t kMostDecisionsDecided = std::size_t{128} << 10;  // bytes, of a node
inline constexpr std::size_t kMostDecisionsAdmitted = std::size_t{144} << 10;

struct Decision {
  std::string pod;                // uid
  std::string node;               // name
  std::vector<std::string> gpus;  // uuids
  std::uint32_t memory = 0;       // GiB that the whole pod takes of each of these GPUs
  std::uint32_t compute = 0;      // percent of each
  std::uint32_t slices = 1;       // containers of the pod that run at the same time
  std::vector<ContainerAsk> containers;
  // The containers are held to their parts. Else they get the GPUs whole and keep to their parts
  // themselves: the Kubernetes node shared its GPUs so when the pod was placed (Mode::kShare).
  bool isolated = true;

  // Returns the part of the container, or null.
  [[nodiscard]] const ContainerAsk* Find(std::string_view container) const;
  // Returns what the whole pod takes of its GPUs.
  [[nodiscard]] placement::Request Takes() const;
};

// A key of Ed25519. Signing needs the private one, checking the public one.
class Key {
 public:
  // Reads PEM text. kInvalid: it is no such key.
  static Result<Key> ReadPrivate(std::string_view pem);
  // Takes a certificate, too: Helm can make one, but no text of the public key alone. Only the key
  // in it counts, not its dates and names.
  static Result<Key> ReadPublic(std::string_view pem);
  [[nodiscard]] std::string Sign(std::string_view text) const;
  [[nodiscard]] bool Verify(std::string_view text, std::string_view signature) const;

 private:
  using Pointer = std::unique_ptr<evp_pkey_st, void (*)(evp_pkey_st*)>;
  explicit Key(Pointer key) : key_(std::move(key)) {}
  // Takes the key, which may be null, and frees it. kInvalid: it is no key of Ed25519.
  static Result<Key> Check(evp_pkey_st* key);
  Pointer key_;
};

// Returns the annotation: JSON, a space, the signature in base64.
[[nodiscard]] std::string EncodeDecision(const Decision& decision, const Key& key);

// Returns the bytes of the annotation.
[[nodiscard]] std::size_t BytesOf(const Decision& decision);

// Checks that a decision has room for the parts. kInvalid, with what would do.
[[nodiscard]] Result<> CheckParts(const std::vector<ContainerAsk>& parts);

// Reads an annotation without asking who has written it, to show it. kInvalid: it is no decision.
[[nodiscard]] Result<Decision> PeekDecision(std::string_view text);

// Reads an annotation. kPermission: it is not signed by the owner of `key`. kInvalid: it is signed
// but this version cannot read it.
[[nodiscard]] Result<Decision> DecodeDecision(std::string_view text, const Key& key);

}  // namespace cgpu::kube

#endif  // CGPU_KUBE_DECISION_H_
