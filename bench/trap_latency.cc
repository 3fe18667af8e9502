// What the boundary adds to a trapped call: for each call, the caller's time minus the time that
// the shim's own ioctl took in that same call. 40 rounds of 5,000 calls; the figure is the median
// over rounds of each round's p50 and p99. A round in which the machine itself was late (p99 of the
// driver's part above ten times its median) is repeated and counted.
#include <fmt/core.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "bench/harness.h"
#include "registry/registry.h"

namespace cgpu::bench {
namespace {

constexpr int kRounds = 40;
constexpr int kMaxRepeats = 40;
constexpr std::size_t kCalls = 5000;

Result<std::vector<double>> Trace(const Registry& registry, const std::string& id) {
  AdminRequest request;
  request.kind = AdminRequest::Kind::kTrace;
  const auto text = registry.Ask(id, request);
  if (!text.ok()) {
    return text.error();
  }
  std::vector<double> nanoseconds;
  for (const char* cursor = text->c_str(); *cursor != '.' && *cursor != '\0';) {
    char* end = nullptr;
    nanoseconds.push_back(static_cast<double>(std::strtoul(cursor, &end, 10)));
    cursor = end + 1;
  }
  return nanoseconds;
}

Result<std::string> IdOf(const Registry& registry, const std::string& name) {
  const auto lock = registry.Lock();
  if (!lock.ok()) {
    return lock.error();
  }
  const auto live = registry.List(*lock);
  if (!live.ok()) {
    return live.error();
  }
  const auto found = FindReservation(name, *live);
  if (!found.ok()) {
    return found.error();
  }
  return (*live)[*found].id;
}

Result<> Run() {
  auto node = Node::Start();
  if (!node.ok()) {
    return node.error();
  }
  auto slice = Slice::Start(*node, {});
  if (!slice.ok()) {
    return slice.error();
  }
  const auto registry = Registry::Open();
  if (!registry.ok()) {
    return registry.error();
  }
  const auto id = IdOf(*registry, slice->name());
  if (!id.ok()) {
    return id.error();
  }
  CGPU_TRY(Trace(*registry, *id));  // starts the recording
  std::vector<double> p50s;
  std::vector<double> p99s;
  int repeats = 0;
  while (p50s.size() < kRounds) {
    CGPU_TRY(slice->Say("calls " + std::to_string(kCalls)));
    const auto raw = slice->Read(kCalls * sizeof(std::uint32_t));
    if (!raw.ok()) {
      return raw.error();
    }
    auto driver = Trace(*registry, *id);
    if (!driver.ok()) {
      return driver.error();
    }
    if (driver->size() != kCalls) {
      return Error{Code::kInternal,
                   0,
                   fmt::format("{} calls but {} records of the shim", kCalls, driver->size()),
                   {}};
    }
    std::vector<double> added;
    for (std::size_t i = 0; i < kCalls; ++i) {
      std::uint32_t caller = 0;
      std::memcpy(&caller, raw->data() + i * sizeof(caller), sizeof(caller));
      added.push_back((caller - (*driver)[i]) / 1000.0);
    }
    const double p50 = Percentile(added, 0.50);
    const double p99 = Percentile(added, 0.99);
    const double driver_p50 = Percentile(*driver, 0.50) / 1000.0;
    const double driver_p99 = Percentile(*driver, 0.99) / 1000.0;
    const bool late = driver_p99 > 10 * driver_p50 && repeats < kMaxRepeats;
    fmt::print("round {:2}: added p50 {:.2f} p99 {:.2f} us; driver p50 {:.2f} p99 {:.2f} us{}\n",
               p50s.size() + 1, p50, p99, driver_p50, driver_p99, late ? " (late: repeated)" : "");
    if (late) {
      ++repeats;
      continue;
    }
    p50s.push_back(p50);
    p99s.push_back(p99);
  }
  fmt::print("{} rounds repeated because the machine was late\n", repeats);
  fmt::print("trap-latency: {:.2f} us (p99 {:.2f} us)\n", Percentile(p50s, 0.5),
             Percentile(p99s, 0.5));
  return {};
}

}  // namespace
}  // namespace cgpu::bench

int main() {
  const auto result = cgpu::bench::Run();
  return result.ok() ? 0 : cgpu::bench::Fail(result.error());
}
