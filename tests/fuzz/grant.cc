// The words of a command line and of a container's environment, up to the grant they come to. For
// every input: no grant is larger than what its GPUs have left, and each error says something.
#include "grant/grant.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "grant/env.h"
#include "grant/request.h"
#include "tests/fuzz/input.h"

namespace {

using cgpu::fuzz::Require;

constexpr std::uint64_t kMib = std::uint64_t{1} << 20;
constexpr const char* kNames[] = {"ALIYUN_COM_GPU_MEM_CONTAINER",
                                  "ALIYUN_COM_GPU_MEM_DEV",
                                  "ALIYUN_COM_GPU_VISIBLE_DEVICES",
                                  "ALIYUN_COM_GPU_SCHD_WEIGHT",
                                  "ALIYUN_COM_GPU_HIGH_PRIO",
                                  "CGPU_MEM",
                                  "CGPU_DEVICES",
                                  "CGPU_COMPUTE",
                                  "CGPU_COMPUTE_MAX",
                                  "CGPU_WEIGHT",
                                  "CGPU_PRIORITY",
                                  "CGPU_DISABLE"};

std::vector<cgpu::Gpu> Gpus() {
  std::vector<cgpu::Gpu> gpus(3);
  for (unsigned i = 0; i < gpus.size(); ++i) {
    gpus[i].uuid = "GPU-0000000" + std::to_string(i) + "-0000-0000-0000-000000000000";
    gpus[i].index = i;
    gpus[i].memory_bytes = (i == 2 ? 15360 : 16160) * kMib;
  }
  return gpus;
}

void CheckGrant(const cgpu::ResourceRequest& request) {
  const std::vector<cgpu::Gpu> gpus = Gpus();
  const std::vector<cgpu::GpuUse> uses = {{0, 0, 1}, {8000 * kMib, 3, 4}, {15360 * kMib, 20, 20}};
  const auto grant = cgpu::MakeGrant(request, gpus, uses);
  if (!grant.ok()) {
    Require(!grant.error().what.empty(), "an error has a sentence");
    return;
  }
  Require(!grant.value().gpus.empty(), "a grant has GPUs");
  std::vector<bool> seen(gpus.size());
  for (const cgpu::GpuGrant& granted : grant.value().gpus) {
    const std::size_t index = granted.gpu.index;
    Require(!seen[index], "a GPU is granted once");
    seen[index] = true;
    Require(granted.limit_bytes > 0, "a grant is not empty");
    const cgpu::GpuUse& use = uses[index];
    Require(granted.limit_bytes <= gpus[index].memory_bytes - use.bytes, "a grant fits");
    Require(use.slices < use.max_inst, "a GPU has no more slices than it may have");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  cgpu::fuzz::Input input(data, size);
  cgpu::ResourceRequest request;
  std::map<std::string, std::string> environment;
  while (!input.empty()) {
    // A letter that says what the word is, then the word, to the end of its line.
    const char kind = input.Take<char>();
    std::string word;
    for (char c = input.Take<char>(); c != '\n' && (c != 0 || !input.empty());
         c = input.Take<char>()) {
      word += c;
    }
    if (kind == 's' || kind == 'u') {
      if (auto parsed = kind == 's' ? cgpu::ParseSize(word) : cgpu::ParseUnits(word); parsed.ok()) {
        request.memory.push_back(parsed.value());
      }
    } else if (kind == 'g' || kind == 'd') {
      if (auto parsed = kind == 'g' ? cgpu::ParseGpus(word) : cgpu::ParseDeviceList(word);
          parsed.ok()) {
        request.gpus.push_back(std::move(parsed.value()));
      }
    } else {
      environment[kNames[static_cast<unsigned char>(kind) % std::size(kNames)]] = word;
    }
  }
  CheckGrant(request);
  const auto asked = cgpu::EnvGrant(environment);
  if (asked.ok()) {
    CheckGrant(asked.value().resources);
  } else {
    Require(!asked.error().what.empty(), "an error has a sentence");
  }
  return 0;
}
