#include "sim/model/card.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <optional>

#include "rm/nv_classes.h"

namespace cgpu::sim {
namespace {

// Memory: the totals of Alibaba Cloud's cGPU documentation (V100) and of nvidia-smi as published
// for T4 and A10. PCI ids: https://pci-ids.ucw.cz. Architecture and implementation: NVIDIA/
// open-gpu-kernel-modules src/common/sdk/nvidia/inc/ctrl/ctrl2080/ctrl2080mc.h. Classes: the same
// tree's src/nvidia/generated/g_allclasses.h (V100: the published Volta class headers).
constexpr CardModel kModels[] = {
    {"v100-16g", "Tesla V100-SXM2-16GB", 16160, 0x1DB1, 0x121210DE, 0x140, 0x0, 16384,
     rm::VOLTA_CHANNEL_GPFIFO_A, rm::VOLTA_COMPUTE_A, rm::VOLTA_DMA_COPY_A, rm::VOLTA_USERMODE_A},
    {"t4", "Tesla T4", 15360, 0x1EB8, 0x12A210DE, 0x160, 0x4, 256, rm::TURING_CHANNEL_GPFIFO_A,
     rm::TURING_COMPUTE_A, rm::TURING_DMA_COPY_A, rm::TURING_USERMODE_A},
    {"a10", "NVIDIA A10", 23028, 0x2236, 0x148210DE, 0x170, 0x2, 32768, rm::AMPERE_CHANNEL_GPFIFO_A,
     rm::AMPERE_COMPUTE_B, rm::AMPERE_DMA_COPY_B, rm::AMPERE_USERMODE_A},
};

std::string KnownModels() {
  std::string text = "known models:";
  for (const CardModel& model : kModels) {
    text += " " + std::string(model.key);
  }
  return text + "; MODEL@NMiB changes the memory, MODEL:COUNT the number of cards";
}

Error BadSpec(std::string_view part, const std::string& why) {
  return Error{Code::kInvalid, 0, "--gpus: '" + std::string(part) + "': " + why, KnownModels()};
}

std::optional<rm::NvU64> ParseNumber(std::string_view text) {
  rm::NvU64 value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

// FNV-1a, 64 bits.
rm::NvU64 Hash(std::string_view text, rm::NvU64 basis) {
  rm::NvU64 hash = 0xCBF29CE484222325ULL ^ basis;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  }
  return hash;
}

std::array<rm::NvU8, 16> MakeUuid(std::string_view node, const CardModel& model, unsigned index) {
  const std::string seed =
      std::string(node) + "/" + std::string(model.key) + "/" + std::to_string(index);
  const rm::NvU64 words[2] = {Hash(seed, 0), Hash(seed, 0x9E3779B97F4A7C15ULL)};
  std::array<rm::NvU8, 16> uuid{};
  for (unsigned i = 0; i < uuid.size(); ++i) {
    uuid[i] = static_cast<rm::NvU8>(words[i / 8] >> (8 * (i % 8)));
  }
  return uuid;
}

Card MakeCard(std::string_view node, const CardModel& model, rm::NvU64 mib, unsigned index) {
  Card card;
  card.index = index;
  card.minor = index;
  card.pci_bus = index + 1;
  // gpuGenerate32BitId() of the driver: domain, bus and slot in one number.
  card.gpu_id = card.pci_bus << 8;
  card.uuid = MakeUuid(node, model, index);
  card.model = &model;
  card.memory_bytes = mib * kMiB;
  return card;
}

struct Part {
  const CardModel* model = nullptr;
  rm::NvU64 mib = 0;
  rm::NvU64 count = 1;
};

Result<Part> ParsePart(std::string_view text) {
  Part part;
  std::string_view rest = text;
  if (const std::size_t colon = rest.rfind(':'); colon != std::string_view::npos) {
    const auto count = ParseNumber(rest.substr(colon + 1));
    if (!count || *count == 0 || *count > kMaxCards) {
      return BadSpec(text, "the number after ':' must be from 1 to " + std::to_string(kMaxCards));
    }
    part.count = *count;
    rest = rest.substr(0, colon);
  }
  std::optional<rm::NvU64> mib;
  if (const std::size_t at = rest.find('@'); at != std::string_view::npos) {
    std::string_view size = rest.substr(at + 1);
    if (!size.ends_with("MiB")) {
      return BadSpec(text, "memory is written as a whole number of MiB, as in v100-16g@16130MiB");
    }
    size.remove_suffix(3);
    mib = ParseNumber(size);
    // FB_GET_INFO answers KiB in 32 bits.
    if (!mib || *mib == 0 || *mib >= (1U << 22)) {
      return BadSpec(text, "memory must be from 1MiB to 4194303MiB");
    }
    rest = rest.substr(0, at);
  }
  const auto* model = std::find_if(std::begin(kModels), std::end(kModels),
                                   [rest](const CardModel& m) { return m.key == rest; });
  if (model == std::end(kModels)) {
    return BadSpec(text, rest.empty() ? "no model is named" : "there is no such model");
  }
  part.model = model;
  part.mib = mib.value_or(model->memory_mib);
  return part;
}

}  // namespace

std::span<const CardModel> CardModels() {
  return kModels;
}

std::string Card::Bdf() const {
  char text[16];
  std::snprintf(text, sizeof(text), "0000:%02x:00.0", pci_bus);
  return text;
}

std::string Card::UuidText() const {
  std::string text = "GPU-";
  for (unsigned i = 0; i < uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) {
      text += '-';
    }
    char hex[3];
    std::snprintf(hex, sizeof(hex), "%02x", uuid[i]);
    text += hex;
  }
  return text;
}

Result<std::vector<Card>> ParseCards(std::string_view spec, std::string_view node) {
  std::vector<Card> cards;
  std::string_view rest = spec;
  while (true) {
    const std::size_t comma = rest.find(',');
    Result<Part> part = ParsePart(rest.substr(0, comma));
    if (!part.ok()) {
      return part.error();
    }
    for (rm::NvU64 i = 0; i < part->count; ++i) {
      if (cards.size() == kMaxCards) {
        return BadSpec(spec, "a node has at most " + std::to_string(kMaxCards) + " cards");
      }
      cards.push_back(MakeCard(node, *part->model, part->mib, static_cast<unsigned>(cards.size())));
    }
    if (comma == std::string_view::npos) {
      return cards;
    }
    rest = rest.substr(comma + 1);
  }
}

}  // namespace cgpu::sim
