#include "fleet/custom_metrics.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "fleet/answer_testing.h"

namespace cgpu::fleet {
namespace {

using Json = nlohmann::json;

constexpr char kPath[] = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/n/pods/";

// A node with the pods "busy" and "idle" of namespace n; each has half of a GPU.
class CustomMetricsTest : public ::testing::Test {
 protected:
  CustomMetricsTest() {
    Set("cgpu-node-1", "cgpu-system", "cgpu-node");
    Set("busy", "n", "x");
    Set("idle", "n", "x");
    Set("without", "n", "x");
    Set("busy", "other", "x");
    fleet_.Refresh(now_ = 1000);
    now_ = 1010;
  }

  void Set(const std::string& name, const std::string& name_space, const std::string& app) {
    pods_.Set(Json{{"metadata",
                    {{"uid", name_space + name},
                     {"name", name},
                     {"namespace", name_space},
                     {"labels", {{"app", app}, {"name", name}}}}},
                   {"spec", {{"nodeName", "a"}}}}
                  .dump());
  }

  Result<std::string> Overview() const {
    return MakeAnswer(now_,
                      {MakeContainer("i", "busy", {MakePlace("G", 0.5, now_ * 0.45, now_ * 0.25)}),
                       MakeContainer("j", "idle", {MakePlace("G", 0.5, 7, 0)})});
  }

  MetricsAnswer Ask(const std::string& path, const std::string& labels = "",
                    const std::string& metric_labels = "") {
    return metrics_.Answer({path, labels, metric_labels}, now_);
  }

  // Returns "NAME VALUE" of each item.
  std::vector<std::string> Values(const std::string& path, const std::string& labels = "") {
    const auto answer = Ask(kPath + path, labels);
    EXPECT_EQ(answer.status, 200) << answer.json;
    std::vector<std::string> values;
    const Json list = Json::parse(answer.json);
    for (const Json& item : list["items"]) {
      values.push_back(item["describedObject"]["name"].get<std::string>() + " " +
                       item["value"].get<std::string>());
    }
    return values;
  }

  using Texts = std::vector<std::string>;

  double now_ = 0;
  Pods pods_{"cgpu-system"};
  Fleet fleet_{pods_, [this](const std::vector<Exporter>& exporters) {
                 return std::vector<Result<std::string>>(exporters.size(), Overview());
               }};
  CustomMetrics metrics_{pods_, fleet_};
};

TEST_F(CustomMetricsTest, AreListedForDiscovery) {
  for (const char* version : {"v1beta1", "v1beta2"}) {
    const auto answer = Ask(std::string("/apis/custom.metrics.k8s.io/") + version);
    EXPECT_EQ(answer.status, 200);
    const Json list = Json::parse(answer.json);
    EXPECT_EQ(list["kind"], "APIResourceList");
    EXPECT_EQ(list["groupVersion"], std::string("custom.metrics.k8s.io/") + version);
    ASSERT_EQ(list["resources"].size(), 4U);
    EXPECT_EQ(list["resources"][2], (Json{{"name", "pods/cgpu_share_used"},
                                          {"singularName", ""},
                                          {"namespaced", true},
                                          {"kind", "MetricValueList"},
                                          {"verbs", {"get"}}}));
  }
}

TEST_F(CustomMetricsTest, AreGivenForPodsByTheirLabels) {
  EXPECT_EQ(Values("*/cgpu_share_used"), (Texts{"busy 900m", "idle 0m"}));
  EXPECT_EQ(Values("*/cgpu_share_used", "app=x,name!=idle"), (Texts{"busy 900m"}));
  EXPECT_EQ(Values("*/cgpu_busy"), (Texts{"busy 450m", "idle 0m"}));
  EXPECT_EQ(Values("*/cgpu_waiting"), (Texts{"busy 250m", "idle 0m"}));
  EXPECT_EQ(Values("*/cgpu_memory_used"), (Texts{"busy 250m", "idle 250m"}));
  EXPECT_EQ(Values("*/cgpu_busy", "app=none"), Texts{});
  EXPECT_EQ(Values("idle/cgpu_busy"), (Texts{"idle 0m"}));
}

TEST_F(CustomMetricsTest, HaveTheFormsOfBothVersions) {
  const Json described{{"kind", "Pod"}, {"apiVersion", "v1"}, {"namespace", "n"}, {"name", "busy"}};
  Json list = Json::parse(Ask(std::string(kPath) + "busy/cgpu_busy").json);
  EXPECT_EQ(list["apiVersion"], "custom.metrics.k8s.io/v1beta2");
  EXPECT_EQ(list["kind"], "MetricValueList");
  EXPECT_EQ(list["items"], Json::array({{{"describedObject", described},
                                         {"metric", {{"name", "cgpu_busy"}, {"selector", nullptr}}},
                                         {"timestamp", "1970-01-01T00:16:50Z"},
                                         {"windowSeconds", 10},
                                         {"value", "450m"}}}));
  list =
      Json::parse(Ask("/apis/custom.metrics.k8s.io/v1beta1/namespaces/n/pods/busy/cgpu_busy").json);
  EXPECT_EQ(list["apiVersion"], "custom.metrics.k8s.io/v1beta1");
  EXPECT_EQ(list["items"], Json::array({{{"describedObject", described},
                                         {"metricName", "cgpu_busy"},
                                         {"selector", nullptr},
                                         {"timestamp", "1970-01-01T00:16:50Z"},
                                         {"window", 10},
                                         {"value", "450m"}}}));
}

TEST_F(CustomMetricsTest, OfOthersAreNotFound) {
  for (const char* path :
       {"", "/", "/apis", "/apis/custom.metrics.k8s.io/", "/apis/custom.metrics.k8s.io/v1",
        "/apis/custom.metrics.k8s.io/v1beta2/",
        "/apis/custom.metrics.k8s.io/v1beta2/nodes/a/cgpu_busy",
        "/apis/custom.metrics.k8s.io/v1beta2/namespaces/n/services/busy/cgpu_busy",
        "/apis/custom.metrics.k8s.io/v1beta2/namespaces/n/pods/busy",
        "/apis/custom.metrics.k8s.io/v1beta2/namespaces/n/pods/busy/none",
        "/apis/custom.metrics.k8s.io/v1beta2/namespaces/n/pods/busy/cgpu_busy/x",
        "/apis/custom.metrics.k8s.io/v1beta2/namespaces/n/pods/none/cgpu_busy",
        "/apis/custom.metrics.k8s.io/v1beta2/namespaces/n/pods/without/cgpu_busy",
        "/apis/custom.metrics.k8s.io/v1beta2/namespaces/other/pods/busy/cgpu_busy"}) {
    const auto answer = Ask(path);
    EXPECT_EQ(answer.status, 404) << path;
    const Json status = Json::parse(answer.json);
    EXPECT_EQ(status["kind"], "Status");
    EXPECT_EQ(status["reason"], "NotFound");
    EXPECT_EQ(status["code"], 404);
  }
}

TEST_F(CustomMetricsTest, AreNotGivenForAWrongSelector) {
  for (const auto& answer : {Ask(std::string(kPath) + "*/cgpu_busy", "a=b=c"),
                             Ask(std::string(kPath) + "*/cgpu_busy", "", "a=b")}) {
    EXPECT_EQ(answer.status, 400);
    EXPECT_EQ(Json::parse(answer.json)["reason"], "BadRequest");
  }
}

}  // namespace
}  // namespace cgpu::fleet
