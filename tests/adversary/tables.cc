// Attacks by page tables that the driver takes where no mapping is asked for: for semaphore pools
// of spaces that get a GPU later, for pages of two sizes side by side, for sparse ranges of
// addresses.
#include <algorithm>
#include <cstring>

#include "common.h"
#include "rm/vidmem.h"
#include "uvm_client.h"

namespace cgpu::adversary {
namespace {

constexpr std::uint64_t kBase = 0x100000000000;

std::uint32_t AllocPool(const UvmClient& uvm, std::uint64_t base, std::uint64_t length) {
  std::vector<char> params(rm::UvmParamSize(kBranch, rm::UVM_ALLOC_SEMAPHORE_POOL));
  const rm::UVM_ALLOC_SEMAPHORE_POOL_HEAD head{base, length};
  const rm::UVM_ALLOC_SEMAPHORE_POOL_TAIL tail{0, 0, 0};
  std::memcpy(params.data(), &head, sizeof(head));
  std::memcpy(params.data() + rm::UvmSemaphorePoolTail(kBranch), &tail, sizeof(tail));
  return uvm.Ask(rm::UVM_ALLOC_SEMAPHORE_POOL, params.data());
}

std::uint32_t RegisterSpace(const UvmClient& uvm) {
  rm::UVM_REGISTER_GPU_VASPACE_PARAMS params{uvm.uuid, uvm.client.ctl, uvm.client.root,
                                             UvmClient::kVaSpace, 0};
  return uvm.Ask(rm::UVM_REGISTER_GPU_VASPACE, &params);
}

void UnregisterSpace(const UvmClient& uvm) {
  rm::UVM_UNREGISTER_GPU_VASPACE_PARAMS params{};
  params.gpuUuid = uvm.uuid;
  if (uvm.Ask(rm::UVM_UNREGISTER_GPU_VASPACE, &params) != rm::NV_OK) {
    Die("failed: the space stays registered");
  }
}

// early|again MIB: pools of one page at every second MiB, made while the space has no GPU, or while
// it has one that then goes and comes. The driver maps them whenever a GPU comes.
int Pools(const std::vector<std::string>& args) {
  const bool early = args.at(0) == "early";
  const std::uint64_t wanted = Number(args, 1, 24) * kMiB / rm::kPage4K;
  const UvmClient uvm = MakeUvmClient();
  if (early) {
    UnregisterSpace(uvm);
  }
  std::uint64_t made = 0;
  while (made < wanted && AllocPool(uvm, kBase + made * rm::kPageHuge, rm::kPage4K) == rm::NV_OK) {
    ++made;
  }
  Say("pools %llu", static_cast<unsigned long long>(made));
  if (!early) {
    UnregisterSpace(uvm);
  }
  Say("registered 0x%x", RegisterSpace(uvm));
  Hold();
  return 0;
}

// MIB MOST: pools of so much memory of the host, until refused or MOST are there. Without a GPU's
// address space, so that no page tables are in the way.
int HostPools(const std::vector<std::string>& args) {
  const std::uint64_t length = Number(args, 0, 100 * 1024) * kMiB;
  const std::uint64_t most = Number(args, 1, 1);
  const UvmClient uvm = MakeUvmClient();
  UnregisterSpace(uvm);
  std::uint64_t made = 0;
  std::uint32_t status = rm::NV_OK;
  while (made < most && (status = AllocPool(uvm, kBase + made * length, length)) == rm::NV_OK) {
    ++made;
  }
  Say("pools %llu status 0x%x", static_cast<unsigned long long>(made), status);
  if (made != 0 && uvm.FreeRange(kBase, length) == rm::NV_OK) {
    Say("another 0x%x", AllocPool(uvm, kBase, length));
  }
  Hold();
  return 0;
}

// One page of that size, in pages of that size.
std::uint32_t AllocPage(Client& client, std::uint64_t bytes, std::uint32_t attribute) {
  rm::NV_MEMORY_ALLOCATION_PARAMS params = MemoryParams(bytes);
  params.attr = rm::NVOS32_ATTR_PAGE_SIZE.Set(params.attr, attribute);
  const std::uint32_t handle = client.next++;
  if (client.Alloc(Client::kDevice, handle, rm::NV01_MEMORY_LOCAL_USER, &params) != rm::NV_OK) {
    Die("failed: no memory");
  }
  return handle;
}

std::uint32_t MapPage(const Client& client, std::uint32_t range, std::uint32_t memory,
                      std::uint64_t address, std::uint64_t length, std::uint32_t page_size) {
  rm::NVOS46_PARAMETERS_V535 map{};
  map.hClient = client.root;
  map.hDevice = Client::kDevice;
  map.hDma = range;
  map.hMemory = memory;
  map.length = length;
  map.flags =
      rm::NVOS46_FLAGS_PAGE_SIZE.Set(0, page_size) | rm::NVOS46_FLAGS_DMA_OFFSET_FIXED.Set(0, 1);
  map.dmaOffset = address;
  const int error = client.issue(client.ctl, rm::NV_ESC_RM_MAP_MEMORY_DMA, &map, sizeof(map));
  return error != 0 ? kNoAnswer : map.status;
}

// uvm|rm MIB: a page of 4 KiB and one of 64 KiB in each 2 MiB, where the driver has two tables
// then.
int Mixed(const std::vector<std::string>& args) {
  const bool by_uvm = args.at(0) == "uvm";
  const std::uint64_t wanted = Number(args, 1, 24) * kMiB / rm::kPage4K;
  UvmClient uvm = MakeUvmClient();
  Client& client = uvm.client;
  const std::uint32_t small = AllocPage(client, rm::kPage4K, rm::NVOS32_ATTR_PAGE_SIZE_4KB);
  const std::uint32_t big = AllocPage(client, rm::kPageBig, rm::NVOS32_ATTR_PAGE_SIZE_BIG);
  const std::uint32_t range = client.next++;
  rm::NV_MEMORY_VIRTUAL_ALLOCATION_PARAMS params{};
  params.limit = (std::uint64_t{1} << 47) - 1;
  const std::uint32_t status =
      by_uvm
          ? uvm.CreateRange(kBase, wanted * rm::kPageHuge)
          : client.Alloc(Client::kDevice, range, rm::NV01_MEMORY_VIRTUAL, &params, sizeof(params));
  if (status != rm::NV_OK) {
    Die("failed: no range of addresses");
  }
  const auto map = [&](std::uint32_t memory, std::uint64_t at, std::uint64_t length) {
    return by_uvm ? uvm.Map(at, length, memory)
                  : MapPage(client, range, memory, at, length,
                            memory == small ? rm::NVOS46_FLAGS_PAGE_SIZE_4KB
                                            : rm::NVOS46_FLAGS_PAGE_SIZE_BIG);
  };
  std::uint64_t places = 0;
  for (; places < wanted; ++places) {
    const std::uint64_t at = kBase + places * rm::kPageHuge;
    if (map(small, at, rm::kPage4K) != rm::NV_OK ||
        map(big, at + rm::kPageBig, rm::kPageBig) != rm::NV_OK) {
      break;
    }
  }
  Say("places %llu", static_cast<unsigned long long>(places));
  Hold();
  return 0;
}

std::uint32_t MakeInterval(Client& client, std::uint32_t space, std::uint64_t length,
                           std::uint32_t flags, std::uint32_t* status, std::uint64_t* base) {
  rm::NV_MEMORY_ALLOCATION_PARAMS params{};
  params.size = length;
  params.flags = rm::NVOS32_ALLOC_FLAGS_VIRTUAL | flags;
  params.hVASpace = space;
  const std::uint32_t handle = client.next++;
  *status = client.Alloc(Client::kDevice, handle, rm::NV50_MEMORY_VIRTUAL, &params, sizeof(params));
  *base = params.offset;
  return handle;
}

// N: one mapping after the other in a sparse range, each at another second MiB, and undone before
// the next. The driver keeps the table of each until the range goes.
int Sparse(const std::vector<std::string>& args) {
  const std::uint64_t wanted = Number(args, 0, 1000);
  Client client = MakeClient();
  std::uint32_t status = rm::NV_OK;
  const std::uint32_t space = Space(client, &status);
  const std::uint32_t memory = AllocPage(client, rm::kPage4K, rm::NVOS32_ATTR_PAGE_SIZE_4KB);
  std::uint64_t base = 0;
  const std::uint32_t range = MakeInterval(client, space, wanted * rm::kPageHuge,
                                           rm::NVOS32_ALLOC_FLAGS_SPARSE, &status, &base);
  if (status != rm::NV_OK) {
    Die("failed: no sparse range: 0x%x", status);
  }
  Say("range");
  std::string line;
  (void)Line(&line);
  std::uint64_t done = 0;
  for (; done < wanted; ++done) {
    const std::uint64_t at = base + done * rm::kPageHuge;
    rm::NVOS47_PARAMETERS_V550 unmap{client.root, Client::kDevice, range, memory, 0, at, 0, 0};
    if ((status = MapAt(client, range, memory, at)) != rm::NV_OK) {
      break;
    }
    if (client.issue(client.ctl, rm::NV_ESC_RM_UNMAP_MEMORY_DMA, &unmap, sizeof(unmap)) != 0 ||
        unmap.status != rm::NV_OK) {
      Die("failed: not undone: 0x%x", unmap.status);
    }
  }
  Say("undone %llu status 0x%x", static_cast<unsigned long long>(done), status);
  (void)Line(&line);
  Say("freed 0x%x", client.Free(range));
  Hold();
  return 0;
}

// plain|managed N: sparse ranges, the driver's own or others' to manage. Each has tables of its
// own.
int SparseRanges(const std::vector<std::string>& args) {
  const std::uint32_t flags =
      rm::NVOS32_ALLOC_FLAGS_SPARSE |
      (args.at(0) == "managed" ? rm::NVOS32_ALLOC_FLAGS_EXTERNALLY_MANAGED : 0);
  const std::uint64_t wanted = Number(args, 1, 100);
  Client client = MakeClient();
  std::uint32_t status = rm::NV_OK;
  const std::uint32_t space = Space(client, &status);
  Say("space");
  std::string line;
  (void)Line(&line);
  std::vector<std::uint32_t> ranges;
  while (ranges.size() < wanted && status == rm::NV_OK) {
    std::uint64_t base = 0;
    ranges.push_back(MakeInterval(client, space, rm::kPageHuge, flags, &status, &base));
  }
  Say("ranges %zu status 0x%x", ranges.size(), status);
  (void)Line(&line);
  const bool freed = std::all_of(ranges.begin(), ranges.end(), [&](std::uint32_t range) {
    return client.Free(range) == rm::NV_OK;
  });
  Say("freed 0x%x", freed ? 0U : 1U);
  Hold();
  return 0;
}

}  // namespace

std::vector<Entry> TableAttacks() {
  return {
      {"pools", Pools, "early|again [MIB]: semaphore pools of spaces that get a GPU later"},
      {"host-pools", HostPools, "[MIB [MOST]]: semaphore pools, which are the host's memory"},
      {"pages-mixed", Mixed, "uvm|rm [MIB]: pages of two sizes side by side"},
      {"sparse", Sparse, "[N]: mappings of a sparse range, made and undone"},
      {"sparse-ranges", SparseRanges, "plain|managed [N]"},
  };
}

}  // namespace cgpu::adversary
