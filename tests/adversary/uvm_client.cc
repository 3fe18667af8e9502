#include "uvm_client.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>

#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"

namespace cgpu::adversary {
namespace {

void MustBeOk(const char* what, std::uint32_t status) {
  if (status != rm::NV_OK) {
    Die("%s: 0x%x", what, status);
  }
}

}  // namespace

std::uint32_t UvmClient::Ask(std::uint32_t request, void* params) const {
  if (RawIoctl(uvm, request, params) != 0) {
    return kNoAnswer;
  }
  std::uint32_t status = 0;
  std::memcpy(&status, static_cast<const char*>(params) + rm::FindUvm(request)->status.At(kBranch),
              sizeof(status));
  return status;
}

std::uint32_t UvmClient::Initialise() const {
  rm::UVM_INITIALIZE_PARAMS params{rm::UVM_INIT_FLAGS_MULTI_PROCESS_SHARING_MODE, 0, 0};
  return Ask(rm::UVM_INITIALIZE, &params);
}

std::uint32_t UvmClient::RegisterGpu() const {
  rm::UVM_REGISTER_GPU_PARAMS params{};
  params.gpu_uuid = uuid;
  params.rmCtrlFd = -1;
  return Ask(rm::UVM_REGISTER_GPU, &params);
}

std::uint32_t UvmClient::CreateRange(std::uint64_t base, std::uint64_t length) const {
  struct {
    rm::UVM_RANGE_HEAD range;
    std::uint64_t status;
  } params{{base, length}, 0};
  return Ask(rm::UVM_CREATE_EXTERNAL_RANGE, &params);
}

std::uint32_t UvmClient::FreeRange(std::uint64_t base, std::uint64_t length) const {
  struct {
    rm::UVM_RANGE_HEAD range;
    std::uint64_t status;
  } params{{base, length}, 0};
  return Ask(rm::UVM_FREE, &params);
}

std::uint32_t UvmClient::Map(std::uint64_t base, std::uint64_t length, std::uint32_t memory) const {
  std::vector<char> params(rm::UvmParamSize(kBranch, rm::UVM_MAP_EXTERNAL_ALLOCATION));
  const rm::UVM_MAP_EXTERNAL_ALLOCATION_HEAD head{base, length, 0};
  rm::UvmGpuMappingAttributes attributes{};
  attributes.gpuUuid = uuid;
  const rm::UVM_MAP_EXTERNAL_ALLOCATION_TAIL tail{1, client.ctl, client.root, memory, 0};
  std::memcpy(params.data(), &head, sizeof(head));
  std::memcpy(params.data() + sizeof(head), &attributes, sizeof(attributes));
  std::memcpy(params.data() + rm::UvmMapExternalTail(kBranch), &tail, sizeof(tail));
  return Ask(rm::UVM_MAP_EXTERNAL_ALLOCATION, params.data());
}

std::uint32_t UvmClient::Unmap(std::uint64_t base, std::uint64_t length) const {
  rm::UVM_UNMAP_EXTERNAL_PARAMS params{base, length, uuid, 0, 0};
  return Ask(rm::UVM_UNMAP_EXTERNAL, &params);
}

bool MapManaged(int uvm, std::uint64_t at, std::uint64_t size) {
  return mmap(std::bit_cast<void*>(at), size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, uvm,
              static_cast<off_t>(at)) != MAP_FAILED;
}

void StartUvm(UvmClient& client) {
  client.uvm = open("/dev/nvidia-uvm", O_RDWR | O_CLOEXEC);
  if (client.uvm < 0) {
    Die("cannot open nvidia-uvm: %s", std::strerror(errno));
  }
  MustBeOk("UVM_INITIALIZE", client.Initialise());
  MustBeOk("UVM_REGISTER_GPU", client.RegisterGpu());
}

UvmClient MakeUvmClient() {
  UvmClient made;
  made.client = MakeClient();
  rm::NV2080_CTRL_GPU_GET_GID_INFO_PARAMS gid{};
  gid.flags = rm::kUuidFormatBinary;
  MustBeOk("GET_GID_INFO",
           made.client.Control(Client::kSubdevice, rm::NV2080_CTRL_CMD_GPU_GET_GID_INFO, &gid,
                               sizeof(gid)));
  std::memcpy(made.uuid.uuid, gid.data, sizeof(made.uuid.uuid));
  rm::NV_VASPACE_ALLOCATION_PARAMETERS_V535 space{};
  space.flags = 1U << 3;  // NV_VASPACE_ALLOCATION_FLAGS_IS_EXTERNALLY_OWNED, nvos.h
  MustBeOk("FERMI_VASPACE_A",
           made.client.Alloc(Client::kDevice, UvmClient::kVaSpace, rm::FERMI_VASPACE_A, &space));
  StartUvm(made);
  rm::UVM_REGISTER_GPU_VASPACE_PARAMS vaspace{made.uuid, made.client.ctl, made.client.root,
                                              UvmClient::kVaSpace, 0};
  MustBeOk("UVM_REGISTER_GPU_VASPACE", made.Ask(rm::UVM_REGISTER_GPU_VASPACE, &vaspace));
  return made;
}

}  // namespace cgpu::adversary
