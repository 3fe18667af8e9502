#include "make_server.h"

#include <fcntl.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "rm/abi.h"

namespace cgpu::shim {
namespace {

// Parses "GPU-8-4-4-4-12 hex digits" into the driver's 16 bytes.
std::optional<rm::NvProcessorUuid> UuidOf(std::string_view text) {
  constexpr std::string_view kPrefix = "GPU-";
  if (!text.starts_with(kPrefix)) {
    return std::nullopt;
  }
  text.remove_prefix(kPrefix.size());
  std::string digits;
  std::ranges::copy_if(text, std::back_inserter(digits), [](char c) { return c != '-'; });
  rm::NvProcessorUuid uuid{};
  if (digits.size() != 2 * std::size(uuid.uuid)) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < std::size(uuid.uuid); ++i) {
    const char* at = digits.data() + 2 * i;
    if (std::from_chars(at, at + 2, uuid.uuid[i], 16).ptr != at + 2) {
      return std::nullopt;
    }
  }
  return uuid;
}

Result<const rm::Abi*> AbiOf(const ShimConfig& config) {
  const auto version = rm::ParseDriverVersion(config.driver);
  const rm::Abi* abi = version ? rm::FindAbi(*version) : nullptr;
  if (abi == nullptr) {
    return rm::UnsupportedDriver(config.driver);
  }
  return abi;
}

struct Paths {
  std::string control;
  std::vector<std::string> gpus;  // in the order of the grant
};

Result<Paths> PathsOf(const ShimConfig& config) {
  Paths paths;
  for (const GpuGrant& granted : config.gpus) {
    for (const NodeFile& file : config.files) {
      if (file.kind == NodeFile::Kind::kCtl) {
        paths.control = file.path;
      } else if (file.kind == NodeFile::Kind::kGpu && file.minor == granted.gpu.minor) {
        paths.gpus.push_back(file.path);
      }
    }
  }
  if (paths.control.empty() || paths.gpus.size() != config.gpus.size()) {
    return Error{Code::kInvalid, 0, "the configuration lacks files of the grant", {}};
  }
  return paths;
}

// `instance_of`: returns the driver's number of a GPU, by its place in the grant.
template <class InstanceOf>
Result<std::vector<boundary::GpuIds>> GpusOf(const ShimConfig& config,
                                             const InstanceOf& instance_of) {
  std::vector<boundary::GpuIds> gpus;
  for (const GpuGrant& granted : config.gpus) {
    CGPU_ASSIGN_OR_RETURN(const auto instance, instance_of(gpus.size()));
    const auto uuid = UuidOf(granted.gpu.uuid);
    if (!uuid) {
      return Error{Code::kInvalid, 0, "the configuration has no GPU " + granted.gpu.uuid, {}};
    }
    gpus.push_back(
        {granted.gpu.minor, granted.gpu.gpu_id, instance, *uuid, granted.gpu.memory_bytes, {}});
  }
  return gpus;
}

Result<std::unique_ptr<Server>> Make(const ShimConfig& config, const rm::Abi& abi,
                                     std::unique_ptr<Driver> driver,
                                     Result<std::vector<boundary::GpuIds>> gpus, UniqueFd record) {
  if (!gpus.ok()) {
    return gpus.error();
  }
  CGPU_ASSIGN_OR_RETURN(auto proc, OpenFile("/proc", O_RDONLY | O_DIRECTORY));
  return std::make_unique<Server>(config, abi, std::move(driver), std::move(*gpus),
                                  std::make_unique<os::CallerTable>(std::move(proc)),
                                  std::move(record), rmclient::KernelGpuCalls());
}

}  // namespace

Result<std::unique_ptr<Server>> MakeServer(const ShimConfig& config, UniqueFd record) {
  CGPU_ASSIGN_OR_RETURN(const auto abi, AbiOf(config));
  CGPU_ASSIGN_OR_RETURN(auto paths, PathsOf(config));
  CGPU_ASSIGN_OR_RETURN(auto driver, Driver::Open(rmclient::KernelGpuCalls(), *abi, paths.control,
                                                  std::move(paths.gpus)));
  const Driver& asked = *driver;
  auto gpus = GpusOf(
      config, [&](std::size_t gpu) { return asked.DeviceInstance(config.gpus[gpu].gpu.gpu_id); });
  return Make(config, *abi, std::move(driver), std::move(gpus), std::move(record));
}

Result<std::unique_ptr<Server>> MakeServerAgain(const Handover& state, bool for_good) {
  CGPU_ASSIGN_OR_RETURN(const auto abi, AbiOf(state.config));
  CGPU_ASSIGN_OR_RETURN(auto paths, PathsOf(state.config));
  std::unique_ptr<Driver> driver;
  UniqueFd record;
  if (for_good) {
    driver = Driver::Resume(rmclient::KernelGpuCalls(), *abi, std::move(paths.gpus),
                            state.server.driver);
    record.reset(state.server.record);
  }
  auto gpus = GpusOf(state.config, [&](std::size_t gpu) {
    return Result<std::uint32_t>(state.server.driver.gpus[gpu].device_instance);
  });
  CGPU_ASSIGN_OR_RETURN(
      auto server, Make(state.config, *abi, std::move(driver), std::move(gpus), std::move(record)));
  CGPU_TRY(server->Load(state.server));
  if (for_good) {
    server->TakeOver(state.server);
  }
  return server;
}

}  // namespace cgpu::shim
