#include "shim/handover.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/file.h"
#include "base/state.h"
#include "boundary/boundary.h"
#include "boundary/quotas.h"
#include "ledger/ledger.h"
#include "rm/abi.h"

namespace cgpu::shim {
namespace {

ShimConfig SomeConfig() {
  ShimConfig config;
  config.id = "0123456789ab";
  config.name = "some";
  config.driver = "550.163.01";
  config.files.push_back({.kind = NodeFile::Kind::kCtl, .granted = true, .path = "/dev/nvidiactl"});
  config.gpus.resize(2);
  for (GpuGrant& granted : config.gpus) {
    granted.gpu.uuid = "GPU-01020304-0506-0708-090a-0b0c0d0e0f10";
    granted.gpu.bdf = "0000:3b:00.0";
    granted.gpu.memory_bytes = std::uint64_t{1} << 30;
    granted.limit_bytes = 1 << 29;
  }
  return config;
}

// Returns a state in which every field has a value of its own.
Handover Full() {
  Handover state;
  state.config = SomeConfig();
  state.allowed = {1, 2, 300};
  state.quiet_since_ns = 12345678901;
  state.launcher = 3;
  state.admin = 4;
  state.upgrader = 5;
  state.closes = 104;
  ServerState& server = state.server;
  server.driver = {6, 0xc1d00001, 52, {{7, 8, true, {9, 10, 11}}, {12, -1, false, {}}}};
  server.sources = {{13, 14, 15, false}, {16, 0, -1, true}};
  server.served = true;
  server.first_process = 17;
  server.processes = {{18, 19, 20, 21, 22, 23}, {24, 25, 26, 0, 27, 28}};
  server.next_serial = 29;
  server.uvm_files = {{30, 31, 32, 33}, {34, 35, 0, -1}};
  server.next_uvm_key = 36;
  server.uvm_inodes = {{37, 38}, {39, 40}};
  server.client_files = {{96, 97, 98, {99, 100}, {102, 103}}, {101, 0, -1, {}, {}}};
  server.witnesses = {{58, 59, 60}, {61, 62, 63}};
  server.exports = {41, 42};
  server.mapping = true;
  server.unproved = true;
  server.record = 43;
  server.orders = {
      {{53, {20'000, 54, 55}, true, true, 56, governor::Trigger::kPreempt}, 57, 67, true, {94, 95}},
      {}};
  server.counters = {{68, 69, 70, 71, 72, 73, 74, 75},
                     {76, 77, 78, 79, 80, 81},
                     {82, 83, 84, 85, 86, 87, 88, 89},
                     90,
                     91};
  server.ledger = "ledger";
  server.boundary = std::string("bound\0ary", 9);
  server.replay = "replay";
  state.agent = {44, 45, "word", {{46, true}, {47, false}}};
  state.watchers = {{48, {49, 50}}, {51, {}}};
  state.askers = {{64, "asks", 65}, {66, "", -1}};
  return state;
}

TEST(HandoverTest, WhatIsReadIsWritten) {
  const std::string bytes = Encode(Full());
  const auto read = DecodeHandover(bytes);
  ASSERT_TRUE(read.ok()) << read.error().what;
  EXPECT_EQ(Encode(*read), bytes);
  EXPECT_EQ(read->allowed, Full().allowed);
  EXPECT_EQ(read->quiet_since_ns, 12345678901);
  EXPECT_EQ(read->server.driver.gpus[0].sizes.bar1_bytes, 11U);
  EXPECT_EQ(read->server.driver.gpus[1].file, -1);
  EXPECT_EQ(read->server.driver.helper, 52);
  EXPECT_EQ(read->server.sources[1].process, -1);
  EXPECT_TRUE(read->server.sources[1].first);
  EXPECT_EQ(read->server.processes[1].mem, 28);
  EXPECT_EQ(read->server.uvm_files[0].number, 33);
  EXPECT_EQ(read->server.uvm_files[1].number, -1);
  EXPECT_EQ(read->server.uvm_inodes, Full().server.uvm_inodes);
  EXPECT_EQ(read->server.client_files[0].clients, Full().server.client_files[0].clients);
  EXPECT_EQ(read->server.client_files[0].serials, Full().server.client_files[0].serials);
  EXPECT_EQ(read->server.client_files[1].number, -1);
  EXPECT_EQ(read->server.witnesses[1].maps, 63);
  EXPECT_EQ(read->server.exports, Full().server.exports);
  EXPECT_EQ(read->server.orders[0].order, Full().server.orders[0].order);
  EXPECT_EQ(read->server.orders[0].throttled_us, 67U);
  EXPECT_TRUE(read->server.orders[0].knows_scheduled);
  EXPECT_EQ(read->server.orders[0].scheduled, Full().server.orders[0].scheduled);
  EXPECT_EQ(read->server.counters, Full().server.counters);
  EXPECT_EQ(read->server.boundary, Full().server.boundary);
  EXPECT_EQ(read->server.replay, "replay");
  EXPECT_TRUE(read->server.unproved);
  EXPECT_TRUE(read->agent.connections[0].silent);
  EXPECT_FALSE(read->agent.connections[1].silent);
  EXPECT_EQ(read->watchers[0].told, Full().watchers[0].told);
  EXPECT_EQ(read->askers[0].line, "asks");
}

// Full() as an earlier version wrote it. A field that it does not have is 0: a test that sets one
// in Full() clears it here.
TEST(HandoverTest, AnEarlierVersionsFieldsAreReadForEver) {
  const auto bytes = ReadFile(CGPU_TESTDATA "/handover-2");
  ASSERT_TRUE(bytes.ok());
  const auto read = DecodeHandover(*bytes);
  ASSERT_TRUE(read.ok()) << read.error().what;
  Handover earlier = Full();
  earlier.server.orders[0].throttled_us = 0;
  earlier.server.orders[0].knows_scheduled = false;
  earlier.server.orders[0].scheduled.clear();
  earlier.server.orders[0].order.trigger = governor::Trigger::kNone;
  earlier.server.client_files.clear();
  earlier.server.counters = {};
  earlier.closes = -1;
  earlier.agent.word.clear();
  EXPECT_EQ(Encode(*read), Encode(earlier));
}

// A state as the first version that could be upgraded wrote it: a container with two clients, 10
// MiB, a channel group, an export, a view, and one refusal at its limit of 1 GiB.
TEST(HandoverTest, TheFirstVersionsStateIsReadForEver) {
  const auto bytes = ReadFile(CGPU_TESTDATA "/handover-1");
  ASSERT_TRUE(bytes.ok());
  const auto state = DecodeHandover(*bytes);
  ASSERT_TRUE(state.ok()) << state.error().what;
  EXPECT_EQ(state->config.driver, "550.163.01");
  EXPECT_EQ(state->server.sources.size(), 1U);
  EXPECT_EQ(state->server.processes.size(), 1U);
  EXPECT_EQ(state->server.exports.size(), 1U);
  ledger::Ledger ledger({1}, boundary::kContainerQuotas);
  boundary::Boundary boundary(*rm::FindAbi({550, 163, 1}), {{}}, ledger);
  StateReader reader(state->server.ledger);
  ASSERT_TRUE(ledger.Load(reader).ok() && reader.Finish().ok());
  StateReader more(state->server.boundary);
  ASSERT_TRUE(boundary.Load(more).ok() && more.Finish().ok());
  EXPECT_EQ(ledger.Limit(0), std::uint64_t{1} << 30);
  EXPECT_EQ(ledger.Used(0), 40173568U);
  EXPECT_EQ(ledger.Peak(0), 40173568U);
  EXPECT_EQ(ledger.Denied(0), 1U);
  EXPECT_EQ(ledger.Count().clients, 2U);
  EXPECT_EQ(ledger.Count().channel_groups, 1U);
  EXPECT_EQ(ledger.Count().mappings, 1U);
  EXPECT_GT(boundary.gpus()[0].sizes.context_bytes, 0U);
}

TEST(HandoverTest, EveryDescriptorIsListed) {
  std::vector<int> files = DescriptorsOf(Full());
  std::sort(files.begin(), files.end());
  EXPECT_EQ(files,
            (std::vector<int>{3,  4,  5,  6,  8,  13, 15, 16, 22, 23, 27, 28, 31, 35, 43,  44,
                              45, 46, 47, 48, 51, 52, 59, 60, 62, 63, 64, 65, 66, 96, 101, 104}));
}

TEST(HandoverTest, ADescriptorTwiceIsRefused) {
  Handover state = Full();
  state.watchers[0].connection = state.admin;
  EXPECT_FALSE(DecodeHandover(Encode(state)).ok());
}

TEST(HandoverTest, AnotherNumberOfGpusIsRefused) {
  Handover state = Full();
  state.server.driver.gpus.pop_back();
  EXPECT_FALSE(DecodeHandover(Encode(state)).ok());
  EXPECT_FALSE(DecodeHandover("").ok());
}

TEST(HandoverTest, ARequiredRecordOfALaterVersionIsRefusedAndAnotherIsNot) {
  for (const bool required : {false, true}) {
    StateWriter writer;
    writer.Begin(200 | (required ? kRequired : 0));
    writer.Number(1);
    writer.End();
    const auto read = DecodeHandover(Encode(Full()) + writer.Take());
    EXPECT_EQ(read.ok(), !required);
    EXPECT_TRUE(!required || read.error().code == Code::kUnsupported);
  }
}

TEST(HandoverTest, NoCutIsTakenForAWhole) {
  const std::string bytes = Encode(Full());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(DecodeHandover(std::string_view(bytes).substr(0, size)).ok()) << size;
  }
}

TEST(HandoverTest, ABadConfigurationIsNamed) {
  Handover state = Full();
  state.config.name = "a/b";
  const auto read = DecodeHandover(Encode(state));
  ASSERT_FALSE(read.ok());
  EXPECT_NE(read.error().what.find("the configuration has a bad line: name a/b"),
            std::string::npos);
}

TEST(HandoverTest, ADescriptorThatIsNoIntIsRefused) {
  constexpr StateTag kConnection = 14;
  for (const bool large : {false, true}) {
    StateWriter writer;
    writer.Row(kConnection, (large ? std::uint64_t{1} << 32 : 0) + 100);
    EXPECT_EQ(DecodeHandover(Encode(Full()) + writer.Take()).ok(), !large);
  }
}

TEST(HandoverTest, OrdersThatCannotBeCarriedOutAreRefused) {
  Handover state = Full();
  state.server.orders[0].order.duty.on_us = state.server.orders[0].order.duty.period_us + 1;
  EXPECT_FALSE(DecodeHandover(Encode(state)).ok());
  state = Full();
  state.server.orders.pop_back();
  EXPECT_FALSE(DecodeHandover(Encode(state)).ok());
}

}  // namespace
}  // namespace cgpu::shim
