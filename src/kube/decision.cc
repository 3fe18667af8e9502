#include "kube/decision.h"

#include <openssl/evp.h>
#include <openssl/pem.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/base64.h"
#include "json/json.h"

namespace cgpu::kube {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kSignature = 64;  // bytes; RFC 8032, 5.1
constexpr int kVersion = 1;

using Bio = std::unique_ptr<BIO, decltype(&BIO_free)>;
using Context = std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)>;

Bio BioOf(std::string_view text) {
  return {BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), BIO_free};
}

const unsigned char* Bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

Result<std::uint32_t> Number(const Json& object, const char* name) {
  const Json& number = At(object, name);
  if (!number.is_number_unsigned()) {
    return Error{Code::kInvalid, 0, std::string("the decision lacks ") + name, {}};
  }
  return number.get<std::uint32_t>();
}

// Returns `otherwise` where the object has no such number: an earlier version wrote it.
Result<std::uint32_t> Number(const Json& object, const char* name, std::uint32_t otherwise) {
  return object.contains(name) ? Number(object, name) : otherwise;
}

Result<std::string> Text(const Json& object, const char* name) {
  const Json& text = At(object, name);
  if (!text.is_string()) {
    return Error{Code::kInvalid, 0, std::string("the decision lacks ") + name, {}};
  }
  return text.get<std::string>();
}

// Reads what a container has, as Write() writes it.
Result<ContainerAsk> ReadPart(const Json& one) {
  ContainerAsk ask;
  CGPU_ASSIGN_OR_RETURN(ask.name, Text(one, "name"));
  CGPU_ASSIGN_OR_RETURN(ask.memory, Number(one, "memory"));
  CGPU_ASSIGN_OR_RETURN(ask.compute, Number(one, "compute"));
  CGPU_ASSIGN_OR_RETURN(ask.weight, Number(one, "weight", 1));
  ask.high_priority = one.contains("high_priority");
  return ask;
}

// Weight and priority are there only where they say something.
Json Write(const ContainerAsk& ask) {
  Json one{{"name", ask.name}, {"memory", ask.memory}, {"compute", ask.compute}};
  if (ask.weight != 1) {
    one["weight"] = ask.weight;
  }
  if (ask.high_priority) {
    one["high_priority"] = true;
  }
  return one;
}

Result<Decision> Read(std::string_view text) {
  const Json json = ParseJson(text);
  CGPU_ASSIGN_OR_RETURN(const auto version, Number(json, "version"));
  if (version != kVersion) {
    return Error{
        Code::kInvalid, 0,
        "the decision has version " + std::to_string(version) + ", not " + std::to_string(kVersion),
        "let cgpu-scheduler and the node have the same version"};
  }
  Decision decision;
  CGPU_ASSIGN_OR_RETURN(decision.pod, Text(json, "pod"));
  CGPU_ASSIGN_OR_RETURN(decision.node, Text(json, "node"));
  decision.isolated = !json.contains("not_isolated");
  for (const Json& gpu : json.value("gpus", Json::array())) {
    if (gpu.is_string()) {
      decision.gpus.push_back(gpu.get<std::string>());
    }
  }
  for (const Json& one : json.value("containers", Json::array())) {
    CGPU_ASSIGN_OR_RETURN(auto part, ReadPart(one));
    decision.containers.push_back(std::move(part));
  }
  if (decision.gpus.empty() || decision.containers.empty()) {
    return Error{Code::kInvalid, 0, "the decision gives nothing", {}};
  }
  const auto sum = RequestOf(decision.containers, static_cast<std::uint32_t>(decision.gpus.size()));
  CGPU_ASSIGN_OR_RETURN(decision.memory, Number(json, "memory", sum.memory));
  CGPU_ASSIGN_OR_RETURN(decision.compute, Number(json, "compute", sum.compute));
  CGPU_ASSIGN_OR_RETURN(decision.slices, Number(json, "slices", sum.slices));
  return decision;
}

}  // namespace

const ContainerAsk* Decision::Find(std::string_view container) const {
  const auto found = std::find_if(containers.begin(), containers.end(),
                                  [&](const ContainerAsk& one) { return one.name == container; });
  return found == containers.end() ? nullptr : &*found;
}

placement::Request Decision::Takes() const {
  placement::Request takes;
  takes.gpus = static_cast<std::uint32_t>(gpus.size());
  takes.memory = memory;
  takes.compute = compute;
  takes.slices = slices;
  return takes;
}

Result<Key> Key::Check(EVP_PKEY* key) {
  Pointer owned(key, EVP_PKEY_free);
  if (key == nullptr || EVP_PKEY_get_id(key) != EVP_PKEY_ED25519) {
    return Error{Code::kInvalid, 0, "this is no key of Ed25519 in PEM",
                 "make one: openssl genpkey -algorithm ed25519"};
  }
  return Key(std::move(owned));
}

Result<Key> Key::ReadPrivate(std::string_view pem) {
  return Check(PEM_read_bio_PrivateKey(BioOf(pem).get(), nullptr, nullptr, nullptr));
}

Result<Key> Key::ReadPublic(std::string_view pem) {
  EVP_PKEY* key = PEM_read_bio_PUBKEY(BioOf(pem).get(), nullptr, nullptr, nullptr);
  if (key == nullptr) {
    X509* const certificate = PEM_read_bio_X509(BioOf(pem).get(), nullptr, nullptr, nullptr);
    key = certificate == nullptr ? nullptr : X509_get_pubkey(certificate);
    X509_free(certificate);
  }
  return Check(key);
}

std::string Key::Sign(std::string_view text) const {
  const Context context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  std::string signature(kSignature, '\0');
  std::size_t size = signature.size();
  auto* const bytes = reinterpret_cast<unsigned char*>(signature.data());
  if (EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key_.get()) != 1 ||
      EVP_DigestSign(context.get(), bytes, &size, Bytes(text), text.size()) != 1) {
    return "";
  }
  return signature;
}

bool Key::Verify(std::string_view text, std::string_view signature) const {
  const Context context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  return EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, key_.get()) == 1 &&
         EVP_DigestVerify(context.get(), Bytes(signature), signature.size(), Bytes(text),
                          text.size()) == 1;
}

namespace {

std::string TextOf(const Decision& decision) {
  Json json{{"version", kVersion}, {"pod", decision.pod}, {"node", decision.node}};
  json["gpus"] = decision.gpus;
  json["memory"] = decision.memory;
  json["compute"] = decision.compute;
  json["slices"] = decision.slices;
  if (!decision.isolated) {
    json["not_isolated"] = true;
  }
  for (const ContainerAsk& one : decision.containers) {
    json["containers"].push_back(Write(one));
  }
  return json.dump();
}

}  // namespace

std::string EncodeDecision(const Decision& decision, const Key& key) {
  const std::string text = TextOf(decision);
  return text + " " + Base64(key.Sign(text));
}

std::size_t BytesOf(const Decision& decision) {
  return TextOf(decision).size() + 1 + (kSignature + 2) / 3 * 4;
}

Result<> CheckParts(const std::vector<ContainerAsk>& parts) {
  if (parts.size() > kMostParts) {
    return Error{Code::kInvalid, 0,
                 std::to_string(parts.size()) +
                     " containers of the pod ask for a part of a GPU, its init containers counted",
                 "let at most " + std::to_string(kMostParts) + " ask"};
  }
  std::size_t bytes = 0;
  for (const ContainerAsk& one : parts) {
    bytes += Write(one).dump().size();
  }
  if (bytes > kMostPartsBytes) {
    return Error{Code::kInvalid, 0,
                 "what the pod's containers ask for takes " + std::to_string(bytes) +
                     " bytes, with their names",
                 "give them shorter names, or let fewer ask: " + std::to_string(kMostPartsBytes) +
                     " bytes are the most"};
  }
  return {};
}

Result<Decision> PeekDecision(std::string_view text) {
  return Read(text.substr(0, text.rfind(' ')));
}

Result<Decision> DecodeDecision(std::string_view text, const Key& key) {
  const Error unsigned_text{Code::kPermission, 0,
                            "the decision on the pod is not signed by cgpu-scheduler",
                            "delete the pod; its controller makes another one"};
  const std::size_t space = text.rfind(' ');
  if (space == std::string_view::npos) {
    return unsigned_text;
  }
  const auto signature = FromBase64(text.substr(space + 1));
  const std::string_view payload = text.substr(0, space);
  if (!signature || signature->size() != kSignature || !key.Verify(payload, *signature)) {
    return unsigned_text;
  }
  return Read(payload);
}

}  // namespace cgpu::kube
