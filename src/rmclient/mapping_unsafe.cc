#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>
#include <utility>

#include "base/file.h"
#include "rmclient/gpus.h"

namespace cgpu::rmclient {

Result<Mapping> Mapping::Make(const Client& client, const Gpu& gpu, rm::NvHandle memory,
                              std::size_t length, Kind kind) {
  // The driver remembers one mapping per open file, so each gets a file of its own.
  const bool of_gpu = kind == Kind::kGpu;
  CGPU_ASSIGN_OR_RETURN(
      auto file, OpenFile(of_gpu ? client.paths().gpu(gpu.minor) : client.paths().ctl, O_RDWR));
  rm::nv_ioctl_nvos33_parameters_with_fd call = {};
  call.params.hClient = client.handle();
  call.params.hDevice = gpu.device;
  call.params.hMemory = memory;
  call.params.length = length;
  call.params.flags = of_gpu ? 0 : rm::NVOS33_FLAGS_ACCESS_READ_ONLY;
  call.fd = file.get();
  CGPU_TRY(Checked(MapMemory(client.fd(), &call), "mapping memory of GPU " + gpu.bdf));
  Mapping mapping;
  mapping.client_ = &client;
  mapping.unmap_.hClient = client.handle();
  mapping.unmap_.hDevice = gpu.device;
  mapping.unmap_.hMemory = memory;
  mapping.unmap_.pLinearAddress = call.params.pLinearAddress;
  void* data =
      mmap(nullptr, length, of_gpu ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, file.get(), 0);
  if (data == MAP_FAILED) {
    return ErrnoError(Code::kInternal, errno, "mapping memory of GPU " + gpu.bdf);
  }
  if (!of_gpu) {
    (void)mlock(data, length);  // a page that had to be fetched again might be gone
  }
  mapping.data_ = data;
  mapping.size_ = length;
  mapping.file_ = std::move(file);
  return mapping;
}

Mapping::Mapping(Mapping&& other) noexcept
    : client_(std::exchange(other.client_, nullptr)),
      file_(std::move(other.file_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(other.size_),
      unmap_(other.unmap_) {}

Mapping::~Mapping() {
  if (data_ != nullptr) {
    munmap(data_, size_);
  }
  if (client_ != nullptr) {
    static_cast<void>(UnmapMemory(client_->fd(), &unmap_));
  }
}

}  // namespace cgpu::rmclient
