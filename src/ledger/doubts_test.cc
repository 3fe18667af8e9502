// Objects that are entered before a tenant's own call makes them, perhaps elsewhere.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/state.h"
#include "ledger/ledger.h"
#include "ledger/testing.h"

namespace cgpu::ledger {
namespace {

constexpr Handle kSecondClient = 0xc1d00002;
constexpr Handle kSecondDevice = 0x81;
constexpr Handle kPinned = 0x71;
constexpr Quotas kDoubtQuotas{.clients = 4, .handles = 8, .channel_groups = 4, .channels = 4};

class DoubtsTest : public ::testing::Test {
 protected:
  DoubtsTest() : client_(AddClient(kClient)) {
    Must(Add(kClient, kDevice));
    Must(Add(kClient, kSecondDevice));
  }
  ClientRef AddClient(Handle handle) {
    Reservation reservation = ledger_->ReserveClient().value();
    return ledger_->AddClient(reservation, handle, 1, 1).value();
  }
  static ObjectRef Must(Result<ObjectRef> added) {
    EXPECT_TRUE(added.ok());
    return added.ok() ? *added : ObjectRef{};
  }
  Result<ObjectRef> Add(Handle parent, Handle handle, bool doubtful = false,
                        Kind kind = Kind::kOther, std::uint64_t bytes = 0) {
    Result<Reservation> reservation = ledger_->Reserve(kind, 0, bytes);
    if (!reservation.ok()) {
      return reservation.error();
    }
    return ledger_->AddObject(*reservation, client_,
                              {.parent = {parent},
                               .handle = handle,
                               .cls = handle,
                               .gpu = {},
                               .actual_bytes = bytes,
                               .doubtful = doubtful});
  }
  // Asks about the object as whoever uses it.
  std::vector<Doubt> Meet(Handle handle) {
    (void)ledger_->TakeDoubts();
    (void)ledger_->Find(client_, handle);
    return ledger_->TakeDoubts();
  }
  void HandOver() {
    StateWriter writer;
    writer.Begin(1);
    ledger_->Save(writer);
    writer.End();
    const std::string bytes = writer.Take();
    ledger_ = std::make_unique<Ledger>(std::vector<std::uint64_t>{0}, kDoubtQuotas);
    StateReader reader(bytes);
    (void)reader.Enter();
    ASSERT_TRUE(ledger_->Load(reader).ok());
    EXPECT_FALSE(ledger_->CameWithoutDoubts());
  }

  std::unique_ptr<Ledger> ledger_ =
      std::make_unique<Ledger>(std::vector<std::uint64_t>{1000}, kDoubtQuotas);
  ClientRef client_;
};

TEST_F(DoubtsTest, WhoeverUsesItIsToAsk) {
  const ObjectRef pinned = Must(Add(kDevice, kPinned, true));
  EXPECT_TRUE(ledger_->HasDoubts());
  EXPECT_TRUE(ledger_->Look(client_, kPinned)->doubtful);
  EXPECT_FALSE(ledger_->Doubted()) << "a look is no use";
  const auto doubts = Meet(kPinned);
  ASSERT_EQ(doubts.size(), 1U);
  EXPECT_EQ(doubts[0].client, client_);
  EXPECT_EQ(doubts[0].object, pinned);
  EXPECT_EQ(doubts[0].parent, kDevice);
  EXPECT_EQ(doubts[0].cls, kPinned);
  EXPECT_TRUE(Meet(kDevice).empty());
  ledger_->Settle(doubts[0], true);
  EXPECT_FALSE(ledger_->HasDoubts());
  EXPECT_FALSE(ledger_->Look(client_, kPinned)->doubtful);
  EXPECT_TRUE(Meet(kPinned).empty());
  ledger_->Settle(doubts[0], false);  // too late
  EXPECT_TRUE(ledger_->Find(client_, kPinned).has_value());
  ASSERT_TRUE(ledger_->Free(client_, {kPinned}).ok());
  EXPECT_EQ(ledger_->Count().handles, 2U);
}

TEST_F(DoubtsTest, WhatIsNotThereIsForgottenAndCounts) {
  Must(Add(kDevice, kPinned, true));
  ledger_->Settle(Meet(kPinned).at(0), false);
  EXPECT_FALSE(ledger_->Find(client_, kPinned).has_value());
  EXPECT_FALSE(ledger_->HasDoubts());
  EXPECT_EQ(ledger_->Count().handles, 3U) << "it may be elsewhere";
  HandOver();
  EXPECT_EQ(ledger_->Count().handles, 3U);
  for (Handle handle = 1; handle <= 5; ++handle) {
    Must(Add(kDevice, handle));
  }
  EXPECT_FALSE(Add(kDevice, 6).ok());
  AddClient(kSecondClient);
  EXPECT_TRUE(ledger_->RemoveClient(client_));
  EXPECT_EQ(ledger_->Count().handles, 1U) << "it may be another client's";
  EXPECT_TRUE(ledger_->RemoveClient({kSecondClient, 0}));
  EXPECT_EQ(ledger_->Count().handles, 0U);
}

TEST_F(DoubtsTest, AnAnswerIsForTheObjectThatWasAskedAbout) {
  Must(Add(kDevice, kPinned, true));
  const Doubt doubt = Meet(kPinned).at(0);
  ASSERT_TRUE(ledger_->Free(client_, {kPinned}).ok());
  EXPECT_EQ(ledger_->Count().handles, 2U) << "the driver has freed what was there";
  Must(Add(kSecondDevice, kPinned, true));
  ledger_->Settle(doubt, true);
  EXPECT_TRUE(ledger_->Look(client_, kPinned)->doubtful);
  ledger_->Settle(doubt, false);
  EXPECT_TRUE(ledger_->Look(client_, kPinned).has_value());
}

TEST_F(DoubtsTest, ItGoesWithItsParentAndStaysCounted) {
  Must(Add(kDevice, kPinned, true));
  ASSERT_TRUE(ledger_->Free(client_, {kDevice}).ok());
  EXPECT_FALSE(ledger_->Look(client_, kPinned).has_value());
  EXPECT_FALSE(ledger_->HasDoubts());
  EXPECT_EQ(ledger_->Count().handles, 2U);
}

TEST_F(DoubtsTest, WhatTheDriverMadeUnderItsHandleTakesItsPlace) {
  Must(Add(kDevice, kPinned, true));
  Must(Add(kSecondDevice, kPinned, false, Kind::kMemory, 100));
  EXPECT_FALSE(ledger_->HasDoubts());
  EXPECT_EQ(ledger_->Used(0), 100U);
  EXPECT_EQ(ledger_->Count().handles, 4U);
  EXPECT_FALSE(Add(kDevice, kPinned, true).ok()) << "the other way round, it does not";
  Reservation reservation = ledger_->Reserve(Kind::kOther).value();
  ledger_->AddStray(reservation);
  EXPECT_TRUE(reservation.empty());
  EXPECT_EQ(ledger_->Count().handles, 5U);
}

TEST_F(DoubtsTest, NothingIsMadeBelowItUnderItsOwnHandle) {
  Must(Add(kDevice, kPinned, true));
  EXPECT_FALSE(Add(kPinned, kPinned).ok());
  EXPECT_TRUE(ledger_->Look(client_, kPinned).has_value());
}

TEST_F(DoubtsTest, DoubtsAreHandedOver) {
  Must(Add(kDevice, kPinned, true));
  Must(Add(kDevice, kMemory));
  HandOver();
  EXPECT_EQ(Meet(kPinned).size(), 1U);
  EXPECT_TRUE(Meet(kMemory).empty());
  EXPECT_EQ(ledger_->Count().handles, 4U);
}

// Earlier versions took such an object as certain, and let others depend on it.
TEST_F(DoubtsTest, WhatDependsOnItStaysUntilItIsFreedItself) {
  Must(Add(kDevice, kPinned));
  Must(Add(kSecondDevice, 0x50, false, Kind::kChannelGroup, 100));
  Must(Add(kPinned, 0x51, false, Kind::kMemory, 10));
  ASSERT_TRUE(ledger_->AddDependency(client_, 0x50, kPinned).ok());
  ledger_->MakeDoubtful(client_, {kPinned});
  ASSERT_TRUE(ledger_->Free(client_, {kDevice}).ok());
  EXPECT_FALSE(ledger_->Look(client_, kPinned).has_value());
  EXPECT_EQ(ledger_->Used(0), 110U);
  EXPECT_EQ(ledger_->Look(client_, 0x51)->parent, kClient);
  ASSERT_TRUE(ledger_->Free(client_, {0x50}).ok());
  ASSERT_TRUE(ledger_->Free(client_, {0x51}).ok());
  EXPECT_EQ(ledger_->Used(0), 0U);
}

TEST_F(DoubtsTest, WhatDependsOnItGoesWhenItIsFreedByItsHandle) {
  Must(Add(kDevice, kPinned));
  Must(Add(kSecondDevice, 0x50, false, Kind::kChannelGroup, 100));
  ASSERT_TRUE(ledger_->AddDependency(client_, 0x50, kPinned).ok());
  ledger_->MakeDoubtful(client_, {kPinned});
  ASSERT_TRUE(ledger_->Free(client_, {kPinned}).ok());
  EXPECT_EQ(ledger_->Used(0), 0U);
}

TEST_F(DoubtsTest, AChannelKeepsAHandleWhateverLiesThere) {
  Must(Add(kDevice, kPinned));
  Must(Add(kSecondDevice, 0x52, false, Kind::kLoneChannel));
  ASSERT_TRUE(ledger_->AddKeeper(client_, 0x52, kPinned).ok());
  EXPECT_EQ(ledger_->KeptBy(client_, 0x52), std::vector<Handle>{kPinned});
  EXPECT_TRUE(ledger_->IsKept(client_, kPinned));
  ledger_->MakeDoubtful(client_, {kPinned});
  EXPECT_FALSE(ledger_->IsKept(client_, kSecondDevice)) << "the channel goes with it";
  EXPECT_TRUE(ledger_->IsKept(client_, kDevice));
  const auto doubts = ledger_->TakeDoubts();
  ASSERT_EQ(doubts.size(), 1U) << "where it lies decides";
  ledger_->Settle(doubts[0], false);
  EXPECT_FALSE(ledger_->IsKept(client_, kDevice));
  EXPECT_TRUE(ledger_->IsKept(client_, kPinned)) << "the driver may have something there";
  ASSERT_TRUE(ledger_->Free(client_, {0x52}).ok());
  EXPECT_FALSE(ledger_->IsKept(client_, kPinned));
}

}  // namespace
}  // namespace cgpu::ledger
