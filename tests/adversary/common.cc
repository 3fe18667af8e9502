#include "common.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include "rm/fb_info.h"
#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"
#include "rm/vidmem.h"

namespace cgpu::adversary {
namespace {

void Print(const char* format, va_list args) {
  char text[512];
  const int length = std::vsnprintf(text, sizeof(text) - 1, format, args);
  std::size_t size = std::min(static_cast<std::size_t>(length), sizeof(text) - 2);
  text[size++] = '\n';
  if (write(STDOUT_FILENO, text, size) < 0) {
    _exit(3);
  }
}

template <class T>
std::uint64_t Address(T* pointer) {
  return std::bit_cast<std::uint64_t>(pointer);
}

}  // namespace

void Say(const char* format, ...) {
  va_list args;
  va_start(args, format);
  Print(format, args);
  va_end(args);
}

void Die(const char* format, ...) {
  va_list args;
  va_start(args, format);
  Print(format, args);
  va_end(args);
  _exit(3);
}

bool Line(std::string* line) {
  line->clear();
  char c = 0;
  ssize_t n = 0;
  while ((n = read(STDIN_FILENO, &c, 1)) == 1 || (n < 0 && errno == EINTR)) {
    if (n == 1 && c == '\n') {
      return true;
    }
    if (n == 1) {
      line->push_back(c);
    }
  }
  return false;
}

void Hold() {
  Say("holding");
  std::string line;
  while (Line(&line)) {
  }
}

std::uint64_t Number(const std::vector<std::string>& args, std::size_t index,
                     std::uint64_t otherwise) {
  return index < args.size() ? std::strtoull(args[index].c_str(), nullptr, 0) : otherwise;
}

int RawIoctl(int fd, std::uint64_t request, const void* argument) {
  return syscall(SYS_ioctl, static_cast<long>(fd), request, argument) < 0 ? errno : 0;
}

int Plainly(int fd, std::uint8_t nr, void* params, std::uint32_t size) {
  return RawIoctl(fd, rm::EscapeRequest(nr, size), params);
}

int Wrapped(int fd, std::uint8_t nr, void* params, std::uint32_t size) {
  rm::nv_ioctl_xfer_t xfer{};
  xfer.cmd = nr;
  xfer.size = size;
  xfer.ptr = Address(params);
  return Plainly(fd, rm::NV_ESC_IOCTL_XFER_CMD, &xfer, sizeof(xfer));
}

bool PassesInOthers(std::uint32_t nr, std::uint32_t size) {
  return (nr == rm::NV_ESC_CARD_INFO && size < sizeof(rm::nv_ioctl_card_info_t)) ||
         (nr == rm::NV_ESC_ATTACH_GPUS_TO_FD && size == 4) ||
         (nr == rm::NV_ESC_QUERY_DEVICE_INTR && size > 8) ||
         (nr == rm::NV_ESC_SET_NUMA_STATUS && size == 4) ||
         (nr == rm::NV_ESC_RM_LOCKLESS_DIAGNOSTIC && size >= 8);
}

int OpenControl() {
  return open("/dev/nvidiactl", O_RDWR | O_CLOEXEC);
}

int OpenGpu(int minor) {
  for (int i = minor < 0 ? 0 : minor; i < (minor < 0 ? 32 : minor + 1); ++i) {
    const std::string path = "/dev/nvidia" + std::to_string(i);
    if (const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC); fd >= 0) {
      return fd;
    }
  }
  return -1;
}

std::uint32_t Client::Alloc(std::uint32_t parent, std::uint32_t handle, std::uint32_t cls,
                            void* params, std::uint32_t size) const {
  rm::NVOS21_PARAMETERS alloc{};
  alloc.hRoot = root;
  alloc.hObjectParent = parent;
  alloc.hObjectNew = handle;
  alloc.hClass = cls;
  alloc.pAllocParms = Address(params);
  alloc.paramsSize = size;
  const int error = issue(ctl, rm::NV_ESC_RM_ALLOC, &alloc, sizeof(alloc));
  return error != 0 ? kNoAnswer : alloc.status;
}

std::uint32_t Client::AllocDevice(std::uint32_t device_instance) const {
  rm::NV0080_ALLOC_PARAMETERS device{};
  device.deviceId = device_instance;
  if (const auto status = Alloc(root, kDevice, rm::NV01_DEVICE_0, &device, sizeof(device));
      status != rm::NV_OK) {
    return status;
  }
  rm::NV2080_ALLOC_PARAMETERS subdevice{};
  return Alloc(kDevice, kSubdevice, rm::NV20_SUBDEVICE_0, &subdevice, sizeof(subdevice));
}

rm::NV_MEMORY_ALLOCATION_PARAMS MemoryParams(std::uint64_t bytes) {
  rm::NV_MEMORY_ALLOCATION_PARAMS memory{};
  memory.type = rm::NVOS32_TYPE_IMAGE;
  memory.size = bytes;
  memory.attr = rm::NVOS32_ATTR_PHYSICALITY.Set(0, rm::NVOS32_ATTR_PHYSICALITY_ALLOW_NONCONTIGUOUS);
  return memory;
}

std::uint32_t Client::AllocMemory(std::uint64_t mib, std::uint32_t* handle) {
  auto memory = MemoryParams(mib * kMiB);
  const std::uint32_t mine = next++;
  if (handle != nullptr) {
    *handle = mine;
  }
  return Alloc(used_device, mine, rm::NV01_MEMORY_LOCAL_USER, &memory, sizeof(memory));
}

std::uint32_t Client::Map(std::uint32_t memory, std::uint64_t bytes, std::uint64_t* address) const {
  const int file = OpenGpu();
  rm::nv_ioctl_nvos33_parameters_with_fd map{};
  map.params.hClient = root;
  map.params.hDevice = kDevice;
  map.params.hMemory = memory;
  map.params.length = bytes;
  map.fd = file;
  const int error = issue(ctl, rm::NV_ESC_RM_MAP_MEMORY, &map, sizeof(map));
  close(file);
  if (address != nullptr) {
    *address = map.params.pLinearAddress;
  }
  return error != 0 ? kNoAnswer : map.params.status;
}

std::uint32_t Client::Free(std::uint32_t handle) const {
  rm::NVOS00_PARAMETERS free{};
  free.hRoot = root;
  free.hObjectParent = root;
  free.hObjectOld = handle;
  return issue(ctl, rm::NV_ESC_RM_FREE, &free, sizeof(free)) != 0 ? kNoAnswer : free.status;
}

std::uint32_t Client::HeapFree(std::uint32_t parent, std::uint32_t handle,
                               std::uint32_t flags) const {
  rm::NVOS32_PARAMETERS heap{};
  heap.hRoot = root;
  heap.hObjectParent = parent;
  heap.function = rm::NVOS32_FUNCTION_FREE;
  heap.data.Free.owner = root;
  heap.data.Free.hMemory = handle;
  heap.data.Free.flags = flags;
  const int error = issue(ctl, rm::NV_ESC_RM_VID_HEAP_CONTROL, &heap, sizeof(heap));
  return error != 0 ? kNoAnswer : heap.status;
}

std::uint32_t Client::Control(std::uint32_t object, std::uint32_t command, void* params,
                              std::uint32_t size) const {
  rm::NVOS54_PARAMETERS control{};
  control.hClient = root;
  control.hObject = object;
  control.cmd = command;
  control.params = Address(params);
  control.paramsSize = size;
  const int error = issue(ctl, rm::NV_ESC_RM_CONTROL, &control, sizeof(control));
  return error != 0 ? kNoAnswer : control.status;
}

std::uint32_t Client::FreeKib() const {
  rm::NV2080_CTRL_FB_GET_INFO_V2_PARAMS_V550 info{};
  info.fbInfoListSize = 1;
  info.fbInfoList[0].index = rm::NV2080_CTRL_FB_INFO_INDEX_HEAP_FREE;
  if (Control(kSubdevice, rm::NV2080_CTRL_CMD_FB_GET_INFO_V2, &info, sizeof(info)) != rm::NV_OK) {
    Die("disturbed: no free memory");
  }
  return info.fbInfoList[0].data;
}

std::uint32_t Client::Dup(std::uint32_t source_client, std::uint32_t source,
                          std::uint32_t handle) const {
  rm::NVOS55_PARAMETERS dup{};
  dup.hClient = root;
  dup.hParent = used_device;
  dup.hObject = handle;
  dup.hClientSrc = source_client;
  dup.hObjectSrc = source;
  return issue(ctl, rm::NV_ESC_RM_DUP_OBJECT, &dup, sizeof(dup)) != 0 ? kNoAnswer : dup.status;
}

std::uint32_t Client::Export(std::uint32_t object, int file) const {
  rm::NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TO_FD_PARAMS params{};
  params.object.type = rm::NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TYPE_RM;
  params.object.data.rmObject.hDevice = used_device;
  params.object.data.rmObject.hParent = used_device;
  params.object.data.rmObject.hObject = object;
  params.fd = file;
  return Control(root, rm::NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECT_TO_FD, &params, sizeof(params));
}

std::uint32_t Client::Import(int file, std::uint32_t handle) const {
  rm::NV0000_CTRL_OS_UNIX_IMPORT_OBJECT_FROM_FD_PARAMS params{};
  params.fd = file;
  params.object.type = rm::NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TYPE_RM;
  params.object.data.rmObject.hDevice = used_device;
  params.object.data.rmObject.hParent = used_device;
  params.object.data.rmObject.hObject = handle;
  return Control(root, rm::NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECT_FROM_FD, &params, sizeof(params));
}

Client MakeRoot(const Issue& issue, bool quiet) {
  Client client;
  client.issue = issue;
  client.ctl = OpenControl();
  client.gpu = OpenGpu();
  if (client.ctl < 0 || client.gpu < 0) {
    Die("failed: no GPU files here: %s", std::strerror(errno));
  }
  rm::NVOS21_PARAMETERS alloc{};
  alloc.hClass = rm::NV01_ROOT_CLIENT;
  const int error = issue(client.ctl, rm::NV_ESC_RM_ALLOC, &alloc, sizeof(alloc));
  if (error != 0 || alloc.status != rm::NV_OK) {
    if (!quiet) {
      Die("failed: no client: errno %d status 0x%x", error, alloc.status);
    }
    return client;
  }
  client.root = alloc.hObjectNew;
  return client;
}

Client MakeClient(const Issue& issue) {
  Client client = MakeRoot(issue);
  // The driver's numbers of the GPUs are the machine's: in a slice of GPU 1 there is no 0.
  std::uint32_t status = rm::NV_OK;
  for (std::uint32_t instance = 0; instance < 4; ++instance) {
    status = client.AllocDevice(instance);
    if (status == rm::NV_OK) {
      return client;
    }
  }
  Die("failed: no device: status 0x%x", status);
}

std::uint32_t Space(Client& client, std::uint32_t* status) {
  rm::NV_VASPACE_ALLOCATION_PARAMETERS_V535 params{};
  const std::uint32_t handle = client.next++;
  *status = client.Alloc(Client::kDevice, handle, rm::FERMI_VASPACE_A, &params, sizeof(params));
  return handle;
}

std::uint32_t Group(Client& client, std::uint32_t space, std::uint32_t* status) {
  rm::NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS params{};
  params.hVASpace = space;
  params.engineType = rm::NV2080_ENGINE_TYPE_GRAPHICS;
  const std::uint32_t handle = client.next++;
  *status =
      client.Alloc(Client::kDevice, handle, rm::KEPLER_CHANNEL_GROUP_A, &params, sizeof(params));
  return handle;
}

std::uint32_t Channel(Client& client, std::uint32_t parent, std::uint32_t space,
                      std::uint32_t share, std::uint32_t* status) {
  rm::NV_CHANNEL_ALLOC_PARAMS_V535 params{};
  params.hVASpace = space;
  params.hContextShare = share;
  params.engineType = rm::NV2080_ENGINE_TYPE_GRAPHICS;
  const std::uint32_t handle = client.next++;
  *status = client.Alloc(parent, handle, rm::VOLTA_CHANNEL_GPFIFO_A, &params, sizeof(params));
  return handle;
}

std::uint32_t MapAt(const Client& client, std::uint32_t range, std::uint32_t memory,
                    std::uint64_t address) {
  rm::NVOS46_PARAMETERS_V535 map{};
  map.hClient = client.root;
  map.hDevice = Client::kDevice;
  map.hDma = range;
  map.hMemory = memory;
  map.length = rm::kPage4K;
  map.flags = rm::NVOS46_FLAGS_PAGE_SIZE_4KB << 8 | 1U << 15;  // at a fixed address
  map.dmaOffset = address;
  if (client.issue(client.ctl, rm::NV_ESC_RM_MAP_MEMORY_DMA, &map, sizeof(map)) != 0) {
    return kNoAnswer;
  }
  return map.status;
}

bool WriteToFreed(const Client& client, std::uint32_t memory, std::uint32_t channel) {
  rm::NV_CHANNEL_ALLOC_PARAMS_V535 params{};
  params.hObjectError = memory;
  params.gpFifoEntries = 16;
  params.engineType = rm::NV2080_ENGINE_TYPE_GRAPHICS;
  if (client.Alloc(Client::kDevice, channel, rm::VOLTA_CHANNEL_GPFIFO_A, &params, sizeof(params)) !=
      rm::NV_OK) {
    return false;
  }
  (void)client.Free(memory);
  rm::NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN_PARAMS token{};
  (void)client.Control(channel, rm::NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN, &token,
                       sizeof(token));
  (void)client.Free(channel);
  return true;
}

std::uint32_t Share(const Client& client, std::uint32_t owner, std::uint32_t object,
                    std::uint32_t target) {
  rm::NVOS57_PARAMETERS share{};
  share.hClient = owner;
  share.hObject = object;
  share.sharePolicy.type = rm::RS_SHARE_TYPE_CLIENT;
  share.sharePolicy.target = target;
  share.sharePolicy.accessMask.limbs[0] = 1U << rm::RS_ACCESS_DUP_OBJECT;
  const int error = client.issue(client.ctl, rm::NV_ESC_RM_SHARE, &share, sizeof(share));
  return error != 0 ? kNoAnswer : share.status;
}

std::uint32_t ShareWithAll(const Client& client, std::uint32_t object) {
  rm::NVOS57_PARAMETERS share{};
  share.hClient = client.root;
  share.hObject = object;
  share.sharePolicy.type = rm::RS_SHARE_TYPE_ALL;
  share.sharePolicy.accessMask.limbs[0] = 1U << rm::RS_ACCESS_DUP_OBJECT;
  const int error = client.issue(client.ctl, rm::NV_ESC_RM_SHARE, &share, sizeof(share));
  return error != 0 ? kNoAnswer : share.status;
}

std::uint64_t Grab(Client& client, std::uint64_t mib, std::uint64_t step) {
  std::uint64_t held = 0;
  while (held < mib && client.AllocMemory(step) == rm::NV_OK) {
    held += step;
  }
  return held;
}

void SendFd(int socket, int fd) {
  char byte = 'x';
  iovec part{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &fd, sizeof(fd));
  if (sendmsg(socket, &message, MSG_NOSIGNAL) != 1) {
    Die("failed: cannot send a descriptor: %s", std::strerror(errno));
  }
}

int ReceiveFd(int socket) {
  char byte = 0;
  iovec part{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1 || CMSG_FIRSTHDR(&message) == nullptr) {
    Die("failed: no descriptor received: %s", std::strerror(errno));
  }
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
  return fd;
}

namespace {

socklen_t Abstract(const std::string& name, sockaddr_un* address) {
  address->sun_family = AF_UNIX;
  std::memcpy(address->sun_path + 1, name.data(), name.size());
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

}  // namespace

int ListenAt(const std::string& name) {
  sockaddr_un address{};
  const socklen_t size = Abstract(name, &address);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), size) != 0 || listen(fd, 8) != 0) {
    Die("failed: cannot listen: %s", std::strerror(errno));
  }
  return fd;
}

int ConnectTo(const std::string& name) {
  sockaddr_un address{};
  const socklen_t size = Abstract(name, &address);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), size) != 0) {
    Die("failed: cannot connect: %s", std::strerror(errno));
  }
  return fd;
}

void HandOut(const std::string& name, int fd) {
  const int listener = ListenAt(name);
  Say("listening");
  SendFd(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC), fd);
  Say("sent");
}

}  // namespace cgpu::adversary
