// gpu-orders: orders about a CUDA program's channels, measured. Lines of JSON.
//
//   gpu-orders orders [--kernel-us N] [--steps N] [--seconds S]  every order in turn, while kernels
//                                                                of this length are queued
//   gpu-orders share --slice-us N [--kernel-us N] [--steps N] [--seconds S]
//                    gives itself this time slice, says "ready", waits for a line, and says how
//                    many launches then ended in S seconds
//   gpu-orders own [--kernel-us N] [--steps N] [--seconds S]
//                    takes its channels off the GPU, and says how many launches end after that;
//                    at most for S seconds, and until there are ten
//   gpu-orders bystander [--kernel-us N] [--steps N]
//                    launches a kernel, waits for it, and so on, says "ready", and when its input
//                    ends when each of the latest was launched and how long it took
//   gpu-orders events [--seconds S] [--enough N] [--every-us N]
//                    whether the driver tells of context switches: for S seconds or until there
//                    are N; how often it does, and whether records are lost
//   gpu-orders levels [--kernel-us N] [--steps N]
//                    what the driver says to each interleave level
//   gpu-orders hang --question NAME [--kernel-us N] [--steps N] [--seconds S]
//                    whether a program that makes a context hangs by these orders (hang.h)
//
//   gpu-orders identity  whether the driver takes calls that another process makes on this one's
//                        descriptors, as a shim does
//   gpu-orders leans     whether the driver refuses what cgpu leaves to it to refuse
//   gpu-orders record    the calls that a CUDA program makes of the driver, as `cgpu run --record`
//                        shows them
//
// Points in time are microseconds of CLOCK_MONOTONIC, the same for all processes. It needs
// libcuda.so.1, but for `events`, `identity` and `leans`. Exit status: 0; 1 with a sentence.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <thread>
#include <utility>

#include "gpu/orders/hang.h"
#include "gpu/orders/identity.h"
#include "gpu/orders/leans.h"
#include "gpu/orders/orders.h"
#include "gpu/orders/record.h"
#include "rm/nv_ctrl.h"
#include "rmclient/readings.h"
#include "rmclient/switches.h"

namespace cgpu::orders {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kUsPerS = 1'000'000;
constexpr std::uint64_t kQueuedUs = 100'000;  // of work
// A library waits where it has no room for another launch, which would be for ever while its
// channels are off the GPU. How many CUDA has room for is not documented.
constexpr std::uint64_t kMostQueued = 256;
constexpr std::uint64_t kSliceUs = 2'000;   // that is set while it is measured how long it takes
constexpr std::uint64_t kSettleUs = 5'000;  // before each try, at the least
constexpr std::uint64_t kMostSettleUs = 300'000;
constexpr std::uint64_t kKernelsToTell = 3;  // that would end, if work went on
constexpr unsigned kMostTries = 20;
constexpr std::size_t kMostLaunches = 200'000;  // that are told of

struct Line {
  std::string verb;
  burn::Shape shape;
  double seconds = 2;
  std::uint64_t slice_us = kSliceUs;
  std::uint64_t enough = ~std::uint64_t{0};
  std::uint64_t every_us = 50'000;
  std::string question = "none";
};

int Fail(const Error& error) {
  (void)std::fprintf(stderr, "gpu-orders: %s\n", FormatError(error).c_str());
  return 1;
}

void Say(const std::string& line) {
  (void)std::printf("%s\n", line.c_str());
  (void)std::fflush(stdout);
}

std::uint64_t Us(Clock::duration time) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(time).count());
}

std::uint64_t UsSince(Clock::time_point begin) {
  return Us(Clock::now() - begin);
}

// When something began, and how long it took.
struct Span {
  std::uint64_t begin_us = 0;
  std::uint64_t us = 0;
};

template <class Spans>
std::string Listed(const Spans& spans) {
  std::string text = "[";
  for (const Span& span : spans) {
    text += (text.size() > 1 ? ",[" : "[") + std::to_string(span.begin_us) + "," +
            std::to_string(span.us) + "]";
  }
  return text + "]";
}

// Another client, which asks for the GPU's memory again and again: how long it waits at the most.
class Neighbour {
 public:
  explicit Neighbour(unsigned gpu) : thread_([this, gpu] { Loop(gpu); }) {}
  ~Neighbour() {
    stop_ = true;
    thread_.join();
  }
  Neighbour(const Neighbour&) = delete;
  Neighbour& operator=(const Neighbour&) = delete;

  // Since the last time.
  std::uint64_t Longest() { return longest_.exchange(0); }

 private:
  void Loop(unsigned gpu) {
    constexpr std::chrono::microseconds kPause{200};
    auto client = rmclient::Client::Open();
    auto gpus = client.ok() ? rmclient::OpenGpus(*client)
                            : Result<std::vector<rmclient::Gpu>>(client.error());
    while (!stop_ && gpus.ok() && gpu < gpus->size()) {
      const Clock::time_point begin = Clock::now();
      (void)rmclient::ReadFbInfo(*client, (*gpus)[gpu]);
      longest_ = std::max(longest_.load(), UsSince(begin));
      std::this_thread::sleep_for(kPause);
    }
  }

  std::atomic<bool> stop_{false};
  std::atomic<std::uint64_t> longest_{0};
  std::thread thread_;
};

std::string Times(const std::vector<Span>& spans) {
  if (spans.empty()) {
    return "null";
  }
  std::vector<std::uint64_t> us(spans.size());
  std::transform(spans.begin(), spans.end(), us.begin(), [](const Span& span) { return span.us; });
  std::sort(us.begin(), us.end());
  const auto at = [&us](std::size_t percent) {
    return std::to_string(us[std::min(us.size() - 1, us.size() * percent / 100)]);
  };
  return R"({"p50":)" + at(50) + R"(,"p90":)" + at(90) + R"(,"max":)" + std::to_string(us.back()) +
         "}";
}

std::string Answer(const rmclient::Outcome& outcome) {
  return R"("errno":)" + std::to_string(outcome.sys_errno) + R"(,"status":)" +
         std::to_string(outcome.status) + R"(,"says":")" +
         (outcome.ok() ? "ok" : rmclient::Describe(outcome)) + "\"";
}

class Measure {
 public:
  Measure(Bench& bench, const Line& line)
      : bench_(bench), line_(line), neighbour_(line.shape.gpu) {}

  // `undo` is measured too, where it is one; between the two it is looked whether work goes on.
  void Both(const std::string& name, const Bench::Order& order, const Bench::Order& undo) {
    std::vector<Span> did;
    std::vector<Span> undid;
    rmclient::Outcome first;
    rmclient::Outcome back;
    std::uint64_t calm = 0;
    std::uint64_t held_up = 0;
    std::uint64_t ended_on = 0;
    std::uint64_t ended_off = 0;
    const std::uint64_t settle =
        undo ? std::clamp(kKernelsToTell * line_.shape.kernel_us, kSettleUs, kMostSettleUs)
             : kSettleUs;
    const Clock::time_point begin = Clock::now();
    while (did.size() < kMostTries &&
           (did.empty() || static_cast<double>(UsSince(begin)) < line_.seconds * kUsPerS)) {
      (void)neighbour_.Longest();
      ended_on += bench_.Run(settle);
      calm = std::max(calm, neighbour_.Longest());
      did.push_back(Time(order, &first));
      held_up = std::max(held_up, neighbour_.Longest());
      if (undo) {
        // Takes away launches that ended while the order was under way.
        (void)bench_.load().Ended();
        ended_off += bench_.Run(settle);
        (void)neighbour_.Longest();
        undid.push_back(Time(undo, &back));
        held_up = std::max(held_up, neighbour_.Longest());
      }
      if (!first.ok() || !back.ok() || bench_.load().Broken()) {
        break;
      }
    }
    const auto broken = bench_.load().Broken();
    Say(R"({"order":")" + name + "\"," + Answer(first.ok() ? back : first) + R"(,"tries":)" +
        std::to_string(did.size()) + R"(,"us":)" + Times(did) + R"(,"undo_us":)" + Times(undid) +
        R"(,"at":)" + Listed(did) + R"(,"undo_at":)" + Listed(undid) + R"(,"neighbour_calm_us":)" +
        std::to_string(calm) + R"(,"neighbour_us":)" + std::to_string(held_up) + R"(,"ended_on":)" +
        std::to_string(ended_on) + R"(,"ended_off":)" + std::to_string(ended_off) +
        R"(,"broken":")" + (broken ? broken->what : "") + "\"}");
  }

 private:
  static Span Time(const Bench::Order& order, rmclient::Outcome* outcome) {
    const Clock::time_point begin = Clock::now();
    const auto answer = order();
    const Span span{Us(begin.time_since_epoch()), UsSince(begin)};
    *outcome = outcome->ok() ? answer : *outcome;
    return span;
  }

  Bench& bench_;
  const Line& line_;
  Neighbour neighbour_;
};

int Orders(const Line& line) {
  auto made = Bench::Make(line.shape);
  if (!made.ok()) {
    return Fail(made.error());
  }
  Bench& bench = **made;
  Say(R"({"channels":)" + bench.Channels() + R"(,"steps":)" +
      std::to_string(bench.load().Steps().value_or(0)) + "}");
  bench.Feed();
  Say(R"({"dup":"group",)" + Answer(bench.DupGroups()) + "}");
  Say(R"({"dup":"channel",)" + Answer(bench.DupChannel()) + "}");
  Say(R"({"foreign":"SET_TIMESLICE",)" + Answer(bench.SetTimesliceForeign(kSliceUs)) + "}");
  {
    Measure measure(bench, line);
    measure.Both("SET_TIMESLICE", [&] { return bench.SetTimeslice(kSliceUs); }, nullptr);
    measure.Both("PREEMPT", [&] { return bench.Preempt(); }, nullptr);
    measure.Both(
        "FIFO_DISABLE_CHANNELS", [&] { return bench.Disable(true); },
        [&] { return bench.Disable(false); });
    measure.Both(
        "GPFIFO_SCHEDULE", [&] { return bench.Schedule(false); },
        [&] { return bench.Schedule(true); });
  }
  return 0;
}

int Share(const Line& line) {
  auto made = Bench::Make(line.shape);
  if (!made.ok()) {
    return Fail(made.error());
  }
  Bench& bench = **made;
  auto outcome = bench.DupGroups();
  outcome = outcome.ok() ? bench.SetTimeslice(line.slice_us) : outcome;
  if (!outcome.ok()) {
    return Fail(rmclient::CallError(outcome, "setting a time slice"));
  }
  bench.Feed();
  Say(R"({"ready":true,"steps":)" + std::to_string(bench.load().Steps().value_or(0)) + "}");
  // The queue stays full also while the other one is waited for.
  std::atomic<bool> begin{false};
  std::thread waits([&begin] {
    char byte = 0;
    (void)!read(STDIN_FILENO, &byte, 1);
    begin = true;
  });
  while (!begin) {
    (void)bench.Run(kSettleUs);
  }
  waits.join();
  const std::uint64_t ended = bench.Run(static_cast<std::uint64_t>(line.seconds * kUsPerS));
  if (const auto broken = bench.load().Broken()) {
    return Fail(*broken);
  }
  Say(R"({"ended":)" + std::to_string(ended) + "}");
  // The other one has the GPU to itself only after this one's end.
  (void)bench.Run(kUsPerS / 2);
  return 0;
}

int Bystander(const Line& line) {
  constexpr std::chrono::microseconds kPause{20};
  auto made = burn::MakeCudaLoad(line.shape);
  if (!made.ok()) {
    return Fail(made.error());
  }
  burn::Load& load = **made;
  std::atomic<bool> over{false};
  std::thread waits([&over] {
    char byte = 0;
    (void)!read(STDIN_FILENO, &byte, 1);
    over = true;
  });
  Say(R"({"ready":true})");
  std::deque<Span> launches;
  while (!over && !load.Broken()) {
    const Clock::time_point begin = Clock::now();
    const std::uint64_t before = load.Ended();
    (void)load.Launch();
    while (load.Ended() == before && !load.Broken()) {
      std::this_thread::sleep_for(kPause);
    }
    launches.push_back({Us(begin.time_since_epoch()), UsSince(begin)});
    if (launches.size() > kMostLaunches) {
      launches.pop_front();
    }
  }
  if (const auto broken = load.Broken()) {
    waits.detach();
    return Fail(*broken);
  }
  waits.join();
  Say(R"({"launches":)" + Listed(launches) + "}");
  return 0;
}

int Own(const Line& line) {
  constexpr std::uint64_t kGoesOn = 10;
  auto made = Bench::Make(line.shape);
  if (!made.ok()) {
    return Fail(made.error());
  }
  Bench& bench = **made;
  bench.Feed();
  const auto outcome = bench.Disable(true);
  std::uint64_t ended = 0;
  const Clock::time_point begin = Clock::now();
  (void)bench.load().Ended();
  while (ended < kGoesOn && static_cast<double>(UsSince(begin)) < line.seconds * kUsPerS) {
    ended += bench.Run(kSettleUs);
  }
  if (const auto broken = bench.load().Broken()) {
    return Fail(*broken);
  }
  Say(R"({"own":"FIFO_DISABLE_CHANNELS",)" + Answer(outcome) + R"(,"ended":)" +
      std::to_string(ended) + "}");
  return 0;
}

// Counts what was read of the list of context switches.
struct SwitchCount {
  std::uint64_t switches = 0;
  std::uint64_t named = 0;       // those with a process
  std::uint64_t reads = 0;       // reads that found something
  std::uint64_t lost = 0;        // reads before which records were lost
  std::uint64_t backwards = 0;   // records that are older than the one before
  std::uint64_t most = 0;        // records that one read found
  std::uint64_t longest_ns = 0;  // between two records, by the GPU's clock
  std::vector<Span> waits;       // between two reads that found something
  std::uint64_t last_ns = 0;
  Clock::time_point last_read;

  void Add(const rmclient::SwitchLog::News& news) {
    lost += news.lost ? 1 : 0;
    if (news.switches.empty()) {
      return;
    }
    if (reads++ != 0) {
      waits.push_back({Us(last_read.time_since_epoch()), UsSince(last_read)});
    }
    last_read = Clock::now();
    switches += news.switches.size();
    most = std::max(most, static_cast<std::uint64_t>(news.switches.size()));
    for (const rmclient::Switch& one : news.switches) {
      named += one.pid != 0 ? 1 : 0;
      backwards += one.time_ns < last_ns ? 1 : 0;
      longest_ns =
          std::max(longest_ns, last_ns == 0 ? 0 : one.time_ns - std::min(last_ns, one.time_ns));
      last_ns = one.time_ns;
    }
  }

  [[nodiscard]] std::string Text() const {
    return R"({"switches":)" + std::to_string(switches) + R"(,"named":)" + std::to_string(named) +
           R"(,"lost":)" + std::to_string(lost) + R"(,"reads":)" + std::to_string(reads) +
           R"(,"most":)" + std::to_string(most) + R"(,"backwards":)" + std::to_string(backwards) +
           R"(,"longest_us":)" + std::to_string(longest_ns / 1000) + R"(,"between_reads_us":)" +
           Times(waits) + "}";
  }
};

int Events(const Line& line) {
  auto client = rmclient::Client::Open();
  if (!client.ok()) {
    return Fail(client.error());
  }
  auto gpus = rmclient::OpenGpus(*client);
  if (!gpus.ok()) {
    return Fail(gpus.error());
  }
  if (line.shape.gpu >= gpus->size()) {
    return Fail(burn::NoSuchGpu(line.shape.gpu, gpus->size()));
  }
  auto log = rmclient::SwitchLog::Make(*client, (*gpus)[line.shape.gpu]);
  if (!log.ok()) {
    return Fail(log.error());
  }
  SwitchCount count;
  const Clock::time_point begin = Clock::now();
  while (count.switches < line.enough &&
         static_cast<double>(UsSince(begin)) < line.seconds * kUsPerS) {
    std::this_thread::sleep_for(std::chrono::microseconds(line.every_us));
    count.Add(log->Read());
  }
  Say(count.Text());
  return 0;
}

int Levels(const Line& line) {
  auto made = Bench::Make(line.shape);
  if (!made.ok()) {
    return Fail(made.error());
  }
  Bench& bench = **made;
  bench.Feed();
  Say(R"({"dup":"group",)" + Answer(bench.DupGroups()) + "}");
  constexpr rm::NvU32 kMedium = 1;  // ctrla06c.h
  const std::pair<const char*, rm::NvU32> levels[] = {
      {"MEDIUM", kMedium},
      {"HIGH", rm::NVA06C_CTRL_INTERLEAVE_LEVEL_HIGH},
      {"LOW", rm::NVA06C_CTRL_INTERLEAVE_LEVEL_LOW}};
  for (const auto& [name, level] : levels) {
    const auto answer = bench.SetInterleaveLevel(level);
    Say(R"({"level":")" + std::string(name) + "\"," + Answer(answer) + R"(,"ended":)" +
        std::to_string(bench.Run(kMostSettleUs)) + "}");
  }
  return 0;
}

int RecordCalls(const Line& line) {
  constexpr std::uint64_t kWorkUs = 20'000;
  BeginRecord();
  auto made = Bench::Make(line.shape);
  if (!made.ok()) {
    return Fail(made.error());
  }
  (void)(*made)->Run(kWorkUs);
  (void)std::fflush(stdout);
  return 0;
}

int AskIdentity(const Line& /*line*/) {
  return Identity();
}

int AskLeans(const Line& /*line*/) {
  return Leans();
}

int Hang(const Line& line) {
  return AskHang(line.shape, line.question, line.seconds);
}

int Main(int argc, char** argv) {
  Line line;
  const std::map<std::string, int (*)(const Line&)> verbs = {
      {"orders", Orders},     {"share", Share},          {"bystander", Bystander},
      {"own", Own},           {"events", Events},        {"levels", Levels},
      {"hang", Hang},         {"identity", AskIdentity}, {"leans", AskLeans},
      {"record", RecordCalls}};
  line.shape.cuda = true;
  CLI::App app("Orders about a CUDA program's channels, measured", "gpu-orders");
  app.add_option("verb", line.verb, "What to do")->required()->check(CLI::IsMember(verbs));
  app.add_option("--kernel-us", line.shape.kernel_us, "Length of a kernel");
  app.add_option("--steps", line.shape.steps, "How far a kernel counts, if that is known");
  app.add_option("--gpu", line.shape.gpu, "GPU, from 0 in order of bus address");
  app.add_option("--seconds", line.seconds, "For each order, or for the share");
  app.add_option("--slice-us", line.slice_us, "Time slice");
  app.add_option("--enough", line.enough, "Context switches that are enough");
  app.add_option("--every-us", line.every_us, "Time between two looks at the context switches");
  app.add_option("--question", line.question, "Orders about a program that makes a context")
      ->check(CLI::IsMember(HangQuestions()));
  CLI11_PARSE(app, argc, argv);
  line.shape.queue = static_cast<unsigned>(
      std::clamp(kQueuedUs / line.shape.kernel_us, std::uint64_t{2}, kMostQueued));
  return verbs.at(line.verb)(line);
}

}  // namespace
}  // namespace cgpu::orders

int main(int argc, char** argv) {
  // At an end in order CUDA's library would wait for all that is queued.
  std::_Exit(cgpu::orders::Main(argc, argv));
}
