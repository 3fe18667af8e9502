// Ioctls of chosen shapes, for tests of what the driver and the boundary accept.
#include <fcntl.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "base/file.h"
#include "load/rmtool/verbs.h"
#include "rm/nv_alloc.h"
#include "rm/nv_classes.h"
#include "rm/nv_escape.h"
#include "rm/nv_structs.h"

namespace cgpu::rmtool {
namespace {

rm::NvP64 Address(const void* pointer) {
  return reinterpret_cast<rm::NvP64>(pointer);
}

unsigned long Request(const Options& options, unsigned nr, std::uint32_t size) {
  const std::uint32_t low =
      (options.direction << 30) | ((size & 0x3FFFU) << 16) | (options.type << 8) | nr;
  return (static_cast<unsigned long>(options.upper) << 32) | low;
}

// Makes one ioctl of the options' shape. Returns the errno.
int Shaped(const Options& options, int fd, unsigned nr, void* params, std::uint32_t size) {
  if (!options.xfer) {
    return rmclient::KernelGpuCalls().Call(fd, Request(options, nr, size), params);
  }
  rm::nv_ioctl_xfer_t call = {nr, size, Address(params)};
  return rmclient::KernelGpuCalls().Call(
      fd, Request(options, rm::NV_ESC_IOCTL_XFER_CMD, sizeof(call)), &call);
}

rmclient::Outcome AllocByVidHeap(const Options& options, Target& target, std::uint64_t* bytes) {
  rm::NVOS32_PARAMETERS call = {};
  call.hRoot = target.client.handle();
  call.hObjectParent = target.gpu.device;
  call.function = rm::NVOS32_FUNCTION_ALLOC_SIZE;
  call.data.AllocSize.owner = target.client.handle();
  call.data.AllocSize.hMemory = target.client.NewHandle();
  call.data.AllocSize.flags = rm::NVOS32_ALLOC_FLAGS_MEMORY_HANDLE_PROVIDED;
  call.data.AllocSize.attr = PageAttr(options.page);
  call.data.AllocSize.size = *bytes;
  const int error =
      Shaped(options, target.client.fd(), rm::NV_ESC_RM_VID_HEAP_CONTROL, &call, sizeof(call));
  *bytes = call.data.AllocSize.size;
  return {error, call.status};
}

rmclient::Outcome AllocByClass(const Options& options, Target& target, std::uint64_t* bytes) {
  rm::NV_MEMORY_ALLOCATION_PARAMS params = {};
  params.owner = target.client.handle();
  params.attr = PageAttr(options.page);
  params.size = *bytes;
  rmclient::Outcome outcome;
  if (options.short_form) {
    rm::NVOS21_PARAMETERS call = {};
    call.hRoot = target.client.handle();
    call.hObjectParent = target.gpu.device;
    call.hObjectNew = target.client.NewHandle();
    call.hClass = options.class_number;
    call.pAllocParms = Address(&params);
    call.paramsSize = sizeof(params);
    outcome.sys_errno =
        Shaped(options, target.client.fd(), rm::NV_ESC_RM_ALLOC, &call, sizeof(call));
    outcome.status = call.status;
  } else {
    rm::NVOS64_PARAMETERS call = {};
    call.hRoot = target.client.handle();
    call.hObjectParent = target.gpu.device;
    call.hObjectNew = target.client.NewHandle();
    call.hClass = options.class_number;
    call.pAllocParms = Address(&params);
    call.paramsSize = sizeof(params);
    outcome.sys_errno =
        Shaped(options, target.client.fd(), rm::NV_ESC_RM_ALLOC, &call, sizeof(call));
    outcome.status = call.status;
  }
  *bytes = params.size;
  return outcome;
}

Result<UniqueFd> OpenRawFile(const Options& options) {
  const rmclient::DevicePaths paths = rmclient::DevicePaths::InFolder(options.dev);
  if (options.file == "ctl") {
    return OpenFile(paths.ctl, O_RDWR);
  }
  if (options.file == "uvm") {
    return OpenFile(options.dev + "/nvidia-uvm", O_RDWR);
  }
  return OpenFile(options.dev + "/nvidia" + options.file, O_RDWR);
}

}  // namespace

int RawAlloc(const Options& options) {
  Result<Target> target = OpenTarget(options);
  if (!target.ok()) {
    return Fail(target.error());
  }
  std::uint64_t bytes = options.mib << 20;
  const rmclient::Outcome outcome = options.vid_heap ? AllocByVidHeap(options, *target, &bytes)
                                                     : AllocByClass(options, *target, &bytes);
  std::printf("errno %d status %#x: %s\n", outcome.sys_errno, outcome.status,
              Describe(outcome).c_str());
  if (!outcome.ok()) {
    return outcome.sys_errno == 0 && outcome.status == rm::NV_ERR_NO_MEMORY ? kOutOfMemory
                                                                            : kRefused;
  }
  std::printf("got %" PRIu64 " bytes\n", bytes);
  std::fflush(stdout);
  if (options.hold) {
    WaitForEndOfStdin();
  }
  return kWorked;
}

int RawIoctl(const Options& options) {
  Result<UniqueFd> file = OpenRawFile(options);
  if (!file.ok()) {
    return Fail(file.error());
  }
  std::vector<std::uint8_t> params(std::max<std::size_t>({options.size, options.data.size(), 1}));
  std::copy(options.data.begin(), options.data.end(), params.begin());
  const int error = Shaped(options, file->get(), options.nr, params.data(), options.size);
  // NOLINTNEXTLINE(concurrency-mt-unsafe): this program has one thread
  std::printf("errno %d: %s\n", error, error == 0 ? "ok" : std::strerror(error));
  for (std::size_t i = 0; i < std::min<std::size_t>(options.size, 64); ++i) {
    std::printf("%02x", params[i]);
  }
  std::printf("\n");
  return error == 0 ? kWorked : kRefused;
}

}  // namespace cgpu::rmtool
