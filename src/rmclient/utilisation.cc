#include "rmclient/utilisation.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "rm/control_table.h"
#include "rm/nv_controls.h"

namespace cgpu::rmclient {
namespace {

// Layout of NV2080_CTRL_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2_PARAMS (ctrl2080perf.h,
// ctrl2080gpumon.h): type, bufSize, count and tracker, then 72 samples. A sample has a time and
// some GPU engines, of which the first are fb, gr, nvenc and nvdec. A GPU engine begins with its
// use in 1/100 %; its third field is the process that was active on it when the sample was taken,
// if one was. It has 116 bytes, from release 570 on 128.
constexpr rm::NvU8 kPerfmonUtil = 2;  // NV2080_CTRL_GPUMON_SAMPLE_TYPE_PERFMON_UTIL
constexpr std::size_t kHead = 16;
constexpr std::size_t kShortEngine = 116;
constexpr std::size_t kLongEngine = 128;
constexpr double kFull = 10'000;
enum class Engine : std::uint8_t { kMemory, kGraphics, kEncoder, kDecoder };
constexpr rm::NvU32 kNoProcess = 0xFFFFFFFF;  // NV2080_GPUMON_PID_INVALID

template <class T>
T At(const std::vector<unsigned char>& bytes, std::size_t offset) {
  T value{};
  std::memcpy(&value, bytes.data() + offset, sizeof(value));
  return value;
}

}  // namespace

void SetLengths(std::vector<Utilisation>& samples) {
  std::vector<std::uint64_t> apart;
  for (std::size_t i = 1; i < samples.size(); ++i) {
    apart.push_back(samples[i].time_ns - samples[i - 1].time_ns);
  }
  std::uint64_t usual = kSampleNs;
  if (!apart.empty()) {
    const auto middle = apart.begin() + static_cast<std::ptrdiff_t>(apart.size() / 2);
    std::ranges::nth_element(apart, middle);
    usual = *middle;
  }
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const std::uint64_t since = i == 0 ? usual : samples[i].time_ns - samples[i - 1].time_ns;
    samples[i].length_ns = since > usual * 3 / 2 ? usual : since;
  }
}

Result<std::vector<Utilisation>> ReadUtilisation(Client& client, const Gpu& gpu) {
  constexpr auto kCommand = rm::NV2080_CTRL_CMD_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2;
  std::vector<unsigned char> params(rm::ControlSize(client.abi(), kCommand));
  const auto size = static_cast<rm::NvU32>(params.size() - kHead);
  params[0] = kPerfmonUtil;
  std::memcpy(params.data() + sizeof(rm::NvU32), &size, sizeof(size));
  CGPU_TRY(Checked(client.Control(gpu.subdevice, kCommand, params.data(), params.size()),
                   "asking how busy GPU " + gpu.bdf + " is"));
  const std::size_t sample = size / kSamples;
  const std::size_t engine =
      (sample - sizeof(rm::NvU64)) % kLongEngine == 0 ? kLongEngine : kShortEngine;
  std::vector<Utilisation> samples;
  for (std::size_t i = 0; i < kSamples; ++i) {
    const std::size_t at = kHead + i * sample;
    const auto use = [&](Engine one) {
      const auto place = at + sizeof(rm::NvU64) + static_cast<std::size_t>(one) * engine;
      return std::min(1.0, At<rm::NvU32>(params, place) / kFull);
    };
    const std::size_t graphics = at + sizeof(rm::NvU64) + engine;
    const auto pid = At<rm::NvU32>(params, graphics + 2 * sizeof(rm::NvU32));
    Utilisation one;
    one.time_ns = At<rm::NvU64>(params, at);
    one.busy = use(Engine::kGraphics);
    one.pid = pid == kNoProcess ? 0 : pid;
    one.memory = use(Engine::kMemory);
    one.encoder = use(Engine::kEncoder);
    one.decoder = use(Engine::kDecoder);
    if (one.time_ns != 0) {
      samples.push_back(one);
    }
  }
  std::ranges::sort(samples, {}, &Utilisation::time_ns);
  SetLengths(samples);
  return samples;
}

}  // namespace cgpu::rmclient
