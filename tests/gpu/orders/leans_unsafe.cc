#include <fcntl.h>
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "base/file.h"
#include "gpu/orders/leans.h"
#include "rm/nv_alloc.h"
#include "rm/nv_classes.h"
#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"
#include "rm/nv_escape.h"
#include "rm/nv_structs.h"
#include "rm/nv_uvm.h"
#include "rm/uvm_table.h"
#include "rmclient/gpus.h"

namespace cgpu::orders {
namespace {

constexpr std::size_t kPiece = std::size_t{2} << 20;
constexpr int kReadWrite = PROT_READ | PROT_WRITE;

int Fail(const Error& error) {
  (void)std::fprintf(stderr, "gpu-orders: %s\n", FormatError(error).c_str());
  return 1;
}

void Say(const std::string& lean, bool holds, const std::string& says, bool mapping = false) {
  (void)std::printf(R"({"lean":"%s","good":%s,"says":"%s","mapping":%s})"
                    "\n",
                    lean.c_str(), holds ? "true" : "false", says.c_str(),
                    mapping ? "true" : "false");
}

void SayStatus(const std::string& lean, const rmclient::Outcome& outcome, rm::NvStatus expected) {
  Say(lean, outcome == rmclient::Outcome{0, expected}, rmclient::Describe(outcome));
}

void SayErrno(const std::string& lean, int error, int expected) {
  Say(lean, error == expected, std::strerror(error));
}

// Gives all capabilities up, for good: the driver asks for CAP_SYS_ADMIN at each call.
bool DropCapabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  const std::array<__user_cap_data_struct, 2> none{};
  return syscall(SYS_capset, &header, none.data()) == 0;
}

// Addresses that nothing else takes.
class Place {
 public:
  Place() : at_(mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
  ~Place() { (void)munmap(at_, kBytes); }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

  // Maps a piece of the file there, at the offset that is `beyond` the address. Returns the errno.
  [[nodiscard]] int Map(int file, int rights, std::uint64_t beyond) const {
    const auto offset = static_cast<off_t>(std::bit_cast<std::uint64_t>(at_) + beyond);
    const void* mapped = mmap(at_, kPiece, rights, MAP_SHARED | MAP_FIXED, file, offset);
    return mapped == MAP_FAILED ? errno : 0;
  }
  // Grows the piece where it is. Returns the errno.
  [[nodiscard]] int Grow() const {
    (void)munmap(static_cast<char*>(at_) + kPiece, kBytes - kPiece);
    return mremap(at_, kPiece, 2 * kPiece, 0) == MAP_FAILED ? errno : 0;
  }

 private:
  static constexpr std::size_t kBytes = 4 * kPiece;
  void* const at_;
};

// Mappings, whose answers are the kernel's: mmap and mremap.
void AskMappings(const rmclient::Gpu& gpu, const std::string& uvm) {
  const auto say = [](const std::string& lean, int error, int expected) {
    Say(lean, error == expected, std::strerror(error), true);
  };
  const Place place;
  say("a file of a GPU maps nothing that RM_MAP_MEMORY did not name",
      place.Map(gpu.file.get(), kReadWrite, 0), EINVAL);
  const auto file = OpenFile(uvm, O_RDWR);
  if (!file.ok()) {
    Say("nvidia-uvm", false, file.error().what, true);
    return;
  }
  say("a file of nvidia-uvm that is not initialised is not mapped",
      place.Map(file->get(), kReadWrite, 0), EBADFD);
  rm::UVM_INITIALIZE_PARAMS params{};
  const int error = rmclient::KernelGpuCalls().Call(file->get(), rm::UVM_INITIALIZE, &params);
  if (error != 0 || params.rmStatus != rm::NV_OK) {
    Say("UVM_INITIALIZE", false, rmclient::Describe({error, params.rmStatus}), true);
    return;
  }
  say("nvidia-uvm maps nothing without the right to write", place.Map(file->get(), PROT_READ, 0),
      EINVAL);
  say("nvidia-uvm maps nothing where the offset is not the address",
      place.Map(file->get(), kReadWrite, kPiece), EINVAL);
  const int mapped = place.Map(file->get(), kReadWrite, 0);
  Say("nvidia-uvm maps managed memory", mapped == 0, std::strerror(mapped), true);
  if (mapped == 0) {
    say("a mapping of nvidia-uvm does not grow", place.Grow(), EFAULT);
  }
}

void AskObjects(rmclient::Client& client, const rmclient::Gpu& gpu) {
  rm::NvHandle memory = 0;
  rm::VidmemRequest request;
  request.size = kPiece;
  if (const auto made = rmclient::AllocVidmem(client, gpu, &request, &memory); !made.ok()) {
    Say("RM_ALLOC of memory", false, rmclient::Describe(made));
    return;
  }
  rm::NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS group{};
  group.hVASpace = memory;
  group.engineType = rm::NV2080_ENGINE_TYPE_GRAPHICS;
  rm::NvHandle handle = 0;
  SayStatus("the address space of a channel group is an address space",
            client.Alloc(gpu.device, &handle, rm::KEPLER_CHANNEL_GROUP_A, &group, sizeof(group)),
            rm::NV_ERR_INVALID_OBJECT_HANDLE);
  rm::NV2080_ALLOC_PARAMETERS subdevice{};
  handle = memory;
  SayStatus("a handle names one object",
            rmclient::Alloc(client.fd(), client.handle(), gpu.device, &handle, rm::NV20_SUBDEVICE_0,
                            &subdevice, sizeof(subdevice)),
            rm::NV_ERR_INSERT_DUPLICATE_NAME);
  std::array<rm::NvU64, 3> physical{};
  SayStatus("all of a GPU's memory is for administrators",
            client.Alloc(gpu.device, &handle, rm::NV01_MEMORY_LOCAL_PHYSICAL, &physical,
                         sizeof(physical)),
            rm::NV_ERR_INSUFFICIENT_PERMISSIONS);
  constexpr rm::NvU32 NV2080_CTRL_CMD_GR_GET_PHYS_GPC_MASK = 0x20801232;  // ctrl2080gr.h
  std::array<rm::NvU32, 2> mask{};
  SayStatus(
      "a command for administrators is for them",
      client.Control(gpu.subdevice, NV2080_CTRL_CMD_GR_GET_PHYS_GPC_MASK, &mask, sizeof(mask)),
      rm::NV_ERR_INSUFFICIENT_PERMISSIONS);
}

void AskFiles(rmclient::Client& client, const rmclient::Gpu& gpu) {
  const auto second = OpenFile(client.paths().ctl, O_RDWR);
  if (!second.ok()) {
    Say("a second control file", false, second.error().what);
    return;
  }
  std::array<rm::NvU32, 32> ids{};
  SayStatus("a client is used through its own file alone",
            rmclient::Control(second->get(), client.handle(), client.handle(),
                              rm::NV0000_CTRL_CMD_GPU_GET_ATTACHED_IDS, &ids, sizeof(ids)),
            rm::NV_ERR_INVALID_CLIENT);
  SayErrno("a file is registered to a control file",
           rmclient::RegisterFd(gpu.file.get(), gpu.file.get()), EINVAL);
  std::array<std::byte, sizeof(rm::nv_ioctl_card_info_t) - 1> cards{};
  SayErrno("a list without room for a GPU is refused",
           rmclient::Escape(second->get(), rm::NV_ESC_CARD_INFO, cards.data(), cards.size()),
           EINVAL);
  std::array<std::byte, 16> nothing{};
  SayErrno("an unknown number is refused",
           rmclient::Escape(second->get(), 0x10, nothing.data(), nothing.size()), EINVAL);
}

}  // namespace

int Leans() {
  if (!DropCapabilities()) {
    return Fail({Code::kPermission, errno, "cannot give up the capabilities", {}});
  }
  auto client = rmclient::Client::Open();
  if (!client.ok()) {
    return Fail(client.error());
  }
  auto gpus = rmclient::OpenGpus(*client);
  if (!gpus.ok() || gpus->empty()) {
    return Fail(gpus.ok() ? Error{Code::kNotFound, 0, "there is no GPU", {}} : gpus.error());
  }
  AskFiles(*client, gpus->front());
  AskObjects(*client, gpus->front());
  AskMappings(gpus->front(), "/dev/nvidia-uvm");
  (void)std::fflush(stdout);
  return 0;
}

}  // namespace cgpu::orders
