#include <asm/ioctl.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <mutex>

#include "gpu/orders/helper.h"
#include "rm/nv_escape.h"
#include "rm/nv_structs.h"

namespace cgpu::orders {
namespace {

enum Turn : int { kOurs, kHelpers };

struct Slot {
  std::mutex mutex;  // of the callers
  std::atomic<int> turn{kOurs};
  int owner = -1;  // the helper's pidfd of this process
  int fd = -1;
  unsigned long request = 0;
  void* argument = nullptr;
  long result = 0;
  int error = 0;
};

Slot* slot = nullptr;

void WaitFor(Slot& with, int turn) {
  while (with.turn != turn) {
    (void)syscall(SYS_futex, &with.turn, FUTEX_WAIT, turn == kOurs ? kHelpers : kOurs, nullptr,
                  nullptr, 0);
  }
}

void Pass(Slot& with, int turn) {
  with.turn = turn;
  (void)syscall(SYS_futex, &with.turn, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

int Take(const Slot& with, int fd) {
  return static_cast<int>(syscall(SYS_pidfd_getfd, with.owner, fd, 0));
}

// Where the parameters name another descriptor of the caller's.
rm::NvS32* NamedIn(unsigned long request, void* argument) {
  const unsigned long size = _IOC_SIZE(request);
  if (_IOC_NR(request) == rm::NV_ESC_REGISTER_FD && size == sizeof(rm::nv_ioctl_register_fd_t)) {
    return &static_cast<rm::nv_ioctl_register_fd_t*>(argument)->ctl_fd;
  }
  if (_IOC_NR(request) == rm::NV_ESC_RM_MAP_MEMORY &&
      size == sizeof(rm::nv_ioctl_nvos33_parameters_with_fd)) {
    return &static_cast<rm::nv_ioctl_nvos33_parameters_with_fd*>(argument)->fd;
  }
  return nullptr;
}

void Execute(Slot& with) {
  const int file = Take(with, with.fd);
  if (file < 0) {
    with.result = -1;
    with.error = errno;
    return;
  }
  rm::NvS32* const named = NamedIn(with.request, with.argument);
  const rm::NvS32 theirs = named == nullptr ? -1 : *named;
  const int other = theirs < 0 ? -1 : Take(with, theirs);
  if (other >= 0) {
    *named = other;
  }
  with.result = syscall(SYS_ioctl, file, with.request, with.argument);
  with.error = with.result < 0 ? errno : 0;
  if (other >= 0) {
    *named = theirs;
    (void)syscall(SYS_close, other);
  }
  // A device is only for a process that has the GPU open (device.c deviceConstruct()).
  if (_IOC_NR(with.request) != rm::NV_ESC_REGISTER_FD) {
    (void)syscall(SYS_close, file);
  }
}

// In the helper, which has the caller's thread-local storage as well: the caller waits meanwhile.
int Serve(void* argument) {
  Slot& with = *static_cast<Slot*>(argument);
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  with.owner = static_cast<int>(syscall(SYS_pidfd_open, getppid(), 0));
  with.error = with.owner < 0 ? errno : 0;
  Pass(with, kOurs);
  for (;;) {
    WaitFor(with, kHelpers);
    Execute(with);
    Pass(with, kOurs);
  }
}

}  // namespace

Result<> StartHelper() {
  constexpr std::size_t kStack = 256 * 1024;
  void* const stack =
      mmap(nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (stack == MAP_FAILED) {
    return ErrnoError(Code::kExhausted, errno, "no memory for a helper");
  }
  static Slot the_slot;
  the_slot.turn = kHelpers;
  if (clone(Serve, static_cast<char*>(stack) + kStack, CLONE_VM | SIGCHLD, &the_slot) < 0) {
    return ErrnoError(Code::kUnavailable, errno, "cannot start a helper");
  }
  WaitFor(the_slot, kOurs);
  if (the_slot.error != 0) {
    return ErrnoError(Code::kUnavailable, the_slot.error, "a helper cannot find its parent");
  }
  slot = &the_slot;
  return {};
}

bool HasHelper() {
  return slot != nullptr;
}

long ByHelper(int fd, unsigned long request, void* argument) {
  const std::lock_guard<std::mutex> lock(slot->mutex);
  slot->fd = fd;
  slot->request = request;
  slot->argument = argument;
  Pass(*slot, kHelpers);
  WaitFor(*slot, kOurs);
  errno = slot->error;
  return slot->result;
}

}  // namespace cgpu::orders
