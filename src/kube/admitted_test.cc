#include "kube/admitted.h"

#include <gtest/gtest.h>

#include <optional>

#include "kube/testing.h"

namespace cgpu::kube {
namespace {

class AdmittedTest : public ::testing::Test {
 protected:
  std::string Text(const std::string& pod, const std::string& gpu, std::uint32_t memory,
                   std::uint32_t compute = 0, const std::string& node = "n") {
    Decision decision;
    decision.pod = pod;
    decision.node = node;
    decision.gpus = {gpu};
    decision.memory = memory;
    decision.compute = compute;
    ContainerAsk one;
    one.name = "main";
    one.memory = memory;
    decision.containers = {one};
    return EncodeDecision(decision, key_);
  }
  // Returns nothing where it is let in.
  std::optional<Code> Admit(const std::string& pod, const std::string& text) {
    const auto decision = admitted_.Admit(pod, text, key_);
    return decision.ok() ? std::nullopt : std::optional(decision.error().code);
  }

  Key key_ = MakeKey();
  Admitted admitted_{"n", {{"GPU-a", 16160, true}, {"GPU-b", 16160, true}}};
};

TEST_F(AdmittedTest, GivesNoMoreThanThereIs) {
  EXPECT_EQ(Admit("p", Text("p", "GPU-a", 8)), std::nullopt);
  EXPECT_EQ(Admit("p", Text("p", "GPU-a", 8)), std::nullopt);  // the same once more
  EXPECT_EQ(Admit("q", Text("q", "GPU-a", 8)), Code::kExhausted);
  EXPECT_EQ(Admit("q", Text("q", "GPU-b", 8, 60)), std::nullopt);
  EXPECT_EQ(Admit("r", Text("r", "GPU-b", 1, 41)), Code::kExhausted);
  EXPECT_EQ(admitted_.Text(), Text("p", "GPU-a", 8) + "\n" + Text("q", "GPU-b", 8, 60));
  EXPECT_TRUE(admitted_.Remove("p"));
  EXPECT_FALSE(admitted_.Remove("p"));
  EXPECT_EQ(Admit("r", Text("r", "GPU-a", 15)), std::nullopt);
  EXPECT_EQ(admitted_.Pods(), (std::vector<std::string>{"q", "r"}));
}

TEST_F(AdmittedTest, TakesWhatWasDecidedForThisPodHere) {
  EXPECT_EQ(Admit("p", Text("q", "GPU-a", 1)), Code::kPermission);
  EXPECT_EQ(Admit("p", Text("p", "GPU-a", 1, 0, "other")), Code::kPermission);
  EXPECT_EQ(Admit("p", "{}"), Code::kPermission);
  EXPECT_EQ(Admit("p", Text("p", "GPU-c", 1)), Code::kNotFound);
  EXPECT_EQ(Admit("p", Text("p", "GPU-a", 1)), std::nullopt);
  EXPECT_EQ(Admit("p", Text("p", "GPU-b", 1)), Code::kConflict);
  EXPECT_TRUE(admitted_.Has("p"));
}

// Returns a decision of so many containers with names of 30 bytes.
Decision Many(std::size_t containers, const std::string& pod) {
  Decision decision;
  decision.pod = pod;
  decision.node = "n";
  decision.gpus = {"GPU-a"};
  for (std::size_t i = 0; i < containers; ++i) {
    ContainerAsk one;
    one.name = std::to_string(i + 100) + std::string(27, 'x');
    decision.containers.push_back(one);
  }
  return decision;
}

TEST_F(AdmittedTest, KeepsItsAnnotationSmall) {
  const std::string large = EncodeDecision(Many(kMostParts + 1, "large"), key_);
  EXPECT_EQ(Admit("large", large), Code::kInvalid);
  EXPECT_TRUE(admitted_.AdmitAgain("large", large, key_).ok());  // it was let in before
  EXPECT_EQ(Admit("large", large), std::nullopt);
  EXPECT_EQ(BytesOf(Many(kMostParts, "p")), EncodeDecision(Many(kMostParts, "p"), key_).size());
  std::optional<Code> refused;
  std::size_t pods = 0;
  for (; !refused && pods < 1000; ++pods) {
    const std::string pod = "p" + std::to_string(pods);
    refused = Admit(pod, EncodeDecision(Many(kMostParts, pod), key_));
  }
  EXPECT_EQ(refused, Code::kExhausted);
  EXPECT_GE(pods, 20U);
  EXPECT_LE(admitted_.Text().size(), kMostDecisionsAdmitted);
  EXPECT_TRUE(admitted_.Remove("p0"));
  EXPECT_EQ(Admit("small", Text("small", "GPU-b", 1)), std::nullopt);
}

}  // namespace
}  // namespace cgpu::kube
