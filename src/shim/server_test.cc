// The way of a call through the server, with a caller that may die at any step of it.
#include "shim/server.h"

#include <gtest/gtest.h>
#include <linux/audit.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <iterator>

#include "rm/abi.h"
#include "shim/testing.h"

namespace cgpu::shim {
namespace {

constexpr std::uint64_t kMemory = std::uint64_t{64} << 20;

// Memory of a tenant, with whole pages around what it holds: the shim reads pages.
class Arena {
 public:
  Arena() : bytes_(static_cast<std::byte*>(std::aligned_alloc(kPage, kPage))) {}
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena() { std::free(bytes_); }
  template <class T>
  T& As() {
    return *new (bytes_) T{};
  }

 private:
  static constexpr std::size_t kPage = 4096;
  std::byte* bytes_;
};

// Servers of one container, one after the other, with the driver that all of them ask.
struct ServerWorld {
  explicit ServerWorld(bool killable = true) {
    config.id = "0123456789ab";
    config.driver = "550.163.01";
    config.files = {ControlFile()};
    GpuGrant granted;
    granted.gpu.uuid = "GPU-1";
    granted.gpu.memory_bytes = granted.limit_bytes = kMemory;
    config.gpus = {granted};
    config.killable = killable;
    auto made = Driver::Open(driver, abi, "/dev/zero", {"/dev/zero"});
    own_client = *driver.Clients().begin();
    server = Make(std::move(*made));
    server->Start();
    Serve();
  }

  std::unique_ptr<Server> Make(std::unique_ptr<Driver> its_driver) {
    return std::make_unique<Server>(config, abi, std::move(its_driver),
                                    std::vector<boundary::GpuIds>(config.gpus.size()),
                                    std::make_unique<FakeLookup>(fate), UniqueFd(), driver);
  }
  void Serve() {
    auto own = std::make_unique<FakeChannel>(fate);
    channel = own.get();
    EXPECT_TRUE(server->pool().Serve(std::move(own)).ok());
  }
  // Returns the state of the server, which then does nothing any more.
  ServerState Stop() {
    channel->AwaitReceived();
    EXPECT_TRUE(server->Quiesce(kTimeout).ok());
    return server->Save();
  }
  // Puts a successor in the server's place. The one before stays, without a thread.
  void Replace(const ServerState& state) {
    before.push_back(std::move(server));
    server = Make(Driver::Resume(driver, abi, {"/dev/zero"}, state.driver));
    ASSERT_TRUE(server->Load(state).ok());
    server->TakeOver(state);
  }
  void HandOver() {
    Replace(Stop());
    server->Start();
    Serve();
  }

  // Makes the call as thread `tid`; returns its number.
  template <class T>
  std::uint64_t Make(std::uint32_t nr, T& params, pid_t tid = 100) {
    os::Notification call;
    call.id = ++last_id;
    call.tid = tid;
    call.arch = AUDIT_ARCH_X86_64;
    call.nr = SYS_ioctl;
    call.args[0] = static_cast<std::uint64_t>(file.get());
    call.args[1] = _IOC(_IOC_READ | _IOC_WRITE, 'F', nr, sizeof(T));
    call.args[2] = std::bit_cast<std::uint64_t>(&params);
    channel->Push(call);
    return call.id;
  }
  std::uint32_t MakeClient() {
    Arena arena;
    auto& root = arena.As<rm::NVOS21_PARAMETERS>();
    root.hClass = rm::NV01_ROOT_CLIENT;
    const Outcome outcome = channel->Await(Make(rm::NV_ESC_RM_ALLOC, root));
    EXPECT_TRUE(outcome.answered && outcome.error == 0 && root.status == rm::NV_OK);
    return root.hObjectNew;
  }
  // Returns when no call is on its way any more.
  void Settle() {
    channel->AwaitReceived();
    EXPECT_TRUE(server->Quiesce(kTimeout).ok());
    server->Resume();
  }
  // Returns the clients of tenants that the driver has.
  std::set<std::uint32_t> Held() const {
    auto clients = driver.Clients();
    clients.erase(own_client);
    return clients;
  }

  const rm::Abi& abi = *rm::FindAbi({550, 163, 1});
  ShimConfig config;
  Fate fate;
  FakeDriver driver{fate};
  std::vector<std::unique_ptr<Server>> before;
  FakeChannel* channel = nullptr;
  UniqueFd file{open("/dev/zero", O_RDWR | O_CLOEXEC)};
  std::uint32_t own_client = 0;
  std::unique_ptr<Server> server;
  std::uint64_t last_id = 0;
};

// Threads of a server run for as long as its process.
ServerWorld& NewServerWorld(bool killable = true) {
  static auto& all = *new std::vector<std::unique_ptr<ServerWorld>>();
  return *all.emplace_back(std::make_unique<ServerWorld>(killable));
}

rm::NVOS00_PARAMETERS& FreeOf(Arena& arena, std::uint32_t client) {
  auto& free = arena.As<rm::NVOS00_PARAMETERS>();
  free.hRoot = free.hObjectOld = client;
  return free;
}

TEST(ServerTest, ACallReachesTheDriverAndItsAnswerTheCaller) {
  ServerWorld& world = NewServerWorld();
  const std::uint32_t client = world.MakeClient();
  EXPECT_EQ(world.Held(), std::set<std::uint32_t>{client});
  EXPECT_TRUE(world.server->reconciler().Holding());
  Arena arena;
  auto& free = FreeOf(arena, client);
  EXPECT_TRUE(world.channel->Await(world.Make(rm::NV_ESC_RM_FREE, free)).answered);
  EXPECT_EQ(free.status, rm::NV_OK);
  EXPECT_FALSE(world.server->reconciler().Holding());
  EXPECT_TRUE(world.Held().empty());
}

// The server knows afterwards what the driver has, and serves the next caller.
TEST(ServerTest, ACallerMayDieBetweenAnyTwoSteps) {
  ServerWorld& world = NewServerWorld();
  (void)world.MakeClient();
  world.fate.DieBefore(0);
  (void)world.MakeClient();
  const int steps = world.fate.steps();
  ASSERT_GE(steps, 6) << "lookup, descriptor, memory, still there, driver, answer";
  unsigned made = 0;
  for (int step = 1; step <= steps; ++step) {
    SCOPED_TRACE(step);
    Arena arena;
    auto& root = arena.As<rm::NVOS21_PARAMETERS>();
    root.hClass = rm::NV01_ROOT_CLIENT;
    const auto before = world.Held();
    world.fate.DieBefore(step);
    const std::uint64_t call = world.Make(rm::NV_ESC_RM_ALLOC, root);
    world.Settle();
    EXPECT_TRUE(world.fate.dead());
    EXPECT_FALSE(world.channel->Answered(call)) << "an answer for one that is gone";
    const auto after = world.Held();
    made += after.size() > before.size() ? 1 : 0;
    world.fate.DieBefore(0);
    (void)world.server->reconciler().Reconcile();
    EXPECT_EQ(world.server->accounting().Counts().clients, after.size());
    (void)world.MakeClient();
  }
  EXPECT_GE(made, 1U) << "no caller died with its call in the driver";
  EXPECT_LT(made, static_cast<unsigned>(steps)) << "a call was executed for one that was gone";
}

TEST(ServerTest, ACallThatIsOverBeforeItIsLookedAtIsNotExecuted) {
  ServerWorld& world = NewServerWorld();
  const int before = world.driver.allocs();
  Arena arena;
  auto& root = arena.As<rm::NVOS21_PARAMETERS>();
  root.hClass = rm::NV01_ROOT_CLIENT;
  world.channel->Forget(world.last_id + 1);
  const std::uint64_t call = world.Make(rm::NV_ESC_RM_ALLOC, root);
  world.Settle();
  EXPECT_EQ(world.driver.allocs(), before);
  EXPECT_FALSE(world.channel->Answered(call));
}

TEST(ServerTest, AParkedCallWhoseCallerIsGoneIsDropped) {
  for (const bool gone : {false, true}) {
    SCOPED_TRACE(gone);
    ServerWorld& world = NewServerWorld();
    const std::uint32_t client = world.MakeClient();
    Arena first;
    Arena second;
    const int before = world.driver.allocs() + world.driver.frees();
    world.driver.Hold();
    const std::uint64_t one = world.Make(rm::NV_ESC_RM_FREE, FreeOf(first, client), 100);
    world.driver.AwaitOneMoreThan(before);
    const std::uint64_t other = world.Make(rm::NV_ESC_RM_FREE, FreeOf(second, client), 101);
    while (world.server->Parked() == 0) {
      std::this_thread::yield();
    }
    if (gone) {
      world.channel->Forget(other);
      world.server->DropDead();
      EXPECT_EQ(world.server->Parked(), 0U);
    }
    world.driver.Release();
    EXPECT_TRUE(world.channel->Await(one).answered);
    world.Settle();
    EXPECT_EQ(world.channel->Answered(other), !gone);
    EXPECT_EQ(world.driver.frees(), 1) << "the second names a client that is gone";
  }
}

TEST(ServerTest, ACallWhoseCallerHasGoneWhileItWaitedIsNotExecuted) {
  for (const bool gone : {false, true}) {
    SCOPED_TRACE(gone);
    ServerWorld& world = NewServerWorld();
    Arena first;
    Arena second;
    auto& one = first.As<rm::NVOS21_PARAMETERS>();
    auto& other = second.As<rm::NVOS21_PARAMETERS>();
    one.hClass = other.hClass = rm::NV01_ROOT_CLIENT;
    const int before = world.driver.allocs();
    world.driver.Hold();
    (void)world.Make(rm::NV_ESC_RM_ALLOC, one, 100);
    world.driver.AwaitOneMoreThan(before);
    const std::uint64_t call = world.Make(rm::NV_ESC_RM_ALLOC, other, 101);
    while (world.server->Parked() == 0) {
      std::this_thread::yield();
    }
    if (gone) {
      world.channel->Forget(call);
    }
    world.driver.Release();
    world.Settle();
    EXPECT_EQ(world.driver.allocs(), before + (gone ? 1 : 2));
  }
}

TEST(ServerTest, AParkedCallIsLookedAtAnewWhenItsTurnHasCome) {
  ServerWorld& world = NewServerWorld();
  const std::uint32_t client = world.MakeClient();
  const std::uint32_t next = world.MakeClient();
  Arena first;
  Arena second;
  const int before = world.driver.allocs() + world.driver.frees();
  world.driver.Hold();
  (void)world.Make(rm::NV_ESC_RM_FREE, FreeOf(first, client), 100);
  world.driver.AwaitOneMoreThan(before);
  auto& other = FreeOf(second, client);
  const std::uint64_t call = world.Make(rm::NV_ESC_RM_FREE, other, 101);
  while (world.server->Parked() == 0) {
    std::this_thread::yield();
  }
  other.hRoot = other.hObjectOld = next;
  world.driver.Release();
  EXPECT_TRUE(world.channel->Await(call).answered);
  EXPECT_EQ(other.status, rm::NV_OK);
  world.Settle();
  EXPECT_TRUE(world.Held().empty()) << "the second call freed what it said when its turn came";
  EXPECT_EQ(world.server->accounting().Counts().clients, 0U);
}

std::ptrdiff_t OpenFiles() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::distance(begin(all), end(all));
}

TEST(ServerTest, ParkedCallsHoldNoFiles) {
  constexpr std::size_t kCalls = 100;
  ServerWorld& world = NewServerWorld();
  const std::uint32_t client = world.MakeClient();
  const auto arenas = std::make_unique<std::array<Arena, kCalls>>();
  Arena first;
  const int before = world.driver.allocs() + world.driver.frees();
  world.driver.Hold();
  const std::uint64_t call = world.Make(rm::NV_ESC_RM_FREE, FreeOf(first, client), 99);
  world.driver.AwaitOneMoreThan(before);
  const std::ptrdiff_t files = OpenFiles();
  for (std::size_t i = 0; i < kCalls; ++i) {
    (void)world.Make(rm::NV_ESC_RM_FREE, FreeOf((*arenas)[i], client), 100 + static_cast<pid_t>(i));
  }
  while (world.server->Parked() < kCalls) {
    std::this_thread::yield();
  }
  EXPECT_EQ(OpenFiles(), files);
  world.driver.Release();
  EXPECT_TRUE(world.channel->Await(call).answered);
  world.Settle();
}

// Without killable waits: a call that a signal has ended must not be executed after its repetition.
TEST(ServerTest, ACallThatIsOverBeforeItHasItsClaimIsNotExecuted) {
  ServerWorld& world = NewServerWorld(false);
  const int before = world.driver.allocs();
  Arena arena;
  auto& root = arena.As<rm::NVOS21_PARAMETERS>();
  root.hClass = rm::NV01_ROOT_CLIENT;
  world.channel->ForgetAfterALook(world.last_id + 1);
  (void)world.Make(rm::NV_ESC_RM_ALLOC, root);
  world.Settle();
  EXPECT_EQ(world.driver.allocs(), before);
}

// Without killable waits a signal ends a call that has had its effect, and the kernel repeats it.
TEST(ServerTest, ARepeatedCallIsNotExecutedAgain) {
  ServerWorld& world = NewServerWorld(false);
  Arena arena;
  auto& root = arena.As<rm::NVOS21_PARAMETERS>();
  root.hClass = rm::NV01_ROOT_CLIENT;
  world.channel->LoseAnswers(true);
  const int before = world.driver.allocs();
  (void)world.Make(rm::NV_ESC_RM_ALLOC, root);
  world.Settle();
  ASSERT_EQ(world.driver.allocs(), before + 1);
  const std::uint32_t made = root.hObjectNew;
  root = {};
  root.hClass = rm::NV01_ROOT_CLIENT;
  world.channel->LoseAnswers(false);
  EXPECT_TRUE(world.channel->Await(world.Make(rm::NV_ESC_RM_ALLOC, root)).answered);
  EXPECT_EQ(world.driver.allocs(), before + 1);
  EXPECT_EQ(root.hObjectNew, made);
  root = {};
  root.hClass = rm::NV01_ROOT_CLIENT;
  (void)world.channel->Await(world.Make(rm::NV_ESC_RM_ALLOC, root));
  EXPECT_EQ(world.driver.allocs(), before + 2) << "a call after an answer is another one";
}

TEST(ServerTest, ASuccessorKnowsWhatWasHeld) {
  ServerWorld& world = NewServerWorld();
  const std::uint32_t client = world.MakeClient();
  world.HandOver();
  EXPECT_EQ(world.server->accounting().Counts().clients, 1U);
  EXPECT_NE(world.MakeClient(), client);
  Arena arena;
  EXPECT_TRUE(world.channel->Await(world.Make(rm::NV_ESC_RM_FREE, FreeOf(arena, client))).answered);
  EXPECT_EQ(world.server->accounting().Counts().clients, world.Held().size());
  EXPECT_FALSE(world.Held().contains(client));
}

// Returns the state as it is handed over, without the listeners: a successor attaches them last.
std::string TextOf(const ServerWorld& world, ServerState state) {
  Handover handover;
  handover.config = world.config;
  handover.server = std::move(state);
  handover.server.sources.clear();
  return Encode(handover);
}

TEST(ServerTest, ASuccessorOfAnEmptyServerHasItsState) {
  ServerWorld& world = NewServerWorld();
  const ServerState state = world.Stop();
  EXPECT_EQ(state.exports.size() + state.uvm_files.size() + state.witnesses.size(), 0U);
  world.Replace(state);
  EXPECT_EQ(TextOf(world, world.server->Save()), TextOf(world, state));
  EXPECT_FALSE(world.server->reconciler().Holding());
}

TEST(ServerTest, ASuccessorOfAFullServerHasItsState) {
  ServerWorld& world = NewServerWorld(false);
  (void)world.MakeClient();
  (void)world.MakeClient();
  world.server->accounting().CountRefused(boundary::Reason::kQuota, "a call");
  ASSERT_TRUE(world.server->control().SetLimit("*", kMemory / 2).ok());
  ASSERT_TRUE(world.server->control().SetOrder("GPU-1", {.slice_us = 2'000, .duty = {}}, {}).ok());
  ServerState state = world.Stop();
  const auto file = [&] { return fcntl(world.file.get(), F_DUPFD_CLOEXEC, 0); };
  state.exports = {0xc1d0fff0, 0xc1d0fff1};
  state.uvm_files = {{boundary::Boundary::kFirstSpace, file(), 1, 7}};
  state.next_uvm_key = boundary::Boundary::kFirstSpace + 1;
  state.uvm_inodes = {{3, 4}};
  state.witnesses = {{5, file(), file()}};
  state.mapping = true;
  state.unproved = true;
  world.Replace(state);
  EXPECT_EQ(TextOf(world, world.server->Save()), TextOf(world, state));
  EXPECT_TRUE(world.server->reconciler().Holding());
  EXPECT_EQ(world.server->accounting().Counts().clients, 2U);
  EXPECT_EQ(world.server->control().Status().gpus[0].limit_bytes, kMemory / 2);
}

TEST(ServerTest, ACallThatItsPredecessorExecutedIsNotExecutedByASuccessor) {
  ServerWorld& world = NewServerWorld(false);
  Arena arena;
  auto& root = arena.As<rm::NVOS21_PARAMETERS>();
  root.hClass = rm::NV01_ROOT_CLIENT;
  world.channel->LoseAnswers(true);
  (void)world.Make(rm::NV_ESC_RM_ALLOC, root);
  world.HandOver();
  const int allocs = world.driver.allocs();
  const std::uint32_t made = root.hObjectNew;
  root = {};
  root.hClass = rm::NV01_ROOT_CLIENT;
  EXPECT_TRUE(world.channel->Await(world.Make(rm::NV_ESC_RM_ALLOC, root)).answered);
  EXPECT_EQ(world.driver.allocs(), allocs);
  EXPECT_EQ(root.hObjectNew, made);
  EXPECT_TRUE(world.Held().contains(made));
}

}  // namespace
}  // namespace cgpu::shim
