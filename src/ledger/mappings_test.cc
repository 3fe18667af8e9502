// Views of memory, and the quotas of one GPU.
#include <gtest/gtest.h>

#include "ledger/ledger.h"
#include "ledger/testing.h"

namespace cgpu::ledger {
namespace {

constexpr std::uint64_t kWindow = 100;

class MappingsTest : public ::testing::Test {
 protected:
  MappingsTest() {
    ledger_.SetGpuQuotas(0, {.channel_groups = 2, .channels = 3, .bar1_bytes = kWindow});
    Reservation client = ledger_.ReserveClient().value();
    client_ = ledger_.AddClient(client, kClient, 1, 1).value();
    Reservation device = ledger_.Reserve(Kind::kOther).value();
    (void)ledger_
        .AddObject(device, client_, {.parent = {kClient}, .handle = kDevice, .cls = 0x80, .gpu = 0})
        .value();
    (void)Add(kMemory, Kind::kMemory, 1000);
  }

  bool Add(Handle handle, Kind kind, std::uint64_t bytes = 0) {
    auto reservation = ledger_.Reserve(kind, 0, bytes);
    return reservation.ok() && ledger_
                                   .AddObject(*reservation, client_,
                                              {.parent = {kDevice},
                                               .handle = handle,
                                               .gpu = {},
                                               .actual_bytes = bytes,
                                               .page_bytes = bytes == 0 ? 0U : 4096U})
                                   .ok();
  }

  bool Map(Handle memory, std::uint64_t bytes, std::uint64_t address) {
    auto reservation = ledger_.ReserveMapping(client_, {memory}, bytes);
    return reservation.ok() && ledger_.AddMapping(*reservation, client_, {memory}, address).ok();
  }

  Ledger ledger_{{10000, 10000},
                 {.clients = 4, .handles = 64, .channel_groups = 9, .channels = 9, .mappings = 5}};
  ClientRef client_;
};

TEST_F(MappingsTest, ViewsTakeBar1UntilTheyOrTheirObjectsAreGone) {
  EXPECT_EQ(ledger_.Find(client_, kMemory)->page_bytes, 4096U);
  ASSERT_TRUE(Map(kMemory, 60, 0x1000));
  EXPECT_FALSE(Map(kMemory, 41, 0x2000));
  ASSERT_TRUE(Map(kMemory, 40, 0x2000));
  EXPECT_EQ(ledger_.Bar1Used(0), 100U);
  EXPECT_EQ(ledger_.Used(0), 1000U) << "a window, not memory";
  ledger_.RemoveMapping(client_, {kMemory}, 0x3000);  // none there
  ledger_.MoveMapping(client_, {kMemory}, 0x1000, 0x5000);
  ledger_.RemoveMapping(client_, {kMemory}, 0x1000);  // moved
  EXPECT_EQ(ledger_.Bar1Used(0), 100U);
  ledger_.RemoveMapping(client_, {kMemory}, 0x5000);
  EXPECT_EQ(ledger_.Bar1Used(0), 40U);
  ASSERT_TRUE(ledger_.Free(client_, {kMemory}).ok());
  EXPECT_EQ(ledger_.Bar1Used(0), 0U);
  EXPECT_EQ(ledger_.Count().mappings, 0U);
  EXPECT_FALSE(Map(kMemory, 1, 0x1000)) << "of nothing";
}

TEST_F(MappingsTest, AViewInFlightCountsAndComesBack) {
  Reservation held = ledger_.ReserveMapping(client_, {kMemory}, kWindow).value();
  EXPECT_EQ(ledger_.Bar1Used(0), kWindow);
  EXPECT_FALSE(ledger_.ReserveMapping(client_, {kMemory}, 1).ok());
  ledger_.Cancel(held);
  EXPECT_EQ(ledger_.Bar1Used(0), 0U);
  held = ledger_.ReserveMapping(client_, {kMemory}, kWindow).value();
  ASSERT_TRUE(ledger_.Free(client_, {kMemory}).ok());
  EXPECT_FALSE(ledger_.AddMapping(held, client_, {kMemory}, 1).ok());
  ledger_.Cancel(held);
  EXPECT_EQ(ledger_.Bar1Used(0), 0U);
}

TEST_F(MappingsTest, ViewsOfACopyAreItsOwn) {
  Reservation copy = ledger_.ReserveDup(client_, {kMemory}).value();
  ASSERT_TRUE(ledger_.AddCopy(copy, client_, {kDevice}, 7).ok());
  ASSERT_TRUE(Map(kMemory, 10, 1));
  ASSERT_TRUE(Map(7, 20, 1));
  ledger_.RemoveMapping(client_, {7}, 1);
  EXPECT_EQ(ledger_.Bar1Used(0), 10U);
  EXPECT_TRUE(ledger_.RemoveClient(client_));
  EXPECT_EQ(ledger_.Bar1Used(0), 0U);
  EXPECT_EQ(ledger_.Count().mappings, 0U);
}

TEST_F(MappingsTest, TheNumberOfViewsIsBoundedWhateverTheyShow) {
  ASSERT_TRUE(Add(8, Kind::kOther));
  for (std::uint64_t address = 0; address < 5; ++address) {
    EXPECT_TRUE(Map(8, 0, address));
  }
  EXPECT_FALSE(Map(8, 0, 9));
  EXPECT_FALSE(ledger_.ReserveMapping(client_, {8}, 1).ok()) << "no GPU memory";
  ledger_.RemoveMapping(client_, {8}, 3);
  EXPECT_TRUE(Map(8, 0, 9));
}

// The driver drops one of them, and it is unknown which: no order may make the ledger count less.
TEST_F(MappingsTest, OfViewsUnderOneAddressEachCountsAsTheLargest) {
  ASSERT_TRUE(Map(kMemory, 1, 0x10));
  ASSERT_TRUE(Map(kMemory, 30, 0x20));
  ledger_.MoveMapping(client_, {kMemory}, 0x10, 0x20);
  EXPECT_EQ(ledger_.Bar1Used(0), 31U) << "both are still known";
  ledger_.MoveMapping(client_, {kMemory}, 0x20, 0x30);
  ledger_.RemoveMapping(client_, {kMemory}, 0x20);
  EXPECT_EQ(ledger_.Bar1Used(0), 30U);
  ledger_.RemoveMapping(client_, {kMemory}, 0x30);
  EXPECT_EQ(ledger_.Bar1Used(0), 0U);
}

TEST_F(MappingsTest, AGpuBoundsItsChannels) {
  EXPECT_TRUE(Add(10, Kind::kChannelGroup));
  EXPECT_TRUE(Add(11, Kind::kLoneChannel)) << "a channel and a group";
  EXPECT_FALSE(Add(12, Kind::kLoneChannel));
  EXPECT_FALSE(Add(12, Kind::kChannelGroup));
  EXPECT_TRUE(Add(12, Kind::kChannel));
  Reservation held = ledger_.Reserve(Kind::kChannel).value();
  EXPECT_FALSE(Add(13, Kind::kChannel));
  EXPECT_TRUE(ledger_.Reserve(Kind::kChannel, 1).ok()) << "another GPU has its own";
  ledger_.Cancel(held);
  EXPECT_TRUE(Add(13, Kind::kChannel));
  EXPECT_EQ(
      ledger_.Count(),
      (Counts{.clients = 1, .handles = 6, .channel_groups = 2, .channels = 3, .mappings = 0}));
  ASSERT_TRUE(ledger_.Free(client_, {11}).ok());
  EXPECT_TRUE(Add(11, Kind::kLoneChannel));
  ledger_.SetGpuQuotas(0, {.channel_groups = 1, .channels = 1, .bar1_bytes = 0});
  EXPECT_FALSE(Map(kMemory, 1, 1));
  EXPECT_FALSE(Add(14, Kind::kChannel)) << "below use: nothing more";
}

}  // namespace
}  // namespace cgpu::ledger
