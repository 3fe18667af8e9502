#include <asm/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <mutex>

#include "gpu/orders/helper.h"
#include "gpu/orders/record.h"
#include "gpu/orders/seen.h"
#include "rm/class_table.h"
#include "rm/nv_alloc.h"
#include "rm/nv_classes.h"
#include "rm/nv_controls.h"
#include "rm/nv_escape.h"
#include "rm/nv_status.h"
#include "rm/nv_structs.h"

namespace cgpu::orders {
namespace {

struct Seen {
  std::mutex mutex;
  bool on = false;
  std::vector<SeenObject> objects;
};

Seen& TheSeen() {
  static Seen* const seen = new Seen;
  return *seen;
}

std::atomic<Watcher*> the_watcher{nullptr};
thread_local bool in_watcher = false;

// Tells the watcher, if there is one and it is not the caller.
template <class Tell>
void TellWatcher(const Tell& tell) {
  Watcher* const watcher = the_watcher;
  if (watcher != nullptr && !in_watcher) {
    in_watcher = true;
    tell(*watcher);
    in_watcher = false;
  }
}

template <class T>
void Note(const T& call) {
  if (call.status != rm::NV_OK) {
    return;
  }
  const bool group = call.hClass == rm::KEPLER_CHANNEL_GROUP_A;
  if (!group && !rm::IsChannelClass(call.hClass)) {
    return;
  }
  SeenObject object{call.hRoot, call.hObjectParent, call.hObjectNew, call.hClass, 0};
  if (group && call.pAllocParms != 0) {
    object.engine =
        reinterpret_cast<const rm::NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS*>(call.pAllocParms)
            ->engineType;
  }
  {
    Seen& seen = TheSeen();
    const std::lock_guard<std::mutex> lock(seen.mutex);
    if (seen.on) {
      seen.objects.push_back(object);
    }
  }
  TellWatcher([&object](Watcher& watcher) { watcher.Allocated(object); });
}

// An escape and its parameters, without the envelope that it may have come in.
struct Escape {
  unsigned long nr = 0;
  unsigned long size = 0;
  const void* argument = nullptr;
};

Escape Unwrapped(unsigned long request, const void* argument) {
  constexpr unsigned long kType = 'F';  // NV_IOCTL_MAGIC
  if (_IOC_TYPE(request) != kType || argument == nullptr) {
    return {};
  }
  Escape escape{_IOC_NR(request), _IOC_SIZE(request), argument};
  if (escape.nr == rm::NV_ESC_IOCTL_XFER_CMD && escape.size == sizeof(rm::nv_ioctl_xfer_t)) {
    const auto* const inner = static_cast<const rm::nv_ioctl_xfer_t*>(argument);
    escape = {inner->cmd, inner->size, reinterpret_cast<const void*>(inner->ptr)};
  }
  return escape;
}

void Look(const Escape& escape) {
  if (escape.nr != rm::NV_ESC_RM_ALLOC || escape.argument == nullptr) {
    return;
  }
  if (escape.size == sizeof(rm::NVOS64_PARAMETERS)) {
    Note(*static_cast<const rm::NVOS64_PARAMETERS*>(escape.argument));
  } else if (escape.size == sizeof(rm::NVOS21_PARAMETERS)) {
    Note(*static_cast<const rm::NVOS21_PARAMETERS*>(escape.argument));
  }
}

// Returns the call if it schedules a group or a channel, else nullptr.
const rm::NVOS54_PARAMETERS* Scheduling(const Escape& escape) {
  if (escape.nr != rm::NV_ESC_RM_CONTROL || escape.size != sizeof(rm::NVOS54_PARAMETERS) ||
      escape.argument == nullptr) {
    return nullptr;
  }
  const auto* const call = static_cast<const rm::NVOS54_PARAMETERS*>(escape.argument);
  const bool schedules = call->cmd == rm::NVA06C_CTRL_CMD_GPFIFO_SCHEDULE ||
                         call->cmd == rm::NVA06F_CTRL_CMD_GPFIFO_SCHEDULE;
  // Both kinds of parameters begin with bEnable.
  return schedules && call->params != 0 && *reinterpret_cast<const rm::NvU8*>(call->params) != 0
             ? call
             : nullptr;
}

long Make(int fd, unsigned long request, void* argument) {
  return HasHelper() ? ByHelper(fd, request, argument) : syscall(SYS_ioctl, fd, request, argument);
}

}  // namespace

void BeginToSee() {
  Seen& seen = TheSeen();
  const std::lock_guard<std::mutex> lock(seen.mutex);
  seen.on = true;
}

std::vector<SeenObject> EndToSee() {
  Seen& seen = TheSeen();
  const std::lock_guard<std::mutex> lock(seen.mutex);
  seen.on = false;
  return seen.objects;
}

void SetWatcher(Watcher* watcher) {
  the_watcher = watcher;
}

}  // namespace cgpu::orders

// In libc's place. NOLINTNEXTLINE(readability-identifier-naming): libc's name.
extern "C" __attribute__((visibility("default"))) int ioctl(int fd, unsigned long request,
                                                            ...) noexcept {
  va_list words;
  va_start(words, request);
  void* const argument = va_arg(words, void*);
  va_end(words);
  const cgpu::orders::Escape escape = cgpu::orders::Unwrapped(request, argument);
  const auto* const scheduling = cgpu::orders::Scheduling(escape);
  if (scheduling != nullptr) {
    cgpu::orders::TellWatcher([](auto& watcher) { watcher.BeforeSchedule(); });
  }
  const long result = cgpu::orders::Make(fd, request, argument);
  const int error = result < 0 ? errno : 0;
  cgpu::orders::Record(fd, request, argument, error);
  if (result >= 0) {
    cgpu::orders::Look(escape);
  }
  if (scheduling != nullptr) {
    const bool done = result >= 0 && scheduling->status == cgpu::rm::NV_OK;
    cgpu::orders::TellWatcher([&](auto& watcher) {
      watcher.AfterSchedule(done, scheduling->hClient, scheduling->hObject,
                            [&] { (void)cgpu::orders::Make(fd, request, argument); });
    });
  }
  if (result < 0) {
    errno = error;
  }
  return static_cast<int>(result);
}
