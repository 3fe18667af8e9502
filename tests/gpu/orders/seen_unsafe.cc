#include <asm/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <mutex>

#include "gpu/orders/helper.h"
#include "gpu/orders/record.h"
#include "gpu/orders/seen.h"
#include "rm/class_table.h"
#include "rm/nv_alloc.h"
#include "rm/nv_classes.h"
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
  Seen& seen = TheSeen();
  const std::lock_guard<std::mutex> lock(seen.mutex);
  if (seen.on) {
    seen.objects.push_back(object);
  }
}

void Look(unsigned long request, const void* argument) {
  unsigned long nr = _IOC_NR(request);
  unsigned long size = _IOC_SIZE(request);
  if (nr == rm::NV_ESC_IOCTL_XFER_CMD && size == sizeof(rm::nv_ioctl_xfer_t)) {
    const auto* const inner = static_cast<const rm::nv_ioctl_xfer_t*>(argument);
    nr = inner->cmd;
    size = inner->size;
    argument = reinterpret_cast<const void*>(inner->ptr);
  }
  if (nr != rm::NV_ESC_RM_ALLOC || argument == nullptr) {
    return;
  }
  if (size == sizeof(rm::NVOS64_PARAMETERS)) {
    Note(*static_cast<const rm::NVOS64_PARAMETERS*>(argument));
  } else if (size == sizeof(rm::NVOS21_PARAMETERS)) {
    Note(*static_cast<const rm::NVOS21_PARAMETERS*>(argument));
  }
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

}  // namespace cgpu::orders

// In libc's place. NOLINTNEXTLINE(readability-identifier-naming): libc's name.
extern "C" __attribute__((visibility("default"))) int ioctl(int fd, unsigned long request,
                                                            ...) noexcept {
  va_list words;
  va_start(words, request);
  void* const argument = va_arg(words, void*);
  va_end(words);
  const long result = cgpu::orders::HasHelper() ? cgpu::orders::ByHelper(fd, request, argument)
                                                : syscall(SYS_ioctl, fd, request, argument);
  cgpu::orders::Record(fd, request, argument, result < 0 ? errno : 0);
  if (result >= 0) {
    cgpu::orders::Look(request, argument);
  }
  return static_cast<int>(result);
}
