#include "shim/reconciler.h"

#include <gtest/gtest.h>

#include "shim/testing.h"

namespace cgpu::shim {
namespace {

// A server without listeners, whose ledger and driver know clients by the test's word.
class ReconcilerTest : public testing::Test {
 protected:
  ReconcilerTest() {
    ShimConfig config;
    config.driver = "550.163.01";
    auto driver = Driver::Open(calls_, abi_, "/dev/zero", {});
    server_ =
        std::make_unique<Server>(config, abi_, std::move(*driver), std::vector<boundary::GpuIds>{},
                                 std::make_unique<FakeLookup>(fate_), UniqueFd(), calls_);
  }
  // Makes a client of a tenant's in the driver and in the ledger.
  ledger::Handle AddClient() {
    rm::NVOS21_PARAMETERS root{};
    root.hClass = rm::NV01_ROOT_CLIENT;
    EXPECT_EQ(calls_.Call(file_.get(), kAlloc, &root), 0);
    const MutexLock lock(server_->accounting().mutex);
    ledger::Ledger& ledger = server_->accounting().ledger;
    auto reserved = ledger.ReserveClient();
    EXPECT_TRUE(ledger.AddClient(*reserved, root.hObjectNew, 0, 1).ok());
    return root.hObjectNew;
  }
  void EndInDriver(ledger::Handle client) {
    rm::NVOS00_PARAMETERS free{};
    free.hRoot = free.hObjectOld = client;
    EXPECT_EQ(calls_.Call(file_.get(), kFree, &free), 0);
  }
  bool Owns(ledger::Handle client) {
    const MutexLock lock(server_->accounting().mutex);
    return server_->accounting().ledger.Owns(client);
  }

  static constexpr unsigned long kAlloc =
      _IOC(_IOC_READ | _IOC_WRITE, 'F', rm::NV_ESC_RM_ALLOC, sizeof(rm::NVOS21_PARAMETERS));
  static constexpr unsigned long kFree =
      _IOC(_IOC_READ | _IOC_WRITE, 'F', rm::NV_ESC_RM_FREE, sizeof(rm::NVOS00_PARAMETERS));

  const rm::Abi& abi_ = *rm::FindAbi({550, 163, 1});
  Fate fate_;
  FakeDriver calls_{fate_};
  const UniqueFd file_{open("/dev/null", O_RDWR | O_CLOEXEC)};
  std::unique_ptr<Server> server_;
};

TEST_F(ReconcilerTest, TakesClientsOffThatTheDriverHasNoMore) {
  const ledger::Handle gone = AddClient();
  const ledger::Handle stays = AddClient();
  EXPECT_FALSE(server_->reconciler().Reconcile());
  EndInDriver(gone);
  EXPECT_TRUE(server_->reconciler().Reconcile());
  EXPECT_FALSE(Owns(gone));
  EXPECT_TRUE(Owns(stays));
  EXPECT_TRUE(server_->reconciler().Holding());
  EndInDriver(stays);
  EXPECT_TRUE(server_->reconciler().Reconcile());
  EXPECT_FALSE(server_->reconciler().Holding());
}

TEST_F(ReconcilerTest, InAHurryNothingIsDone) {
  const ledger::Handle gone = AddClient();
  EndInDriver(gone);
  server_->reconciler().SetHurry(true);
  EXPECT_FALSE(server_->reconciler().Reconcile());
  server_->reconciler().ReconcileForCall();
  EXPECT_TRUE(Owns(gone));
  server_->reconciler().SetHurry(false);
  server_->reconciler().ReconcileForCall();
  EXPECT_FALSE(Owns(gone));
}

// Exports are held without any client.
TEST_F(ReconcilerTest, AnExportIsHeld) {
  EXPECT_FALSE(server_->reconciler().Holding());
  ServerState state = server_->Save();
  state.exports = {1};
  ASSERT_TRUE(server_->Load(state).ok());
  EXPECT_TRUE(server_->reconciler().Holding());
  EXPECT_TRUE(server_->reconciler().Reconcile());
  EXPECT_FALSE(server_->reconciler().Holding());
}

}  // namespace
}  // namespace cgpu::shim
