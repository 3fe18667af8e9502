#include "ledger/ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "ledger/testing.h"

namespace cgpu::ledger {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr Quotas kQuotas{.clients = 4, .handles = 64, .channel_groups = 2, .channels = 3};
constexpr Handle kOtherClient = 0xc1d00002;
constexpr std::uint64_t kLimit = 1000;

template <class T>
Code CodeOf(const Result<T>& result) {
  EXPECT_FALSE(result.ok());
  return result.ok() ? Code::kInternal : result.error().code;
}

class LedgerTest : public ::testing::Test {
 protected:
  ClientRef Client(Handle handle, FileKey file = 1, ProcessKey owner = 1) {
    Reservation reservation = ledger_.ReserveClient().value();
    return ledger_.AddClient(reservation, handle, file, owner).value();
  }

  // Adds one object with `bytes` on `gpu`; the driver takes what was asked for.
  Result<ObjectRef> Add(ClientRef client, Handle parent, Handle handle, Kind kind,
                        std::uint64_t bytes = 0, Gpu gpu = 0) {
    Result<Reservation> reservation = ledger_.Reserve(kind, gpu, bytes);
    if (!reservation.ok()) {
      return reservation.error();
    }
    return ledger_.AddObject(
        *reservation, client,
        {.parent = {parent}, .handle = handle, .gpu = {}, .actual_bytes = bytes});
  }

  ObjectRef Device(ClientRef client, Handle handle = kDevice, Gpu gpu = 0) {
    Reservation reservation = ledger_.Reserve(Kind::kOther).value();
    return ledger_
        .AddObject(reservation, client,
                   {.parent = {client.handle}, .handle = handle, .cls = 0x80, .gpu = gpu})
        .value();
  }

  Result<ObjectRef> Dup(ClientRef from, Handle source, ClientRef to, Handle parent, Handle handle) {
    Result<Reservation> reservation = ledger_.ReserveDup(from, {source});
    if (!reservation.ok()) {
      return reservation.error();
    }
    return ledger_.AddCopy(*reservation, to, {parent}, handle);
  }

  Result<> Export(ClientRef client, Handle source, FileKey file, std::uint32_t index = 0) {
    Result<Reservation> reservation = ledger_.ReserveExport(client, {source});
    return reservation.ok() ? ledger_.Export(*reservation, file, index) : reservation.error();
  }

  Ledger ledger_{{kLimit, kLimit}, kQuotas};
};

TEST_F(LedgerTest, ReservesUpToTheLimitAndNotAByteMore) {
  Reservation all = ledger_.Reserve(Kind::kMemory, 0, kLimit).value();
  EXPECT_EQ(ledger_.Reserved(0), kLimit);
  EXPECT_EQ(CodeOf(ledger_.Reserve(Kind::kMemory, 0, 1)), Code::kExhausted);
  EXPECT_TRUE(ledger_.Reserve(Kind::kMemory, 1, kLimit).ok()) << "GPUs are separate";
  ledger_.Cancel(all);
  EXPECT_TRUE(all.empty());
  EXPECT_EQ(ledger_.Reserved(0), 0U);
  ledger_.Cancel(all);  // an empty one: does nothing
  EXPECT_EQ(CodeOf(ledger_.Reserve(Kind::kMemory, 0, ~std::uint64_t{0})), Code::kExhausted);
  EXPECT_EQ(CodeOf(ledger_.Reserve(Kind::kMemory, 2, 1)), Code::kNotFound);
}

TEST_F(LedgerTest, ADroppedReservationComesBackFromAnyThread) {
  std::optional<Reservation> held = ledger_.Reserve(Kind::kMemory, 0, kLimit).value();
  std::thread([&held] { held.reset(); }).join();
  EXPECT_TRUE(ledger_.Reserve(Kind::kMemory, 0, kLimit).ok());
}

TEST_F(LedgerTest, AReservationMayOutliveItsLedger) {
  auto other = std::make_unique<Ledger>(std::vector<std::uint64_t>{kLimit}, kQuotas);
  Reservation held = other->Reserve(Kind::kMemory, 0, 1).value();
  ledger_.Cancel(held);  // not this ledger's: stays
  EXPECT_FALSE(held.empty());
  other.reset();
}

TEST_F(LedgerTest, ChargesWhatTheDriverTookAndReturnsItOnFree) {
  const ClientRef client = Client(kClient);
  Device(client);
  Reservation reservation = ledger_.Reserve(Kind::kMemory, 0, 300).value();
  ASSERT_TRUE(
      ledger_
          .AddObject(reservation, client,
                     {.parent = {kDevice}, .handle = kMemory, .gpu = {}, .actual_bytes = 200})
          .ok());
  EXPECT_EQ(ledger_.Used(0), 200U);
  EXPECT_EQ(ledger_.Reserved(0), 0U);
  EXPECT_EQ(ledger_.GpuOf(client, kMemory), std::optional<Gpu>(0));
  ASSERT_TRUE(ledger_.Free(client, {kMemory}).ok());
  EXPECT_EQ(ledger_.Used(0), 0U);
  EXPECT_EQ(ledger_.Peak(0), 200U);
  EXPECT_EQ(CodeOf(ledger_.Free(client, {kMemory})), Code::kNotFound);
}

TEST_F(LedgerTest, MoreThanReservedIsTakenOnlyIfItFits) {
  const ClientRef client = Client(kClient);
  Device(client);
  Reservation reservation = ledger_.Reserve(Kind::kMemory, 0, 600).value();
  NewObject object{.parent = {kDevice}, .handle = kMemory, .gpu = {}, .actual_bytes = 1001};
  EXPECT_EQ(CodeOf(ledger_.AddObject(reservation, client, object)), Code::kExhausted);
  EXPECT_EQ(ledger_.Reserved(0), 600U) << "held until the caller has freed the object";
  EXPECT_FALSE(ledger_.Find(client, kMemory));
  object.actual_bytes = 1000;
  EXPECT_TRUE(ledger_.AddObject(reservation, client, object).ok());
  EXPECT_TRUE(reservation.empty());
  EXPECT_EQ(ledger_.Used(0), 1000U);
}

TEST_F(LedgerTest, RefusesWhatHasNoPlace) {
  const ClientRef client = Client(kClient);
  const ObjectRef device = Device(client);
  ASSERT_TRUE(Add(client, kDevice, kMemory, Kind::kMemory, 10).ok());
  EXPECT_EQ(CodeOf(Add(client, kDevice, kMemory, Kind::kMemory, 10)), Code::kConflict);
  EXPECT_EQ(CodeOf(Add(client, kDevice, kClient, Kind::kMemory, 10)), Code::kConflict);
  EXPECT_EQ(CodeOf(Add(client, 0x99, 0x41, Kind::kMemory, 10)), Code::kNotFound);
  EXPECT_EQ(CodeOf(Add({kOtherClient, 0}, kDevice, 0x41, Kind::kMemory, 10)), Code::kNotFound);
  EXPECT_EQ(CodeOf(Add(client, kDevice, 0x41, Kind::kMemory, 10, 1)), Code::kInternal)
      << "the device is on GPU 0";
  Reservation stale = ledger_.Reserve(Kind::kOther).value();
  EXPECT_EQ(
      CodeOf(ledger_.AddObject(
          stale, client, {.parent = {kDevice, device.serial + 1}, .handle = 0x41, .gpu = {}})),
      Code::kNotFound);
  EXPECT_EQ(ledger_.Used(0), 10U);
}

TEST_F(LedgerTest, AReservationFitsOneStepOnly) {
  const ClientRef client = Client(kClient);
  Reservation object = ledger_.Reserve(Kind::kOther).value();
  EXPECT_EQ(CodeOf(ledger_.AddClient(object, kOtherClient, 1, 1)), Code::kInternal);
  EXPECT_EQ(CodeOf(ledger_.AddCopy(object, client, {kClient}, 1)), Code::kInternal);
  EXPECT_EQ(CodeOf(ledger_.Export(object, 1)), Code::kInternal);
  Reservation empty;
  EXPECT_EQ(CodeOf(ledger_.AddObject(empty, client, {.parent = {kClient}, .gpu = {}})),
            Code::kInternal);
}

TEST_F(LedgerTest, TheGrantBoundsEveryCount) {
  std::vector<Reservation> held;
  for (std::uint32_t i = 0; i < kQuotas.clients; ++i) {
    held.push_back(ledger_.ReserveClient().value());
  }
  EXPECT_EQ(CodeOf(ledger_.ReserveClient()), Code::kExhausted);
  held.clear();
  const ClientRef client = Client(kClient);
  Device(client);
  ASSERT_TRUE(Add(client, kDevice, 1, Kind::kChannelGroup, 5).ok());
  held.push_back(ledger_.Reserve(Kind::kChannelGroup, 0, 5).value());
  EXPECT_EQ(CodeOf(ledger_.Reserve(Kind::kChannelGroup, 0, 5)), Code::kExhausted);
  EXPECT_TRUE(Dup(client, 1, client, kDevice, 2).ok()) << "an alias is no new group";
  for (Handle handle = 10; handle < 10 + kQuotas.channels; ++handle) {
    ASSERT_TRUE(Add(client, 1, handle, Kind::kChannel).ok());
  }
  EXPECT_EQ(CodeOf(ledger_.Reserve(Kind::kChannel)), Code::kExhausted);
  while (ledger_.Count().handles + 1 < kQuotas.handles) {
    ASSERT_TRUE(Add(client, kDevice, 1000 + ledger_.Count().handles, Kind::kOther).ok());
  }
  EXPECT_EQ(CodeOf(ledger_.Reserve(Kind::kOther)), Code::kExhausted) << "one handle is reserved";
  EXPECT_EQ(CodeOf(ledger_.ReserveDup(client, {1})), Code::kExhausted);
  held.clear();
  EXPECT_TRUE(ledger_.Reserve(Kind::kOther).ok());
}

TEST_F(LedgerTest, FreeTakesTheSubtreeAndItsDependants) {
  const ClientRef client = Client(kClient);
  Device(client);
  ASSERT_TRUE(Add(client, kDevice, 1, Kind::kOther).ok());
  ASSERT_TRUE(Add(client, 1, 2, Kind::kMemory, 100).ok());
  ASSERT_TRUE(Add(client, kDevice, 3, Kind::kChannel, 50).ok());
  ASSERT_TRUE(Add(client, 3, 4, Kind::kMemory, 25).ok());
  ASSERT_TRUE(Add(client, kDevice, 5, Kind::kMemory, 1).ok());
  ASSERT_TRUE(ledger_.AddDependency(client, 3, 2).ok());
  ASSERT_TRUE(ledger_.AddDependency(client, 1, 3).ok());  // a ring through the tree
  EXPECT_EQ(CodeOf(ledger_.AddDependency(client, 3, 77)), Code::kNotFound);
  EXPECT_EQ(CodeOf(ledger_.AddDependency(client, 3, 3)), Code::kInvalid);
  ASSERT_TRUE(ledger_.Free(client, {1}).ok());
  EXPECT_EQ(ledger_.Used(0), 1U);
  std::vector<Handle> left;
  for (const ObjectInfo& info : ledger_.Objects(client)) {
    left.push_back(info.ref.handle);
  }
  EXPECT_THAT(left, ElementsAre(5, kDevice, kClient));
  ASSERT_TRUE(ledger_.Free(client, {kClient}).ok());
  EXPECT_FALSE(ledger_.Owns(kClient));
  EXPECT_EQ(ledger_.Count(), Counts{});
}

TEST_F(LedgerTest, WhatAChannelUsesIsKeptUntilBothGo) {
  const ClientRef client = Client(kClient);
  Device(client);
  ASSERT_TRUE(Add(client, kDevice, 1, Kind::kOther).ok());
  ASSERT_TRUE(Add(client, 1, 2, Kind::kMemory, 100).ok());
  ASSERT_TRUE(Add(client, kDevice, 3, Kind::kChannelGroup).ok());
  ASSERT_TRUE(ledger_.AddKeeper(client, 3, 2).ok());
  ASSERT_TRUE(ledger_.AddKeeper(client, 3, 5).ok());  // not there yet
  EXPECT_EQ(CodeOf(ledger_.AddKeeper(client, 77, 2)), Code::kNotFound);
  EXPECT_FALSE(ledger_.IsKept(client, 2)) << "the group has no channel";
  ASSERT_TRUE(Add(client, 3, 4, Kind::kChannel).ok());
  EXPECT_TRUE(ledger_.IsKept(client, 2));
  EXPECT_TRUE(ledger_.IsKept(client, 1)) << "what is kept goes with it";
  EXPECT_FALSE(ledger_.IsKept(client, kDevice)) << "all goes at once";
  EXPECT_FALSE(ledger_.IsKept(client, kClient));
  EXPECT_FALSE(ledger_.IsKept(client, 4));
  ASSERT_TRUE(Add(client, kDevice, 5, Kind::kMemory, 1).ok());
  EXPECT_TRUE(ledger_.IsKept(client, 5));
  ASSERT_TRUE(ledger_.AddDependency(client, 3, 2).ok());
  EXPECT_FALSE(ledger_.IsKept(client, 2)) << "the group goes with it";
  ASSERT_TRUE(ledger_.Free(client, {3}).ok());
  EXPECT_FALSE(ledger_.IsKept(client, 5));
}

TEST_F(LedgerTest, ADuplicateCountsOnceAndInheritsThePayment) {
  const ClientRef first = Client(kClient, 1, 11);
  const ClientRef second = Client(kOtherClient, 2, 22);
  Device(first);
  Device(second);
  ASSERT_TRUE(Add(first, kDevice, kMemory, Kind::kMemory, 400).ok());
  EXPECT_EQ(ledger_.UsageOfClient(first, 0), (Usage{.private_bytes = 400}));
  ASSERT_TRUE(Dup(first, kMemory, second, kDevice, kMemory).ok());
  EXPECT_EQ(ledger_.Used(0), 400U);
  EXPECT_EQ(ledger_.UsageOfClient(first, 0), (Usage{.shared_owned_bytes = 400}));
  EXPECT_EQ(ledger_.UsageOfClient(second, 0), (Usage{.shared_duped_bytes = 400}));
  ledger_.CloseFile(1);
  EXPECT_EQ(ledger_.Used(0), 400U);
  EXPECT_THAT(ledger_.UsageByProcess(0), ElementsAre(Pair(22, Usage{.private_bytes = 400})));
  ASSERT_TRUE(ledger_.Free(second, {kMemory}).ok());
  EXPECT_EQ(ledger_.Used(0), 0U);
}

TEST_F(LedgerTest, DuplicatesGoNowhereElse) {
  const ClientRef client = Client(kClient);
  Device(client);
  ASSERT_TRUE(Add(client, kDevice, kMemory, Kind::kMemory, 1).ok());
  EXPECT_EQ(CodeOf(Dup(client, kMemory, client, kDevice, kDevice)), Code::kConflict);
  EXPECT_EQ(CodeOf(Dup(client, 0x77, client, kDevice, 0x41)), Code::kNotFound);
  EXPECT_EQ(CodeOf(Dup({0xc1d000ff, 0}, kMemory, client, kDevice, 0x41)), Code::kNotFound)
      << "another container's client is not in this ledger";
  EXPECT_EQ(CodeOf(Dup(client, kClient, client, kDevice, 0x41)), Code::kInvalid);
  EXPECT_EQ(ledger_.Find(client, kMemory)->holders, 1U);
}

// The free of the source is executed and accounted while the duplicate's call is on its way back.
TEST_F(LedgerTest, AFreeThatOvertakesADuplicateLosesNoBytes) {
  const ClientRef client = Client(kClient);
  Device(client);
  ASSERT_TRUE(Add(client, kDevice, kMemory, Kind::kMemory, 400).ok());
  Reservation reservation = ledger_.ReserveDup(client, {kMemory}).value();
  ASSERT_TRUE(ledger_.Free(client, {kMemory}).ok());
  EXPECT_EQ(ledger_.Used(0), 400U);
  ASSERT_TRUE(ledger_.AddCopy(reservation, client, {kDevice}, 0x41).ok());
  EXPECT_EQ(ledger_.UsageOfClient(client, 0), (Usage{.private_bytes = 400}));
  // The driver may also have refused the duplicate.
  Reservation refused = ledger_.ReserveDup(client, {0x41}).value();
  ASSERT_TRUE(ledger_.Free(client, {0x41}).ok());
  EXPECT_EQ(ledger_.Used(0), 400U);
  ledger_.Cancel(refused);
  EXPECT_EQ(ledger_.Used(0), 0U);
}

TEST_F(LedgerTest, AFreeOfAnOlderObjectLeavesTheNewOneOfItsHandle) {
  const ClientRef client = Client(kClient);
  Device(client);
  const ObjectRef old = Add(client, kDevice, kMemory, Kind::kMemory, 1).value();
  ASSERT_TRUE(ledger_.Free(client, old).ok());
  ASSERT_TRUE(Add(client, kDevice, kMemory, Kind::kMemory, 2).ok());
  EXPECT_EQ(CodeOf(ledger_.Free(client, old)), Code::kNotFound);
  EXPECT_EQ(ledger_.Used(0), 2U);
}

TEST_F(LedgerTest, AnExportLivesUntilItsFileCloses) {
  const ClientRef client = Client(kClient, 1);
  Device(client);
  ASSERT_TRUE(Add(client, kDevice, kMemory, Kind::kMemory, 400).ok());
  ASSERT_TRUE(Export(client, kMemory, 9).ok());
  EXPECT_EQ(ledger_.UsageOfClient(client, 0), (Usage{.shared_owned_bytes = 400}));
  EXPECT_TRUE(ledger_.RemoveClient(client));
  EXPECT_FALSE(ledger_.RemoveClient(client));
  EXPECT_EQ(ledger_.Used(0), 400U);
  EXPECT_THAT(ledger_.UsageByProcess(0), IsEmpty());

  const ClientRef importer = Client(kOtherClient, 2, 22);
  Device(importer);
  Reservation reservation = ledger_.ReserveImport(9).value();
  ledger_.CloseFile(9);
  ASSERT_TRUE(ledger_.AddCopy(reservation, importer, {kDevice}, kMemory).ok());
  EXPECT_THAT(ledger_.UsageByProcess(0), ElementsAre(Pair(22, Usage{.private_bytes = 400})));
  EXPECT_EQ(CodeOf(ledger_.ReserveImport(9)), Code::kNotFound);
  ledger_.CloseFile(2);
  EXPECT_EQ(ledger_.Used(0), 0U);
  EXPECT_EQ(ledger_.Count(), Counts{});
}

TEST_F(LedgerTest, AnExportReplacesWhatThePlaceHeld) {
  const ClientRef client = Client(kClient);
  Device(client);
  ASSERT_TRUE(Add(client, kDevice, 1, Kind::kMemory, 100).ok());
  ASSERT_TRUE(Add(client, kDevice, 2, Kind::kMemory, 50).ok());
  ASSERT_TRUE(Export(client, 1, 9, 3).ok());
  ASSERT_TRUE(Export(client, 1, 9, 3).ok());
  ASSERT_TRUE(ledger_.Free(client, {1}).ok());
  EXPECT_EQ(ledger_.Used(0), 150U);
  ASSERT_TRUE(Export(client, 2, 9, 3).ok());
  EXPECT_EQ(ledger_.Used(0), 50U);
  ledger_.Unexport(9, 3);
  EXPECT_EQ(ledger_.Find(client, 2)->holders, 1U);
  ledger_.Unexport(9, 3);
}

TEST_F(LedgerTest, AProbeCannotRemoveANewerClientOfTheSameHandle) {
  const ClientRef old = Client(kClient, 1);
  Device(old);
  ASSERT_TRUE(Add(old, kDevice, kMemory, Kind::kMemory, 100).ok());
  const ClientRef newer = Client(kClient, 2);
  EXPECT_EQ(ledger_.Used(0), 0U) << "the older one is gone in the driver";
  EXPECT_FALSE(ledger_.RemoveClient(old));
  EXPECT_EQ(ledger_.FindClient(kClient)->ref, newer);
  ledger_.CloseFile(1);
  EXPECT_TRUE(ledger_.Owns(kClient));
  EXPECT_FALSE(ledger_.GpuOf(old, kDevice));
}

TEST_F(LedgerTest, ARefusalSaysWhatIsFull) {
  const ClientRef client = Client(kClient);
  Device(client);
  EXPECT_EQ(ledger_.Reserve(Kind::kMemory, 0, kLimit).full(), Full::kNothing);
  EXPECT_EQ(ledger_.Reserve(Kind::kMemory, 2, 1).full(), Full::kNothing) << "there is no such GPU";
  EXPECT_EQ(ledger_.Reserve(Kind::kMemory, 0, kLimit + 1).full(), Full::kLimit);
  ledger_.SetGpuQuotas(0, {.channel_groups = 1, .channels = 1, .bar1_bytes = 10});
  const Reservation lone = ledger_.Reserve(Kind::kLoneChannel, 0, 5).value();
  EXPECT_EQ(ledger_.Reserve(Kind::kChannelGroup, 0, 5).full(), Full::kGpuChannelGroups);
  EXPECT_EQ(ledger_.Reserve(Kind::kChannel, 0).full(), Full::kGpuChannels);
  EXPECT_EQ(ledger_.Reserve(Kind::kChannelGroup, 0, kLimit).full(), Full::kLimit)
      << "over a quota as well";
  ASSERT_TRUE(Add(client, kDevice, kMemory, Kind::kMemory, 100).ok());
  EXPECT_EQ(ledger_.ReserveMapping(client, {kMemory}, 11).full(), Full::kGpuBar1);
  std::vector<Reservation> held;
  for (ReserveResult one = ledger_.ReserveClient(); one.ok(); one = ledger_.ReserveClient()) {
    held.push_back(std::move(one).value());
  }
  EXPECT_EQ(ledger_.ReserveClient().full(), Full::kClients);
  for (ReserveResult one = ledger_.ReserveExport(client, {kMemory}); one.ok();
       one = ledger_.ReserveExport(client, {kMemory})) {
    held.push_back(std::move(one).value());
  }
  EXPECT_EQ(ledger_.ReserveDup(client, {kMemory}).full(), Full::kHandles);
  EXPECT_EQ(ledger_.Reserve(Kind::kDebugger, 0).full(), Full::kHandles);
}

TEST_F(LedgerTest, ALimitBelowUseStopsGrowth) {
  const ClientRef client = Client(kClient);
  Device(client);
  ASSERT_TRUE(Add(client, kDevice, kMemory, Kind::kMemory, 400).ok());
  EXPECT_EQ(ledger_.SetLimit(0, 300).value(), LimitResult::kBelowUse);
  EXPECT_EQ(CodeOf(ledger_.Reserve(Kind::kMemory, 0, 1)), Code::kExhausted);
  EXPECT_TRUE(ledger_.Reserve(Kind::kMemory, 0, 0).ok()) << "nothing more is asked for";
  EXPECT_EQ(ledger_.Used(0), 400U);
  EXPECT_EQ(ledger_.SetLimit(0, 500).value(), LimitResult::kSet);
  EXPECT_TRUE(ledger_.Reserve(Kind::kMemory, 0, 100).ok());
  EXPECT_EQ(CodeOf(ledger_.SetLimit(2, 1)), Code::kNotFound);
}

TEST_F(LedgerTest, ExtrasCountWithObjectsAndAreReplacedAsAWhole) {
  const ClientRef client = Client(kClient);
  Device(client);
  ASSERT_TRUE(Add(client, kDevice, kMemory, Kind::kMemory, 600).ok());
  const ExtraKey key{.owner = 1, .what = 7};
  ASSERT_TRUE(ledger_.SetExtra(key, 0, 300).ok());
  EXPECT_EQ(ledger_.Used(0), 900U);
  EXPECT_EQ(ledger_.UsageByProcess(0)[1].extra_bytes, 300U);
  EXPECT_EQ(CodeOf(ledger_.SetExtra(key, 0, 401)), Code::kExhausted);
  EXPECT_EQ(ledger_.Denied(0), 0U);
  ledger_.CountDenial(0);
  EXPECT_EQ(ledger_.Denied(0), 1U);
  EXPECT_EQ(ledger_.Denied(1), 0U);
  EXPECT_EQ(ledger_.Extra(key, 0), 300U);
  ASSERT_TRUE(ledger_.SetExtra(key, 0, 400).ok());
  EXPECT_EQ(CodeOf(ledger_.Reserve(Kind::kMemory, 0, 1)), Code::kExhausted);
  ledger_.ForceExtra(key, 0, 500);
  EXPECT_EQ(ledger_.Used(0), 1100U);
  ASSERT_TRUE(ledger_.SetExtra(key, 0, 450).ok()) << "shrinking is always possible";
  ASSERT_TRUE(ledger_.SetExtra(key, 0, 0).ok());
  EXPECT_EQ(ledger_.Used(0), 600U);
  EXPECT_EQ(CodeOf(ledger_.SetExtra(key, 9, 1)), Code::kNotFound);
}

TEST_F(LedgerTest, GpusAreInherited) {
  const ClientRef client = Client(kClient);
  Device(client, kDevice, 1);
  ASSERT_TRUE(Add(client, kDevice, 1, Kind::kOther).ok());
  ASSERT_TRUE(Add(client, 1, 2, Kind::kMemory, 7, 1).ok());
  EXPECT_EQ(ledger_.GpuOf(client, 2), std::optional<Gpu>(1));
  EXPECT_FALSE(ledger_.GpuOf(client, kClient));
  EXPECT_FALSE(ledger_.GpuOf(client, 99));
  Device(client, 0x81, 0);
  ASSERT_TRUE(Dup(client, 2, client, 0x81, 3).ok());
  EXPECT_EQ(ledger_.GpuOf(client, 3), std::optional<Gpu>(0));
  ASSERT_TRUE(ledger_.Free(client, {kDevice}).ok());
  EXPECT_EQ(ledger_.Used(1), 7U) << "the bytes stay where they are";
}

TEST_F(LedgerTest, ContextsArePaidForButAreNotProcessMemory) {
  const ClientRef client = Client(kClient, 1, 5);
  Device(client);
  ASSERT_TRUE(Add(client, kDevice, 1, Kind::kChannelGroup, 30).ok());
  ASSERT_TRUE(Dup(client, 1, client, kDevice, 2).ok());
  EXPECT_EQ(ledger_.UsageByProcess(0).at(5), (Usage{.context_bytes = 30}));
  ASSERT_TRUE(ledger_.Free(client, {1}).ok());
  EXPECT_EQ(ledger_.Count().channel_groups, 1U);
  ASSERT_TRUE(ledger_.Free(client, {2}).ok());
  EXPECT_EQ(ledger_.Used(0), 0U);
  EXPECT_EQ(ledger_.Count().channel_groups, 0U);
}

TEST_F(LedgerTest, LongChainsAreFreedWithoutRecursion) {
  constexpr Handle kLength = 200000;
  Ledger deep({kLimit}, {.clients = 1, .handles = kLength});
  Reservation reservation = deep.ReserveClient().value();
  const ClientRef client = deep.AddClient(reservation, kClient, 1, 1).value();
  for (Handle i = 1; i <= kLength; ++i) {
    Reservation next = deep.Reserve(Kind::kOther).value();
    ASSERT_TRUE(
        deep.AddObject(next, client, {.parent = {i == 1 ? kClient : i - 1}, .handle = i, .gpu = {}})
            .ok());
  }
  ASSERT_TRUE(deep.Free(client, {1}).ok());
  EXPECT_EQ(deep.Count().handles, 0U);
}

}  // namespace
}  // namespace cgpu::ledger
