// Measures what the boundary adds to a trapped call: for each call, the caller's time minus the
// time that the shim's own ioctl took in that same call. 40 rounds of 5,000 calls; the figure is
// the median over rounds of each round's p50 and p99. A round in which the machine itself was late
// (p99 of the driver's part above ten times its median) is repeated and counted.
//
// Two slices take turns. In one the shim's calls go to the simulated driver, another process behind
// FUSE: while it answers, the shim sleeps, its processor goes idle and may lose the shim to another
// one, and what that costs after the driver's part is over counts as added. A real driver answers
// in the thread that calls. So in the other slice the kernel answers at once, and the last line is
// that slice's. What the kernel takes for a notification alone is measured beside them.
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "bench/harness.h"
#include "host/registry.h"
#include "os/notify.h"
#include "rm/nv_escape.h"
#include "rm/nv_structs.h"
#include "sandbox/filter.h"

namespace cgpu::bench {
namespace {

constexpr int kRounds = 40;
constexpr int kMaxRepeats = 40;
constexpr std::size_t kCalls = 5000;
constexpr std::size_t kBare = 50'000;

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
  const auto live = registry.Live();
  if (!live.ok()) {
    return live.error();
  }
  const auto found = FindReservation(name, *live);
  if (!found.ok()) {
    return found.error();
  }
  return (*live)[*found].id;
}

// A slice and what was measured in it.
struct Side {
  const char* name;
  Slice slice;
  std::string id;
  std::vector<double> p50s;
  std::vector<double> p99s;
  int repeats = 0;
};

Result<Side> StartSide(const Node& node, const Registry& registry, const char* name,
                       Answers answers) {
  auto slice = Slice::Start(node, answers);
  if (!slice.ok()) {
    return slice.error();
  }
  const auto id = IdOf(registry, slice->name());
  if (!id.ok()) {
    return id.error();
  }
  CGPU_TRY(Trace(registry, *id));  // starts the recording
  return Side{name, std::move(*slice), *id, {}, {}};
}

Result<> Round(Side& side, const Registry& registry) {
  CGPU_TRY(side.slice.Say("calls " + std::to_string(kCalls)));
  const auto raw = side.slice.Read(kCalls * sizeof(std::uint32_t));
  if (!raw.ok()) {
    return raw.error();
  }
  auto driver = Trace(registry, side.id);
  if (!driver.ok()) {
    return driver.error();
  }
  if (driver->size() != kCalls) {
    return Error{Code::kInternal,
                 0,
                 std::to_string(kCalls) + " calls but " + std::to_string(driver->size()) +
                     " records of the shim",
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
  const bool late = driver_p99 > 10 * driver_p50 && side.repeats < kMaxRepeats;
  std::printf("%s %2zu: added p50 %.2f p99 %.2f us; driver p50 %.2f p99 %.2f us%s\n", side.name,
              side.p50s.size() + 1, p50, p99, driver_p50, driver_p99,
              late ? " (late: repeated)" : "");
  if (late) {
    ++side.repeats;
    return {};
  }
  side.p50s.push_back(p50);
  side.p99s.push_back(p99);
  return {};
}

// Measures the kernel's time for a notification: a call that a second thread lets go on at once.
Result<std::vector<double>> BareNotifications() {
  std::promise<int> filtered;
  std::vector<double> each;
  Result<> result;
  std::thread caller([&] {
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    const auto listener = sandbox::InstallGpuFilter({});
    if (!listener.ok()) {
      result = listener.error();
      filtered.set_value(-1);
      return;
    }
    filtered.set_value(fcntl(listener->get(), F_DUPFD_CLOEXEC, 0));
    for (std::size_t i = 0; i < kBare; ++i) {
      const auto start = std::chrono::steady_clock::now();
      (void)ioctl(-1, _IOWR('F', rm::NV_ESC_RM_CONTROL, rm::NVOS54_PARAMETERS), nullptr);
      each.push_back(
          std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
              .count());
    }
  });
  UniqueFd fd(filtered.get_future().get());
  if (fd.valid()) {
    const auto listener = os::NotifyListener::Make(std::move(fd));
    for (std::size_t i = 0; listener.ok() && i < kBare; ++i) {
      if (const auto notification = listener->Receive(); notification.ok()) {
        (void)listener->Continue(notification->id);
      }
    }
  }
  caller.join();
  if (!result.ok()) {
    return result.error();
  }
  return each;
}

void Print(const char* name, Side& side) {
  std::printf("%s: %.2f us (p99 %.2f us)\n", name, Percentile(side.p50s, 0.5),
              Percentile(side.p99s, 0.5));
}

Result<> Run() {
  auto node = Node::Start();
  if (!node.ok()) {
    return node.error();
  }
  const auto registry = Registry::Open();
  if (!registry.ok()) {
    return registry.error();
  }
  auto simulated = StartSide(*node, *registry, "simulated driver", Answers::kSimulatedDriver);
  if (!simulated.ok()) {
    return simulated.error();
  }
  auto at_once = StartSide(*node, *registry, "answer at once  ", Answers::kAtOnce);
  if (!at_once.ok()) {
    return at_once.error();
  }
  while (simulated->p50s.size() < kRounds || at_once->p50s.size() < kRounds) {
    for (Side* side : {&*simulated, &*at_once}) {
      if (side->p50s.size() < kRounds) {
        CGPU_TRY(Round(*side, *registry));
      }
    }
  }
  auto bare = BareNotifications();
  if (!bare.ok()) {
    return bare.error();
  }
  std::printf("%u and %u rounds repeated because the machine was late\n", simulated->repeats,
              at_once->repeats);
  std::printf("a notification that is answered at once: %.2f us (p99 %.2f us)\n",
              Percentile(*bare, 0.50), Percentile(*bare, 0.99));
  Print("trap-latency with the simulated driver behind FUSE", *simulated);
  Print("trap-latency", *at_once);
  return {};
}

}  // namespace
}  // namespace cgpu::bench

int main() {
  const auto result = cgpu::bench::Run();
  return result.ok() ? 0 : cgpu::bench::Fail(result.error());
}
