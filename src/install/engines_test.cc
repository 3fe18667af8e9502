#include "install/engines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "base/file.h"
#include "install/toml_text.h"

namespace cgpu::install {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kProgram = "/usr/bin/cgpu-runtime";

std::string Text(const Result<std::optional<std::string>>& result) {
  return result.ok() ? result->value_or("no file") : "error: " + result.error().what;
}

std::string Text(const Result<Edit>& result) {
  return result.ok() ? *result->after : "error: " + result.error().what;
}

std::string Data(const std::string& name) {
  const auto text = ReadFile(std::string(CGPU_TESTDATA) + "/" + name);
  return text.ok() ? *text : "error: " + text.error().what;
}

// Returns JSON without blanks, in its order.
std::string Compact(const std::string& text) {
  return nlohmann::ordered_json::parse(text, nullptr, false).dump();
}

std::string Added(Engine engine, const std::optional<std::string>& text, bool set_default = false) {
  return Text(AddEntry(engine, text, kProgram, set_default));
}

struct Golden {
  Engine engine;
  std::string name;
  std::string suffix;
};

// Reads VERSION of a configuration: before, after, default.
std::string Data(const Golden& golden, const std::string& version) {
  std::string name = golden.name;
  name.append(".").append(version).append(golden.suffix);
  return Data(name);
}

class GoldenTest : public ::testing::TestWithParam<Golden> {};

// testdata/NAME.before is a configuration of that engine, NAME.after the same with the runtime,
// NAME.default with the runtime as the default one.
TEST_P(GoldenTest, TheRuntimeIsAdded) {
  const Engine engine = GetParam().engine;
  const bool made = GetParam().name.ends_with("-made");
  const auto before = made ? std::nullopt : std::optional(Data(GetParam(), "before"));
  EXPECT_EQ(Added(engine, before), Data(GetParam(), "after"));
  EXPECT_EQ(Added(engine, before, true), Data(GetParam(), "default"));
}

TEST_P(GoldenTest, ASecondTimeNothingIsAdded) {
  const Engine engine = GetParam().engine;
  for (const std::string version : {"after", "default"}) {
    const std::string text = Data(GetParam(), version);
    EXPECT_EQ(Added(engine, text), text);
    EXPECT_EQ(FindEntry(engine, text)->path, kProgram);
    EXPECT_EQ(FindEntry(engine, text)->is_default, version == "default");
  }
  EXPECT_EQ(Added(engine, Data(GetParam(), "default"), true), Data(GetParam(), "default"));
}

TEST_P(GoldenTest, AnotherProgramIsRefused) {
  const Engine engine = GetParam().engine;
  const auto other = AddEntry(engine, Data(GetParam(), "after"), "/opt/other", false);
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().code, Code::kConflict);
  EXPECT_THAT(other.error().what, HasSubstr(kProgram));
}

TEST_P(GoldenTest, TheRuntimeIsTakenOut) {
  const Engine engine = GetParam().engine;
  const bool made = GetParam().name.ends_with("-made");
  const auto before = made ? std::nullopt : std::optional(Data(GetParam(), "before"));
  for (const std::string version : {"after", "default"}) {
    const std::string text = Data(GetParam(), version);
    EXPECT_EQ(*RemoveEntry(engine, text, before), before);
    const std::string more = engine == Engine::kDocker ? Compact(text).insert(1, "\"debug\":true,")
                                                       : text + "[added]\nmeanwhile = 1\n";
    const std::string rest = Text(RemoveEntry(engine, more, before));
    if (engine == Engine::kDocker) {
      EXPECT_EQ(Compact(rest),
                made ? "{\"debug\":true}" : Compact(*before).insert(1, "\"debug\":true,"));
    } else {
      EXPECT_EQ(rest, before.value_or("") + "[added]\nmeanwhile = 1\n");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Configurations, GoldenTest,
    ::testing::Values(Golden{Engine::kDocker, "docker-made", ".json"},
                      Golden{Engine::kDocker, "docker-usual", ".json"},
                      Golden{Engine::kDocker, "docker-nvidia", ".json"},
                      Golden{Engine::kContainerd, "containerd-made", ".toml"},
                      Golden{Engine::kContainerd, "containerd-1.6", ".toml"},
                      Golden{Engine::kContainerd, "containerd-debian12", ".toml"},
                      Golden{Engine::kContainerd, "containerd-docker-package", ".toml"},
                      Golden{Engine::kContainerd, "containerd-2", ".toml"},
                      Golden{Engine::kCrio, "crio-made", ".conf"},
                      Golden{Engine::kCrio, "crio-main", ".toml"},
                      Golden{Engine::kPodman, "podman-made", ".conf"},
                      Golden{Engine::kPodman, "podman-main", ".toml"}),
    [](const auto& test) {
      std::string name = test.param.name;
      std::replace_if(name.begin(), name.end(), [](char c) { return c == '-' || c == '.'; }, '_');
      return name;
    });

TEST(EnginesTest, FactsAreFoundByEngine) {
  for (const EngineFacts& facts : Engines()) {
    EXPECT_EQ(FactsOf(facts.engine).name, facts.name);
  }
}

TEST(EnginesTest, WhatIsNotTheEnginesFormatIsRefused) {
  EXPECT_THAT(Added(Engine::kDocker, "version = 2\n"), HasSubstr("is not valid JSON"));
  EXPECT_THAT(Added(Engine::kContainerd, "{\"a\": 1}"), HasSubstr("is not valid TOML"));
  EXPECT_EQ(Added(Engine::kContainerd, "version = 5\n"),
            "error: has a version that is not 1, 2, 3 or 4");
  EXPECT_EQ(Added(Engine::kContainerd, "version = 'two'\n"),
            "error: has a version that is not 1, 2, 3 or 4");
}

TEST(EnginesTest, JsonThatIsWrongOrNotClearIsRefused) {
  for (const char* text : {"{\"a\": 1,}", "{ // no\n}", "{\"a\": 1} x", "{'a': 1}",
                           "{\"a\": \"\xFF\"}", "{", "nothing"}) {
    EXPECT_THAT(Added(Engine::kDocker, text),
                HasSubstr("is not valid JSON: parse error at line 1"));
  }
  EXPECT_EQ(Added(Engine::kDocker, "[1]"), "error: is not a JSON object");
  EXPECT_EQ(Added(Engine::kDocker, R"({"runtimes": []})"),
            "error: has something else than an object as \"runtimes\"");
  EXPECT_EQ(Text(AddEntry(Engine::kDocker, "{}", "/\xFF", false)),
            "error: would get a text that is not UTF-8");
}

TEST(EnginesTest, JsonKeepsItsOrderAndItsIndentation) {
  EXPECT_EQ(Added(Engine::kDocker, "{\n  \"z\": 1,\n  \"a\": [ ]\n}"),
            "{\n  \"z\": 1,\n  \"a\": [],\n  \"runtimes\": {\n    \"cgpu\": {\n"
            "      \"path\": \"/usr/bin/cgpu-runtime\"\n    }\n  }\n}\n");
  EXPECT_THAT(Added(Engine::kDocker, "{\n\t\"z\": 1\n}"), HasSubstr("\n\t\t\"cgpu\""));
}

TEST(EnginesTest, ContainerdsVersionSaysWhereTheRuntimeGoes) {
  EXPECT_THAT(Added(Engine::kContainerd, "oom_score = 1\n"),
              HasSubstr("[plugins.cri.containerd.runtimes.cgpu]"));
  EXPECT_THAT(Added(Engine::kContainerd, "version = 2\n"),
              HasSubstr("[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.cgpu]"));
  for (const char* version : {"version = 3\n", "version = 4\n"}) {
    EXPECT_THAT(Added(Engine::kContainerd, version),
                HasSubstr("[plugins.\"io.containerd.cri.v1.runtime\".containerd.runtimes.cgpu]"));
  }
}

// containerd 1 drops its built-in runc as soon as a file names a runtime.
TEST(EnginesTest, ContainerdKeepsItsBuiltInRunc) {
  const Path runc = {"plugins", "io.containerd.grpc.v1.cri", "containerd", "runtimes", "runc"};
  const std::string text = Added(Engine::kContainerd, "version = 2\n");
  EXPECT_TRUE(TomlText::Parse(text)->Has(runc));
  EXPECT_THAT(Added(Engine::kContainerd, "version = 3\n"), Not(HasSubstr("runtimes.runc")));
  // Another runtime came after cgpu: now runc is what keeps the default one.
  const std::string more =
      text +
      "[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.kata]\nruntime_type = \"k\"\n";
  const std::string rest = Text(RemoveEntry(Engine::kContainerd, more, "version = 2\n"));
  EXPECT_TRUE(TomlText::Parse(rest)->Has(runc)) << rest;
  EXPECT_EQ(FindEntry(Engine::kContainerd, rest)->path, std::nullopt);
}

TEST(EnginesTest, AnImportedFileTakesSettingsFromTheOneThatImportsIt) {
  const std::string main = Data("containerd-2.before.toml");
  const auto added = AddEntry(Engine::kContainerd, std::nullopt, kProgram, true, main);
  const std::string text = Text(added);
  EXPECT_THAT(text, HasSubstr("version = 3"));
  EXPECT_THAT(text, HasSubstr("SystemdCgroup = true"));
  EXPECT_THAT(text, HasSubstr("base_runtime_spec = \"/etc/containerd/base.json\""));
  EXPECT_THAT(text, HasSubstr("default_runtime_name = \"cgpu\""));
  EXPECT_THAT(text, HasSubstr(added->gets));
  EXPECT_EQ(*RemoveEntry(Engine::kContainerd, text, std::nullopt), std::nullopt);
}

TEST(EnginesTest, SettingsComeFromTheDefaultRuntime) {
  const std::string runtimes = "plugins.\"io.containerd.grpc.v1.cri\".containerd";
  const std::string text =
      "version = 2\n[" + runtimes + "]\ndefault_runtime_name = \"nvidia\"\n[" + runtimes +
      ".runtimes.runc]\nruntime_type = \"io.containerd.runc.v2\"\n[" + runtimes +
      ".runtimes.nvidia]\nruntime_type = \"io.containerd.runc.v2\"\n"
      "cni_max_conf_num = 1\n[" +
      runtimes +
      ".runtimes.nvidia.options]\nSystemdCgroup = true\n"
      "BinaryName = \"/usr/bin/nvidia-container-runtime\"\n";
  const std::string added = Added(Engine::kContainerd, text).substr(text.size());
  EXPECT_THAT(added, HasSubstr("SystemdCgroup = true"));
  EXPECT_THAT(added, HasSubstr("cni_max_conf_num = 1"));
  EXPECT_THAT(added, Not(HasSubstr("nvidia-container-runtime")));
}

TEST(EnginesTest, WhatOthersAddedStays) {
  const std::string text =
      "{\"default-runtime\": \"cgpu\", \"runtimes\": {\"cgpu\": {\"path\": \"/r\"}, \"kata\": "
      "{\"path\": \"/k\"}}, \"debug\": true}";
  EXPECT_EQ(Compact(Text(RemoveEntry(Engine::kDocker, text, "{\"debug\": false}"))),
            R"({"runtimes":{"kata":{"path":"/k"}},"debug":true})");
}

// Docker and containerd do not start with a default runtime that they do not know.
TEST(EnginesTest, AnEarlierDefaultThatIsGoneDoesNotComeBack) {
  const std::string original = Data("docker-nvidia.before.json");
  const std::string text =
      "{\"default-runtime\": \"cgpu\", \"runtimes\": {\"cgpu\": {\"path\": \"/r\"}}}";
  EXPECT_EQ(Text(RemoveEntry(Engine::kDocker, text, original)), "{\n    \"runtimes\": {}\n}\n");
  const std::string kata = "[plugins.cri.containerd.runtimes.kata]\nruntime_type = \"k\"\n";
  std::string toml =
      Added(Engine::kContainerd,
            "[plugins.cri.containerd]\ndefault_runtime_name = \"kata\"\n" + kata, true);
  EXPECT_THAT(Text(RemoveEntry(Engine::kContainerd, toml, std::nullopt)), HasSubstr("\"kata\""));
  toml.erase(toml.find(kata), kata.size());
  EXPECT_EQ(Text(RemoveEntry(Engine::kContainerd, toml, std::nullopt)),
            "error: would get back its default runtime \"kata\", which it has no more");
}

// nvidia-ctk writes a file again without comments, and in another order.
TEST(EnginesTest, ARuntimeWithoutMarksIsNotTakenOut) {
  for (const std::string text : {"[engine]\nruntime = \"cgpu\"\n",
                                 "[engine.runtimes]\ncgpu = [\"/usr/bin/cgpu-runtime\"]\n"}) {
    EXPECT_EQ(Text(RemoveEntry(Engine::kPodman, text, std::nullopt)),
              "error: has a runtime cgpu that is not between the marks of `cgpu install`");
  }
}

TEST(EnginesTest, ImportsAreMergedFromVersion3On) {
  EXPECT_FALSE(ImportsOf("version = 2\nimports = [\"a\", \"b\"]\n")->merged);
  const auto imports = ImportsOf("version = 3\nimports = [\"/c/*.toml\"]\n");
  EXPECT_TRUE(imports->merged);
  EXPECT_EQ(imports->patterns, std::vector<std::string>{"/c/*.toml"});
  EXPECT_TRUE(*ConfiguresCri("[plugins.\"io.containerd.grpc.v1.cri\".registry]\n"));
  EXPECT_FALSE(*ConfiguresCri("[plugins.\"io.containerd.internal.v1.opt\"]\n"));
  EXPECT_TRUE(DisablesCri("disabled_plugins = [\"cri\"]\n"));
  EXPECT_FALSE(DisablesCri("disabled_plugins = [\"io.containerd.internal.v1.opt\"]\n"));
}

}  // namespace
}  // namespace cgpu::install
