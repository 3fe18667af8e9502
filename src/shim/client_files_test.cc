#include "shim/client_files.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <csignal>

#include "shim/testing.h"

namespace cgpu::shim {
namespace {

// The container is one child of the test, which has a file under its own number of it.
class ClientFilesTest : public testing::Test {
 protected:
  ~ClientFilesTest() override { EndChild(); }

  void EndChild() {
    if (!ended_) {
      ended_ = true;
      kill(child_.pid(), SIGKILL);
      EXPECT_EQ(child_.AwaitSignal(), SIGKILL);
    }
  }
  // Returns a call of the child's on the file.
  [[nodiscard]] Pending Call(ledger::Handle client = 0) const {
    Pending pending;
    auto caller = std::make_shared<os::Caller>();
    caller->process = child_.process();
    pending.caller = std::move(caller);
    pending.file = os::Duplicate(file_.get());
    pending.notification.args[0] = static_cast<std::uint64_t>(file_.get());
    pending.call.client = client;
    return pending;
  }
  // Makes a client in the driver, by a call of the child's.
  ledger::Handle MakeClient() {
    rm::NVOS21_PARAMETERS root{};
    root.hClass = rm::NV01_ROOT_CLIENT;
    constexpr unsigned long kAlloc =
        _IOC(_IOC_READ | _IOC_WRITE, 'F', rm::NV_ESC_RM_ALLOC, sizeof(root));
    EXPECT_EQ(calls_.Call(file_.get(), kAlloc, &root), 0);
    Pending pending = Call();
    EXPECT_TRUE(files_.Keep(pending, {root.hObjectNew, ++serial_}));
    return root.hObjectNew;
  }
  [[nodiscard]] ledger::ClientRef RefOf(ledger::Handle client) const {
    ServerState state;
    files_.Save(state);
    for (const ClientFileState& file : state.client_files) {
      for (std::size_t i = 0; i < file.clients.size(); ++i) {
        if (file.clients[i] == client) {
          return {client, file.serials[i]};
        }
      }
    }
    return {};
  }
  [[nodiscard]] bool Exists(ledger::Handle client) const {
    return calls_.Clients().contains(client);
  }

  const UniqueFd file_{open("/dev/null", O_RDWR | O_CLOEXEC)};
  const UniqueFd proc_{open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  const rm::Abi& abi_ = *rm::FindAbi({550, 163, 1});
  Fate fate_;
  FakeDriver calls_{fate_};
  FakeLookup callers_{fate_};
  const Child child_{callers_};
  NoCalls handler_;
  WorkerPool pool_{handler_, -1};
  Accounting accounting_{ShimConfig{}, abi_, {}};
  ContainerProcesses processes_{accounting_, callers_, pool_};
  Hurry hurry_;
  std::unique_ptr<Driver> driver_ = *Driver::Open(calls_, abi_, "/dev/zero", {});
  ClientFiles files_{proc_.get(), driver_.get(), processes_, hurry_};

 private:
  std::uint64_t serial_ = 0;
  bool ended_ = false;
};

TEST_F(ClientFilesTest, AClientEndsWhenNoProcessHasItsFile) {
  const ledger::Handle one = MakeClient();
  const ledger::Handle other = MakeClient();
  EXPECT_TRUE(files_.InUse());
  EXPECT_FALSE(files_.Reconcile(true));
  EXPECT_TRUE(Exists(one) && Exists(other));
  EndChild();
  EXPECT_FALSE(files_.InUse());
  EXPECT_TRUE(files_.Reconcile(true));
  EXPECT_FALSE(Exists(one) || Exists(other));
  EXPECT_TRUE(files_.Empty());
  EXPECT_FALSE(files_.Reconcile(true));
}

TEST_F(ClientFilesTest, ACallOnItLetsItLive) {
  const ledger::Handle client = MakeClient();
  EndChild();
  {
    Pending call = Call(client);
    files_.Find(call);
    EXPECT_FALSE(files_.Reconcile(true));
    EXPECT_TRUE(Exists(client));
  }
  EXPECT_TRUE(files_.Reconcile(true));
  EXPECT_FALSE(Exists(client));
}

TEST_F(ClientFilesTest, TheFileGoesWithTheLastClient) {
  const ledger::Handle one = MakeClient();
  const ledger::Handle other = MakeClient();
  files_.Forget(RefOf(one));
  EXPECT_FALSE(files_.Empty());
  files_.Forget(RefOf(other));
  EXPECT_TRUE(files_.Empty());
}

TEST_F(ClientFilesTest, AClientUnderTheSameHandleIsAnother) {
  const ledger::Handle client = MakeClient();
  const ledger::ClientRef first = RefOf(client);
  Pending pending = Call();
  ASSERT_TRUE(files_.Keep(pending, {client, first.serial + 1}));
  files_.Forget(first);
  EXPECT_FALSE(files_.Empty());
  files_.Forget({client, first.serial + 1});
  EXPECT_TRUE(files_.Empty());
}

TEST_F(ClientFilesTest, WhoHasAFileIsItsLastUser) {
  const ledger::Handle client = MakeClient();
  Pending pending = Call();
  pending.notification.args[0] = 1'000'000;  // moved to another number meanwhile
  ASSERT_TRUE(files_.Keep(pending, RefOf(client)));
  EXPECT_FALSE(files_.InUse());
  EXPECT_FALSE(files_.Reconcile(true));
  EXPECT_TRUE(files_.InUse());
  EXPECT_TRUE(Exists(client));
}

TEST_F(ClientFilesTest, AFileWhoseClientsWereForgottenInACallGoesLater) {
  const ledger::Handle client = MakeClient();
  Pending call = Call(client);
  files_.Find(call);
  files_.Forget(RefOf(client));
  EXPECT_FALSE(files_.Empty());
  call.client_file.reset();
  EXPECT_FALSE(files_.Reconcile(true));
  EXPECT_TRUE(files_.Empty());
}

TEST_F(ClientFilesTest, InAHurryNothingEnds) {
  const ledger::Handle client = MakeClient();
  EndChild();
  hurry_.Set(true);
  EXPECT_FALSE(files_.Reconcile(true));
  EXPECT_TRUE(Exists(client));
  EXPECT_TRUE(files_.Reconcile(false)) << "a call waits for room";
  EXPECT_FALSE(Exists(client));
}

TEST_F(ClientFilesTest, ASuccessorEndsThem) {
  const ledger::Handle client = MakeClient();
  ServerState state;
  files_.Save(state);
  ASSERT_EQ(state.client_files.size(), 1U);
  state.client_files[0].file = fcntl(state.client_files[0].file, F_DUPFD_CLOEXEC, 0);
  ClientFiles successor(proc_.get(), driver_.get(), processes_, hurry_);
  successor.TakeOver(state, {{1, child_.process()}});
  EXPECT_TRUE(successor.InUse());
  EXPECT_FALSE(successor.Reconcile(true));
  EndChild();
  EXPECT_TRUE(successor.Reconcile(true));
  EXPECT_FALSE(Exists(client));
}

}  // namespace
}  // namespace cgpu::shim
