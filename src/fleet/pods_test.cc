#include "fleet/pods.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace cgpu::fleet {
namespace {

using Json = nlohmann::json;
using testing::ElementsAre;
using testing::IsEmpty;

Json Pod(const std::string& name_space, const std::string& name, const std::string& node,
         const Json& labels) {
  return {{"metadata",
           {{"uid", "uid-" + name}, {"name", name}, {"namespace", name_space}, {"labels", labels}}},
          {"spec", {{"nodeName", node}}},
          {"status", {{"phase", "Running"}}}};
}

Json Exports(const std::string& name, const std::string& node, const std::string& ip) {
  Json pod = Pod("cgpu-system", name, node, {{"app", "cgpu-node"}});
  pod["spec"]["containers"] = {
      {{"name", "cgpud"}},
      {{"name", "cgpu-exporter"}, {"ports", {{{"name", "metrics"}, {"containerPort", 9400}}}}}};
  pod["status"]["podIP"] = ip;
  return pod;
}

std::vector<std::string> Names(const Pods& pods, const std::string& name_space,
                               const char* selector) {
  std::vector<std::string> names;
  for (const PodPlace& pod : pods.Find(name_space, *Selector::Parse(selector))) {
    names.push_back(pod.name + "@" + pod.node);
  }
  return names;
}

std::vector<std::string> Addresses(const Pods& pods) {
  std::vector<std::string> addresses;
  for (const Exporter& one : pods.Exporters()) {
    addresses.push_back(one.node + " " + one.address);
  }
  return addresses;
}

TEST(Pods, AreFoundByTheirLabels) {
  Pods pods("cgpu-system");
  pods.Set(Pod("a", "two", "m", {{"app", "x"}}).dump());
  pods.Set(Pod("a", "one", "n", {{"app", "x"}}).dump());
  pods.Set(Pod("a", "other", "n", {{"app", "y"}}).dump());
  pods.Set(Pod("b", "far", "n", {{"app", "x"}}).dump());
  EXPECT_THAT(Names(pods, "a", "app=x"), ElementsAre("one@n", "two@m"));
  EXPECT_THAT(Names(pods, "a", ""), ElementsAre("one@n", "other@n", "two@m"));
  EXPECT_THAT(Names(pods, "c", ""), IsEmpty());
  pods.Remove("uid-one");
  pods.Remove("uid-none");
  EXPECT_THAT(Names(pods, "a", "app=x"), ElementsAre("two@m"));
  pods.Reset();
  EXPECT_THAT(Names(pods, "a", ""), IsEmpty());
}

TEST(Pods, ThatHaveEndedOrWaitDoNotCount) {
  Pods pods("cgpu-system");
  Json pod = Pod("a", "one", "", {{"app", "x"}});
  pods.Set(pod.dump());
  EXPECT_THAT(Names(pods, "a", ""), IsEmpty());
  pod["spec"]["nodeName"] = "n";
  pods.Set(pod.dump());
  EXPECT_THAT(Names(pods, "a", ""), ElementsAre("one@n"));
  pod["status"]["phase"] = "Failed";
  pods.Set(pod.dump());
  EXPECT_THAT(Names(pods, "a", ""), IsEmpty());
  for (const char* text :
       {"", "[]", "{", "3", R"({"metadata":3})", R"({"metadata":{"uid":"u"}})"}) {
    pods.Set(text);
  }
  EXPECT_THAT(Names(pods, "", ""), IsEmpty());
}

TEST(Pods, OfTheDaemonSetHaveAnExporter) {
  Pods pods("cgpu-system");
  pods.Set(Exports("one", "n", "10.0.0.1").dump());
  pods.Set(Exports("two", "m", "fd00::1").dump());
  pods.Set(Exports("new", "k", "").dump());
  Json elsewhere = Exports("elsewhere", "l", "10.0.0.2");
  elsewhere["metadata"]["namespace"] = "default";
  pods.Set(elsewhere.dump());
  pods.Set(Pod("cgpu-system", "other", "l", {{"app", "other"}}).dump());
  EXPECT_THAT(Addresses(pods), ElementsAre("k ", "m [fd00::1]:9400", "n 10.0.0.1:9400"));
}

TEST(Pods, ThatLeaveGiveWayToTheirSuccessors) {
  Pods pods("cgpu-system");
  Json old = Exports("z-old", "n", "10.0.0.1");
  old["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z";
  pods.Set(old.dump());
  pods.Set(Exports("new", "n", "").dump());
  EXPECT_THAT(Addresses(pods), ElementsAre("n 10.0.0.1:9400"));
  pods.Set(Exports("new", "n", "10.0.0.0").dump());
  EXPECT_THAT(Addresses(pods), ElementsAre("n 10.0.0.0:9400"));
}

}  // namespace
}  // namespace cgpu::fleet
