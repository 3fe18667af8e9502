// Hands a ledger over. Random histories with hand-overs are in ledger_property_test.cc; these tests
// cover what those do not reach, and states that make no sense.
#include "base/state.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "ledger/ledger.h"
#include "ledger/testing.h"

namespace cgpu::ledger {
namespace {

constexpr Quotas kStateQuotas{
    .clients = 8, .handles = 64, .channel_groups = 8, .channels = 8, .mappings = 16};
constexpr Handle kOther = 0xc1d00002;
constexpr FileKey kFile = 77;
constexpr StateTag kState = 1;

std::unique_ptr<Ledger> NewLedger(std::size_t gpus = 2) {
  return std::make_unique<Ledger>(std::vector<std::uint64_t>(gpus, 1), kStateQuotas);
}

std::string Saved(const Ledger& ledger) {
  StateWriter writer;
  writer.Begin(kState);
  ledger.Save(writer);
  writer.End();
  return writer.Take();
}

Result<> Load(std::string_view bytes, Ledger& ledger) {
  StateReader reader(bytes);
  (void)reader.Enter();
  return ledger.Load(reader);
}

// A ledger with a row of every kind.
class LedgerStateTest : public ::testing::Test {
 protected:
  LedgerStateTest() {
    EXPECT_TRUE(ledger_->SetLimit(0, 10000).ok());
    EXPECT_TRUE(ledger_->SetLimit(1, 5000).ok());
    ledger_->SetGpuQuotas(0, {.channel_groups = 6, .channels = 6, .bar1_bytes = 500});
    client_ = AddClient(kClient, 11, 21);
    other_ = AddClient(kOther, 12, 22);
    device_ = Add(client_, kClient, 0x80, Kind::kOther, 0, 0x2080, 1);
    memory_ = Add(client_, 0x80, 0x40, Kind::kMemory, 700, 0x41, {}, 64);
    (void)Add(other_, kOther, 0x80, Kind::kOther, 0, 0x2080, 0);
    (void)Add(other_, 0x80, 0x50, Kind::kLoneChannel, 300, 0x52);
    (void)Add(other_, 0x80, 0x51, Kind::kChannelGroup, 0, 0x53);
    (void)Add(other_, 0x51, 0x52, Kind::kChannel, 0, 0x54);
    const ObjectRef gone = Add(client_, 0x80, 0x44, Kind::kMemory, 1000, 0x41);
    EXPECT_TRUE(ledger_->Free(client_, gone).ok());
    Copy(memory_, other_, 0x80, 0x60);  // on a device of the other GPU
    Copy(memory_, client_, kClient, 0x61);
    Export(memory_, kFile, 3);
    Export(device_, kFile, 4);
    EXPECT_TRUE(ledger_->AddDependency(other_, 0x50, 0x51).ok());
    EXPECT_TRUE(ledger_->AddKeeper(client_, 0x80, 0x40).ok());
    EXPECT_TRUE(ledger_->AddKeeper(other_, 0x52, 0x50).ok());
    Map(0x40, 0x7000, 30);
    Map(0x40, 0x9000, 40);
    Map(0x80, 0x7000, 0);
    EXPECT_TRUE(ledger_->SetExtra({21, 5}, 0, 50).ok());
    EXPECT_TRUE(ledger_->SetExtra({22, 6}, 1, 60).ok());
    ledger_->CountDenial(1);
  }

  ClientRef AddClient(Handle handle, FileKey file, ProcessKey owner) {
    Reservation reservation = ledger_->ReserveClient().value();
    return ledger_->AddClient(reservation, handle, file, owner).value();
  }
  ObjectRef Add(ClientRef client, Handle parent, Handle handle, Kind kind, std::uint64_t bytes,
                std::uint32_t cls, std::optional<Gpu> gpu = {}, std::uint64_t page = 0) {
    const Gpu charged = client == client_ ? 1 : 0;
    Reservation reservation = ledger_->Reserve(kind, charged, bytes).value();
    return ledger_
        ->AddObject(reservation, client,
                    {.parent = {parent},
                     .handle = handle,
                     .cls = cls,
                     .gpu = gpu,
                     .actual_bytes = bytes,
                     .page_bytes = page})
        .value();
  }
  void Copy(ObjectRef source, ClientRef into, Handle parent, Handle handle) {
    Reservation reservation = ledger_->ReserveDup(client_, source).value();
    ASSERT_TRUE(ledger_->AddCopy(reservation, into, {parent}, handle).ok());
  }
  void Export(ObjectRef source, FileKey file, std::uint32_t index) {
    Reservation reservation = ledger_->ReserveExport(client_, source).value();
    ASSERT_TRUE(ledger_->Export(reservation, file, index).ok());
  }
  void Map(Handle object, std::uint64_t address, std::uint64_t bytes) {
    Reservation reservation = ledger_->ReserveMapping(client_, {object}, bytes).value();
    ASSERT_TRUE(ledger_->AddMapping(reservation, client_, {object}, address).ok());
  }

  // Compares everything that can be asked.
  static void ExpectAlike(const Ledger& left, const Ledger& right) {
    EXPECT_EQ(left.Count(), right.Count());
    for (Gpu gpu = 0; gpu < 2; ++gpu) {
      EXPECT_EQ(left.Used(gpu), right.Used(gpu));
      EXPECT_EQ(left.Peak(gpu), right.Peak(gpu));
      EXPECT_EQ(left.Limit(gpu), right.Limit(gpu));
      EXPECT_EQ(left.Denied(gpu), right.Denied(gpu));
      EXPECT_EQ(left.Bar1Used(gpu), right.Bar1Used(gpu));
      EXPECT_EQ(left.UsageByProcess(gpu), right.UsageByProcess(gpu));
      for (const ExtraKey key : {ExtraKey{21, 5}, ExtraKey{22, 6}}) {
        EXPECT_EQ(left.Extra(key, gpu), right.Extra(key, gpu));
      }
    }
    ASSERT_EQ(left.Clients().size(), right.Clients().size());
    for (const ClientInfo& client : left.Clients()) {
      const auto same = right.FindClient(client.ref.handle);
      ASSERT_TRUE(same);
      EXPECT_EQ(client.ref, same->ref);
      EXPECT_EQ(client.file, same->file);
      EXPECT_EQ(client.owner, same->owner);
      ExpectObjectsAlike(left, right, client.ref);
    }
  }
  static void ExpectObjectsAlike(const Ledger& left, const Ledger& right, ClientRef client) {
    ASSERT_EQ(left.Objects(client).size(), right.Objects(client).size());
    for (const ObjectInfo& object : left.Objects(client)) {
      const auto same = right.Find(client, object.ref.handle);
      ASSERT_TRUE(same);
      EXPECT_EQ(object.ref, same->ref);
      EXPECT_EQ(object.parent, same->parent);
      EXPECT_EQ(object.cls, same->cls);
      EXPECT_EQ(object.kind, same->kind);
      EXPECT_EQ(object.gpu, same->gpu);
      EXPECT_EQ(object.bytes, same->bytes);
      EXPECT_EQ(object.holders, same->holders);
      EXPECT_EQ(object.page_bytes, same->page_bytes);
      EXPECT_EQ(left.FreesOthers(client, object.ref.handle),
                right.FreesOthers(client, object.ref.handle));
      EXPECT_EQ(left.IsKept(client, object.ref.handle), right.IsKept(client, object.ref.handle));
    }
  }

  std::unique_ptr<Ledger> ledger_ = NewLedger();
  ClientRef client_;
  ClientRef other_;
  ObjectRef device_;
  ObjectRef memory_;
};

TEST_F(LedgerStateTest, EverythingIsAsItWas) {
  const auto next = NewLedger();
  ASSERT_TRUE(Load(Saved(*ledger_), *next).ok());
  ExpectAlike(*ledger_, *next);
  EXPECT_EQ(Saved(*next), Saved(*ledger_));
  EXPECT_EQ(next->Peak(1), 1700U) << "what was is not forgotten";
}

// The same happens to both; the results compare what cannot be asked.
TEST_F(LedgerStateTest, GoesOnAsTheOldOneWould) {
  using Step = void (*)(Ledger&, ClientRef, ClientRef);
  constexpr Step kSteps[] = {
      [](Ledger& l, ClientRef c, ClientRef) { l.MoveMapping(c, {0x40}, 0x7000, 0x9000); },
      [](Ledger& l, ClientRef c, ClientRef) { l.RemoveMapping(c, {0x40}, 0x9000); },
      [](Ledger& l, ClientRef c, ClientRef) { l.RemoveMapping(c, {0x80}, 0x7000); },
      [](Ledger& l, ClientRef, ClientRef o) {
        Reservation copy = l.ReserveImport(kFile, 3).value();
        EXPECT_TRUE(l.AddCopy(copy, o, {kOther}, 0x70).ok());
        copy = l.ReserveImport(kFile, 4).value();
        EXPECT_TRUE(l.AddCopy(copy, o, {kOther}, 0x71).ok());
      },
      [](Ledger& l, ClientRef c, ClientRef) { EXPECT_TRUE(l.Free(c, {0x40}).ok()); },
      [](Ledger& l, ClientRef, ClientRef o) { EXPECT_TRUE(l.Free(o, {0x60}).ok()); },
      [](Ledger& l, ClientRef, ClientRef o) { EXPECT_TRUE(l.Free(o, {0x51}).ok()); },
      [](Ledger& l, ClientRef, ClientRef) { l.CloseFile(kFile); },
      [](Ledger& l, ClientRef, ClientRef) { l.CloseFile(11); },
      [](Ledger& l, ClientRef, ClientRef) { l.ForceExtra({21, 5}, 0, 0); },
      [](Ledger& l, ClientRef, ClientRef o) { EXPECT_TRUE(l.RemoveClient(o)); },
      [](Ledger& l, ClientRef, ClientRef) { l.ForceExtra({22, 6}, 1, 0); },
  };
  const auto next = NewLedger();
  ASSERT_TRUE(Load(Saved(*ledger_), *next).ok());
  for (const Step step : kSteps) {
    step(*ledger_, client_, other_);
    step(*next, client_, other_);
    ExpectAlike(*ledger_, *next);
    EXPECT_EQ(Saved(*next), Saved(*ledger_));
  }
  for (Gpu gpu = 0; gpu < 2; ++gpu) {
    EXPECT_EQ(next->Used(gpu), 0U);
    EXPECT_EQ(next->Bar1Used(gpu), 0U);
  }
  EXPECT_EQ(next->Count(), Counts{});
}

TEST_F(LedgerStateTest, SerialNumbersAreNotGivenTwice) {
  const auto next = NewLedger();
  ASSERT_TRUE(ledger_->RemoveClient(other_));
  ASSERT_TRUE(Load(Saved(*ledger_), *next).ok());
  Reservation reservation = next->ReserveClient().value();
  const ClientRef again = next->AddClient(reservation, kOther, 1, 1).value();
  EXPECT_FALSE(next->RemoveClient(other_)) << "the one that is gone";
  EXPECT_TRUE(next->RemoveClient(again));
}

TEST_F(LedgerStateTest, WhatACallHeldThatDiedIsNotInIt) {
  {
    const Reservation channel = ledger_->Reserve(Kind::kChannel, 0, 10).value();
    const Reservation view = ledger_->ReserveMapping(client_, {0x40}, 9).value();
    (void)Add(client_, 0x80, 0x90, Kind::kMemory, 10, 0x41);
    const Reservation pin = ledger_->ReserveDup(client_, {0x90}).value();
    ASSERT_TRUE(ledger_->Free(client_, {0x90}).ok());
  }
  const auto next = NewLedger();
  ASSERT_TRUE(Load(Saved(*ledger_), *next).ok());
  (void)ledger_->ReserveClient();  // it notices
  ExpectAlike(*ledger_, *next);
}

TEST_F(LedgerStateTest, WantsAsManyGpus) {
  for (const std::size_t gpus : {0U, 1U, 3U}) {
    EXPECT_FALSE(Load(Saved(*ledger_), *NewLedger(gpus)).ok()) << gpus;
  }
  EXPECT_FALSE(Load("", *NewLedger(0)).ok()) << "not even a serial number";
}

// Checks that an accepted state is a ledger: it answers the same when asked again, and ends empty.
void ExpectSound(std::string_view bytes) {
  const auto ledger = NewLedger();
  if (!Load(bytes, *ledger).ok()) {
    return;
  }
  const std::string once = Saved(*ledger);
  const auto next = NewLedger();
  ASSERT_TRUE(Load(once, *next).ok());
  EXPECT_EQ(Saved(*next), once);
  for (const ClientInfo& client : next->Clients()) {
    EXPECT_TRUE(next->RemoveClient(client.ref));
  }
  EXPECT_EQ(next->Count().clients, 0U);
  EXPECT_EQ(next->Count().mappings, 0U);
  EXPECT_EQ(next->Bar1Used(0) + next->Bar1Used(1), 0U);
}

TEST_F(LedgerStateTest, BytesThatMakeNoSenseDoNoHarm) {
  const std::string whole = Saved(*ledger_);
  std::mt19937 random(1);
  for (std::size_t at = 0; at < whole.size(); ++at) {
    ExpectSound(std::string_view(whole).substr(0, at));
    std::string wrong = whole;
    for (const int value : {0, 1, 2, 3, 0x7f, 0x80, static_cast<int>(random() % 256)}) {
      wrong[at] = static_cast<char>(value);
      ExpectSound(wrong);
    }
  }
}

// Adds one row to a state.
class Row {
 public:
  explicit Row(StateTag tag) { writer_.Begin(tag); }
  Row& operator<<(std::uint64_t number) {
    writer_.Number(number);
    return *this;
  }
  std::string Take() {
    writer_.End();
    return writer_.Take();
  }

 private:
  StateWriter writer_;
};

std::string Around(const std::string& records) {
  std::string bytes(1, static_cast<char>(kState));
  std::size_t size = records.size();
  for (; size > 0x7f; size >>= 7) {
    bytes.push_back(static_cast<char>(size | 0x80));
  }
  return bytes + static_cast<char>(size) + records;
}

TEST(LedgerStateRows, WhatCannotBeIsRefused) {
  const std::string base = (Row(1) << 9).Take() + (Row(2) << 9).Take() + (Row(2) << 9).Take() +
                           (Row(3) << 1 << 100 << 0 << 1 << 0).Take() +
                           (Row(4) << 2 << 50 << 1 << 1).Take() +
                           (Row(5) << 3 << 50 << 7 << 50 << 0 << 0 << 1).Take() +
                           (Row(5) << 4 << 50 << 8 << 7 << 0 << 2 << 0).Take();
  ASSERT_TRUE(Load(Around(base), *NewLedger()).ok());
  ASSERT_TRUE(Load(Around(base + (Row(9) << 0 << 1 << 1 << 5).Take()), *NewLedger()).ok());
  constexpr std::uint64_t kMost = ~std::uint64_t{0};
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"record 30 is of a newer version", Row(30 | kRequired).Take()},
      {"there are more GPUs", (Row(2) << 9).Take()},
      {"nothing holds a block", (Row(3) << 5 << 1 << 0 << 1 << 0).Take()},
      {"the order of blocks", (Row(3) << 1 << 1 << 0 << 1 << 0).Take()},
      {"a kind of block", (Row(3) << 5 << 1 << 0 << 6 << 0).Take()},
      {"a GPU that is not granted", (Row(3) << 5 << 1 << 2 << 0 << 0).Take()},
      {"the sum of a GPU", (Row(3) << 5 << (kMost - 99) << 0 << 0 << 0).Take()},
      {"a client that is there already", (Row(4) << 5 << 50 << 1 << 1).Take()},
      {"the order of objects", (Row(4) << 4 << 51 << 1 << 1).Take()},
      {"the next serial number", (Row(4) << 9 << 51 << 1 << 1).Take()},
      {"the place of an object", (Row(5) << 5 << 51 << 9 << 50 << 0 << 0 << 0).Take()},
      {"the place of an object", (Row(5) << 5 << 50 << 9 << 10 << 0 << 0 << 0).Take()},
      {"the place of an object", (Row(5) << 5 << 50 << 8 << 50 << 0 << 0 << 0).Take()},
      {"a GPU that is not granted", (Row(5) << 5 << 50 << 9 << 50 << 0 << 3 << 0).Take()},
      {"a block that is not there", (Row(5) << 5 << 50 << 9 << 50 << 0 << 0 << 2).Take()},
      {"a number is too large", (Row(5) << 5 << 50 << kMost << 50 << 0 << 0 << 0).Take()},
      {"a dependency", (Row(6) << 50 << 7 << 7).Take()},
      {"a dependency", (Row(6) << 50 << 50 << 7).Take()},
      {"a view of an object", (Row(7) << 50 << 9 << 0 << 1 << 0).Take()},
      {"a client that is not there", (Row(7) << 51 << 7 << 0 << 1 << 0).Take()},
      {"a GPU that is not granted", (Row(7) << 50 << 7 << 0 << 1 << 2).Take()},
      {"the sum of a window",
       (Row(7) << 50 << 7 << 0 << kMost << 0).Take() + (Row(7) << 50 << 7 << 1 << 1 << 0).Take()},
      {"a place in a file",
       (Row(8) << 1 << 1 << 0 << 0 << 0).Take() + (Row(8) << 1 << 1 << 0 << 0 << 1).Take()},
      {"a block that is not there", (Row(8) << 1 << 1 << 0 << 0 << 2).Take()},
      {"a GPU that is not granted", (Row(8) << 1 << 1 << 0 << 3 << 0).Take()},
      {"the sum of a GPU", (Row(9) << 0 << 1 << 1 << (kMost - 99)).Take()},
      {"a sum that is there",
       (Row(9) << 0 << 1 << 1 << 5).Take() + (Row(9) << 0 << 1 << 1 << 6).Take()},
      {"a GPU that is not granted", (Row(9) << 2 << 1 << 1 << 5).Take()},
      {"the number of strays", (Row(11) << (1U << 31U)).Take()},
      {"the number of strays", (Row(11) << 1).Take() + (Row(11) << 1).Take()},
      {"a doubt of nothing", (Row(12) << 50 << 9).Take()},
      {"a doubt of nothing", (Row(12) << 50 << 50).Take()},
      {"a doubt of nothing", (Row(12) << 50 << 7).Take() + (Row(12) << 50 << 7).Take()},
      {"a client that is not there", (Row(12) << 51 << 7).Take()},
  };
  for (const auto& [why, rows] : wrong) {
    const Result<> loaded = Load(Around(base + rows), *NewLedger());
    ASSERT_FALSE(loaded.ok()) << why;
    EXPECT_NE(loaded.error().what.find(why), std::string::npos) << loaded.error().what;
  }
}

}  // namespace
}  // namespace cgpu::ledger
