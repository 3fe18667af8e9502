// Instructions of seccomp filters (Documentation/networking/filter.rst), by names that say what
// they do with the loaded word. Pure.
#ifndef CGPU_SANDBOX_BPF_H_
#define CGPU_SANDBOX_BPF_H_

#include <linux/filter.h>

#include <cstdint>

namespace cgpu::sandbox::bpf {

inline constexpr std::uint16_t kLoad = BPF_LD | BPF_W | BPF_ABS;
inline constexpr std::uint16_t kAnd = BPF_ALU | BPF_AND | BPF_K;
inline constexpr std::uint16_t kIfEqual = BPF_JMP | BPF_JEQ | BPF_K;
inline constexpr std::uint16_t kIfAtLeast = BPF_JMP | BPF_JGE | BPF_K;
inline constexpr std::uint16_t kIfMore = BPF_JMP | BPF_JGT | BPF_K;
inline constexpr std::uint16_t kIfAnyBit = BPF_JMP | BPF_JSET | BPF_K;
inline constexpr std::uint16_t kReturn = BPF_RET | BPF_K;

// Marks the numbers of x32's calls: __X32_SYSCALL_BIT of asm/unistd.h.
inline constexpr std::uint32_t kX32Bit = 0x40000000U;

}  // namespace cgpu::sandbox::bpf

#endif  // CGPU_SANDBOX_BPF_H_
