// The classes and calls that make memory, and what of them takes the GPU's.
#include <gtest/gtest.h>

#include <array>
#include <memory>

#include "rm/nv_structs.h"
#include "sim/tests/process.h"

namespace cgpu::sim {
namespace {

constexpr rm::NvU32 kNoMap = 1U << 30;
constexpr rm::NvU32 kFixed = 1U << 15;

class Memory : public testing::Test {
 protected:
  [[nodiscard]] rm::NvU64 Used() { return mine.GetAccounting().gpus[0].used_bytes; }

  rm::NvStatus AllocMemory(rm::NvU32 cls, rm::NvU32 flags, rm::NvP64 address, rm::NvU64* limit) {
    rm::nv_ioctl_nvos02_parameters_with_fd api{};
    api.params.hRoot = mine.client;
    api.params.hObjectParent = mine.device;
    api.params.hObjectNew = next_handle++;
    api.params.hClass = cls;
    api.params.flags = flags;
    api.params.pMemory = address;
    api.params.limit = *limit;
    EXPECT_EQ(0, mine.Ioctl(mine.gpu_file, rm::NV_ESC_RM_ALLOC_MEMORY, api));
    *limit = api.params.limit;
    return api.params.status;
  }

  rm::NvStatus MapDma(rm::NvHandle range, rm::NvHandle memory, rm::NvU64 address,
                      rm::NvU64 length) {
    rm::NVOS46_PARAMETERS_V535 api{};
    api.hClient = mine.client;
    api.hDevice = mine.device;
    api.hDma = range;
    api.hMemory = memory;
    api.length = length;
    api.flags = kFixed;
    api.dmaOffset = address;
    EXPECT_EQ(0, mine.Ioctl(mine.ctl, rm::NV_ESC_RM_MAP_MEMORY_DMA, api));
    EXPECT_EQ(address, api.dmaOffset);
    return api.status;
  }

  std::unique_ptr<Driver> driver = MakeDriver("t4");
  Process mine{*driver, 100};
  rm::NvHandle next_handle = 0xCC00;

  Memory() {
    // A GPU's file finds its clients through the control file it is registered with.
    rm::nv_ioctl_register_fd_t api{Process::kCtlFd};
    EXPECT_EQ(0, mine.Ioctl(mine.gpu_file, rm::NV_ESC_REGISTER_FD, api));
  }
};

TEST_F(Memory, OsDescriptorPinsPagesThatExist) {
  alignas(4096) static std::array<char, 8192> pages;
  rm::NvU64 limit = pages.size() - 1;
  const auto address = reinterpret_cast<rm::NvP64>(pages.data());
  EXPECT_EQ(rm::NV_OK,
            AllocMemory(rm::NV01_MEMORY_SYSTEM_OS_DESCRIPTOR, kNoMap | 1U << 12, address, &limit));
  EXPECT_EQ(rm::NV_ERR_INVALID_ADDRESS,
            AllocMemory(rm::NV01_MEMORY_SYSTEM_OS_DESCRIPTOR, kNoMap, 0x1000, &limit));
  EXPECT_EQ(rm::NV_ERR_INVALID_FLAGS,
            AllocMemory(rm::NV01_MEMORY_SYSTEM_OS_DESCRIPTOR, 0, address, &limit));
  EXPECT_EQ(0U, Used());
}

TEST_F(Memory, OlderCallGivesOrdinaryCallersNothingOfTheGpu) {
  rm::NvU64 limit = 0;
  EXPECT_EQ(rm::NV_OK, AllocMemory(rm::NV01_MEMORY_LOCAL_USER, 0, 0, &limit));
  EXPECT_EQ(15360 * kMiB - 1, limit);
  EXPECT_EQ(0U, Used());
  EXPECT_EQ(rm::NV_ERR_INSUFFICIENT_PERMISSIONS,
            AllocMemory(rm::NV01_MEMORY_LIST_FBMEM, 0, 0, &limit));
}

TEST_F(Memory, PhysicalMemoryIsForAdministratorsAndAsksWhoCallsNow) {
  std::array<rm::NvU64, 3> params{};
  rm::NvHandle handle = 0;
  EXPECT_EQ(rm::NV_ERR_INSUFFICIENT_PERMISSIONS,
            mine.TryAlloc(mine.device, rm::NV01_MEMORY_LOCAL_PHYSICAL, params, &handle));
  mine.caller.admin = true;
  handle = 0;
  EXPECT_EQ(rm::NV_OK, mine.TryAlloc(mine.device, rm::NV01_MEMORY_LOCAL_PHYSICAL, params, &handle));
  EXPECT_EQ(15360 * kMiB, params[0]);
  EXPECT_EQ(0U, Used());  // a view of all of it, which takes none
}

TEST_F(Memory, OsDescriptorByRmAllocNeedsADescriptor) {
  rm::NV_OS_DESC_MEMORY_ALLOCATION_PARAMS params{};
  rm::NvHandle handle = 0;
  EXPECT_EQ(rm::NV_ERR_INVALID_PARAM_STRUCT,
            mine.TryAlloc(mine.device, rm::NV01_MEMORY_SYSTEM_OS_DESCRIPTOR, params, &handle));
  params.descriptor = 0x10000;
  params.limit = 4095;
  handle = 0;
  EXPECT_EQ(rm::NV_ERR_NOT_SUPPORTED,  // a virtual address
            mine.TryAlloc(mine.device, rm::NV01_MEMORY_SYSTEM_OS_DESCRIPTOR, params, &handle));
}

TEST_F(Memory, VidHeapAllocatesWithinRangesAndFrees) {
  rm::NVOS32_PARAMETERS api{};
  api.hRoot = mine.client;
  api.hObjectParent = mine.device;
  api.function = rm::NVOS32_FUNCTION_ALLOC_SIZE_RANGE;
  constexpr std::size_t kSize = 40;
  const rm::NvU64 size = 3 * kMiB;
  std::memcpy(api.data.raw + kSize, &size, sizeof(size));
  EXPECT_EQ(0, mine.Ioctl(mine.ctl, rm::NV_ESC_RM_VID_HEAP_CONTROL, api));
  EXPECT_EQ(rm::NV_OK, api.status);
  EXPECT_EQ(4 * kMiB, Used());  // 2 MiB pages
  rm::NvHandle memory = 0;
  std::memcpy(&memory, api.data.raw + 4, sizeof(memory));
  api.function = rm::NVOS32_FUNCTION_FREE;
  api.data.Free = {0, memory, 1};
  EXPECT_EQ(0, mine.Ioctl(mine.ctl, rm::NV_ESC_RM_VID_HEAP_CONTROL, api));
  EXPECT_EQ(rm::NV_OK, api.status);
  EXPECT_EQ(0U, Used());
}

TEST_F(Memory, IntervalsOfAddressesHaveTheirTablesFromTheStart) {
  const auto tables = [this] { return mine.GetAccounting().gpus[0].page_table_bytes; };
  rm::NV_MEMORY_ALLOCATION_PARAMS params{};
  params.size = 64 * kMiB;
  rm::NvHandle interval = 0;
  EXPECT_EQ(rm::NV_ERR_INVALID_ARGUMENT,
            mine.TryAlloc(mine.device, rm::NV50_MEMORY_VIRTUAL, params, &interval));
  params.flags = rm::NVOS32_ALLOC_FLAGS_VIRTUAL;
  interval = mine.Alloc(mine.device, rm::NV50_MEMORY_VIRTUAL, params);
  EXPECT_EQ(4U * 4096 + 32 * (4096 + 256), tables());  // of small and of big pages
  const rm::NvHandle memory = mine.AllocVidmem(64 * kMiB);
  EXPECT_EQ(rm::NV_OK, MapDma(interval, memory, rm::NvU64{1} << 32, 64 * kMiB));
  EXPECT_EQ(4U * 4096 + 32 * (4096 + 256), tables());
  EXPECT_EQ(rm::NV_OK, mine.Free(interval));
  EXPECT_EQ(0U, tables());
  params.attr = rm::NVOS32_ATTR_PAGE_SIZE_HUGE << 23;
  interval = mine.Alloc(mine.device, rm::NV50_MEMORY_VIRTUAL, params);
  EXPECT_EQ(4U * 4096, tables());
  EXPECT_EQ(rm::NV_OK, mine.Free(interval));
  params.attr = 0;
  params.flags |= rm::NVOS32_ALLOC_FLAGS_LAZY;
  (void)mine.Alloc(mine.device, rm::NV50_MEMORY_VIRTUAL, params);
  EXPECT_EQ(0U, tables());
}

TEST_F(Memory, MappingsTakePageTablesByAddressSpace) {
  const rm::NvHandle memory = mine.AllocVidmem(64 * kMiB);
  const rm::NvHandle range =
      mine.Alloc(mine.device, rm::NV01_MEMORY_VIRTUAL, rm::NV_MEMORY_VIRTUAL_ALLOCATION_PARAMS{});
  const rm::NvU64 before = Used();
  EXPECT_EQ(rm::NV_OK, MapDma(range, memory, rm::NvU64{1} << 40, 64 * kMiB));
  // Huge pages: a root and three directories.
  EXPECT_EQ(before + 4 * 4096, Used());
  EXPECT_EQ(4U * 4096, mine.GetAccounting().gpus[0].page_table_bytes);
  // One page more, far away: three tables of its own.
  EXPECT_EQ(rm::NV_OK, MapDma(range, memory, rm::NvU64{1} << 41, 4096));
  EXPECT_EQ(before + 6 * 4096, Used());
  EXPECT_EQ(rm::NV_OK, mine.Free(memory));
  EXPECT_EQ(0U, mine.GetAccounting().gpus[0].page_table_bytes);
  EXPECT_EQ(before - 64 * kMiB, Used());
}

TEST_F(Memory, NothingIsMappedBeyondAllAddresses) {
  const rm::NvHandle memory = mine.AllocVidmem(kMiB);
  const rm::NvHandle range =
      mine.Alloc(mine.device, rm::NV01_MEMORY_VIRTUAL, rm::NV_MEMORY_VIRTUAL_ALLOCATION_PARAMS{});
  const rm::NvU64 before = Used();
  for (const unsigned shift : {49U, 63U}) {
    EXPECT_EQ(rm::NV_ERR_INVALID_ARGUMENT, MapDma(range, memory, rm::NvU64{1} << shift, 4096));
  }
  EXPECT_EQ(rm::NV_ERR_INVALID_ARGUMENT,
            MapDma(range, memory, (rm::NvU64{1} << 49) - 4096, 2 * 4096));
  EXPECT_EQ(before, Used());
  EXPECT_EQ(rm::NV_OK, MapDma(range, memory, (rm::NvU64{1} << 49) - 4096, 4096));
}

TEST_F(Memory, UnmappingReturnsPageTables) {
  const rm::NvHandle memory = mine.AllocVidmem(kMiB);
  const rm::NvHandle range =
      mine.Alloc(mine.device, rm::NV01_MEMORY_VIRTUAL, rm::NV_MEMORY_VIRTUAL_ALLOCATION_PARAMS{});
  EXPECT_EQ(rm::NV_OK, MapDma(range, memory, 1 << 30, kMiB));
  EXPECT_LT(0U, mine.GetAccounting().gpus[0].page_table_bytes);
  rm::NVOS47_PARAMETERS_V550 api{};
  api.hClient = mine.client;
  api.hDevice = mine.device;
  api.hDma = range;
  api.dmaOffset = 1 << 30;
  EXPECT_EQ(0, mine.Ioctl(mine.ctl, rm::NV_ESC_RM_UNMAP_MEMORY_DMA, api));
  EXPECT_EQ(rm::NV_OK, api.status);
  EXPECT_EQ(0U, mine.GetAccounting().gpus[0].page_table_bytes);
  EXPECT_EQ(0, mine.Ioctl(mine.ctl, rm::NV_ESC_RM_UNMAP_MEMORY_DMA, api));
  EXPECT_EQ(rm::NV_ERR_OBJECT_NOT_FOUND, api.status);
}

TEST_F(Memory, MappedMemoryTakesBar1UntilItIsUnmapped) {
  const rm::NvHandle memory = mine.AllocVidmem(200 * kMiB);
  rm::nv_ioctl_nvos33_parameters_with_fd api{};
  api.params.hClient = mine.client;
  api.params.hDevice = mine.device;
  api.params.hMemory = memory;
  api.params.length = 200 * kMiB;
  api.fd = Process::kGpuFd;
  EXPECT_EQ(0, mine.Ioctl(mine.ctl, rm::NV_ESC_RM_MAP_MEMORY, api));
  EXPECT_EQ(rm::NV_OK, api.params.status);
  EXPECT_EQ(200 * kMiB, mine.GetAccounting().gpus[0].bar1_used_bytes);
  // A T4 shows 256 MiB at a time, to all its users together.
  Process other(*driver, 101);
  rm::nv_ioctl_nvos33_parameters_with_fd theirs{};
  theirs.params.hClient = other.client;
  theirs.params.hDevice = other.device;
  theirs.params.hMemory = other.AllocVidmem(60 * kMiB);
  theirs.params.length = 60 * kMiB;
  theirs.fd = Process::kGpuFd;
  EXPECT_EQ(0, other.Ioctl(other.ctl, rm::NV_ESC_RM_MAP_MEMORY, theirs));
  EXPECT_EQ(rm::NV_ERR_NO_MEMORY, theirs.params.status);
  EXPECT_EQ(rm::NV_OK, mine.Free(memory));
  EXPECT_EQ(0U, mine.GetAccounting().gpus[0].bar1_used_bytes);
  EXPECT_EQ(0, other.Ioctl(other.ctl, rm::NV_ESC_RM_MAP_MEMORY, theirs));
  EXPECT_EQ(rm::NV_OK, theirs.params.status);
}

TEST_F(Memory, DmaBufKeepsMemoryOfAnyClient) {
  Process other(*driver, 101);
  const rm::NvHandle memory = other.AllocVidmem(2 * kMiB);
  struct {
    rm::NvS32 fd = -1;
    rm::NvHandle client = 0;
    rm::NvU32 total = 1;
    rm::NvU32 count = 1;
    rm::NvU32 index = 0;
    rm::NvU64 size = 2 * kMiB;
    rm::NvHandle handles[128] = {};
    rm::NvU64 offsets[128] = {};
    rm::NvU64 sizes[128] = {};
    rm::NvU32 status = 0;
  } api;
  static_assert(sizeof(api) == 2600);
  api.client = other.client;
  api.handles[0] = memory;
  EXPECT_EQ(0, mine.Ioctl(mine.gpu_file, rm::NV_ESC_EXPORT_TO_DMABUF_FD, api));
  EXPECT_EQ(rm::NV_ERR_OPERATING_SYSTEM, api.status);  // no file to put it in
  constexpr int kSpareFd = 9;
  const FileId spare = driver->Open(FileKind::kCtl, 255);
  mine.caller.fds[kSpareFd] = spare;
  EXPECT_EQ(0, mine.Ioctl(mine.gpu_file, rm::NV_ESC_EXPORT_TO_DMABUF_FD, api));
  EXPECT_EQ(rm::NV_OK, api.status);
  EXPECT_EQ(kSpareFd, api.fd);
  EXPECT_EQ(rm::NV_OK, other.Free(memory));
  EXPECT_EQ(2 * kMiB, Used());
  driver->Close(spare);
  EXPECT_EQ(0U, Used());
}

}  // namespace
}  // namespace cgpu::sim
