// Lists and opens the GPUs that a client can see, and allocates on them.
#ifndef CGPU_RMCLIENT_GPUS_H_
#define CGPU_RMCLIENT_GPUS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "rm/vidmem.h"
#include "rmclient/client.h"

namespace cgpu::rmclient {

// One opened GPU. Its device file stays open (the driver demands it); `device` and `subdevice` are
// objects of the client that opened it.
struct Gpu {
  unsigned index = 0;  // in order of bus address, from 0
  rm::NvU32 gpu_id = 0;
  unsigned minor = 0;  // /dev/nvidia<minor>
  rm::NvU32 device_instance = 0;
  rm::NvU32 subdevice_instance = 0;
  std::string uuid;  // "GPU-..."
  std::string name;  // "Tesla V100-SXM2-16GB"
  std::string bdf;   // "0000:00:04.0"
  UniqueFd file;
  rm::NvHandle device = 0;
  rm::NvHandle subdevice = 0;
};

// A GPU as the driver lists it, not opened.
struct ListedGpu {
  unsigned minor = 0;
  std::string bdf;
};
// Lists the GPUs that the driver shows, lost ones too, in order of bus address.
[[nodiscard]] Result<std::vector<ListedGpu>> ListGpus(const Client& client);

// Opens every GPU whose file exists and may be opened, in order of bus address. Leaves out the
// others, and those that do not answer: one that is lost keeps nobody from the others.
[[nodiscard]] Result<std::vector<Gpu>> OpenGpus(Client& client);

// Opens the GPU of /dev/nvidia<minor> alone. kNotFound: the driver has none of that minor, or this
// process may not have it.
[[nodiscard]] Result<Gpu> OpenGpu(Client& client, unsigned minor);

// One GPU, open in a client of its own.
struct Session {
  Client client;
  Gpu gpu;
};
// Opens it as OpenGpu() does.
[[nodiscard]] Result<Session> OpenSession(const DevicePaths& paths, unsigned minor);

// Reads the GPU's own clock (NV2080_CTRL_CMD_TIMER_GET_TIME): only a GPU that is there can say what
// it shows. The driver asks no GPU that it has lost: the control has no
// RMCTRL_FLAGS_NO_GPUS_ACCESS (flags 0x10118 in g_subdevice_nvoc.c of 595.45.04; control.c
// serverControl_ValidateCookie()). Returns why it does not answer.
[[nodiscard]] Result<> AskForTime(Client& client, const Gpu& gpu);

// Allocates memory on the GPU (class NV01_MEMORY_LOCAL_USER, child of the device). On success
// request.size is what the driver says it gave.
[[nodiscard]] Outcome AllocVidmem(Client& client, const Gpu& gpu, rm::VidmemRequest* request,
                                  rm::NvHandle* handle);

// Allocates memory of the host, for the driver and the GPU to write and for this process to read.
[[nodiscard]] Outcome AllocHostToRead(Client& client, const Gpu& gpu, std::size_t bytes,
                                      rm::NvHandle* handle);

// Allocates a channel group on the graphics/compute engine (child of the device).
[[nodiscard]] Outcome AllocChannelGroup(Client& client, const Gpu& gpu, rm::NvHandle* handle);

// Memory that the driver gave, mapped into this process. The destructor unmaps and releases it.
// `client` must outlive it.
class Mapping {
 public:
  // Kind of memory: the GPU's, or the host's, which may only be read.
  enum class Kind : std::uint8_t { kGpu, kHostToRead };
  // Maps the first `length` bytes of a memory object. A multiple of the page size.
  [[nodiscard]] static Result<Mapping> Make(const Client& client, const Gpu& gpu,
                                            rm::NvHandle memory, std::size_t length,
                                            Kind kind = Kind::kGpu);
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&&) = delete;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();

  [[nodiscard]] volatile unsigned char* data() const { return static_cast<unsigned char*>(data_); }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  Mapping() = default;

  const Client* client_ = nullptr;
  UniqueFd file_;
  void* data_ = nullptr;
  std::size_t size_ = 0;
  rm::NVOS34_PARAMETERS unmap_ = {};
};

}  // namespace cgpu::rmclient

#endif  // CGPU_RMCLIENT_GPUS_H_
