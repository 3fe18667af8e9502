// A tenant that runs timed kernels: kernels MICROSECONDS [--not-preemptible] [--traps]
// [--accesses]: at its end a kernel raises an exception, or writes where nothing is mapped. Reads
// lines:
//
//   run N          queues N kernels and waits for them     -> "ran N"
//   feed           keeps the queue full until the next line -> "feeding", then "fed N"
//   slice US       sets its group's time slice              -> "slice US"
//   level N        sets its group's interleave level        -> "level N"
//   disable 0|1    FIFO_DISABLE_CHANNELS of its own channel -> "disabled 0|1"
//   preempt        waits until its group is off             -> "preempted"
//   interleave N   sets its group's interleave level        -> "interleave N"
//   stop           STOP_CHANNEL                             -> "stopped"
//   hammer KIND    keeps the queue full and makes calls of a kind until the next line
//                                                           -> "hammering", then "hammered N"
//      orders      on the scheduling of its own channel, IDLE_CHANNELS among them
//      schedule    takes another group off the runlist and puts it on again
//      groups      makes groups and frees them
//   park           leaves the control file in a message that nobody receives -> "parked"
//   fork N         N children, which feed on channels of their own for as long as this lives
//                                                           -> "child" each, "forked N"
//   memory         lets the GPU write to memory in all states of being mapped -> "memory N", the
//                  number of the first step at which a word was not what it should be, 0 for none
//   samples        the driver's samples of utilisation      -> "sample PID HUNDREDTHS" each, "all"
//
// "failed N" is the answer when the channel ended with error N, "late" when nothing came.
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>

#include "os/messages.h"
#include "rm/control_table.h"
#include "rm/nv_classes.h"
#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"
#include "rm/nv_escape.h"
#include "rmclient/channels.h"
#include "sim/cuda/work.h"
#include "sim/engine/timed_kernel.h"

namespace cgpu {
namespace {

constexpr std::chrono::seconds kTimeout{60};
constexpr unsigned kDepth = 64;

[[noreturn]] void Die(const Error& error) {
  std::fprintf(stderr, "%s\n", FormatError(error).c_str());
  std::exit(1);  // NOLINT(concurrency-mt-unsafe): one thread
}

template <class T>
T Must(Result<T> result) {
  if (!result.ok()) {
    Die(result.error());
  }
  return std::move(result).value();
}

void Say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

class Tenant {
 public:
  explicit Tenant(const sim::engine::TimedKernel& kernel)
      : client_(Must(rmclient::Client::Open())),
        gpus_(Must(rmclient::OpenGpus(client_))),
        queue_(Must(sim::cuda::WorkQueue::Make(client_, gpus_.at(0), kDepth))),
        program_(Must(queue_.AddProgram(std::as_bytes(std::span(&kernel, 1))))) {}

  void Run(std::uint64_t count) {
    std::uint64_t last = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
      std::optional<std::uint64_t> launch;
      while (!(launch = queue_.Launch(program_))) {
        if (!queue_.Wait(queue_.Ended() + 1, kTimeout)) {
          return Failed();
        }
      }
      last = *launch;
    }
    if (!queue_.Wait(last, kTimeout)) {
      return Failed();
    }
    Say("ran " + std::to_string(count));
  }

  void Feed() {
    Say("feeding");
    pollfd in{STDIN_FILENO, POLLIN, 0};
    while (poll(&in, 1, 1) == 0) {
      while (queue_.Launch(program_)) {
      }
    }
    Say("fed " + std::to_string(queue_.Ended()));
  }

  [[noreturn]] void FeedForEver() {
    while (true) {
      while (queue_.Launch(program_)) {
      }
      (void)poll(nullptr, 0, 1);
    }
  }

  void Slice(std::uint64_t microseconds) {
    if (const Result<> done = queue_.SetTimeslice(microseconds); !done.ok()) {
      Die(done.error());
    }
    Say("slice " + std::to_string(microseconds));
  }

  void Level(rm::NvU32 level) {
    rm::NVA06C_CTRL_INTERLEAVE_LEVEL_PARAMS params{level};
    Control(queue_.group(), rm::NVA06C_CTRL_CMD_SET_INTERLEAVE_LEVEL, params);
    Say("level " + std::to_string(level));
  }

  void Disable(bool off) {
    rm::NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS params{};
    params.bDisable = off ? 1 : 0;
    params.numChannels = 1;
    params.hClientList[0] = client_.handle();
    params.hChannelList[0] = queue_.channel();
    Control(gpus_.at(0).subdevice, rm::NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS, params);
    Say(off ? "disabled 1" : "disabled 0");
  }

  void Preempt() {
    rm::NVA06C_CTRL_PREEMPT_PARAMS params{};
    params.bWait = 1;
    Control(queue_.group(), rm::NVA06C_CTRL_CMD_PREEMPT, params);
    Say("preempted");
  }

  void Interleave(rm::NvU32 level) {
    rm::NVA06C_CTRL_INTERLEAVE_LEVEL_PARAMS params{level};
    Control(queue_.group(), rm::NVA06C_CTRL_CMD_SET_INTERLEAVE_LEVEL, params);
    Say("interleave " + std::to_string(level));
  }

  void Hammer(const std::string& kind) {
    std::optional<sim::cuda::WorkQueue> other;
    if (kind == "schedule") {
      other.emplace(Must(sim::cuda::WorkQueue::Make(client_, gpus_.at(0), 1)));
    }
    Say("hammering");
    pollfd in{STDIN_FILENO, POLLIN, 0};
    std::uint64_t calls = 0;
    for (; poll(&in, 1, 0) == 0; ++calls) {
      while (queue_.Launch(program_)) {
      }
      if (kind == "orders") {
        Order();
      } else if (kind == "groups") {
        rm::NvHandle group = 0;
        Check(rmclient::AllocChannelGroup(client_, gpus_.at(0), &group), "a group");
        Check(client_.Free(gpus_.at(0).device, group), "freeing a group");
      } else {
        rm::NVA06C_CTRL_GPFIFO_SCHEDULE_PARAMS_V580 params{};
        params.bEnable = calls % 2;
        (void)client_.Control(other->group(), rm::NVA06C_CTRL_CMD_GPFIFO_SCHEDULE, &params,
                              rm::ControlSize(client_.abi(), rm::NVA06C_CTRL_CMD_GPFIFO_SCHEDULE));
      }
    }
    Say("hammered " + std::to_string(calls));
  }

  void Park() {
    auto pair = Must(MakeMessagePair());
    if (const auto sent = SendMessage(pair.first.get(), "parked", client_.fd()); !sent.ok()) {
      Die(sent.error());
    }
    parked_ = std::move(pair.second);
    if (close(client_.fd()) != 0) {
      Die(ErrnoError(Code::kInternal, errno, "closing a file"));
    }
    Say("parked");
  }

  void Stop() {
    rm::NvU8 immediate = 1;
    Control(queue_.channel(), rm::NVA06F_CTRL_CMD_STOP_CHANNEL, immediate);
    Say("stopped");
  }

  // Which word of memory the GPU sets to 0, by a kernel that accesses it at its end.
  unsigned Memory() {
    const rmclient::Gpu& gpu = gpus_.at(0);
    rm::VidmemRequest request;
    request.size = kBytes;
    rm::NvHandle memory = 0;
    Check(rmclient::AllocVidmem(client_, gpu, &request, &memory), "allocating");
    const unsigned program = Writer(Must(rmclient::MapForGpu(client_, gpu, memory, kBytes)));
    const auto map = [&] { return Must(rmclient::Mapping::Make(client_, gpu, memory, kBytes)); };
    {
      const rmclient::Mapping first = map();
      std::fill(Words(first), Words(first) + kBytes / sizeof(std::uint32_t), kOnes);
    }
    Once(program);  // nobody has it mapped
    {
      const rmclient::Mapping mapped = map();
      if (Words(mapped)[0] != 0 || Words(mapped)[1] != kOnes) {
        return 1;
      }
      Words(mapped)[0] = kOnes;
      Once(program);  // mapped, and seen at once
      if (Words(mapped)[0] != 0) {
        return 2;
      }
      Words(mapped)[1] = 1;
      Words(mapped)[0] = kOnes;
      Once(program);
    }  // what both wrote is there when the mapping has gone
    const rmclient::Mapping one = map();
    const rmclient::Mapping two = map();
    if (Words(one)[0] != 0 || Words(one)[1] != 1 || Words(two)[0] != 0) {
      return 3;
    }
    Words(one)[0] = kOnes;
    Words(two)[0] = kOnes;
    Once(program);
    if (Words(one)[0] != 0 || Words(two)[0] != 0) {
      return 4;
    }
    return OwnPages() ? 0 : 5;
  }

  // Samples of 580: 16 bytes, then 72 of a time and six engines of 128 bytes, the second of which
  // is graphics: its use, and as the third word the process.
  void Samples() {
    constexpr std::size_t kSamples = 72;
    struct Params {
      rm::NvU32 words[55888 / sizeof(rm::NvU32)];
    };
    const auto params = std::make_unique<Params>();
    Control(gpus_.at(0).subdevice, rm::NV2080_CTRL_CMD_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2,
            *params);
    const std::size_t sample = (sizeof(Params) - 16) / kSamples / sizeof(rm::NvU32);
    for (std::size_t i = 0; i < params->words[2]; ++i) {
      const rm::NvU32* const graphics = &params->words[4 + i * sample + 2 + 32];
      Say("sample " + std::to_string(graphics[2]) + " " + std::to_string(graphics[0]));
    }
    Say("all");
  }

 private:
  static constexpr std::size_t kBytes = 0x200000;
  static constexpr std::uint32_t kOnes = 0xFFFFFFFF;

  static volatile std::uint32_t* Words(const rmclient::Mapping& mapping) {
    return reinterpret_cast<volatile std::uint32_t*>(mapping.data());
  }
  static void Check(const rmclient::Outcome& outcome, const char* what) {
    if (!outcome.ok()) {
      Die(rmclient::CallError(outcome, what));
    }
  }
  unsigned Writer(std::uint64_t address) {
    sim::engine::TimedKernel kernel;
    kernel.flags = sim::engine::TimedKernel::kAccesses;
    kernel.duration_ns = 1000;
    kernel.address = address;
    return Must(queue_.AddProgram(std::as_bytes(std::span(&kernel, 1))));
  }
  void Once(unsigned program) {
    const auto launch = queue_.Launch(program);
    if (!launch || !queue_.Wait(*launch, kTimeout)) {
      Die(Error{Code::kInternal, 0, "a kernel does not end", ""});
    }
  }
  // Pages of this process that it lends to the GPU.
  bool OwnPages() {
    void* const pages =
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    auto* const words = static_cast<volatile std::uint32_t*>(pages);
    words[0] = kOnes;
    words[1] = kOnes;
    rm::nv_ioctl_nvos02_parameters_with_fd lend{};
    lend.params.hRoot = client_.handle();
    lend.params.hObjectParent = gpus_.at(0).device;
    lend.params.hObjectNew = client_.NewHandle();
    lend.params.hClass = rm::NV01_MEMORY_SYSTEM_OS_DESCRIPTOR;
    lend.params.flags = 1U << 30 | 1U << 12;  // NVOS02_FLAGS: no map, cached
    lend.params.pMemory = reinterpret_cast<rm::NvP64>(pages);
    lend.params.limit = kBytes - 1;
    lend.fd = -1;
    const int error =
        rmclient::Escape(gpus_.at(0).file.get(), rm::NV_ESC_RM_ALLOC_MEMORY, &lend, sizeof(lend));
    Check({error, lend.params.status}, "lending pages");
    Once(Writer(Must(rmclient::MapForGpu(client_, gpus_.at(0), lend.params.hObjectNew, kBytes))));
    return words[0] == 0 && words[1] == kOnes;
  }
  // Asks for what it may not have done, whatever is answered.
  void Order() {
    const auto ask = [this](rm::NvHandle object, rm::NvU32 command, auto params) {
      (void)client_.Control(object, command, &params, sizeof(params));
    };
    const rmclient::Gpu& gpu = gpus_.at(0);
    ask(queue_.group(), rm::NVA06C_CTRL_CMD_SET_TIMESLICE,
        rm::NVA06C_CTRL_TIMESLICE_PARAMS{1'000'000});
    ask(queue_.group(), rm::NVA06C_CTRL_CMD_PREEMPT,
        rm::NVA06C_CTRL_PREEMPT_PARAMS{1, 1, 1'000'000});
    rm::NVOS30_PARAMETERS idle{};
    idle.hClient = client_.handle();
    idle.hDevice = gpu.device;
    idle.hChannel = queue_.channel();
    idle.timeout = 1'000'000;
    (void)rmclient::Escape(client_.fd(), rm::NV_ESC_RM_IDLE_CHANNELS, &idle, sizeof(idle));
    rm::NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS on{};
    on.numChannels = 1;
    on.hClientList[0] = client_.handle();
    on.hChannelList[0] = queue_.channel();
    ask(gpu.subdevice, rm::NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS, on);
  }
  void Failed() { Say(queue_.Fault() == 0 ? "late" : "failed " + std::to_string(queue_.Fault())); }
  template <class T>
  void Control(rm::NvHandle object, rm::NvU32 command, T& params) {
    const rmclient::Outcome outcome = client_.Control(object, command, &params, sizeof(params));
    if (!outcome.ok()) {
      Die(rmclient::CallError(outcome, "a control"));
    }
  }

  rmclient::Client client_;
  UniqueFd parked_;  // the end at which the message is
  std::vector<rmclient::Gpu> gpus_;
  sim::cuda::WorkQueue queue_;
  unsigned program_;
};

// Some milliseconds apart, so that they come at all times of a period.
void Fork(std::uint64_t count, const sim::engine::TimedKernel& kernel) {
  constexpr useconds_t kApartUs = 7'000;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (fork() == 0) {
      (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
      Tenant tenant(kernel);
      Say("child");
      tenant.FeedForEver();
    }
    (void)usleep(kApartUs);
  }
  Say("forked " + std::to_string(count));
}

void Serve(Tenant& tenant, const sim::engine::TimedKernel& kernel) {
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string verb;
    std::string word;
    words >> verb >> word;
    const std::uint64_t value = std::strtoull(word.c_str(), nullptr, 10);
    if (verb == "run") {
      tenant.Run(value);
    } else if (verb == "feed") {
      tenant.Feed();
    } else if (verb == "slice") {
      tenant.Slice(value);
    } else if (verb == "level") {
      tenant.Level(static_cast<rm::NvU32>(value));
    } else if (verb == "disable") {
      tenant.Disable(value != 0);
    } else if (verb == "interleave") {
      tenant.Interleave(static_cast<rm::NvU32>(value));
    } else if (verb == "hammer") {
      tenant.Hammer(word);
    } else if (verb == "park") {
      tenant.Park();
    } else if (verb == "fork") {
      Fork(value, kernel);
    } else if (verb == "preempt") {
      tenant.Preempt();
    } else if (verb == "memory") {
      Say("memory " + std::to_string(tenant.Memory()));
    } else if (verb == "samples") {
      tenant.Samples();
    } else if (verb == "stop") {
      tenant.Stop();
    }
  }
}

int Main(int argc, char** argv) {
  sim::engine::TimedKernel kernel;
  kernel.duration_ns = argc < 2 ? 0 : std::strtoull(argv[1], nullptr, 10) * 1000;
  for (int i = 2; i < argc; ++i) {
    kernel.flags |= std::strcmp(argv[i], "--not-preemptible") == 0
                        ? sim::engine::TimedKernel::kNotPreemptible
                    : std::strcmp(argv[i], "--traps") == 0    ? sim::engine::TimedKernel::kTraps
                    : std::strcmp(argv[i], "--accesses") == 0 ? sim::engine::TimedKernel::kAccesses
                                                              : 0;
  }
  std::setvbuf(stdin, nullptr, _IONBF, 0);
  Tenant tenant(kernel);
  Say("ready");
  Serve(tenant, kernel);
  return 0;
}

}  // namespace
}  // namespace cgpu

int main(int argc, char** argv) {
  return cgpu::Main(argc, argv);
}
