#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>

#include "base/file.h"
#include "gpu/orders/helper.h"
#include "gpu/orders/identity.h"
#include "rm/nv_controls.h"
#include "rm/nv_escape.h"
#include "rm/nv_structs.h"
#include "rm/nv_uvm.h"
#include "rm/uvm_table.h"
#include "rmclient/gpus.h"
#include "rmclient/readings.h"

namespace cgpu::orders {
namespace {

constexpr std::uint64_t kBytes = std::uint64_t{16} << 20;

int Fail(const Error& error) {
  (void)std::fprintf(stderr, "gpu-orders: %s\n", FormatError(error).c_str());
  return 1;
}

void Say(const std::string& call, bool good, const std::string& says) {
  (void)std::printf(R"({"call":"%s","good":%s,"says":"%s"})"
                    "\n",
                    call.c_str(), good ? "true" : "false", says.c_str());
}

void Say(const std::string& call, const rmclient::Outcome& outcome) {
  Say(call, outcome.ok(), outcome.ok() ? "ok" : rmclient::Describe(outcome));
}

// The mapping is this process's; the call that allows it was the helper's.
void SayMapping(const rmclient::Client& client, const rmclient::Gpu& gpu, rm::NvHandle memory) {
  constexpr unsigned char kMark = 0xC6;
  const auto mapping = rmclient::Mapping::Make(client, gpu, memory, kBytes);
  if (!mapping.ok()) {
    Say("MAP_MEMORY", false, mapping.error().what);
    return;
  }
  mapping->data()[0] = kMark;
  Say("MAP_MEMORY", mapping->data()[0] == kMark, "ok");
}

void SayUvm(const std::string& path) {
  const auto file = OpenFile(path, O_RDWR);
  if (!file.ok()) {
    Say("UVM_INITIALIZE", false, file.error().what);
    return;
  }
  rm::UVM_INITIALIZE_PARAMS params{};
  const int error = rmclient::KernelGpuCalls().Call(file->get(), rm::UVM_INITIALIZE, &params);
  Say("UVM_INITIALIZE", {error, params.rmStatus});
}

// This process's own call on the client that the helper made: what the driver says is kept.
void SayOwn(const rmclient::Client& client) {
  rm::NvU32 ids[32] = {};
  rm::NVOS54_PARAMETERS params{};
  params.hClient = client.handle();
  params.hObject = client.handle();
  params.cmd = rm::NV0000_CTRL_CMD_GPU_GET_ATTACHED_IDS;
  params.params = reinterpret_cast<rm::NvP64>(&ids);
  params.paramsSize = sizeof(ids);
  constexpr unsigned long kRequest = 0xC0000000UL | (sizeof(params) << 16U) |
                                     (static_cast<unsigned long>('F') << 8U) |
                                     rm::NV_ESC_RM_CONTROL;
  const long result = syscall(SYS_ioctl, client.fd(), kRequest, &params);
  Say("the same client from the process itself", true,
      rmclient::Describe({result < 0 ? errno : 0, params.status}));
}

}  // namespace

int Identity() {
  if (const auto started = StartHelper(); !started.ok()) {
    return Fail(started.error());
  }
  auto client = rmclient::Client::Open();
  if (!client.ok()) {
    return Fail(client.error());
  }
  auto gpus = rmclient::OpenGpus(*client);
  if (!gpus.ok() || gpus->empty()) {
    return Fail(gpus.ok() ? Error{Code::kNotFound, 0, "there is no GPU", {}} : gpus.error());
  }
  rmclient::Gpu& gpu = gpus->front();
  Say("RM_ALLOC of a client, a device and a subdevice", true, "ok");
  const auto memory_info = rmclient::ReadFbInfo(*client, gpu);
  Say("RM_CONTROL", memory_info.ok(), memory_info.ok() ? "ok" : memory_info.error().what);
  rm::VidmemRequest request;
  request.size = kBytes;
  rm::NvHandle memory = 0;
  const auto allocated = rmclient::AllocVidmem(*client, gpu, &request, &memory);
  Say("RM_ALLOC of memory", allocated);
  if (allocated.ok()) {
    SayMapping(*client, gpu, memory);
    Say("RM_FREE", client->Free(gpu.device, memory));
  }
  rm::NvHandle group = 0;
  Say("RM_ALLOC of a channel group", rmclient::AllocChannelGroup(*client, gpu, &group));
  SayUvm("/dev/nvidia-uvm");
  SayOwn(*client);
  (void)std::fflush(stdout);
  return 0;
}

}  // namespace cgpu::orders
