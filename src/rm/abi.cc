#include "rm/abi.h"

#include <array>
#include <charconv>
#include <cstdio>

#include "rm/nv_ctrl.h"

namespace cgpu::rm {
namespace {

// NV2080_CTRL_FB_INFO entries of NV2080_CTRL_FB_GET_INFO_V2_PARAMS (ctrl2080/ctrl2080fb.h).
constexpr ByBranch kFbInfoV2Count(54,
                                  {{Branch::k550, 55}, {Branch::k570, 57}, {Branch::k580, 128}});
constexpr ByBranch kFbRegionStride(
    sizeof(NV2080_CTRL_CMD_FB_GET_FB_REGION_FB_REGION_INFO_V535),
    {{Branch::k580, sizeof(NV2080_CTRL_CMD_FB_GET_FB_REGION_FB_REGION_INFO_V580)}});

constexpr Abi Row(Branch branch, std::string_view name, DriverVersion reference,
                  DriverVersion first, DriverVersion last) {
  return {
      branch, name, reference, first, last, kFbInfoV2Count.At(branch), kFbRegionStride.At(branch)};
}

// The ABIs in the order of Branch. A range is one run of numbers, so a release that differs cuts
// off the releases beyond it. Left out because they differ: 535.43.02, 535.54.03
// (NV_CHANNEL_ALLOC_PARAMS is shorter) and 550.40.07. Left out although they do not differ more
// than releases inside of the ranges do: 535.43.08 to 535.43.28, which lie between two that do, and
// (by structures and requests of nvidia-uvm) 550.40.53 and 550.40.85, the first and the last of
// those after 550.40.07.
constexpr std::array kAbis = {
    Row(Branch::k535, "535", {535, 288, 1}, {535, 86, 5}, {535, 309, 1}),
    Row(Branch::k550, "550", {550, 163, 1}, {550, 54, 14}, {550, 163, 1}),
    Row(Branch::k570, "570", {570, 195, 3}, {570, 86, 15}, {570, 211, 1}),
    Row(Branch::k580, "580", {580, 95, 5}, {580, 65, 6}, {580, 159, 4}),
    Row(Branch::k590, "590", {590, 48, 1}, {590, 44, 1}, {590, 48, 1}),
    Row(Branch::k595, "595", {595, 45, 4}, {595, 44, 2}, {595, 80, 0}),
    Row(Branch::k610, "610", {610, 57, 4}, {610, 43, 2}, {610, 57, 4}),
};

// Takes a decimal number of at most four digits off the front of `text`.
std::optional<unsigned> TakeNumber(std::string_view& text) {
  unsigned value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const auto digits = static_cast<std::size_t>(end - text.data());
  if (error != std::errc{} || digits > 4) {
    return std::nullopt;
  }
  text.remove_prefix(digits);
  return value;
}

}  // namespace

std::optional<DriverVersion> ParseDriverVersion(std::string_view text) {
  std::array<unsigned, 3> parts = {};
  std::size_t count = 0;
  while (true) {
    const std::optional<unsigned> number = TakeNumber(text);
    if (!number) {
      return std::nullopt;
    }
    parts.at(count++) = *number;
    if (text.empty()) {
      break;
    }
    if (text.front() != '.' || count == parts.size()) {
      return std::nullopt;
    }
    text.remove_prefix(1);
  }
  if (count < 2) {
    return std::nullopt;
  }
  return DriverVersion{parts[0], parts[1], parts[2]};
}

std::string ToString(DriverVersion version) {
  std::array<char, 48> text{};
  if (version.patch == 0) {
    std::snprintf(text.data(), text.size(), "%u.%02u", version.major, version.minor);
  } else {
    std::snprintf(text.data(), text.size(), "%u.%02u.%02u", version.major, version.minor,
                  version.patch);
  }
  return text.data();
}

std::span<const Abi> Abis() {
  return kAbis;
}

const Abi* FindAbi(DriverVersion version) {
  for (const Abi& abi : kAbis) {
    if (abi.first <= version && version.major == abi.last.major) {
      return &abi;
    }
  }
  return nullptr;
}

std::string NotCompared(DriverVersion version) {
  const Abi* abi = FindAbi(version);
  if (abi == nullptr || version <= abi->last) {
    return {};
  }
  return "NVIDIA driver " + ToString(version) +
         " was not compared with NVIDIA's sources; it is "
         "taken as " +
         ToString(abi->last) +
         ", because so late in a branch releases hardly ever change "
         "what programs' calls depend on (docs/reference/drivers.md)";
}

std::string NotCompared(std::string_view version) {
  const std::optional<DriverVersion> parsed = ParseDriverVersion(version);
  return parsed ? NotCompared(*parsed) : std::string();
}

const Abi& GetAbi(Branch branch) {
  return kAbis.at(static_cast<std::size_t>(branch));
}

Result<DriverVersion> SupportedVersion(std::string_view text) {
  for (const Abi& abi : kAbis) {
    if (abi.name == text) {
      return abi.reference;
    }
  }
  const std::optional<DriverVersion> version = ParseDriverVersion(text);
  if (!version || FindAbi(*version) == nullptr) {
    return UnsupportedDriver(text);
  }
  return *version;
}

std::string SupportedDrivers() {
  std::string text;
  for (const Abi& abi : kAbis) {
    text +=
        (text.empty() ? "" : ", ") + ToString(abi.first) + " and later of " + std::string(abi.name);
  }
  return text;
}

Error UnsupportedDriver(std::string_view version) {
  std::string what =
      "NVIDIA driver " + std::string(version) + " is not one whose interface this cgpu knows";
  const std::optional<DriverVersion> parsed = ParseDriverVersion(version);
  if (parsed && parsed->major > kAbis.back().last.major) {
    what +=
        ": it begins a branch that was not compared with NVIDIA's sources, and each one before "
        "laid out something anew";
  }
  return Error{
      Code::kUnsupported, 0, std::move(what),
      "install a driver of these: " + SupportedDrivers() + ", or a cgpu that knows this one"};
}

}  // namespace cgpu::rm
