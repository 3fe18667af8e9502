#include "grant/grant.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <set>
#include <utility>

namespace cgpu {
namespace {

constexpr std::uint64_t kMib = std::uint64_t{1} << 20;
constexpr std::uint64_t kMibPerUnit = 1024;

std::uint64_t MibOf(const Gpu& gpu) {
  return gpu.memory_bytes / kMib;
}

std::string Mib(std::uint64_t bytes) {
  return std::to_string(bytes / kMib) + " MiB";
}

std::string NameOf(const Gpu& gpu) {
  return "GPU " + std::to_string(gpu.index) + " (" + gpu.model + ")";
}

std::string Plural(std::uint64_t n, const std::string& noun) {
  return std::to_string(n) + " " + noun + (n == 1 ? "" : "s");
}

std::string WhatThereIs(const std::vector<Gpu>& gpus) {
  std::string text = "this node has " + Plural(gpus.size(), "GPU");
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    text += (i == 0 ? ": " : ", ") + std::to_string(gpus[i].index);
  }
  return text;
}

Result<std::uint64_t> UnitsOnGpu(std::uint64_t total, const Gpu& gpu, std::size_t gpu_count) {
  if (total % gpu_count != 0) {
    return Error{
        Code::kInvalid, 0,
        Plural(total, "unit") + " cannot be divided evenly over " + Plural(gpu_count, "GPU"),
        "--units is the total over the GPUs: give a multiple of " + std::to_string(gpu_count)};
  }
  const std::uint64_t units = total / gpu_count;
  if (units > UnitsOf(gpu)) {
    return Error{Code::kExhausted, 0,
                 Plural(units, "unit") + " asked on " + NameOf(gpu) + ", which has " +
                     std::to_string(UnitsOf(gpu)),
                 "a unit is 1 GiB of the GPU's " + std::to_string(MibOf(gpu)) + " MiB"};
  }
  return MibOf(gpu) * units / UnitsOf(gpu) * kMib;
}

// Compares without regard to case: hex digits and "GPU-".
bool StartsWith(const std::string& text, const std::string& prefix) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c + 0; };
  return prefix.size() <= text.size() &&
         std::equal(prefix.begin(), prefix.end(), text.begin(),
                    [&](char a, char b) { return lower(a) == lower(b); });
}

bool AllDigits(const std::string& text) {
  return std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

Result<std::size_t> FindByIndex(const std::string& device, const std::vector<Gpu>& gpus) {
  unsigned index = 0;
  const auto [tail, ec] = std::from_chars(device.data(), device.data() + device.size(), index);
  const auto found = std::ranges::find(gpus, index, &Gpu::index);
  if (ec != std::errc() || tail != device.data() + device.size() || found == gpus.end()) {
    return Error{Code::kNotFound, 0, "there is no GPU " + device, WhatThereIs(gpus)};
  }
  return static_cast<std::size_t>(found - gpus.begin());
}

Result<std::size_t> FindByUuid(const std::string& device, const std::vector<Gpu>& gpus) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    constexpr std::size_t kPrefix = 4;  // "GPU-"
    if ((device.size() > kPrefix && StartsWith(gpus[i].uuid, device)) ||
        StartsWith(gpus[i].uuid.substr(std::min(kPrefix, gpus[i].uuid.size())), device)) {
      found.push_back(i);
    }
  }
  if (found.empty()) {
    return Error{Code::kNotFound, 0, "there is no GPU with the UUID " + device,
                 WhatThereIs(gpus) + "; `cgpu smi -L` lists their UUIDs"};
  }
  if (found.size() > 1) {
    return Error{Code::kInvalid, 0,
                 "the UUID " + device + " is ambiguous: it fits " + NameOf(gpus[found[0]]) +
                     " and " + NameOf(gpus[found[1]]),
                 "give more of it; `cgpu smi -L` lists the UUIDs"};
  }
  return found[0];
}

Result<std::vector<std::size_t>> SelectDevices(const std::vector<std::string>& devices,
                                               const std::vector<Gpu>& gpus) {
  std::vector<std::size_t> chosen;
  for (const std::string& device : devices) {
    CGPU_ASSIGN_OR_RETURN(auto found,
                          AllDigits(device) ? FindByIndex(device, gpus) : FindByUuid(device, gpus));
    if (std::ranges::find(chosen, found) != chosen.end()) {
      return Error{Code::kInvalid, 0, NameOf(gpus[found]) + " is named twice",
                   "name each GPU once"};
    }
    chosen.push_back(found);
  }
  return chosen;
}

Result<std::vector<std::size_t>> Select(const GpuRequest& request, const std::vector<Gpu>& gpus) {
  if (gpus.empty()) {
    return Error{Code::kNotFound, 0, "this node has no GPU", {}};
  }
  if (request.kind == GpuRequest::Kind::kDevices) {
    return SelectDevices(request.devices, gpus);
  }
  std::size_t count = gpus.size();
  if (request.kind == GpuRequest::Kind::kCount) {
    if (request.count > gpus.size()) {
      return Error{Code::kNotFound, 0, Plural(request.count, "GPU") + " asked", WhatThereIs(gpus)};
    }
    count = request.count;
  }
  std::vector<std::size_t> chosen(count);
  std::iota(chosen.begin(), chosen.end(), std::size_t{0});
  return chosen;
}

// Returns the bytes that all requests of the list come to; they must agree.
Result<std::uint64_t> AgreedLimit(const std::vector<MemoryRequest>& requests, const Gpu& gpu,
                                  std::size_t gpu_count) {
  if (requests.empty()) {
    return LimitOnGpu(MemoryRequest{}, gpu, gpu_count);
  }
  auto limit = LimitOnGpu(requests.front(), gpu, gpu_count);
  for (const MemoryRequest& request : requests) {
    auto other = LimitOnGpu(request, gpu, gpu_count);
    if (!other.ok()) {
      return other;
    }
    if (*other != *limit) {
      return Error{Code::kConflict, 0,
                   "memory is given twice and differs: " + Mib(*limit) + " and " + Mib(*other) +
                       " on " + NameOf(gpu),
                   "set CGPU_MEM or the ALIYUN_COM_GPU_MEM_ names, not both"};
    }
  }
  return limit;
}

Result<std::vector<std::size_t>> AgreedGpus(const std::vector<GpuRequest>& requests,
                                            const std::vector<Gpu>& gpus) {
  if (requests.empty()) {
    return Select(GpuRequest{}, gpus);
  }
  auto chosen = Select(requests.front(), gpus);
  for (const GpuRequest& request : requests) {
    auto other = Select(request, gpus);
    if (!other.ok()) {
      return other;
    }
    if (std::set<std::size_t>(other->begin(), other->end()) !=
        std::set<std::size_t>(chosen->begin(), chosen->end())) {
      return Error{Code::kConflict, 0, "the GPUs are given twice and differ",
                   "set CGPU_DEVICES or ALIYUN_COM_GPU_VISIBLE_DEVICES, not both"};
    }
  }
  return chosen;
}

Result<> HasRoom(const Gpu& gpu, const GpuUse& use, std::uint64_t wanted) {
  CGPU_TRY(HasPlace(gpu, use));
  return FitsOnGpu(gpu, use.bytes, wanted);
}

Result<> AddWholeGpus(const GpuRequest& request, const std::vector<Gpu>& gpus,
                      const std::vector<GpuUse>& uses, Grant& grant) {
  CGPU_ASSIGN_OR_RETURN(const auto named, Select(request, gpus));
  for (const std::size_t i : named) {
    const bool there = std::ranges::any_of(
        grant.gpus, [&](const GpuGrant& other) { return other.gpu.uuid == gpus[i].uuid; });
    if (!there) {
      CGPU_TRY(HasRoom(gpus[i], uses[i], gpus[i].memory_bytes));
      grant.gpus.push_back({gpus[i], gpus[i].memory_bytes});
    }
  }
  std::ranges::sort(grant.gpus,
                    [](const GpuGrant& x, const GpuGrant& y) { return x.gpu.index < y.gpu.index; });
  return {};
}

bool IsCount(const ResourceRequest& request) {
  return request.gpus.size() == 1 && request.gpus[0].kind == GpuRequest::Kind::kCount;
}

}  // namespace

std::uint64_t UnitsOf(const Gpu& gpu) {
  return MibOf(gpu) / kMibPerUnit;
}

Result<std::uint64_t> LimitOnGpu(const MemoryRequest& request, const Gpu& gpu,
                                 std::size_t gpu_count) {
  std::uint64_t bytes = 0;
  switch (request.kind) {
    case MemoryRequest::Kind::kWholeGpu:
      bytes = gpu.memory_bytes;
      break;
    case MemoryRequest::Kind::kMib:
      bytes = request.value * kMib;
      break;
    case MemoryRequest::Kind::kPercent:
      bytes = MibOf(gpu) * request.value / 100 * kMib;
      break;
    case MemoryRequest::Kind::kFraction:
      bytes = MibOf(gpu) * request.value / std::max<std::uint64_t>(request.of, 1) * kMib;
      break;
    case MemoryRequest::Kind::kUnits: {
      auto limit = UnitsOnGpu(request.value, gpu, gpu_count);
      if (!limit.ok()) {
        return limit;
      }
      bytes = *limit;
      break;
    }
  }
  if (bytes == 0) {
    return Error{Code::kInvalid, 0, "the memory asked comes to nothing on " + NameOf(gpu),
                 "ask for at least 1 MiB"};
  }
  if (bytes > gpu.memory_bytes) {
    return Error{Code::kExhausted, 0,
                 Mib(bytes) + " asked on " + NameOf(gpu) + ", which has " + Mib(gpu.memory_bytes),
                 "memory is per GPU: ask for at most what each GPU has"};
  }
  return bytes;
}

Result<std::vector<Gpu>> SelectGpus(const GpuRequest& request, const std::vector<Gpu>& gpus) {
  CGPU_ASSIGN_OR_RETURN(auto chosen, Select(request, gpus));
  std::vector<Gpu> selected;
  selected.reserve(chosen.size());
  for (const std::size_t i : chosen) {
    selected.push_back(gpus[i]);
  }
  return selected;
}

Result<> FitsOnGpu(const Gpu& gpu, std::uint64_t granted, std::uint64_t wanted) {
  const std::uint64_t free = gpu.memory_bytes - std::min(granted, gpu.memory_bytes);
  if (wanted <= free) {
    return {};
  }
  return Error{Code::kExhausted, 0,
               Mib(wanted) + " asked on " + NameOf(gpu) + ", where " + Mib(free) + " of " +
                   Mib(gpu.memory_bytes) + " are free: running containers were granted " +
                   Mib(granted),
               "ask for at most " + Mib(free) + ", or see `cgpu ps` for what is running"};
}

Result<> HasPlace(const Gpu& gpu, const GpuUse& use) {
  if (use.slices < use.max_inst) {
    return {};
  }
  return Error{Code::kExhausted, 0,
               NameOf(gpu) + " has " + Plural(use.slices, "slice") +
                   " already, and its max_inst is " + std::to_string(use.max_inst),
               "take another GPU, end a container (see `cgpu ps`), or raise max_inst (cgpu "
               "policy --max-inst, or /etc/cgpu/config.yaml)"};
}

Result<Grant> MakeGrant(const ResourceRequest& request, const std::vector<Gpu>& gpus,
                        const std::vector<GpuUse>& uses) {
  CGPU_ASSIGN_OR_RETURN(auto chosen, AgreedGpus(request.gpus, gpus));
  if (IsCount(request)) {
    // Takes the first GPUs with room; where there are too few, the first GPUs, whose error says
    // what is free.
    std::vector<std::size_t> roomy;
    for (std::size_t i = 0; i < gpus.size() && roomy.size() < chosen.size(); ++i) {
      const auto limit = AgreedLimit(request.memory, gpus[i], chosen.size());
      if (limit.ok() && HasRoom(gpus[i], uses[i], *limit).ok()) {
        roomy.push_back(i);
      }
    }
    if (roomy.size() == chosen.size()) {
      chosen = std::move(roomy);
    }
  }
  Grant grant;
  for (const std::size_t i : chosen) {
    CGPU_ASSIGN_OR_RETURN(auto limit, AgreedLimit(request.memory, gpus[i], chosen.size()));
    CGPU_TRY(HasRoom(gpus[i], uses[i], limit));
    grant.gpus.push_back({gpus[i], limit});
  }
  if (request.whole) {
    CGPU_TRY(AddWholeGpus(*request.whole, gpus, uses, grant));
  }
  return grant;
}

}  // namespace cgpu
