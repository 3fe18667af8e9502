#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>

#include "flip_calls.h"
#include "rm/vidmem.h"

namespace cgpu::adversary {
namespace {

constexpr std::uint64_t kUvmBase = 0x300000000000;
constexpr std::uint64_t kManagedBase = 0x400000000000;
constexpr std::uint32_t kDecoy = 0xcaf20000;

void MustBeMade(const char* what, std::uint32_t status) {
  if (status != rm::NV_OK) {
    Die("failed: no %s: 0x%x", what, status);
  }
}

}  // namespace

std::uint32_t World::Memory() {
  constexpr std::size_t kSizes = 3;  // else one would do for another
  const std::uint32_t handle = Fresh();
  std::vector<std::uint32_t>& all = handles[kMemory];
  auto params = MemoryParams(kWorldSize * (1 + all.size() % kSizes));
  (void)client().Alloc(Client::kDevice, handle, rm::NV01_MEMORY_LOCAL_USER, &params,
                       sizeof(params));
  all.push_back(handle);
  return handle;
}

World MakeWorld(std::uint32_t number) {
  World world;
  world.uvm = MakeUvmClient();
  Client& client = world.client();
  client.next = kFirstFresh + (number << 16U);
  world.twin = client;
  rm::NVOS21_PARAMETERS alloc{};
  alloc.hClass = rm::NV01_ROOT_CLIENT;
  (void)Plainly(client.ctl, rm::NV_ESC_RM_ALLOC, &alloc, sizeof(alloc));
  MustBeMade("second client", alloc.status);
  world.twin.root = alloc.hObjectNew;
  world.twin.next = 0xcaf70000;
  MustBeMade("second device", world.twin.AllocDevice());
  rm::nv_ioctl_register_fd_t registered{client.ctl};
  (void)Plainly(client.gpu, rm::NV_ESC_REGISTER_FD, &registered, sizeof(registered));
  world.decoy = kDecoy;
  rm::NV0080_ALLOC_PARAMETERS device{};
  for (const Client& one : {client, world.twin}) {
    MustBeMade("decoy", one.Alloc(one.root, kDecoy, rm::NV01_DEVICE_0, &device, sizeof(device)));
  }
  rm::NV_MEMORY_VIRTUAL_ALLOCATION_PARAMS range{};
  range.limit = (std::uint64_t{1} << 47U) - 1;
  world.range = world.Fresh();
  MustBeMade("range", client.Alloc(Client::kDevice, world.range, rm::NV01_MEMORY_VIRTUAL, &range,
                                   sizeof(range)));
  std::uint32_t status = 0;
  world.space = Space(client, &status);
  world.group = Group(client, world.space, &status);
  world.channel = Channel(client, world.group, 0, 0, &status);
  MustBeMade("channel", status);
  world.address = kUvmBase;
  world.managed = kManagedBase;
  world.lent =
      mmap(nullptr, 2 * rm::kPage4K, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  std::memset(world.lent, 1, 2 * rm::kPage4K);
  world.spare_gpu = OpenGpu();
  world.exported = OpenControl();
  world.many = OpenControl();
  world.empty = OpenControl();
  world.null = open("/dev/null", O_RDWR | O_CLOEXEC);
  world.handles = {{},
                   {client.root, world.twin.root},
                   {Client::kDevice, kDecoy},
                   {world.space, UvmClient::kVaSpace, world.range},
                   {world.group, world.channel, Client::kSubdevice}};
  MustBeMade("export", client.Export(world.Memory(), world.exported));
  (void)world.Memory();
  world.files = {client.ctl,     client.gpu,  world.uvm.uvm, world.spare_gpu,
                 world.exported, world.empty, world.null};
  return world;
}

void CloseWorld(World& world) {
  for (const int file : {world.spare_gpu, world.exported, world.many, world.empty, world.null,
                         world.uvm.uvm, world.client().gpu, world.client().ctl}) {
    close(file);
  }
  (void)munmap(world.lent, 2 * rm::kPage4K);
  (void)munmap(std::bit_cast<void*>(kManagedBase), world.managed - kManagedBase);
}

}  // namespace cgpu::adversary
