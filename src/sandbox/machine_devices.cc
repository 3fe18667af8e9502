#include "sandbox/machine_devices.h"

#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>

namespace cgpu {
namespace {

// Numbers from the kernel's Documentation/admin-guide/devices.txt.
constexpr unsigned kAnyMinor = ~0U;
struct Number {
  unsigned major;
  unsigned minor;
};
constexpr Number kNever[] = {
    {1, 1},           // mem
    {1, 2},           // kmem
    {1, 4},           // port
    {1, 11},          // kmsg
    {7, kAnyMinor},   // vcs*: contents of the consoles
    {9, kAnyMinor},   // st*
    {10, 144},        // nvram
    {21, kAnyMinor},  // sg*
    {90, kAnyMinor},  // mtd*
    {162, kAnyMinor}  // raw
};
constexpr Number kAlways[] = {
    {1, 3},     // null
    {1, 5},     // zero
    {1, 7},     // full
    {1, 8},     // random
    {1, 9},     // urandom
    {5, 0},     // tty
    {5, 2},     // ptmx
    {10, 200},  // net/tun
    {10, 229},  // fuse
};
// Devices with dynamic numbers.
constexpr std::string_view kFolders[] = {"bsg", "cpu", "vfio"};
constexpr std::string_view kCounted[] = {"dax", "ng", "nvme", "uio"};  // followed by a digit

template <std::size_t kSize>
bool IsAmong(const Number (&numbers)[kSize], dev_t device) {
  return std::ranges::any_of(numbers, [&](const Number& number) {
    return number.major == major(device) &&
           (number.minor == kAnyMinor || number.minor == minor(device));
  });
}

bool IsNamed(std::string_view path) {
  const std::string_view top = path.substr(0, path.find('/'));
  return std::ranges::find(kFolders, top) != std::end(kFolders) ||
         std::ranges::any_of(kCounted, [&](std::string_view name) {
           return top.starts_with(name) && top.size() > name.size() && top[name.size()] >= '0' &&
                  top[name.size()] <= '9';
         });
}

bool IsRootsAlone(const struct stat& st) {
  const bool group = st.st_gid != 0 && (st.st_mode & (S_IRGRP | S_IWGRP)) != 0;
  return st.st_uid == 0 && !group && (st.st_mode & S_IWOTH) == 0;
}

}  // namespace

bool IsMachineDevice(std::string_view path, const struct stat& st,
                     const std::set<dev_t>& terminals) {
  if (S_ISBLK(st.st_mode) || (!S_ISLNK(st.st_mode) && IsNamed(path))) {
    return true;
  }
  if (!S_ISCHR(st.st_mode) || terminals.contains(st.st_rdev) || IsAmong(kAlways, st.st_rdev)) {
    return false;
  }
  return IsAmong(kNever, st.st_rdev) || IsRootsAlone(st);
}

std::set<dev_t> OwnTerminals() {
  std::set<dev_t> terminals;
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    struct stat st{};
    if (isatty(fd) != 0 && fstat(fd, &st) == 0) {
      terminals.insert(st.st_rdev);
    }
  }
  return terminals;
}

}  // namespace cgpu
