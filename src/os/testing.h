// Helpers for tests of seccomp filters.
#ifndef CGPU_OS_TESTING_H_
#define CGPU_OS_TESTING_H_

#include <linux/filter.h>
#include <linux/seccomp.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

namespace cgpu::os {

// Returns what the kernel does with a call under `program`: classic BPF
// (Documentation/networking/filter.rst; kernel/seccomp.c, seccomp_check_filter), as far as our
// programs and libseccomp's use it. Returns nothing if the kernel would not take the program, or if
// it has an instruction that is unknown here.
[[nodiscard]] inline std::optional<std::uint32_t> Judge(const std::vector<sock_filter>& program,
                                                        const seccomp_data& data) {
  std::uint32_t accumulator = 0;
  std::uint32_t index = 0;
  std::size_t at = 0;
  while (at < program.size()) {
    const sock_filter& step = program[at++];
    const auto jump = [&](bool holds) { at += holds ? step.jt : step.jf; };
    switch (step.code) {
      case BPF_LD | BPF_W | BPF_ABS:
        if (step.k % 4 != 0 || step.k + 4 > sizeof(data)) {
          return std::nullopt;
        }
        std::memcpy(&accumulator, reinterpret_cast<const char*>(&data) + step.k, 4);
        break;
      case BPF_ALU | BPF_AND | BPF_K:
        accumulator &= step.k;
        break;
      case BPF_ALU | BPF_OR | BPF_X:
        accumulator |= index;
        break;
      case BPF_ALU | BPF_LSH | BPF_K:
        accumulator <<= step.k;
        break;
      case BPF_ALU | BPF_RSH | BPF_K:
        accumulator >>= step.k;
        break;
      case BPF_MISC | BPF_TAX:
        index = accumulator;
        break;
      case BPF_JMP | BPF_JA:
        at += step.k;
        break;
      case BPF_JMP | BPF_JEQ | BPF_K:
        jump(accumulator == step.k);
        break;
      case BPF_JMP | BPF_JGE | BPF_K:
        jump(accumulator >= step.k);
        break;
      case BPF_JMP | BPF_JGT | BPF_K:
        jump(accumulator > step.k);
        break;
      case BPF_JMP | BPF_JSET | BPF_K:
        jump((accumulator & step.k) != 0);
        break;
      case BPF_RET | BPF_K:
        return step.k;
      default:
        return std::nullopt;
    }
  }
  return std::nullopt;
}

}  // namespace cgpu::os

#endif  // CGPU_OS_TESTING_H_
