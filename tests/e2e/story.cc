// Tells step by step what a program may expect of the driver: each line is what one step gave. It
// must tell the same story in a slice as on the bare node.
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "common.h"
#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"

namespace cgpu::adversary {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kMapped = 16 * kPage;

// MAP_MEMORY alone; `status` of the driver.
std::uint32_t MapCall(const Client& client, std::uint32_t object, int file, std::uint64_t offset,
                      std::uint64_t length, std::uint64_t* linear = nullptr) {
  rm::nv_ioctl_nvos33_parameters_with_fd call{};
  call.params.hClient = client.root;
  call.params.hDevice = Client::kDevice;
  call.params.hMemory = object;
  call.params.offset = offset;
  call.params.length = length;
  call.fd = file;
  const int error = client.issue(client.ctl, rm::NV_ESC_RM_MAP_MEMORY, &call, sizeof(call));
  if (linear != nullptr) {
    *linear = call.params.pLinearAddress;
  }
  return error != 0 ? kNoAnswer : call.params.status;
}

std::uint32_t UnmapCall(const Client& client, std::uint32_t object, std::uint64_t linear) {
  rm::NVOS34_PARAMETERS call{};
  call.hClient = client.root;
  call.hDevice = Client::kDevice;
  call.hMemory = object;
  call.pLinearAddress = linear;
  const int error = client.issue(client.ctl, rm::NV_ESC_RM_UNMAP_MEMORY, &call, sizeof(call));
  return error != 0 ? kNoAnswer : call.status;
}

volatile std::uint32_t* Mmap(int file) {
  void* at = mmap(nullptr, kMapped, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (at == MAP_FAILED) {
    Die("failed: mmap: %s", std::strerror(errno));
  }
  return static_cast<volatile std::uint32_t*>(at);
}

// On the simulated node two files' mappings of one object are one only after this (see
// docs/reference/simulated-driver.md); on a GPU's memory it does nothing.
void Flush(volatile std::uint32_t* at) {
  (void)msync(const_cast<std::uint32_t*>(at), kMapped, MS_SYNC);
}

std::uint32_t OsEvent(const Client& client, std::uint8_t nr, int fd) {
  rm::nv_ioctl_alloc_os_event_t call{};
  call.hClient = client.root;
  call.hDevice = Client::kDevice;
  call.fd = static_cast<std::uint32_t>(fd);
  const int error = client.issue(client.ctl, nr, &call, sizeof(call));
  return error != 0 ? kNoAnswer : call.Status;
}

void Objects(Client& client) {
  std::uint32_t object = 0;
  Say("alloc 0x%x", client.AllocMemory(64, &object));
  auto memory = MemoryParams(kMiB);
  Say("same handle 0x%x",
      client.Alloc(Client::kDevice, object, rm::NV01_MEMORY_LOCAL_USER, &memory, sizeof(memory)));
  Say("no such parent 0x%x",
      client.Alloc(0xdead, client.next++, rm::NV01_MEMORY_LOCAL_USER, &memory, sizeof(memory)));
  Say("no such class 0x%x", client.Alloc(Client::kDevice, client.next++, 0xfff1, nullptr));
  Say("dup 0x%x", client.Dup(client.root, object, client.next++));
  Say("dup of nothing 0x%x", client.Dup(client.root, 0xdead, client.next++));
  Say("free 0x%x", client.Free(object));
  Say("free again 0x%x", client.Free(object));
  std::uint64_t unused = 0;
  Say("unknown control 0x%x", client.Control(Client::kSubdevice, 0x20803ff1, &unused, 8));
  Say("control of nothing 0x%x",
      client.Control(0xdead, rm::NV2080_CTRL_CMD_GPU_GET_NAME_STRING, &unused, 8));
  Say("control with a wrong size 0x%x",
      client.Control(Client::kSubdevice, rm::NV2080_CTRL_CMD_GPU_GET_NAME_STRING, &unused, 8));
}

void Mappings(Client& client, std::uint32_t object) {
  const int first = OpenGpu();
  const int second = OpenGpu();
  std::uint64_t linear = 0;
  Say("map 0x%x", MapCall(client, object, first, 0, kMapped, &linear));
  Say("map on the same file 0x%x", MapCall(client, object, first, 0, kMapped));
  Say("map nothing 0x%x", MapCall(client, object, second, 0, 0));
  Say("map beyond the end 0x%x", MapCall(client, object, second, 0, 65 * kMiB));
  Say("map from beyond the end 0x%x", MapCall(client, object, second, 64 * kMiB, kPage));
  Say("map through the control file 0x%x", MapCall(client, object, client.ctl, 0, kPage));
  Say("map second 0x%x", MapCall(client, object, second, kPage, kMapped));
  volatile std::uint32_t* one = Mmap(first);
  one[kPage / 4] = 0xc0ffee;
  Flush(one);
  volatile std::uint32_t* two = Mmap(second);
  Say("seen through the other mapping 0x%x", two[0]);
  Say("unmap 0x%x", UnmapCall(client, object, linear));
  Say("unmap again 0x%x", UnmapCall(client, object, linear));
  close(first);
  close(second);
  Say("seen after the files are closed 0x%x", one[kPage / 4]);
}

void Events(const Client& client) {
  const int event = eventfd(0, EFD_CLOEXEC);
  Say("event 0x%x", OsEvent(client, rm::NV_ESC_ALLOC_OS_EVENT, event));
  Say("event twice 0x%x", OsEvent(client, rm::NV_ESC_ALLOC_OS_EVENT, event));
  Say("no event any more 0x%x", OsEvent(client, rm::NV_ESC_FREE_OS_EVENT, event));
  Say("not twice 0x%x", OsEvent(client, rm::NV_ESC_FREE_OS_EVENT, event));
  close(event);
}

// The other process has a client of its own, gets the memory by an exported file, writes to it.
void OtherProcess(int socket) {
  Client client = MakeClient();
  const int file = ReceiveFd(socket);
  const std::uint32_t object = client.next++;
  Say("import in another process 0x%x", client.Import(file, object));
  const int gpu = OpenGpu();
  Say("map there 0x%x", MapCall(client, object, gpu, 0, kMapped));
  volatile std::uint32_t* at = Mmap(gpu);
  Say("what it sees 0x%x", at[3]);
  at[kPage / 4] = 0xabcd;
  Flush(at);
}

void Sharing(Client& client, std::uint32_t object) {
  const int gpu = OpenGpu();
  Say("map 0x%x", MapCall(client, object, gpu, 0, kMapped));
  volatile std::uint32_t* at = Mmap(gpu);
  at[3] = 0x1234;
  Flush(at);
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
    Die("failed: no socketpair");
  }
  const int file = OpenControl();
  Say("export 0x%x", client.Export(object, file));
  Say("export twice to one file 0x%x", client.Export(object, file));
  Say("import from an empty file 0x%x", client.Import(client.ctl, client.next++));
  const pid_t other = fork();
  if (other == 0) {
    OtherProcess(pair[1]);
    _exit(0);
  }
  SendFd(pair[0], file);
  waitpid(other, nullptr, 0);
  const int fresh = OpenGpu();
  Say("map anew 0x%x", MapCall(client, object, fresh, 0, kMapped));
  Say("what the other process wrote 0x%x", Mmap(fresh)[kPage / 4]);
}

int Tell() {
  Client client = MakeClient();
  Objects(client);
  std::uint32_t object = 0;
  Say("alloc 0x%x", client.AllocMemory(64, &object));
  Mappings(client, object);
  Events(client);
  Sharing(client, object);
  Say("free the device 0x%x", client.Free(Client::kDevice));
  Say("its memory is gone 0x%x", client.Free(object));
  Say("free the client 0x%x", client.Free(client.root));
  Say("it is gone 0x%x", client.AllocDevice());
  Hold();
  return 0;
}

}  // namespace
}  // namespace cgpu::adversary

int main() {
  return cgpu::adversary::Tell();
}
