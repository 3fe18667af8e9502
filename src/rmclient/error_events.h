// Waits for errors of a GPU: those that the kernel log calls Xid.
//
// The driver tells them by an event of the system on a file of the GPU
// (NV2080_NOTIFIERS_RC_ERROR; kernel_rc_notification.c krcErrorSendEventNotifications_KERNEL()).
#ifndef CGPU_RMCLIENT_ERROR_EVENTS_H_
#define CGPU_RMCLIENT_ERROR_EVENTS_H_

#include <cstdint>
#include <optional>

#include "base/fd.h"
#include "base/result.h"
#include "rmclient/client.h"
#include "rmclient/gpus.h"

namespace cgpu::rmclient {

// Hears of the errors that happen while it lives, with a subdevice of its own. Make() and Read() as
// Client: not in two threads at once. `client` must outlive it.
class ErrorEvents {
 public:
  [[nodiscard]] static Result<ErrorEvents> Make(Client& client, const Gpu& gpu);
  ErrorEvents(ErrorEvents&& other) noexcept = default;
  ErrorEvents& operator=(ErrorEvents&&) = delete;
  ErrorEvents(const ErrorEvents&) = delete;
  ErrorEvents& operator=(const ErrorEvents&) = delete;
  ~ErrorEvents();

  // Returns the file whose poll says POLLIN when an error waits, and POLLHUP when the GPU is lost.
  [[nodiscard]] int fd() const { return file_.get(); }
  // Takes the oldest error that waits: its number, which is 0 where the driver's answer hides it
  // (in a slice: another tenant's). Nothing: none waits.
  [[nodiscard]] std::optional<std::uint32_t> Read();

 private:
  ErrorEvents(Client& client, rm::NvHandle device, UniqueFd file)
      : client_(&client), device_(device), file_(std::move(file)) {}
  [[nodiscard]] Result<> Subscribe(const Gpu& gpu);

  Client* client_;
  rm::NvHandle device_;
  rm::NvHandle subdevice_ = 0;
  UniqueFd file_;
};

}  // namespace cgpu::rmclient

#endif  // CGPU_RMCLIENT_ERROR_EVENTS_H_
