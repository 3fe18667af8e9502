#include "sandbox/tree_words.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace cgpu {
namespace {

std::string EveryByte() {
  std::string text;
  for (int byte = 0; byte < 256; ++byte) {
    text += static_cast<char>(byte);
  }
  return text;
}

void ExpectSame(const GpuTree& a, const GpuTree& b) {
  ASSERT_EQ(a.devices.size(), b.devices.size());
  for (std::size_t i = 0; i < a.devices.size(); ++i) {
    EXPECT_EQ(a.devices[i].name, b.devices[i].name);
    EXPECT_EQ(a.devices[i].source, b.devices[i].source);
    EXPECT_EQ(a.devices[i].via_folder, b.devices[i].via_folder);
  }
  EXPECT_EQ(a.proc_source, b.proc_source);
  EXPECT_EQ(a.pci_source, b.pci_source);
  EXPECT_EQ(a.bdfs, b.bdfs);
  EXPECT_EQ(a.hide, b.hide);
  EXPECT_EQ(a.own, b.own);
  EXPECT_EQ(a.prover, b.prover);
}

void ExpectRoundTrip(const GpuTree& tree) {
  const std::vector<std::string> words = TreeWords(tree);
  for (const std::string& word : words) {
    for (const char c : word) {
      EXPECT_TRUE(c > ' ' && c < 0x7f) << word;
    }
  }
  const auto back = TreeFromWords(words);
  ASSERT_TRUE(back.ok()) << back.error().what;
  ExpectSame(tree, *back);
}

TEST(TreeWords, ComeBackAsTheyWere) {
  GpuTree tree;
  ExpectRoundTrip(tree);
  tree.devices = {{"nvidiactl", "/run/node/mnt/dev/ctl", true},
                  {"nvidia0", "/dev/nvidia0", false},
                  {"nvidia1", "/run/node/mnt/dev/gpu1", true}};
  tree.proc_source = "/run/node/mnt/proc/driver/nvidia";
  tree.pci_source = "/run/node/mnt/sys/bus/pci";
  tree.bdfs = {"0000:05:00.0", "0000:06:00.0"};
  tree.hide = {"/run/node", "", "/run/other"};
  tree.own = {"/run/node", "/etc/node"};
  tree.prover = "/usr/bin/cgpu-runtime";
  ExpectRoundTrip(tree);
}

TEST(TreeWords, CarryEveryByteAndWordsThatLookLikeOurs) {
  GpuTree tree;
  tree.devices = {{EveryByte(), "--proc", true}, {"", EveryByte() + EveryByte(), false}};
  tree.proc_source = "--hide";
  tree.pci_source = "%41%";
  tree.bdfs = {"--bdf", EveryByte()};
  tree.hide = {"%%", " "};
  ExpectRoundTrip(tree);
}

TEST(TreeWords, WhatNobodyWroteIsRefused) {
  const std::vector<std::vector<std::string>> wrong = {
      {"--proc"},          {"--folder", "nvidia0"}, {"--device"},     {"nvidia0"},
      {"--shield", "yes"}, {"--proc", "%"},         {"--proc", "%4"}, {"--proc", "/a%zz"},
      {"--proc", "%+1"},   {"--bdf", "x", "--bdf"}, {"", ""},         {"--proc", "/a", "/b"},
  };
  for (const auto& words : wrong) {
    const auto tree = TreeFromWords(words);
    ASSERT_FALSE(tree.ok()) << words.front();
    EXPECT_EQ(tree.error().code, Code::kInvalid);
  }
}

}  // namespace
}  // namespace cgpu
