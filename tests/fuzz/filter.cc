// The filter that every tenant runs under, as the kernel runs it: for any registers its program
// says what its rules say. The program is interpreted here.
#include "sandbox/filter.h"

#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>

#include <vector>

#include "os/testing.h"
#include "tests/fuzz/input.h"

using cgpu::fuzz::Input;
using cgpu::fuzz::Require;

namespace {

// Registers that mean something: the system calls that have rules, of this architecture or another.
seccomp_data Take(Input& input) {
  constexpr int kCalls[] = {SYS_ioctl, SYS_ioctl,  SYS_ioctl,          SYS_mmap,
                            SYS_mmap,  SYS_mremap, SYS_io_uring_setup, SYS_remap_file_pages,
                            SYS_read};
  seccomp_data data{};
  const auto how = input.Take<std::uint8_t>();
  data.arch = how < 240 ? AUDIT_ARCH_X86_64 : input.Take<std::uint32_t>();
  data.nr = how % 16 == 15 ? input.Take<int>() : kCalls[how % std::size(kCalls)];
  data.instruction_pointer = input.Take<std::uint64_t>();
  for (auto& argument : data.args) {
    const auto bits = input.Take<std::uint8_t>();
    argument = bits < 128 ? bits : input.Take<std::uint64_t>();
  }
  return data;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static const std::vector<sock_filter> program = cgpu::sandbox::BuildGpuFilter();
  Input input(bytes, size);
  while (!input.empty()) {
    const seccomp_data data = Take(input);
    const auto judged = cgpu::os::Judge(program, data);
    Require(judged.has_value(), "it ends with a verdict");
    const std::uint32_t verdict = judged.value_or(0);
    if (data.arch != AUDIT_ARCH_X86_64 ||
        (static_cast<std::uint32_t>(data.nr) & 0x40000000U) != 0) {
      // Arguments of other architectures' calls cannot be judged.
      Require(verdict == SECCOMP_RET_KILL_PROCESS || data.arch == AUDIT_ARCH_X86_64,
              "other architectures are killed");
      Require(verdict != SECCOMP_RET_ALLOW, "x32 calls do not pass");
    } else if (data.nr == SYS_ioctl) {
      const bool trapped = cgpu::sandbox::IsTrapped(static_cast<std::uint32_t>(data.args[1]));
      Require(verdict == (trapped ? SECCOMP_RET_USER_NOTIF : SECCOMP_RET_ALLOW),
              "an ioctl is handed over as the rule says");
    } else if (data.nr == SYS_mmap) {
      const bool trapped = cgpu::sandbox::IsTrappedMmap(data.args[2], data.args[3], data.args[5]);
      Require(verdict == (trapped ? SECCOMP_RET_USER_NOTIF : SECCOMP_RET_ALLOW),
              "an mmap is handed over as the rule says");
    } else if (data.nr == SYS_mremap) {
      const bool trapped = cgpu::sandbox::IsTrappedMremap(data.args[3]);
      Require(verdict == (trapped ? SECCOMP_RET_USER_NOTIF : SECCOMP_RET_ALLOW),
              "an mremap is handed over as the rule says");
    } else if (data.nr == SYS_io_uring_setup || data.nr == SYS_remap_file_pages) {
      Require((verdict & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_ERRNO,
              "io_uring and remap_file_pages are refused");
    } else if (data.nr == SYS_read) {
      Require(verdict == SECCOMP_RET_ALLOW, "other calls pass");
    }
  }
  return 0;
}
