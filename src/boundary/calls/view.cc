// Controls whose results are rewritten for the container: its slice, its GPUs.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <iterator>
#include <limits>

#include "boundary/calls/control_handler.h"
#include "rm/fb_info.h"
#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"
#include "rm/nv_status.h"

namespace cgpu::boundary {
namespace {

constexpr std::uint32_t ToKib(std::uint64_t bytes) {
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(bytes / 1024, std::numeric_limits<std::uint32_t>::max()));
}

void RewriteFbInfo(const Container& container, Bytes& bytes, std::size_t at, std::size_t count,
                   ledger::Gpu gpu) {
  const std::uint64_t limit = container.ledger.Limit(gpu);
  const std::uint32_t total = ToKib(limit);
  const std::uint32_t free = ToKib(limit - std::min(limit, container.ledger.Used(gpu)));
  const std::uint64_t window = container.ledger.Bar1Quota(gpu);
  for (std::size_t i = 0; i < count; ++i, at += sizeof(rm::NV2080_CTRL_FB_INFO)) {
    auto entry = Load<rm::NV2080_CTRL_FB_INFO>(bytes, at);
    switch (entry.index) {
      case rm::NV2080_CTRL_FB_INFO_INDEX_RAM_SIZE:
      case rm::NV2080_CTRL_FB_INFO_INDEX_TOTAL_RAM_SIZE:
      case rm::NV2080_CTRL_FB_INFO_INDEX_HEAP_SIZE:
      case rm::NV2080_CTRL_FB_INFO_INDEX_USABLE_RAM_SIZE:
        entry.data = total;
        break;
      case rm::NV2080_CTRL_FB_INFO_INDEX_HEAP_FREE:
        entry.data = free;
        break;
      case rm::NV2080_CTRL_FB_INFO_INDEX_MAPPABLE_HEAP_SIZE:
        entry.data = std::min(entry.data, total);
        break;
      case rm::NV2080_CTRL_FB_INFO_INDEX_LARGEST_FREE_REGION_SIZE_KB:
        entry.data = std::min(entry.data, free);
        break;
      // The window onto the GPU's memory may be as large as the GPU, and its free part shows what
      // neighbours view.
      case rm::NV2080_CTRL_FB_INFO_INDEX_BAR1_SIZE:
        entry.data = std::min(entry.data, ToKib(window));
        break;
      case rm::NV2080_CTRL_FB_INFO_INDEX_BAR1_AVAIL_SIZE:
      case rm::NV2080_CTRL_FB_INFO_INDEX_BAR1_MAX_CONTIGUOUS_AVAIL_SIZE:
        entry.data = ToKib(window - std::min(window, container.ledger.Bar1Used(gpu)));
        break;
      // The heap's place on the GPU shows what neighbours hold.
      case rm::NV2080_CTRL_FB_INFO_INDEX_HEAP_START:
      case rm::NV2080_CTRL_FB_INFO_INDEX_HEAP_BASE_KB:
      case rm::NV2080_CTRL_FB_INFO_INDEX_LARGEST_FREE_REGION_BASE_KB:
      case rm::NV2080_CTRL_FB_INFO_INDEX_PROTECTED_MEM_SIZE_TOTAL_KB:
      case rm::NV2080_CTRL_FB_INFO_INDEX_PROTECTED_MEM_SIZE_FREE_KB:
        entry.data = 0;
        break;
      default:
        break;
    }
    Store(bytes, entry, at);
  }
}

// Keeps the granted ids of a list that ends at the first invalid one, at the start of `bytes`.
void FilterGpuIds(const Container& container, Bytes& bytes) {
  auto list = Load<rm::NV0000_CTRL_GPU_GET_ATTACHED_IDS_PARAMS>(bytes);
  auto* const end = std::remove_if(std::begin(list.gpuIds), std::end(list.gpuIds),
                                   [&](std::uint32_t id) { return !container.GpuWithId(id); });
  std::fill(end, std::end(list.gpuIds), rm::NV0000_CTRL_GPU_INVALID_ID);
  Store(bytes, list);
}

// Keeps granted ids of the list: probed ids, then the excluded ones and (from 580) a word of flags
// per probed id.
void FilterProbedIds(const Container& container, Bytes& bytes) {
  constexpr std::size_t kSlots = rm::NV0000_CTRL_GPU_MAX_ATTACHED_GPUS;
  constexpr std::size_t kWord = sizeof(std::uint32_t);
  const Bytes before = bytes;
  const bool has_flags = bytes.size() >= 3 * kSlots * kWord;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < kSlots; ++i) {
    const auto id = Load<std::uint32_t>(before, i * kWord);
    if (container.GpuWithId(id)) {
      Store(bytes, id, kept * kWord);
      if (has_flags) {
        Store(bytes, Load<std::uint32_t>(before, (2 * kSlots + i) * kWord),
              (2 * kSlots + kept) * kWord);
      }
      ++kept;
    }
  }
  for (std::size_t i = 0; i < kSlots; ++i) {
    if (i >= kept) {
      Store(bytes, rm::NV0000_CTRL_GPU_INVALID_ID, i * kWord);
      if (has_flags) {
        Store(bytes, std::uint32_t{0}, (2 * kSlots + i) * kWord);
      }
    }
    Store(bytes, rm::NV0000_CTRL_GPU_INVALID_ID, (kSlots + i) * kWord);
  }
}

void FilterActiveDevices(const Container& container, Bytes& bytes) {
  auto list = Load<rm::NV0000_CTRL_GPU_GET_ACTIVE_DEVICE_IDS_PARAMS>(bytes);
  auto* const last =
      std::begin(list.devices) + std::min<std::size_t>(list.numDevices, std::size(list.devices));
  auto* const end = std::remove_if(std::begin(list.devices), last,
                                   [&](const rm::NV0000_CTRL_GPU_ACTIVE_DEVICE& device) {
                                     return !container.GpuWithId(device.gpuId);
                                   });
  std::fill(end, std::end(list.devices), rm::NV0000_CTRL_GPU_ACTIVE_DEVICE{});
  list.numDevices = static_cast<std::uint32_t>(end - std::begin(list.devices));
  Store(bytes, list);
}

// Keeps the bits of granted GPUs. Bit n: device instance n.
void FilterDeviceMask(const Container& container, Bytes& bytes) {
  std::uint32_t mask = 0;
  for (const GpuIds& gpu : container.gpus) {
    if (gpu.device_instance < 32) {
      mask |= std::uint32_t{1} << gpu.device_instance;
    }
  }
  Store(bytes, Load<std::uint32_t>(bytes) & mask);
}

// Rewrites {count, {flags, size in MiB, size in bytes, offset}[8]} (ctrl2080bus.h). Windows onto
// the GPU's memory may be as large as the GPU: none is reported larger than the slice needs.
void RewriteBars(Container& container, Bytes& bytes, ledger::Gpu gpu) {
  constexpr std::size_t kFirst = 8;
  constexpr std::size_t kEntry = 24;
  constexpr std::size_t kSizeBytes = 8;
  constexpr std::uint64_t kBytesInMib = 1024 * 1024;
  // Registers need some MiB whatever the slice is.
  const std::uint64_t most =
      std::max(std::bit_ceil(container.ledger.Limit(gpu)), 256 * kBytesInMib);
  for (std::size_t at = kFirst; at + kEntry <= bytes.size(); at += kEntry) {
    if (const auto size = Load<std::uint64_t>(bytes, at + kSizeBytes); size > most) {
      Store(bytes, most, at + kSizeBytes);
      Store(bytes, static_cast<std::uint32_t>(most / kBytesInMib), at + sizeof(std::uint32_t));
    }
  }
}

// Reports one region, as large as the slice; hides where it lies on the GPU.
void RewriteRegions(const Container& container, Bytes& bytes, ledger::Gpu gpu) {
  constexpr std::size_t kFirst =
      offsetof(rm::NV2080_CTRL_CMD_FB_GET_FB_REGION_INFO_PARAMS_V535, fbRegion);
  if (bytes.size() < kFirst + container.abi.fb_region_stride || Load<std::uint32_t>(bytes) == 0) {
    return;
  }
  auto region = Load<rm::NV2080_CTRL_CMD_FB_GET_FB_REGION_FB_REGION_INFO_V535>(bytes, kFirst);
  const std::uint64_t limit = container.ledger.Limit(gpu);
  region.base = 0;
  region.limit = limit == 0 ? 0 : limit - 1;
  region.reserved = 0;
  std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(kFirst + container.abi.fb_region_stride),
            bytes.end(), std::byte{0});
  Store(bytes, region, kFirst);
  Store(bytes, std::uint32_t{1});
}

// The driver found the GPU by its uuid: one that is not granted does not exist.
void HideUuidInfo(const Container& container, Call& call) {
  auto info = Load<rm::NV0000_CTRL_GPU_GET_UUID_INFO_PARAMS>(call.nested[0].bytes);
  if (container.GpuWithId(info.gpuId)) {
    return;
  }
  info.gpuId = 0;
  info.deviceInstance = 0;
  info.subdeviceInstance = 0;
  Store(call.nested[0].bytes, info);
  SetStatus(call, rm::NV_ERR_OBJECT_NOT_FOUND);
}

}  // namespace

// Notes the two that show how much the container holds.
Decision DecideView(Container& /*container*/, Call& call, Decision decision,
                    const ControlRule& /*rule*/) {
  decision.effects.shows_memory = call.command == rm::NV2080_CTRL_CMD_FB_GET_INFO ||
                                  call.command == rm::NV2080_CTRL_CMD_FB_GET_INFO_V2;
  return decision;
}

std::optional<Undo> AccountView(Container& container, Call& call, Decision& decision) {
  Bytes& params = call.nested[0].bytes;
  const ledger::Gpu gpu = decision.gpu.value_or(0);
  switch (call.command) {
    case rm::NV2080_CTRL_CMD_FB_GET_INFO:
      if (call.nested.size() > 1) {
        Bytes& list = call.nested[1].bytes;
        RewriteFbInfo(container, list, 0, list.size() / sizeof(rm::NV2080_CTRL_FB_INFO), gpu);
      }
      break;
    case rm::NV2080_CTRL_CMD_FB_GET_INFO_V2: {
      // {count, list}: the list's capacity differs by version, its offset does not.
      const std::size_t room =
          (params.size() - sizeof(std::uint32_t)) / sizeof(rm::NV2080_CTRL_FB_INFO);
      RewriteFbInfo(container, params, sizeof(std::uint32_t),
                    std::min<std::size_t>(Load<std::uint32_t>(params), room), gpu);
      break;
    }
    case rm::NV2080_CTRL_CMD_FB_GET_FB_REGION_INFO:
      RewriteRegions(container, params, gpu);
      break;
    case rm::NV0000_CTRL_CMD_GPU_GET_ATTACHED_IDS:
      FilterGpuIds(container, params);
      break;
    case rm::NV0000_CTRL_CMD_GPU_GET_PROBED_IDS:
      FilterProbedIds(container, params);
      break;
    case rm::NV0000_CTRL_CMD_GPU_GET_ACTIVE_DEVICE_IDS:
      FilterActiveDevices(container, params);
      break;
    case rm::NV0000_CTRL_CMD_GPU_GET_DEVICE_IDS:
      FilterDeviceMask(container, params);
      break;
    case rm::NV2080_CTRL_CMD_BUS_GET_PCI_BAR_INFO:
      RewriteBars(container, params, gpu);
      break;
    case rm::NV0000_CTRL_CMD_GPU_GET_UUID_INFO:
      HideUuidInfo(container, call);
      break;
    case rm::NV0000_CTRL_CMD_SYSTEM_GET_FABRIC_STATUS:
      Store(params, rm::NV0000_CTRL_GET_SYSTEM_FABRIC_STATUS_SKIP);
      break;
    default:
      break;
  }
  return std::nullopt;
}

}  // namespace cgpu::boundary
