// What a service says to systemd.
#ifndef CGPU_KERNEL_SERVICE_H_
#define CGPU_KERNEL_SERVICE_H_

namespace cgpu {

// sd_notify(3): "READY=1" to the socket that NOTIFY_SOCKET names, '@' meaning an abstract one.
// Without one nothing is said.
void TellReady();

}  // namespace cgpu

#endif  // CGPU_KERNEL_SERVICE_H_
