#include <gtest/gtest.h>

#include <limits>

#include "rm/context_buffers.h"
#include "rm/nv_structs.h"
#include "rm/vidmem.h"

namespace cgpu::rm {
namespace {

constexpr NvU64 kMax = std::numeric_limits<NvU64>::max();

NvU32 PageAttr(NvU32 page) {
  return NVOS32_ATTR_PAGE_SIZE.Set(0, page);
}

TEST(RoundVidmem, ByDefaultSmallOnesTakeBigPagesAndLargeOnesHuge) {
  EXPECT_EQ(RoundVidmem(0, 0, 0), 0U);
  EXPECT_EQ(RoundVidmem(1, 0, 0), kPageBig);
  EXPECT_EQ(RoundVidmem(kPageBig + 1, 0, 0), 2 * kPageBig);
  EXPECT_EQ(RoundVidmem(kPageHuge - 1, 0, 0), kPageHuge);
  EXPECT_EQ(RoundVidmem(kPageHuge, 0, 0), kPageHuge);
  EXPECT_EQ(RoundVidmem(kPageHuge + 1, 0, 0), 2 * kPageHuge);
}

TEST(RoundVidmem, ByTheRequestedPage) {
  EXPECT_EQ(RoundVidmem(1, PageAttr(NVOS32_ATTR_PAGE_SIZE_4KB), 0), kPageBig);
  EXPECT_EQ(ReportedVidmemSize(1, PageAttr(NVOS32_ATTR_PAGE_SIZE_4KB), 0), kPage4K);
  EXPECT_EQ(RoundVidmem(kPageHuge + 1, PageAttr(NVOS32_ATTR_PAGE_SIZE_BIG), 0),
            kPageHuge + kPageBig);
  EXPECT_EQ(RoundVidmem(1, PageAttr(NVOS32_ATTR_PAGE_SIZE_HUGE), 0), kPageHuge);
  const NvU32 huge512 = NVOS32_ATTR2_PAGE_SIZE_HUGE.Set(0, NVOS32_ATTR2_PAGE_SIZE_HUGE_512MB);
  EXPECT_EQ(RoundVidmem(1, PageAttr(NVOS32_ATTR_PAGE_SIZE_HUGE), huge512), kPage512M);
  EXPECT_EQ(RoundVidmem(1, 0, huge512), kPageBig) << "attr2 counts with huge pages only";
}

TEST(RoundVidmem, CompressionRoundsFurther) {
  EXPECT_EQ(RoundVidmem(1, NVOS32_ATTR_COMPR.Set(0, 2), 0), kCompressionPage);
}

TEST(RoundVidmem, AFixedAddressTakesItsAlignment) {
  VidmemRequest request{
      .size = 1,
      .flags = NVOS32_ALLOC_FLAGS_FIXED_ADDRESS_ALLOCATE | NVOS32_ALLOC_FLAGS_ALIGNMENT_FORCE,
      .alignment = NvU64{1} << 30};
  EXPECT_EQ(RoundVidmem(request), NvU64{1} << 30);
  request.flags = NVOS32_ALLOC_FLAGS_ALIGNMENT_FORCE;
  EXPECT_EQ(RoundVidmem(request), kPageBig);
  request.flags = NVOS32_ALLOC_FLAGS_FIXED_ADDRESS_ALLOCATE;
  EXPECT_EQ(RoundVidmem(request), kPageBig);
}

TEST(RoundVidmem, SaturatesAndNeverShrinks) {
  EXPECT_EQ(RoundVidmem(kMax, 0, 0), kMax);
  EXPECT_EQ(RoundVidmem(kMax - kPageHuge + 2, 0, 0), kMax);
  for (NvU64 size = 1; size != 0; size <<= 1) {
    for (NvU32 page = 0; page < 4; ++page) {
      for (NvU64 near : {size - 1, size, size + 1}) {
        const NvU64 charged = RoundVidmem(near, PageAttr(page), 0);
        EXPECT_GE(charged, near);
        EXPECT_GE(charged, ReportedVidmemSize(near, PageAttr(page), 0));
      }
    }
  }
}

TEST(ContextGroupBytes, SumsWholePagesAndHeaders) {
  ContextBufferSizes sizes = {};
  EXPECT_EQ(ContextGroupBytes(sizes, 64), 0U);
  sizes[0] = 1;
  EXPECT_EQ(ContextGroupBytes(sizes, 0), kPageBig);
  EXPECT_EQ(ContextGroupBytes(sizes, 64), 5 * kPageBig) << "4 KiB + 64 headers, in 64 KiB units";
  sizes[3] = kPageHuge;
  EXPECT_EQ(ContextGroupBytes(sizes, 64), kPageHuge + 5 * kPageBig);
  sizes[4] = kMax;
  EXPECT_EQ(ContextGroupBytes(sizes, 64), kMax);
}

}  // namespace
}  // namespace cgpu::rm
