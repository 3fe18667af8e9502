#include "apps/kubectl-inspect-cgpu/inspect.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "kube/decision.h"
#include "kube/gpus.h"
#include "kube/names.h"
#include "kube/testing.h"

namespace cgpu::kube {
namespace {

using Json = nlohmann::json;

Json Node(const char* name, const std::vector<NodeGpu>& gpus) {
  return {{"metadata", {{"name", name}, {"annotations", {{kGpus, EncodeGpus(gpus)}}}}},
          {"status",
           {{"addresses",
             {{{"type", "Hostname"}, {"address", "x"}},
              {{"type", "InternalIP"}, {"address", "10.0.0.1"}}}}}}};
}

Json Pod(const char* name, const char* memory, const std::vector<std::string>& gpus) {
  Decision decision;
  decision.pod = name;
  decision.node = "n1";
  decision.gpus = gpus;
  decision.containers.emplace_back();
  decision.containers[0].name = "main";
  Json pod{
      {"metadata", {{"name", name}, {"namespace", "default"}, {"uid", name}}},
      {"spec",
       {{"nodeName", "n1"},
        {"containers", {{{"name", "main"}, {"resources", {{"limits", {{kMemory, memory}}}}}}}}}},
      {"status", {{"phase", "Running"}}}};
  if (!gpus.empty()) {
    pod["metadata"]["annotations"][kDecision] = EncodeDecision(decision, MakeKey());
  }
  if (gpus.size() > 1) {
    pod["metadata"]["labels"][kCount] = std::to_string(gpus.size());
  }
  return pod;
}

class InspectTest : public ::testing::Test {
 protected:
  std::string Show(InspectForm form) {
    const auto text = Inspect(Json{{"items", nodes_}}.dump(), Json{{"items", pods_}}.dump(), form);
    return text.ok() ? *text : text.error().what;
  }

  Json nodes_ = {Node("n1", {{"GPU-a", 16160, true}, {"GPU-b", 16160, true}}),
                 Node("n2", {{"GPU-c", 23028, true}}),
                 {{"metadata", {{"name", "plain"}}}}};
  Json pods_ = {Pod("p1", "8", {"GPU-a", "GPU-b"}), Pod("p2", "6", {"GPU-a"})};
};

TEST_F(InspectTest, ShowsNodes) {
  EXPECT_EQ(Show(InspectForm::kNodes),
            "NAME  IPADDRESS  GPU0(Allocated/Total)  GPU1(Allocated/Total)  GPU Memory(GiB)\n"
            "n1    10.0.0.1   10/15                  4/15                   14/30\n"
            "n2    10.0.0.1   0/22                   0/0                    0/22\n"
            "------------------------------------------------------------------------------\n"
            "Allocated/Total GPU Memory In Cluster:\n"
            "14/52 (26%)\n");
}

TEST_F(InspectTest, ShowsPodsOfEachNode) {
  pods_.push_back(Pod("p3", "2", {}));
  const std::string expected =
      "\nNAME:       n1\n"
      "IPADDRESS:  10.0.0.1\n\n"
      "NAME  NAMESPACE  GPU0(Allocated)  GPU1(Allocated)  PENDING(Allocated)\n"
      "p1    default    4                4                0\n"
      "p2    default    6                0                0\n"
      "p3    default    0                0                2\n"
      "Allocated :  16 (53%)\n"
      "Total :      30\n"
      "------------------------------------------------------------------------------\n";
  EXPECT_EQ(Show(InspectForm::kDetails).substr(0, expected.size()), expected);
}

TEST_F(InspectTest, ShowsWholeGpusAndThoseForNothingElse) {
  nodes_[0] = Node("n1", {{"GPU-a", 16160, true, false}, {"GPU-b", 16160, true, true}});
  pods_ = {Pod("p1", "6", {"GPU-a"}), Pod("p2", "0", {"GPU-b"})};
  pods_[1]["spec"]["containers"][0]["resources"]["limits"] = {{kCount, "1"}};
  EXPECT_EQ(Show(InspectForm::kNodes),
            "NAME  IPADDRESS  GPU0(Allocated/Total)  GPU1(Allocated/Total)  EXCLUSIVE  "
            "GPU Memory(GiB)\n"
            "n1    10.0.0.1   6/15                   15/15                  1          21/30\n"
            "n2    10.0.0.1   0/22                   0/0                    -          0/22\n"
            "------------------------------------------------------------------------------\n"
            "Allocated/Total GPU Memory In Cluster:\n"
            "21/52 (40%)\n");
  const std::string expected =
      "\nNAME:       n1\n"
      "IPADDRESS:  10.0.0.1\n"
      "EXCLUSIVE:  1\n\n"
      "NAME  NAMESPACE  GPU0(Allocated)  GPU1(Allocated)\n"
      "p1    default    6                0\n"
      "p2    default    0                15\n"
      "Allocated :  21 (70%)\n";
  EXPECT_EQ(Show(InspectForm::kDetails).substr(0, expected.size()), expected);
  const Json gpus = Json::parse(Show(InspectForm::kJson))["nodes"][0]["gpus"];
  EXPECT_EQ(gpus[0]["exclusive"], false);
  EXPECT_EQ(gpus[1]["exclusive"], true);
  EXPECT_EQ(gpus[1]["allocatedGiB"], 15);
}

TEST_F(InspectTest, LeavesOutWhatHoldsNothing) {
  pods_[0]["status"]["phase"] = "Succeeded";
  pods_[1]["spec"].erase("nodeName");
  EXPECT_NE(Show(InspectForm::kNodes).find("0/52 (0%)"), std::string::npos);
  EXPECT_EQ(Json::parse(Show(InspectForm::kJson))["nodes"][0]["gpus"][0]["allocatedGiB"], 0);
}

TEST_F(InspectTest, RefusesWhatIsNoList) {
  EXPECT_FALSE(Inspect("", "{}", InspectForm::kNodes).ok());
  EXPECT_FALSE(Inspect("{\"items\": []}", "[]", InspectForm::kNodes).ok());
  EXPECT_TRUE(Inspect("{\"items\": []}", "{\"items\": []}", InspectForm::kNodes).ok());
}

}  // namespace
}  // namespace cgpu::kube
