#include "grant/grant.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace cgpu {
namespace {

using testing::HasSubstr;
using Kind = MemoryRequest::Kind;
constexpr std::uint64_t kMib = std::uint64_t{1} << 20;

Card MakeCard(unsigned index, std::uint64_t mib, const std::string& uuid = "GPU-0") {
  Card card;
  card.index = index;
  card.minor = index;
  card.uuid = uuid;
  card.model = "Tesla V100-SXM2-16GB";
  card.memory_bytes = mib * kMib;
  return card;
}

std::vector<Card> Node() {
  return {MakeCard(0, 16160, "GPU-3f2a0000-0000-0000-0000-000000000001"),
          MakeCard(1, 16160, "GPU-3f2b0000-0000-0000-0000-000000000002"),
          MakeCard(2, 16160, "GPU-77770000-0000-0000-0000-000000000003")};
}

ResourceRequest Ask(const std::string& gpus, const MemoryRequest& memory) {
  return {{*ParseGpus(gpus)}, {memory}};
}

MemoryRequest Size(const std::string& text) {
  return *ParseSize(text);
}

// The published outputs: physical MiB, units of the container on the GPU, MiB that it sees.
TEST(LimitOnCard, GivesThePublishedOutputsToTheMib) {
  struct Case {
    std::uint64_t mib, units, of, sees;
  };
  constexpr Case kCases[] = {{16160, 4, 15, 4309},
                             {16130, 4, 15, 4301},
                             {16130, 2, 15, 2150},
                             {23028, 8, 22, 8373},
                             {15360, 3, 15, 3072}};
  for (const Case& c : kCases) {
    const Card card = MakeCard(0, c.mib);
    EXPECT_EQ(UnitsOf(card), c.of);
    EXPECT_EQ(*LimitOnCard({Kind::kUnits, c.units, 0}, card, 1), c.sees * kMib);
    EXPECT_EQ(*LimitOnCard({Kind::kUnits, 2 * c.units, 0}, card, 2), c.sees * kMib);
    EXPECT_EQ(*LimitOnCard({Kind::kFraction, c.units, c.of}, card, 1), c.sees * kMib);
  }
}

TEST(LimitOnCard, WholeCardSizesAndPercentages) {
  const Card card = MakeCard(0, 16160);
  EXPECT_EQ(*LimitOnCard({}, card, 1), 16160 * kMib);
  EXPECT_EQ(*LimitOnCard(Size("16160"), card, 1), 16160 * kMib);
  EXPECT_EQ(*LimitOnCard(Size("4GiB"), card, 2), 4096 * kMib);
  EXPECT_EQ(*LimitOnCard(Size("100%"), card, 1), 16160 * kMib);
  EXPECT_EQ(*LimitOnCard(Size("33%"), card, 1), 5332 * kMib);  // 5332.8
  EXPECT_EQ(*LimitOnCard({Kind::kUnits, 15, 0}, card, 1), 16160 * kMib);
}

TEST(LimitOnCard, RefusesWhatTheCardDoesNotHave) {
  const Card card = MakeCard(0, 16160);
  const auto over = LimitOnCard(Size("16161"), card, 1);
  EXPECT_EQ(over.error().code, Code::kExhausted);
  EXPECT_THAT(over.error().what, HasSubstr("16161 MiB asked on GPU 0"));
  EXPECT_THAT(over.error().what, HasSubstr("16160 MiB"));
  EXPECT_FALSE(LimitOnCard(Size("1099511627776"), card, 1).ok());
  const auto units = LimitOnCard({Kind::kUnits, 16, 0}, card, 1);
  EXPECT_THAT(units.error().what, HasSubstr("16 units asked on GPU 0"));
  EXPECT_THAT(units.error().what, HasSubstr("has 15"));
}

TEST(LimitOnCard, RefusesUnitsThatDoNotDivide) {
  const auto odd = LimitOnCard({Kind::kUnits, 7, 0}, MakeCard(0, 16160), 2);
  ASSERT_FALSE(odd.ok());
  EXPECT_EQ(odd.error().code, Code::kInvalid);
  EXPECT_THAT(odd.error().what, HasSubstr("7 units cannot be divided evenly over 2 GPUs"));
}

TEST(LimitOnCard, RefusesNothing) {
  EXPECT_FALSE(LimitOnCard({Kind::kFraction, 1, 1 << 20}, MakeCard(0, 16160), 1).ok());
  EXPECT_FALSE(LimitOnCard({Kind::kPercent, 1, 0}, MakeCard(0, 50), 1).ok());
  EXPECT_FALSE(LimitOnCard({}, MakeCard(0, 0), 1).ok());
}

std::vector<unsigned> Indices(const Result<std::vector<Card>>& cards) {
  std::vector<unsigned> indices;
  if (cards.ok()) {
    for (const Card& card : cards.value()) {
      indices.push_back(card.index);
    }
  }
  return indices;
}

TEST(SelectCards, TakesIndicesUuidsAndPrefixesInTheOrderGiven) {
  using testing::ElementsAre;
  const auto select = [](const std::string& text) {
    return Indices(SelectCards(*ParseGpus(text), Node()));
  };
  EXPECT_THAT(select("all"), ElementsAre(0, 1, 2));
  EXPECT_THAT(select("2"), ElementsAre(0, 1));
  EXPECT_THAT(select("device=2,0"), ElementsAre(2, 0));
  EXPECT_THAT(select("device=GPU-3f2b0000-0000-0000-0000-000000000002"), ElementsAre(1));
  EXPECT_THAT(select("device=GPU-3f2b"), ElementsAre(1));
  EXPECT_THAT(select("device=3F2B,0"), ElementsAre(1, 0));
  // Digits alone are always an index, never a UUID's beginning.
  EXPECT_THAT(select("device=7777"), ElementsAre());
  EXPECT_THAT(select("device=GPU-7"), ElementsAre(2));
}

TEST(SelectCards, RefusesUnknownDuplicateAndAmbiguous) {
  struct Case {
    const char* gpus;
    Code code;
    const char* says;
  };
  constexpr Case kCases[] = {
      {"device=3", Code::kNotFound, "there is no GPU 3"},
      {"device=99999999999999999999", Code::kNotFound, "there is no GPU 9999"},
      {"device=GPU-aaaa", Code::kNotFound, "no GPU with the UUID GPU-aaaa"},
      {"device=GPU-", Code::kNotFound, "no GPU with the UUID"},
      {"device=0,0", Code::kInvalid, "GPU 0 (Tesla V100-SXM2-16GB) is named twice"},
      {"device=1,GPU-3f2b", Code::kInvalid, "GPU 1 (Tesla V100-SXM2-16GB) is named twice"},
      {"device=GPU-3f2", Code::kInvalid, "is ambiguous"},
      {"4", Code::kNotFound, "4 GPUs asked"},
  };
  for (const Case& c : kCases) {
    const auto cards = SelectCards(*ParseGpus(c.gpus), Node());
    ASSERT_FALSE(cards.ok()) << c.gpus;
    EXPECT_EQ(cards.error().code, c.code) << c.gpus;
    EXPECT_THAT(cards.error().what, HasSubstr(c.says)) << c.gpus;
    EXPECT_FALSE(cards.error().hint.empty()) << c.gpus;
  }
  EXPECT_EQ(SelectCards(GpuRequest{}, {}).error().code, Code::kNotFound);
}

TEST(FitsOnCard, SaysWhatIsFree) {
  const Card card = MakeCard(1, 16160);
  EXPECT_TRUE(FitsOnCard(card, 12000 * kMib, 4160 * kMib).ok());
  const auto fits = FitsOnCard(card, 12000 * kMib, 4161 * kMib);
  ASSERT_FALSE(fits.ok());
  EXPECT_EQ(fits.error().code, Code::kExhausted);
  EXPECT_THAT(fits.error().what, HasSubstr("4161 MiB asked on GPU 1"));
  EXPECT_THAT(fits.error().what, HasSubstr("4160 MiB of 16160 MiB are free"));
  EXPECT_THAT(fits.error().hint, HasSubstr("at most 4160 MiB"));
  EXPECT_FALSE(FitsOnCard(card, 99999 * kMib, 1).ok());
  EXPECT_FALSE(FitsOnCard(card, 1, ~std::uint64_t{0}).ok());
}

TEST(MakeGrant, EightUnitsOverTwoCards) {
  const auto grant = MakeGrant(Ask("2", {Kind::kUnits, 8, 0}), Node(), {{}, {}, {}});
  ASSERT_TRUE(grant.ok());
  ASSERT_EQ(grant.value().cards.size(), 2U);
  for (const CardGrant& card : grant.value().cards) {
    EXPECT_EQ(card.limit_bytes, 4309 * kMib);
  }
}

TEST(MakeGrant, ByDefaultAllCardsWhole) {
  const auto grant = MakeGrant({}, Node(), {{}, {}, {}});
  ASSERT_TRUE(grant.ok());
  ASSERT_EQ(grant.value().cards.size(), 3U);
  EXPECT_EQ(grant.value().cards[2].limit_bytes, 16160 * kMib);
  EXPECT_FALSE(MakeGrant({}, Node(), {{}, {}, {1}}).ok());
}

TEST(MakeGrant, ACountTakesTheFirstCardsWithRoom) {
  const std::vector<CardUse> granted{{10000 * kMib}, {}, {}};
  const auto grant = MakeGrant(Ask("2", Size("8GiB")), Node(), granted);
  ASSERT_TRUE(grant.ok());
  EXPECT_EQ(grant.value().cards[0].card.index, 1U);
  EXPECT_EQ(grant.value().cards[1].card.index, 2U);
  const auto none = MakeGrant(Ask("3", Size("8GiB")), Node(), granted);
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.error().what, HasSubstr("on GPU 0"));
  EXPECT_THAT(none.error().what, HasSubstr("6160 MiB of 16160 MiB are free"));
}

TEST(MakeGrant, ANamedCardIsTheCardMeant) {
  const std::vector<CardUse> granted{{10000 * kMib}, {}, {}};
  EXPECT_FALSE(MakeGrant(Ask("device=0", Size("8GiB")), Node(), granted).ok());
  EXPECT_FALSE(MakeGrant(Ask("all", Size("8GiB")), Node(), granted).ok());
}

TEST(MakeGrant, ACardHasSoManySlicesAndNoMore) {
  const std::vector<CardUse> uses{{kMib, 2, 2}, {kMib, 1, 2}, {}};
  const auto full = MakeGrant(Ask("device=0", Size("1GiB")), Node(), uses);
  ASSERT_FALSE(full.ok());
  EXPECT_EQ(full.error().code, Code::kExhausted);
  EXPECT_THAT(full.error().what, HasSubstr("GPU 0 (Tesla V100-SXM2-16GB) has 2 slices already"));
  EXPECT_THAT(full.error().what, HasSubstr("max_inst is 2"));
  EXPECT_THAT(full.error().hint, HasSubstr("max_inst"));
  EXPECT_TRUE(MakeGrant(Ask("device=1", Size("1GiB")), Node(), uses).ok());
  const auto counted = MakeGrant(Ask("2", Size("1GiB")), Node(), uses);
  ASSERT_TRUE(counted.ok()) << "a count passes the full card over";
  EXPECT_EQ(counted->cards[0].card.index, 1U);
  EXPECT_FALSE(MakeGrant(Ask("all", Size("1GiB")), Node(), uses).ok());
  ResourceRequest whole = Ask("device=2", Size("1GiB"));
  whole.whole = *ParseDeviceList("1");
  EXPECT_FALSE(MakeGrant(whole, Node(), {{}, {0, 1, 1}, {}}).ok());
}

TEST(MakeGrant, TwoRequestsMustAgree) {
  ResourceRequest request;
  request.gpus = {*ParseGpus("device=0"), *ParseGpus("device=GPU-3f2a")};
  request.memory = {{Kind::kFraction, 4, 15}, Size("4309MiB")};
  EXPECT_TRUE(MakeGrant(request, Node(), {{}, {}, {}}).ok());
  request.memory[1] = Size("4310MiB");
  const auto memory = MakeGrant(request, Node(), {{}, {}, {}});
  EXPECT_EQ(memory.error().code, Code::kConflict);
  EXPECT_THAT(memory.error().what, HasSubstr("4309 MiB and 4310 MiB"));
  request.memory.pop_back();
  request.gpus[1] = *ParseGpus("device=1");
  EXPECT_EQ(MakeGrant(request, Node(), {{}, {}, {}}).error().code, Code::kConflict);
}

TEST(MakeGrant, GivesOtherCardsWhole) {
  ResourceRequest request = Ask("device=2", Size("4GiB"));
  request.whole = *ParseDeviceList("2,0");
  const auto grant = MakeGrant(request, Node(), {{}, {}, {}});
  ASSERT_TRUE(grant.ok()) << grant.error().what;
  ASSERT_EQ(grant->cards.size(), 2U);
  EXPECT_EQ(grant->cards[0].card.index, 0U);
  EXPECT_EQ(grant->cards[0].limit_bytes, 16160 * kMib);
  EXPECT_EQ(grant->cards[1].card.index, 2U);
  EXPECT_EQ(grant->cards[1].limit_bytes, 4096 * kMib);
  const auto taken = MakeGrant(request, Node(), {{kMib}, {}, {}});
  ASSERT_FALSE(taken.ok()) << "somebody has a part of card 0";
  EXPECT_EQ(taken.error().code, Code::kExhausted);
  request.whole = *ParseDeviceList("7");
  EXPECT_EQ(MakeGrant(request, Node(), {{}, {}, {}}).error().code, Code::kNotFound);
}

}  // namespace
}  // namespace cgpu
