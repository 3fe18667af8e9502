#include "kube/decision.h"

#include <gtest/gtest.h>

#include "kube/testing.h"

namespace cgpu::kube {
namespace {

Decision Example() {
  Decision decision;
  decision.pod = "u-1";
  decision.node = "node1";
  decision.gpus = {"GPU-a", "GPU-b"};
  ContainerAsk one;
  one.name = "main";
  one.memory = 8;
  one.compute = 30;
  decision.containers = {one};
  return decision;
}

TEST(Decision, IsReadAsItWasSigned) {
  const PemKey pem = MakePemKey();
  const auto key = Key::ReadPrivate(pem.whole);
  ASSERT_TRUE(key.ok());
  const std::string text = EncodeDecision(Example(), *key);
  // The node has the public key alone.
  const auto read = DecodeDecision(text, *Key::ReadPublic(pem.public_part));
  ASSERT_TRUE(read.ok()) << read.error().what;
  EXPECT_EQ(read->pod, "u-1");
  EXPECT_EQ(read->node, "node1");
  EXPECT_EQ(read->gpus, Example().gpus);
  ASSERT_NE(read->Find("main"), nullptr);
  EXPECT_EQ(read->Find("main")->memory, 8U);
  EXPECT_EQ(read->Find("main")->compute, 30U);
  EXPECT_EQ(read->Find("main")->weight, 1U);
  EXPECT_FALSE(read->Find("main")->high_priority);
  EXPECT_EQ(read->Find("other"), nullptr);
  EXPECT_TRUE(read->isolated);
  Decision whole = Example();
  whole.isolated = false;
  EXPECT_FALSE(DecodeDecision(EncodeDecision(whole, *key), *key)->isolated);
}

TEST(Decision, HasWeightAndPriority) {
  Decision decision = Example();
  decision.memory = 6;
  decision.compute = 15;
  decision.slices = 2;
  ContainerAsk one = decision.containers[0];
  one.name = "side";
  one.weight = 4;
  one.high_priority = true;
  decision.containers.push_back(one);
  const auto read = PeekDecision(EncodeDecision(decision, MakeKey()));
  ASSERT_TRUE(read.ok()) << read.error().what;
  EXPECT_EQ(read->Find("side")->weight, 4U);
  EXPECT_TRUE(read->Find("side")->high_priority);
  EXPECT_EQ(read->Find("main")->weight, 1U);
  EXPECT_FALSE(read->Find("main")->high_priority);
  EXPECT_EQ(read->Takes(), decision.Takes());
  EXPECT_EQ(read->Takes().gpus, 2U);
  EXPECT_EQ(read->Takes().memory, 6U);
  EXPECT_EQ(read->Takes().compute, 15U);
  EXPECT_EQ(read->Takes().slices, 2U);
}

// As it was written before it had sums, weights and priorities.
TEST(Decision, IsReadInItsFirstForm) {
  const auto read = PeekDecision(R"({"containers":[{"compute":30,"memory":8,"name":"main"},)"
                                 R"({"compute":0,"memory":2,"name":"side"}],"gpus":["GPU-a"],)"
                                 R"("node":"node1","pod":"u-1","version":1} signature)");
  ASSERT_TRUE(read.ok()) << read.error().what;
  EXPECT_EQ(read->Find("main")->weight, 1U);
  EXPECT_FALSE(read->Find("main")->high_priority);
  EXPECT_EQ(read->Takes().memory, 10U);
  EXPECT_EQ(read->Takes().compute, 31U);
  EXPECT_EQ(read->Takes().slices, 2U);
}

TEST(Decision, IsRefusedWhereACharacterIsChanged) {
  const Key key = MakeKey();
  const std::string text = EncodeDecision(Example(), key);
  for (std::size_t i = 0; i < text.size(); ++i) {
    for (const char other : {'0', 'B', ' '}) {
      std::string changed = text;
      changed[i] = other;
      // The last characters of base64 stand for nothing.
      if (changed == text || i + 3 >= text.size()) {
        continue;
      }
      const auto read = DecodeDecision(changed, key);
      ASSERT_FALSE(read.ok()) << i << other;
      EXPECT_EQ(read.error().code, Code::kPermission);
    }
  }
  for (std::size_t size = 0; size < text.size(); ++size) {
    ASSERT_FALSE(DecodeDecision(text.substr(0, size), key).ok()) << size;
  }
}

TEST(Decision, IsRefusedWhereAnotherSignedIt) {
  EXPECT_EQ(DecodeDecision(EncodeDecision(Example(), MakeKey()), MakeKey()).error().code,
            Code::kPermission);
}

TEST(Key, IsNoOtherText) {
  EXPECT_FALSE(Key::ReadPrivate("").ok());
  EXPECT_FALSE(Key::ReadPublic("-----BEGIN PUBLIC KEY-----\n-----END PUBLIC KEY-----\n").ok());
  const PemKey pem = MakePemKey();
  EXPECT_FALSE(Key::ReadPrivate(pem.public_part).ok());
  EXPECT_FALSE(Key::ReadPublic(pem.whole).ok());
}

// Made by `helm template`: genPrivateKey "ed25519" and genSelfSignedCertWithKey.
constexpr char kPrivate[] =
    "-----BEGIN PRIVATE KEY-----\n"
    "MC4CAQAwBQYDK2VwBCIEIMSnOUHZBqf12B+xaHCEKC0D9hdYWIG6C5SllLySvw9j\n"
    "-----END PRIVATE KEY-----\n";
constexpr char kCertificate[] =
    "-----BEGIN CERTIFICATE-----\n"
    "MIIBFDCBx6ADAgECAhADoykB5hgTfwOcAqy9RFVyMAUGAytlcDAMMQowCAYDVQQD\n"
    "EwF4MB4XDTI2MTEyNTIyMDkzN1oXDTM2MTEyMjIyMDkzN1owDDEKMAgGA1UEAxMB\n"
    "eDAqMAUGAytlcAMhACYnBPiKFMhO4bD223wm5qUaNdnnpyhLtWKj1M03pJsJoz8w\n"
    "PTAOBgNVHQ8BAf8EBAMCBaAwHQYDVR0lBBYwFAYIKwYBBQUHAwEGCCsGAQUFBwMC\n"
    "MAwGA1UdEwEB/wQCMAAwBQYDK2VwA0EA81abacixTrpaqoBjkFmpfyQlGHqejyQq\n"
    "Jx89Td1YWdr9+0TOH1Tq/lbDZ2J7nqFRtA2KFKHc/SN3c46XldP4Bg==\n"
    "-----END CERTIFICATE-----\n";

TEST(Key, IsReadOfItsCertificate) {
  const auto key = Key::ReadPrivate(kPrivate);
  const auto certified = Key::ReadPublic(kCertificate);
  ASSERT_TRUE(key.ok());
  ASSERT_TRUE(certified.ok()) << certified.error().what;
  EXPECT_TRUE(certified->Verify("text", key->Sign("text")));
  EXPECT_FALSE(certified->Verify("text", MakeKey().Sign("text")));
}

}  // namespace
}  // namespace cgpu::kube
