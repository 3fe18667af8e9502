// Files of a GPU in the hands of a process that was given none: lent over a socket by one that
// was.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "common.h"
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

// Sends fresh files of the control device, a GPU and UVM to the first who connects, and holds.
int Lend(const std::vector<std::string>& args) {
  const sockaddr_un address = Address(args.at(0));
  const int listening = Socket();
  unlink(address.sun_path);
  if (bind(listening, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      chmod(address.sun_path, 0666) != 0 || listen(listening, 1) != 0) {
    Die("failed: cannot listen: %s", std::strerror(errno));
  }
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
  const sockaddr_un address = Address(args.at(0));
  const int peer = Socket();
  if (connect(peer, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    Die("failed: cannot connect: %s", std::strerror(errno));
  }
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
          {"borrow", Borrow, "PATH [MIB]: takes GPU memory with files that were lent"}};
}

}  // namespace cgpu::adversary
