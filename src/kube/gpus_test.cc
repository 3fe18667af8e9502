#include "kube/gpus.h"

#include <gtest/gtest.h>

namespace cgpu::kube {
namespace {

TEST(Gpus, AreReadAsTheyWereWritten) {
  const std::vector<NodeGpu> gpus{{"GPU-a", 16160, true, true}, {"GPU-b", 23028, false}};
  const auto read = DecodeGpus(EncodeGpus(gpus));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(*read, gpus);
  EXPECT_EQ(gpus[0].units(), 15U);
  EXPECT_EQ(gpus[1].units(), 22U);
}

TEST(Gpus, AreExclusiveByUuidOrIndex) {
  std::vector<NodeGpu> gpus{{"GPU-a", 1}, {"GPU-b", 1}, {"GPU-c", 1}};
  const auto marked = [&](const char* text) {
    std::string words;
    for (const std::string& word : MarkExclusive(text, gpus)) {
      words += "?" + word;
    }
    for (const NodeGpu& gpu : gpus) {
      words += gpu.exclusive ? "x" : "-";
    }
    return words;
  };
  EXPECT_EQ(marked("0,GPU-c"), "x-x");
  EXPECT_EQ(marked("1"), "-x-");
  EXPECT_EQ(marked("3,GPU-x,2"), "?3?GPU-x--x");
  EXPECT_EQ(marked(""), "---");
}

TEST(Gpus, AreRefusedWhereSomethingIsMissing) {
  for (const char* text :
       {"", "{}", "[1]", R"([{"uuid":"a","mib":1}])", R"([{"uuid":"","mib":1,"healthy":true}])",
        R"([{"uuid":"a","mib":-1,"healthy":true}])", R"([{"uuid":"a","mib":1,"healthy":1}])"}) {
    EXPECT_FALSE(DecodeGpus(text).ok()) << text;
  }
}

TEST(Node, IsReadFromItsLabels) {
  const auto node = ReadNode(R"({"metadata": {"name": "n", "labels": {
      "ack.node.gpu.schedule": "core_mem", "ack.node.gpu.placement": "spread",
      "aliyun.accelerator/nvidia_name": "Tesla-V100"}, "annotations": {
      "cgpu.dev/gpus": "[{\"uuid\":\"GPU-a\",\"mib\":16160,\"healthy\":true}]"}}})");
  ASSERT_TRUE(node.ok());
  EXPECT_EQ(node->name, "n");
  EXPECT_EQ(node->model, "Tesla-V100");
  EXPECT_EQ(node->mode, Mode::kCoreMem);
  EXPECT_EQ(node->placement, Placement::kSpread);
  ASSERT_EQ(node->gpus.size(), 1U);
  const auto plain = ReadNode(R"({"metadata": {"name": "n"}})");
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(plain->mode, Mode::kNone);
  EXPECT_EQ(plain->placement, Placement::kBinpack);
  EXPECT_TRUE(plain->gpus.empty());
  for (const char* text :
       {"", "{}", R"({"metadata": {}})", R"({"metadata": 1})",
        R"({"metadata": {"name": "n", "annotations": {"cgpu.dev/gpus": "x"}}})"}) {
    EXPECT_FALSE(ReadNode(text).ok()) << text;
  }
}

TEST(Node, HasAModeAndAPlacement) {
  EXPECT_EQ(ModeOf("cgpu"), Mode::kCgpu);
  EXPECT_EQ(ModeOf("share"), Mode::kShare);
  EXPECT_EQ(ModeOf("default"), Mode::kNone);
  EXPECT_EQ(PlacementOf("binpack"), Placement::kBinpack);
  EXPECT_EQ(PlacementOf("fragmentation"), Placement::kFragmentation);
}

}  // namespace
}  // namespace cgpu::kube
