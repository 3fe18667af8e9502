#include <setjmp.h>
#include <signal.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "sim/gpu/guarded.h"

namespace cgpu::sim {
namespace {

// One thread: no more than one access is under way.
sigjmp_buf g_way_out;                 // NOLINT: a signal handler has nothing but globals
volatile sig_atomic_t g_guarded = 0;  // NOLINT

void OnFault(int number) {
  if (g_guarded != 0) {
    siglongjmp(g_way_out, 1);  // NOLINT(cert-err52-cpp): no destructor lies between
  }
  signal(number, SIG_DFL);  // a fault of our own
  raise(number);
}

template <class Word>
bool Fits(const void* mapped, std::size_t size) {
  return size == sizeof(Word) && reinterpret_cast<std::uintptr_t>(mapped) % sizeof(Word) == 0;
}

template <class Word>
void LoadWord(const std::byte* mapped, std::byte* to) {
  const Word word = __atomic_load_n(reinterpret_cast<const Word*>(mapped), __ATOMIC_ACQUIRE);
  std::memcpy(to, &word, sizeof(word));
}

template <class Word>
void StoreWord(std::byte* mapped, const std::byte* from) {
  Word word = 0;
  std::memcpy(&word, from, sizeof(word));
  __atomic_store_n(reinterpret_cast<Word*>(mapped), word, __ATOMIC_RELEASE);
}

}  // namespace

Result<> InstallGuards() {
  struct sigaction action{};
  action.sa_handler = &OnFault;
  action.sa_flags = SA_NODEFER;  // so that a jump out needs no mask restored
  if (sigaction(SIGBUS, &action, nullptr) != 0 || sigaction(SIGSEGV, &action, nullptr) != 0) {
    return ErrnoError(Code::kInternal, errno, "taking over SIGBUS");
  }
  return {};
}

bool GuardedLoad(const std::byte* mapped, std::span<std::byte> to) {
  if (sigsetjmp(g_way_out, 0) != 0) {  // NOLINT(cert-err52-cpp)
    g_guarded = 0;
    return false;
  }
  g_guarded = 1;
  if (Fits<std::uint32_t>(mapped, to.size())) {
    LoadWord<std::uint32_t>(mapped, to.data());
  } else if (Fits<std::uint64_t>(mapped, to.size())) {
    LoadWord<std::uint64_t>(mapped, to.data());
  } else {
    std::memcpy(to.data(), mapped, to.size());
  }
  __asm__ volatile("" ::: "memory");
  g_guarded = 0;
  return true;
}

bool GuardedStore(std::byte* mapped, std::span<const std::byte> from) {
  if (sigsetjmp(g_way_out, 0) != 0) {  // NOLINT(cert-err52-cpp)
    g_guarded = 0;
    return false;
  }
  g_guarded = 1;
  if (Fits<std::uint32_t>(mapped, from.size())) {
    StoreWord<std::uint32_t>(mapped, from.data());
  } else if (Fits<std::uint64_t>(mapped, from.size())) {
    StoreWord<std::uint64_t>(mapped, from.data());
  } else {
    std::memcpy(mapped, from.data(), from.size());
  }
  __asm__ volatile("" ::: "memory");
  g_guarded = 0;
  return true;
}

}  // namespace cgpu::sim
