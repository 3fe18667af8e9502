// A process of a test with nvidia-uvm open as well.
#ifndef CGPU_SIM_TESTS_UVM_PROCESS_H_
#define CGPU_SIM_TESTS_UVM_PROCESS_H_

#include <cstring>
#include <vector>

#include "rm/uvm_table.h"
#include "sim/driver/bytes.h"
#include "sim/tests/process.h"

namespace cgpu::sim {

class UvmProcess : public Process {
 public:
  static constexpr int kUvmFd = 5;
  static constexpr rm::NvU64 kSharing = rm::UVM_INIT_FLAGS_MULTI_PROCESS_SHARING_MODE;
  static constexpr rm::NvU32 kExternallyOwned = 1U << 3;

  UvmProcess(Driver& driver, std::uint32_t tgid, rm::Branch branch = rm::Branch::k550)
      : Process(driver, tgid), uvm(driver.Open(FileKind::kUvm, 0)), node_(driver), branch_(branch) {
    caller.fds[kUvmFd] = uvm;
  }

  // Returns the status that the ioctl answers in its structure; its errno must be 0.
  rm::NvStatus Uvm(rm::NvU32 request, std::span<std::byte> params) {
    EXPECT_EQ(rm::UvmParamSize(branch_, request), params.size());
    EXPECT_EQ(0, node_.UvmIoctl(uvm, request, reinterpret_cast<rm::NvP64>(params.data()), caller));
    return Load<rm::NvStatus>(params.subspan(rm::FindUvm(request)->status.At(branch_)));
  }
  template <class T>
  rm::NvStatus Uvm(rm::NvU32 request, T params) {
    std::vector<std::byte> bytes(rm::UvmParamSize(branch_, request));
    Store(std::span(bytes), params);
    return Uvm(request, std::span(bytes));
  }

  rm::NvProcessorUuid Uuid(unsigned gpu = 0) const {
    rm::NvProcessorUuid uuid{};
    std::memcpy(uuid.uuid, node_.Gpus()[gpu].uuid.data(), sizeof(uuid.uuid));
    return uuid;
  }
  rm::NvStatus Initialize(rm::NvU64 flags = kSharing) {
    return Uvm(rm::UVM_INITIALIZE, rm::UVM_INITIALIZE_PARAMS{flags, 0, 0});
  }
  rm::NvStatus RegisterGpu(unsigned gpu = 0) {
    rm::UVM_REGISTER_GPU_PARAMS params{};
    params.gpu_uuid = Uuid(gpu);
    params.rmCtrlFd = kCtlFd;
    return Uvm(rm::UVM_REGISTER_GPU, params);
  }
  rm::NvHandle AllocVaSpace(rm::NvU32 flags = kExternallyOwned) {
    rm::NV_VASPACE_ALLOCATION_PARAMETERS_V580 params{};
    params.v535.flags = flags;
    return Alloc(device, rm::FERMI_VASPACE_A, params);
  }
  rm::NvStatus RegisterVaSpace(rm::NvHandle of_client, rm::NvHandle vaspace) {
    rm::UVM_REGISTER_GPU_VASPACE_PARAMS params{Uuid(), kCtlFd, of_client, vaspace, 0};
    return Uvm(rm::UVM_REGISTER_GPU_VASPACE, params);
  }
  // All the way to where ranges can be mapped.
  void Start() {
    EXPECT_EQ(rm::NV_OK, Initialize());
    EXPECT_EQ(rm::NV_OK, RegisterGpu());
    EXPECT_EQ(rm::NV_OK, RegisterVaSpace(client, AllocVaSpace()));
  }

  rm::NvStatus CreateRange(rm::NvU64 base, rm::NvU64 length) {
    return Uvm(rm::UVM_CREATE_EXTERNAL_RANGE, rm::UVM_RANGE_HEAD{base, length});
  }
  rm::NvStatus FreeRange(rm::NvU64 base, rm::NvU64 length) {
    return Uvm(rm::UVM_FREE, rm::UVM_RANGE_HEAD{base, length});
  }
  rm::NvStatus Map(rm::NvU64 base, rm::NvU64 length, rm::NvU64 offset, rm::NvHandle memory,
                   std::vector<unsigned> gpus = {0}) {
    std::vector<std::byte> bytes(rm::UvmParamSize(branch_, rm::UVM_MAP_EXTERNAL_ALLOCATION));
    const std::span<std::byte> params(bytes);
    Store(params, rm::UVM_MAP_EXTERNAL_ALLOCATION_HEAD{base, length, offset});
    std::size_t at = sizeof(rm::UVM_MAP_EXTERNAL_ALLOCATION_HEAD);
    for (const unsigned gpu : gpus) {
      rm::UvmGpuMappingAttributes attributes{};
      attributes.gpuUuid = Uuid(gpu);
      Store(params.subspan(at), attributes);
      at += sizeof(attributes);
    }
    const rm::UVM_MAP_EXTERNAL_ALLOCATION_TAIL tail{gpus.size(), kCtlFd, client, memory, 0};
    Store(params.subspan(rm::UvmMapExternalTail(branch_)), tail);
    return Uvm(rm::UVM_MAP_EXTERNAL_ALLOCATION, params);
  }
  rm::NvStatus Unmap(rm::NvU64 base, rm::NvU64 length, unsigned gpu = 0) {
    return Uvm(rm::UVM_UNMAP_EXTERNAL,
               rm::UVM_UNMAP_EXTERNAL_PARAMS{base, length, Uuid(gpu), 0, 0});
  }
  void CloseUvm() { node_.Close(uvm); }

  rm::NvU64 Used(unsigned gpu = 0) { return GetAccounting().gpus[gpu].used_bytes; }
  rm::NvU64 Tables(int gpu = 0) { return node_.GetUvmAccounting().gpus[gpu].table_bytes; }

  FileId uvm = 0;

 private:
  Driver& node_;
  const rm::Branch branch_;
};

}  // namespace cgpu::sim

#endif  // CGPU_SIM_TESTS_UVM_PROCESS_H_
