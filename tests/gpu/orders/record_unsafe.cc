#include <asm/ioctl.h>
#include <unistd.h>

#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

#include "gpu/orders/record.h"
#include "rm/class_table.h"
#include "rm/control_table.h"
#include "rm/escape_table.h"
#include "rm/nv_escape.h"
#include "rm/nv_structs.h"
#include "rm/uvm_table.h"

namespace cgpu::orders {
namespace {

std::atomic<bool> on{false};

// "ctl", "uvm", "gpu0"; empty: no file of the driver's.
std::string FileName(int fd) {
  char path[64];
  char target[256];
  (void)std::snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
  const ssize_t n = readlink(path, target, sizeof(target));
  std::string name(target, n < 0 ? 0 : static_cast<std::size_t>(n));
  name.erase(0, name.rfind('/') + 1);
  // A simulated file's name leads to another file once it was opened again.
  constexpr std::string_view kDeleted = " (deleted)";
  if (name.ends_with(kDeleted)) {
    name.erase(name.size() - kDeleted.size());
  }
  if (name == "nvidiactl" || name == "nvidia-uvm") {
    return name == "nvidiactl" ? "ctl" : "uvm";
  }
  constexpr std::string_view kGpu = "nvidia";
  const std::string number = name.starts_with(kGpu) ? name.substr(kGpu.size()) : "";
  return number.empty() || number.find_first_not_of("0123456789") != std::string::npos
             ? ""
             : "gpu" + number;
}

template <class Row>
std::string NameOf(const Row* row, unsigned long number) {
  char text[32];
  (void)std::snprintf(text, sizeof(text), "0x%lx", number);
  return row == nullptr ? text : std::string(row->name);
}

std::string Status(const void* argument, std::size_t at) {
  rm::NvU32 status = 0;
  char text[16];
  std::memcpy(&status, static_cast<const char*>(argument) + at, sizeof(status));
  (void)std::snprintf(text, sizeof(text), "0x%x", status);
  return text;
}

// Returns the name of what is selected, and its bytes.
std::string Selected(rm::NvU8 nr, unsigned long size, const void* argument) {
  if (nr == rm::NV_ESC_RM_CONTROL && size == sizeof(rm::NVOS54_PARAMETERS)) {
    const auto* const call = static_cast<const rm::NVOS54_PARAMETERS*>(argument);
    return NameOf(rm::FindControl(call->cmd), call->cmd) + " " + std::to_string(call->paramsSize);
  }
  const auto* const alloc = static_cast<const rm::NVOS21_PARAMETERS*>(argument);
  if (nr == rm::NV_ESC_RM_ALLOC && size >= sizeof(*alloc)) {  // the long form begins as the short
    return NameOf(rm::FindClass(alloc->hClass), alloc->hClass) + " -";
  }
  return std::to_string(size);
}

std::string Described(const std::string& file, unsigned long request, const void* argument) {
  if (file == "uvm") {
    const auto number = static_cast<rm::NvU32>(request);
    return NameOf(rm::FindUvm(number), number) + " - -";
  }
  auto nr = static_cast<rm::NvU8>(_IOC_NR(request));
  std::size_t size = _IOC_SIZE(request);
  if (nr == rm::NV_ESC_IOCTL_XFER_CMD && size == sizeof(rm::nv_ioctl_xfer_t)) {
    const auto* const inner = static_cast<const rm::nv_ioctl_xfer_t*>(argument);
    nr = static_cast<rm::NvU8>(inner->cmd);
    size = inner->size;
    argument = reinterpret_cast<const void*>(inner->ptr);
  }
  const auto at = rm::StatusOffset(nr, size);
  return NameOf(rm::FindEscape(nr), nr) + " " + Selected(nr, size, argument) + " " +
         (at ? Status(argument, *at) : "-");
}

}  // namespace

void BeginRecord() {
  on = true;
}

void Record(int fd, unsigned long request, const void* argument, int error) {
  if (!on) {
    return;
  }
  const std::string file = FileName(fd);
  if (!file.empty()) {
    (void)std::printf("%d %s %s %d driver\n", static_cast<int>(getpid()), file.c_str(),
                      Described(file, request, argument).c_str(), error);
  }
}

}  // namespace cgpu::orders
