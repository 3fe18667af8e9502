// A fuzzer's bytes as a stream of numbers and strings. Past the end everything is zero.
#ifndef CGPU_TESTS_FUZZ_INPUT_H_
#define CGPU_TESTS_FUZZ_INPUT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace cgpu::fuzz {

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}

  [[nodiscard]] bool empty() const { return size_ == 0; }

  void Take(void* into, std::size_t size) {
    if (size == 0) {
      return;  // `into` may be null
    }
    const std::size_t have = std::min(size, size_);
    std::memset(into, 0, size);
    if (have != 0) {
      std::memcpy(into, data_, have);
    }
    data_ += have;
    size_ -= have;
  }

  template <class T>
  T Take() {
    T value{};
    Take(&value, sizeof(value));
    return value;
  }

  std::string TakeString(std::size_t most) {
    std::string text(std::min(most, size_), '\0');
    Take(text.data(), text.size());
    return text;
  }

  std::string TakeRest() { return TakeString(size_); }

 private:
  const std::uint8_t* data_;
  std::size_t size_;
};

// States what must hold for every input. Ends the process, which is what a fuzzer looks for.
inline void Require(bool holds, const char* sentence) {
  if (!holds) {
    std::fprintf(stderr, "does not hold: %s\n", sentence);
    std::abort();
  }
}

}  // namespace cgpu::fuzz

#endif  // CGPU_TESTS_FUZZ_INPUT_H_
