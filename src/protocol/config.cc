#include "protocol/config.h"

#include <sys/sysmacros.h>

#include "protocol/lines.h"
#include "protocol/text.h"

namespace cgpu {
namespace {

constexpr std::size_t kMaxFiles = 256;
constexpr std::uint64_t kMaxPid = 1 << 30;

bool ToDevice(const std::string& word, NodeFile& file) {
  const std::size_t colon = word.find(':');
  return colon != std::string::npos && ToUnsigned(word.substr(0, colon), file.dev_major) &&
         ToUnsigned(word.substr(colon + 1), file.dev_minor);
}

void VisitFile(LineCodec& io, NodeFile& file) {
  io.Choice(file.kind, {"ctl", "uvm", "gpu", "tools"});
  io.Values(file.minor, file.granted, file.path);
  io.Choice(file.simulated, {"rdev", "ino"});
  std::string device = std::to_string(file.dev_major) + ":" + std::to_string(file.dev_minor);
  io.Word(device);
  io.Check(ToDevice(device, file));
  if (file.simulated) {
    io.Hex(file.ino_mask);
    io.Hex(file.ino_value);
    io.Check(file.ino_mask != 0);
  }
}

void VisitGpu(LineCodec& io, GpuGrant& grant) {
  Gpu& gpu = grant.gpu;
  io.Values(gpu.uuid, gpu.index, gpu.minor, gpu.bdf, gpu.gpu_id, grant.limit_bytes,
            gpu.memory_bytes);
  io.Check(grant.limit_bytes <= gpu.memory_bytes);
}

void Fields(LineCodec& io, ShimConfig& config) {
  io.One("id", config.id);
  io.Check(IsId(config.id));
  io.One("name", config.name);
  io.Check(IsName(config.name));
  io.One("user", config.user);
  io.One("since", config.since);
  io.One("pidns", config.pid_namespace);
  io.One("driver", config.driver);
  io.One("killable", config.killable);
  // Earlier versions do not know these three.
  io.Line("prove", config.prove, [&] { io.Word(config.prove); });
  io.Line("word", !config.word.empty(), [&] { io.Word(config.word); });
  io.Each("firmware", config.firmware, kMostFirmwareControls,
          [&](FirmwareControl& one) { io.Values(one.command, one.bytes); });
  io.Each("file", config.files, kMaxFiles, [&](NodeFile& file) { VisitFile(io, file); });
  io.Each("watch", config.watches, kMaxFiles);
  io.Each("card", config.gpus, kMaxFiles, [&](GpuGrant& granted) { VisitGpu(io, granted); });
  io.Require(!config.files.empty(), "file");
  io.Require(!config.gpus.empty(), "card");
}

constexpr LineFormat<ShimConfig> kConfig{"the configuration", Fields, TextEnd::kNone};

void VisitPid(LineCodec& io, unsigned& pid) {
  const bool there = io.Line("listener", true, [&] {
    if (io.More(true)) {
      io.Word(pid, 0, kMaxPid);
    }
  });
  io.Require(there, "listener");
}

constexpr LineFormat<unsigned> kListener{"the listener's message", VisitPid, TextEnd::kNone};

}  // namespace

bool NodeFile::Is(std::uint64_t dev, std::uint64_t ino, std::uint64_t rdev) const {
  const std::uint64_t number = makedev(dev_major, dev_minor);
  return simulated ? dev == number && (ino & ino_mask) == ino_value : rdev != 0 && rdev == number;
}

std::string EncodeConfig(const ShimConfig& config) {
  return kConfig.Encode(config);
}

Result<ShimConfig> DecodeConfig(std::string_view text) {
  return kConfig.Decode(text);
}

std::string EncodeListener(unsigned pid) {
  return kListener.Encode(pid);
}

Result<unsigned> DecodeListener(std::string_view text) {
  return kListener.Decode(text);
}

}  // namespace cgpu
