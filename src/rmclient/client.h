// A client of the Resource Manager (RM): one open control file and the root object on it.
//
// Not thread-safe (handles are counted up); the driver calls themselves may run in several threads
// through the raw functions. The driver ties a client to the open file and the process: do not use
// one across fork().
#ifndef CGPU_RMCLIENT_CLIENT_H_
#define CGPU_RMCLIENT_CLIENT_H_

#include <string>

#include "base/fd.h"
#include "base/result.h"
#include "rm/abi.h"
#include "rmclient/raw.h"

namespace cgpu::rmclient {

class Client {
 public:
  // Opens the control file, asks the driver's version and allocates the root object. kNotFound:
  // there is no driver. kPermission. kUnsupported: a version that src/rm does not know.
  [[nodiscard]] static Result<Client> Open(DevicePaths paths);
  [[nodiscard]] static Result<Client> Open() { return Open(DevicePaths::InFolder("/dev")); }

  Client(Client&& other) noexcept;
  Client& operator=(Client&&) = delete;
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  // Frees the root object, and so everything below it.
  ~Client();

  [[nodiscard]] int fd() const { return ctl_.get(); }
  [[nodiscard]] rm::NvHandle handle() const { return handle_; }
  [[nodiscard]] const DevicePaths& paths() const { return paths_; }
  [[nodiscard]] const rm::Abi& abi() const { return *abi_; }
  [[nodiscard]] const std::string& driver_version() const { return driver_version_; }

  // Returns a handle that this client has not used yet.
  [[nodiscard]] rm::NvHandle NewHandle() { return next_handle_++; }

  // Make the raw calls on this client. Alloc and Dup take a new handle and return it in `handle`.
  [[nodiscard]] Outcome Alloc(rm::NvHandle parent, rm::NvHandle* handle, rm::NvU32 class_number,
                              void* params, std::size_t params_size);
  [[nodiscard]] Outcome Free(rm::NvHandle parent, rm::NvHandle object);
  [[nodiscard]] Outcome Control(rm::NvHandle object, rm::NvU32 cmd, void* params,
                                std::size_t params_size);
  [[nodiscard]] Outcome Dup(rm::NvHandle parent, rm::NvHandle* handle, rm::NvHandle source_client,
                            rm::NvHandle source_object);
  [[nodiscard]] Outcome Share(rm::NvHandle object, const rm::RS_SHARE_POLICY& policy);

 private:
  Client(DevicePaths paths, UniqueFd ctl, std::string driver_version, const rm::Abi* abi,
         rm::NvHandle handle);

  DevicePaths paths_;
  UniqueFd ctl_;
  std::string driver_version_;
  const rm::Abi* abi_;
  rm::NvHandle handle_ = 0;
  rm::NvHandle next_handle_ = 0xC6000001;
};

}  // namespace cgpu::rmclient

#endif  // CGPU_RMCLIENT_CLIENT_H_
