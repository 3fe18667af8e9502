// State that a shim takes over from its predecessor. Accepted state is written again as bytes that
// mean the same, and names no descriptor twice.
#include "shim/handover.h"

#include <algorithm>
#include <string>
#include <vector>

#include "tests/fuzz/input.h"

using cgpu::fuzz::Require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  cgpu::fuzz::Input input(data, size);
  const std::string bytes = input.TakeRest();
  const auto state = cgpu::shim::DecodeHandover(bytes);
  if (!state.ok()) {
    Require(!state.error().what.empty(), "an error has a sentence");
    return 0;
  }
  std::vector<int> files = cgpu::shim::DescriptorsOf(*state);
  std::sort(files.begin(), files.end());
  Require(std::adjacent_find(files.begin(), files.end()) == files.end() &&
              (files.empty() || files.front() >= 0),
          "descriptors are there, each once");
  const std::string written = cgpu::shim::Encode(*state);
  const auto again = cgpu::shim::DecodeHandover(written);
  Require(again.ok() && cgpu::shim::Encode(*again) == written, "a state is written as read");
  return 0;
}
