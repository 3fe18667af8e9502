// Tells systemd the state of a service.
#ifndef CGPU_OS_SERVICE_H_
#define CGPU_OS_SERVICE_H_

namespace cgpu {

// Sends "READY=1" to the socket that NOTIFY_SOCKET names, '@' meaning an abstract one
// (sd_notify(3)). Does nothing without NOTIFY_SOCKET.
void TellReady();

}  // namespace cgpu

#endif  // CGPU_OS_SERVICE_H_
