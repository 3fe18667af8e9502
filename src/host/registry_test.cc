#include "host/registry.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"

namespace cgpu {
namespace {

using testing::HasSubstr;

Reservation Example(const std::string& id, const std::string& name, std::uint64_t bytes = 100) {
  Reservation reservation;
  reservation.id = id;
  reservation.name = name;
  reservation.user = 1000;
  reservation.shim_uid = 2'000'000'001;
  reservation.since = 1790000000;
  GpuGrant grant;
  grant.gpu.uuid = "GPU-1";
  grant.gpu.index = 1;
  grant.gpu.model = "Tesla V100-SXM2-16GB 100%";
  grant.gpu.memory_bytes = 1000;
  grant.limit_bytes = bytes;
  reservation.gpus = {grant};
  return reservation;
}

TEST(Reservation, IsTheSameAfterEncodingAndDecoding) {
  Reservation example = Example("3f2a00bc11de", "a");
  example.engine_id = "pod/with a space";
  example.origin = "environment";
  example.isolated = false;
  example.compute = {30, 60, 2, true};
  const std::string text = EncodeReservation(example);
  const auto decoded = DecodeReservation(text);
  ASSERT_TRUE(decoded.ok()) << decoded.error().what;
  EXPECT_EQ(EncodeReservation(decoded.value()), text);
  EXPECT_EQ(decoded.value().gpus[0].gpu.model, "Tesla V100-SXM2-16GB 100%");
  EXPECT_EQ(decoded.value().shim_uid, 2'000'000'001U);
  EXPECT_FALSE(decoded->isolated);
  EXPECT_EQ(decoded->compute, example.compute);
  for (std::size_t n = 0; n < text.size(); ++n) {
    EXPECT_FALSE(DecodeReservation(text.substr(0, n)).ok()) << n;
  }
  EXPECT_EQ(text,
            "id 3f2a00bc11de\nname a\nuser 1000\nshim-uid 2000000001\nsince 1790000000\n"
            "engine pod/with%20a%20space\norigin environment\nisolation none\ncompute-percent 30\n"
            "compute-max-percent 60\ncompute-weight 2\ncompute-priority high\n"
            "card GPU-1 1 1000 100 Tesla%20V100-SXM2-16GB%20100%25\n.\n");
  const std::string body = text.substr(0, text.size() - 2);
  EXPECT_TRUE(DecodeReservation(body + ".\n").ok());
  for (const char* wrong : {"more 1", "compute-max 1", "compute-priority low", "isolation yes"}) {
    EXPECT_FALSE(DecodeReservation(body + wrong + "\n.\n").ok()) << wrong;
  }
  EXPECT_FALSE(DecodeReservation(body + "name b\n.\n").ok());
}

TEST(Reservation, OneThatNobodyCanHaveIsRefused) {
  const auto is_taken = [](const auto& change) {
    Reservation example = Example("3f2a00bc11de", "a");
    change(example);
    return DecodeReservation(EncodeReservation(example)).ok();
  };
  EXPECT_TRUE(is_taken([](Reservation& one) { one.gpus.resize(256, one.gpus[0]); }));
  EXPECT_FALSE(is_taken([](Reservation& one) { one.gpus.resize(257, one.gpus[0]); }));
  EXPECT_FALSE(is_taken([](Reservation& one) { one.gpus.clear(); }));
  EXPECT_FALSE(is_taken([](Reservation& one) { one.id = "3f2a"; }));
  EXPECT_FALSE(is_taken([](Reservation& one) { one.name = "a/b"; }));
  EXPECT_FALSE(is_taken([](Reservation& one) { one.compute.percent = 101; }));
  EXPECT_FALSE(is_taken([](Reservation& one) { one.compute.max_percent = 101; }));
  EXPECT_FALSE(is_taken([](Reservation& one) { one.compute.weight = kMaxWeight + 1; }));
}

TEST(Reservation, SumsPerGpuWithoutTheExcepted) {
  const std::vector<Reservation> live{Example("000000000001", "a", 100),
                                      Example("000000000002", "b", 50)};
  Gpu mine;
  mine.uuid = "GPU-1";
  Gpu other;
  other.uuid = "GPU-2";
  const auto all = GpuUses({other, mine}, live);
  EXPECT_EQ(all[0].bytes, 0U);
  EXPECT_EQ(all[0].slices, 0U);
  EXPECT_EQ(all[1].bytes, 150U);
  EXPECT_EQ(all[1].slices, 2U);
  EXPECT_EQ(GpuUses({other, mine}, live, "000000000001")[1].bytes, 50U);
}

TEST(Reservation, IsFoundByNameIdOrUniquePrefix) {
  const std::vector<Reservation> live{
      Example("aa0000000001", "first"), Example("ab0000000002", "aa"),
      Example("cd0000000003", "third"), Example("ef0000000005", "ee0000000004"),
      Example("ee0000000004", "last")};
  EXPECT_EQ(*FindReservation("first", live), 0U);
  EXPECT_EQ(*FindReservation("ab0000000002", live), 1U);
  EXPECT_EQ(*FindReservation("c", live), 2U);
  EXPECT_EQ(*FindReservation("ee0000000004", live), 4U);  // an id goes before a name
  EXPECT_EQ(*FindReservation("aa", live), 1U);            // a name goes before a prefix
  EXPECT_EQ(FindReservation("a", live).error().code, Code::kInvalid);
  EXPECT_EQ(FindReservation("x", live).error().code, Code::kNotFound);
  EXPECT_EQ(FindReservation("", live).error().code, Code::kNotFound);
}

class RegistryTest : public testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/cgpu-registry-XXXXXX";
    ASSERT_NE(mkdtemp(pattern), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  Registry Open() const { return *Registry::OpenAt(folder_); }

  std::string folder_;
};

TEST(GpuSettings, AreTheSameAfterEncodingAndDecoding) {
  EXPECT_EQ(DecodeGpuSettings(EncodeGpuSettings({}))->max_inst, std::nullopt);
  EXPECT_EQ(DecodeGpuSettings(EncodeGpuSettings({64}))->max_inst, 64U);
  EXPECT_EQ(DecodeGpuSettings("max_inst 3\nlater 1 2\n.\n")->max_inst, 3U);
  const GpuSettings all{3, governor::Policy::kFixed, governor::Policy::kFair, 50};
  const std::string text = EncodeGpuSettings(all);
  EXPECT_EQ(text, "max_inst 3\npolicy fixed\nchosen fair\nprio_ratio 50\n.\n");
  EXPECT_EQ(EncodeGpuSettings(*DecodeGpuSettings(text)), text);
  for (std::size_t n = 0; n < text.size(); ++n) {
    EXPECT_FALSE(DecodeGpuSettings(text.substr(0, n)).ok()) << n;
  }
  for (const char* wrong :
       {"", "max_inst 3\n", "max_inst 0\n.\n", "max_inst 65\n.\n", "max_inst\n.\n",
        "max_inst 3\nmax_inst 3\n.\n", "policy fast\n.\n", "chosen\n.\n", "prio_ratio 19\n.\n"}) {
    EXPECT_FALSE(DecodeGpuSettings(wrong).ok()) << wrong;
  }
}

TEST_F(RegistryTest, WhatWasSetForAGpuStays) {
  const std::string uuid = "GPU-3f2a0000-0000-0000-0000-000000000001";
  {
    const Registry registry = Open();
    const auto lock = registry.Lock();
    EXPECT_EQ(registry.SettingsOf(*lock, uuid)->max_inst, std::nullopt);
    EXPECT_TRUE(registry.SetGpu(*lock, uuid, {5}).ok());
    EXPECT_FALSE(registry.SetGpu(*lock, "../x", {5}).ok());
  }
  const Registry registry = Open();
  const auto lock = registry.Lock();
  EXPECT_EQ(registry.SettingsOf(*lock, uuid)->max_inst, 5U);
  EXPECT_EQ(registry.SettingsOf(*lock, "GPU-other")->max_inst, std::nullopt);
  ASSERT_TRUE(WriteFile(folder_ + "/" + uuid + ".card", "max_inst many\n.\n").ok());
  EXPECT_EQ(registry.SettingsOf(*lock, uuid).error().code, Code::kInvalid);
}

TEST_F(RegistryTest, AContainerLivesAsLongAsItsSocketIsHeld) {
  const Registry registry = Open();
  const auto lock = registry.Lock();
  ASSERT_TRUE(lock.ok());
  auto first = registry.Add(lock.value(), Example("000000000001", "a"));
  auto second = registry.Add(lock.value(), Example("000000000002", "b"));
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ((*registry.List(lock.value())).size(), 2U);
  first->reset();
  const auto live = registry.List(lock.value());
  ASSERT_EQ(live.value().size(), 1U);
  EXPECT_EQ(live.value()[0].name, "b");
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/000000000001.sock"));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/000000000001.grant"));
  registry.RemoveIfDead(lock.value(), "000000000002");
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/000000000002.sock"));
}

TEST_F(RegistryTest, WhatIsRecordedIsReadWithoutAskingAnybody) {
  const Registry registry = Open();
  const auto lock = registry.Lock();
  auto ended = registry.Add(*lock, Example("000000000001", "a"));
  const auto live = registry.Add(*lock, Example("000000000002", "b"));
  ended->reset();
  const auto recorded = registry.Recorded(*lock);
  ASSERT_EQ(recorded->size(), 2U);
  EXPECT_EQ((*recorded)[0].name, "a");
  EXPECT_EQ((*recorded)[1].name, "b");
  pollfd connection{live->get(), POLLIN, 0};
  EXPECT_EQ(poll(&connection, 1, 0), 0);
  // A grant that cannot be read matters where its container lives.
  ASSERT_TRUE(WriteFile(folder_ + "/000000000001.grant", "x").ok());
  EXPECT_EQ(registry.Recorded(*lock)->size(), 1U);
  ASSERT_TRUE(WriteFile(folder_ + "/000000000002.grant", "x").ok());
  EXPECT_FALSE(registry.Recorded(*lock).ok());
}

TEST_F(RegistryTest, WhatAKilledDaemonsChildHoldsIsNoDaemon) {
  const Registry registry = Open();
  const auto lock = registry.Lock();
  const std::string path = folder_ + "/daemon.sock";
  int ends[2] = {};
  ASSERT_EQ(pipe(ends), 0);
  const pid_t daemon = fork();
  if (daemon == 0) {
    close(ends[1]);
    const auto socket = ListenAsDaemon(*lock, path, std::nullopt);
    const pid_t child = socket.ok() ? fork() : -1;
    char end = 0;
    if (child == 0) {
      (void)!read(ends[0], &end, 1);
    }
    _exit(child < 0 ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(daemon, &status, 0), daemon);
  ASSERT_EQ(status, 0);
  EXPECT_TRUE(ConnectToDaemon(path).ok()) << "its child does not hold the socket";
  const auto next = ListenAsDaemon(*lock, path, std::nullopt);
  EXPECT_TRUE(next.ok()) << next.error().what;
  EXPECT_EQ(ListenAsDaemon(*lock, path, std::nullopt).error().code, Code::kConflict);
  close(ends[0]);
  close(ends[1]);
}

TEST_F(RegistryTest, AFullBacklogIsALivingContainer) {
  const Registry registry = Open();
  const auto lock = registry.Lock();
  const auto held = registry.Add(lock.value(), Example("000000000001", "a"));
  for (int i = 0; i < 200; ++i) {
    ASSERT_EQ((*registry.List(lock.value())).size(), 1U) << i;
  }
}

TEST_F(RegistryTest, UpdateReplacesTheGrant) {
  const Registry registry = Open();
  const auto lock = registry.Lock();
  const auto held = registry.Add(lock.value(), Example("000000000001", "a", 100));
  ASSERT_TRUE(registry.Update(lock.value(), Example("000000000001", "a", 70)).ok());
  EXPECT_EQ((*registry.List(lock.value()))[0].gpus[0].limit_bytes, 70U);
}

TEST_F(RegistryTest, AnUnreadableGrantOfALivingContainerStopsNewOnes) {
  const Registry registry = Open();
  const auto lock = registry.Lock();
  const auto held = registry.Add(lock.value(), Example("000000000001", "a"));
  ASSERT_TRUE(WriteFile(folder_ + "/000000000001.grant", "junk\n").ok());
  const auto live = registry.List(lock.value());
  ASSERT_FALSE(live.ok());
  EXPECT_THAT(live.error().what, HasSubstr("000000000001"));
}

TEST_F(RegistryTest, TheLockIsHeldUntilItsEnd) {
  const Registry registry = Open();
  const auto is_locked = [&] {
    const UniqueFd fd(open((folder_ + "/lock").c_str(), O_RDWR | O_CLOEXEC));
    return flock(fd.get(), LOCK_EX | LOCK_NB) != 0;
  };
  {
    const auto lock = registry.Lock();
    ASSERT_TRUE(lock.ok());
    EXPECT_TRUE(is_locked());
  }
  EXPECT_FALSE(is_locked());
}

TEST_F(RegistryTest, AskCarriesTheAnswer) {
  const Registry registry = Open();
  const auto lock = registry.Lock();
  auto listener = registry.Add(lock.value(), Example("000000000001", "a"));
  std::thread shim([&] {
    const UniqueFd peer(accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC));
    char buffer[64];
    const ssize_t n = read(peer.get(), buffer, sizeof(buffer));
    const std::string request(buffer, static_cast<std::size_t>(n));
    (void)WriteAll(peer.get(), request == "set * 5\n" ? "ok\n" : "error what?\n");
  });
  const auto answer = registry.Ask("000000000001", {AdminRequest::Kind::kSet, "*", 5});
  shim.join();
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer.value(), "ok\n");
  listener->reset();
  EXPECT_EQ(registry.Ask("000000000001", {}).error().code, Code::kNotFound);
  EXPECT_EQ(registry.Ask("000000000009", {}).error().code, Code::kNotFound);
}

TEST_F(RegistryTest, RefusesAFolderThatOthersCanWriteTo) {
  ASSERT_EQ(chmod(folder_.c_str(), 0777), 0);
  const auto open = Registry::OpenAt(folder_);
  ASSERT_FALSE(open.ok());
  EXPECT_EQ(open.error().code, Code::kPermission);
  ASSERT_EQ(chmod(folder_.c_str(), 0700), 0);
  ASSERT_EQ(symlink(folder_.c_str(), (folder_ + "/link").c_str()), 0);
  EXPECT_FALSE(Registry::OpenAt(folder_ + "/link").ok());
}

}  // namespace
}  // namespace cgpu
