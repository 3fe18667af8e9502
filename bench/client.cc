// The program that benchmarks run inside a slice. Makes a client, a device and a subdevice, says
// "ready", and then, for each line of its input:
//   calls N    issues N memory queries, writes N 32-bit durations in nanoseconds
//   objects N  allocates N objects, writes "done\n"
//   flood N    from N threads, without pause until its next line: memory queries, each thread with
//              a client of its own; writes "going\n" when each has made one, and at the end how
//              many there were, as a line
//   closes N   the same with opening and closing a file of the driver's
//   exits N    the same with processes that make a client and end
//   interrupts N  the same as `flood` with a control that has the driver look after interrupts
//   nocard N   the same with a control that names no GPU
//   descriptors N  the same with closing and opening a GPU's file while as many are open as can be
//   memory N   the same with a control that leads to 3 MiB
//   others N   the same with TCGETS, which is not trapped
//   pace N     issues a query every N milliseconds until its input ends; for each further line
//              writes the longest since the last, in nanoseconds, and how many there were
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "bench/harness.h"
#include "rm/abi.h"
#include "rm/control_table.h"
#include "rm/fb_info.h"
#include "rm/nv_alloc.h"
#include "rm/nv_classes.h"
#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"
#include "rm/nv_escape.h"
#include "rm/nv_status.h"
#include "rm/nv_structs.h"

namespace cgpu {
namespace {

constexpr std::uint32_t kDevice = 0x10;
constexpr std::uint32_t kSubdevice = 0x11;
constexpr std::uint32_t kFirstObject = 0x1000;

[[noreturn]] void Die(const char* what) {
  (void)std::fprintf(stderr, "bench-client: %s failed\n", what);
  std::exit(1);
}

class Client {
 public:
  Client()
      : low_fd_(open("/dev/nvidiactl", O_RDWR | O_CLOEXEC)),
        fd_(fcntl(low_fd_, F_DUPFD_CLOEXEC, bench::kClientFd)) {
    client_ = Alloc(0, 0, rm::NV01_ROOT, nullptr);
    // The driver wants the GPU's file open in the process.
    gpu_fd_ = open("/dev/nvidia0", O_RDWR | O_CLOEXEC);
    rm::NV0080_ALLOC_PARAMETERS device{};
    Alloc(client_, kDevice, rm::NV01_DEVICE_0, &device);
    rm::NV2080_ALLOC_PARAMETERS subdevice{};
    Alloc(kDevice, kSubdevice, rm::NV20_SUBDEVICE_0, &subdevice);
    // The list in these parameters has another length in each of these branches of the driver.
    for (const auto branch :
         {rm::Branch::k550, rm::Branch::k535, rm::Branch::k570, rm::Branch::k580}) {
      query_size_ = rm::ControlSize(rm::GetAbi(branch), rm::NV2080_CTRL_CMD_FB_GET_INFO_V2);
      if (QueryBy(query_size_)) {
        return;
      }
    }
    Die("a query");
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client() {
    close(gpu_fd_);
    close(fd_);
    close(low_fd_);
  }

  std::uint32_t Alloc(std::uint32_t parent, std::uint32_t handle, std::uint32_t cls, void* params) {
    rm::NVOS21_PARAMETERS alloc{};
    alloc.hRoot = client_;
    alloc.hObjectParent = parent;
    alloc.hObjectNew = handle;
    alloc.hClass = cls;
    alloc.pAllocParms = std::bit_cast<std::uint64_t>(params);
    if (ioctl(fd_, _IOWR('F', rm::NV_ESC_RM_ALLOC, rm::NVOS21_PARAMETERS), &alloc) != 0 ||
        alloc.status != rm::NV_OK) {
      Die("an allocation");
    }
    return alloc.hObjectNew;
  }

  void Query() {
    if (!QueryBy(query_size_)) {
      Die("a query");
    }
  }

  void ServiceInterrupts() {
    std::uint32_t engines = 1;  // NV2080_CTRL_MC_ENGINE_ID_GRAPHICS
    Control(kSubdevice, rm::NV2080_CTRL_CMD_MC_SERVICE_INTERRUPTS, &engines, sizeof(engines));
  }

  void AskWithoutGpu() {
    std::uint32_t enabled = 0;
    Control(client_, rm::NV0000_CTRL_CMD_GPU_GET_MEMOP_ENABLE, &enabled, sizeof(enabled));
  }

  void AskForStrings() const {
    static std::vector<char> into(std::size_t{1} << 20);  // the most that the driver copies
    rm::NV0000_CTRL_SYSTEM_GET_BUILD_VERSION_PARAMS params{};
    params.sizeOfStrings = static_cast<std::uint32_t>(into.size());
    params.pDriverVersionBuffer = params.pVersionBuffer = params.pTitleBuffer =
        std::bit_cast<std::uint64_t>(into.data());
    (void)Ask(client_, rm::NV0000_CTRL_CMD_SYSTEM_GET_BUILD_VERSION, &params, sizeof(params));
  }

  void AllocSmall(std::uint32_t handle) {
    rm::NV_MEMORY_ALLOCATION_PARAMS params{};
    params.size = 64 * 1024;
    params.attr = rm::NVOS32_ATTR_PAGE_SIZE.Set(0, rm::NVOS32_ATTR_PAGE_SIZE_BIG);
    Alloc(kDevice, handle, rm::NV01_MEMORY_LOCAL_USER, &params);
  }

 private:
  bool QueryBy(std::uint32_t size) {
    rm::NV2080_CTRL_FB_GET_INFO_V2_PARAMS_V580 info{};
    info.fbInfoListSize = 1;
    info.fbInfoList[0].index = rm::NV2080_CTRL_FB_INFO_INDEX_HEAP_FREE;
    return Ask(kSubdevice, rm::NV2080_CTRL_CMD_FB_GET_INFO_V2, &info, size);
  }

  void Control(std::uint32_t object, std::uint32_t command, void* params, std::uint32_t size) {
    if (!Ask(object, command, params, size)) {
      Die("a control");
    }
  }

  bool Ask(std::uint32_t object, std::uint32_t command, void* params, std::uint32_t size) const {
    rm::NVOS54_PARAMETERS control{};
    control.hClient = client_;
    control.hObject = object;
    control.cmd = command;
    control.params = std::bit_cast<std::uint64_t>(params);
    control.paramsSize = size;
    return ioctl(fd_, _IOWR('F', rm::NV_ESC_RM_CONTROL, rm::NVOS54_PARAMETERS), &control) == 0 &&
           control.status == rm::NV_OK;
  }

  int low_fd_;
  int fd_;
  int gpu_fd_ = -1;
  std::uint32_t client_ = 0;
  std::uint32_t query_size_ = 0;
};

std::uint64_t NowNs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U +
         static_cast<std::uint64_t>(now.tv_nsec);
}

void Write(const void* bytes, std::size_t size) {
  if (write(1, bytes, size) != static_cast<ssize_t>(size)) {
    Die("writing");
  }
}

// Kinds of flood, by the first letter of their words.
class Drop {
 public:
  explicit Drop(char kind) : kind_(kind) {
    if (kind == 'f' || kind == 'i' || kind == 'n') {
      own_.emplace();
    }
    while (kind == 'd' && (files_.empty() || files_.back() >= 0)) {
      files_.push_back(open("/dev/nvidia0", O_RDWR | O_CLOEXEC));
    }
  }
  Drop(const Drop&) = delete;
  Drop& operator=(const Drop&) = delete;
  ~Drop() {
    for (const int file : files_) {
      close(file);
    }
    close(null_);
  }

  void Fall() {
    termios settings{};
    if (kind_ == 'f') {
      own_->Query();
    } else if (kind_ == 'i') {
      own_->ServiceInterrupts();
    } else if (kind_ == 'n') {
      own_->AskWithoutGpu();
    } else if (kind_ == 'm') {
      static const Client all_threads;
      all_threads.AskForStrings();
    } else if (kind_ == 'd') {
      int& file = files_[next_++ % files_.size()];
      close(file);
      file = open("/dev/nvidia0", O_RDWR | O_CLOEXEC);  // fails where another thread was faster
    } else if (kind_ == 'c') {
      close(open("/dev/nvidiactl", O_RDWR | O_CLOEXEC));
    } else if (kind_ == 'e') {
      const pid_t child = fork();
      if (child == 0) {
        const Client client;
        _exit(0);
      }
      (void)waitpid(child, nullptr, 0);
    } else if (ioctl(null_, TCGETS, &settings) == 0) {
      Die("an ioctl of no terminal");
    }
  }

 private:
  const char kind_;
  const int null_ = open("/dev/null", O_RDWR | O_CLOEXEC);
  std::optional<Client> own_;
  std::vector<int> files_;
  std::size_t next_ = 0;
};

// From `count` threads until the next line of input.
void Flood(std::uint32_t count, char kind) {
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> made{0};
  std::atomic<std::uint32_t> going{0};
  std::vector<std::thread> threads;
  threads.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    threads.emplace_back([&] {
      Drop drop(kind);
      std::uint64_t mine = 0;
      for (; !stop.load(std::memory_order_relaxed); ++mine) {
        drop.Fall();
        if (mine == 0 && ++going == count) {
          Write("going\n", 6);
        }
      }
      made += mine;
    });
  }
  char line[64];
  (void)!std::fgets(line, sizeof(line), stdin);
  stop = true;
  for (std::thread& thread : threads) {
    thread.join();
  }
  const std::string said = std::to_string(made.load()) + "\n";
  Write(said.data(), said.size());
}

void Pace(Client& client, std::uint32_t milliseconds) {
  std::uint64_t longest = 0;
  std::uint32_t calls = 0;
  pollfd input{0, POLLIN, 0};
  while (true) {
    const std::uint64_t start = NowNs();
    client.Query();
    longest = std::max(longest, NowNs() - start);
    ++calls;
    if (poll(&input, 1, static_cast<int>(milliseconds)) == 0) {
      continue;
    }
    char line[64];
    if (std::fgets(line, sizeof(line), stdin) == nullptr) {
      return;
    }
    const int size = std::snprintf(line, sizeof(line), "%llu %u\n",
                                   static_cast<unsigned long long>(longest), calls);
    Write(line, static_cast<std::size_t>(size));
    longest = 0;
    calls = 0;
  }
}

int Main() {
  // Pace() polls: no line may wait in a buffer.
  (void)std::setvbuf(stdin, nullptr, _IONBF, 0);
  Client client;
  Write("ready\n", 6);
  char line[64];
  while (std::fgets(line, sizeof(line), stdin) != nullptr) {
    const char* number = std::strchr(line, ' ');
    const std::uint32_t count =
        number != nullptr ? static_cast<std::uint32_t>(std::strtoul(number, nullptr, 10)) : 0;
    const auto floods = {"flood",  "closes",      "exits",  "interrupts",
                         "nocard", "descriptors", "memory", "others"};
    if (std::any_of(floods.begin(), floods.end(), [&](const char* word) {
          return std::strncmp(line, word, std::strlen(word)) == 0;
        })) {
      Flood(count, line[0]);
    } else if (std::strncmp(line, "calls", 5) == 0) {
      std::vector<std::uint32_t> durations(count);
      for (std::uint32_t& duration : durations) {
        const std::uint64_t start = NowNs();
        client.Query();
        duration = static_cast<std::uint32_t>(NowNs() - start);
      }
      const auto* bytes = static_cast<const char*>(static_cast<const void*>(durations.data()));
      for (std::size_t at = 0; at < count * sizeof(std::uint32_t);) {
        const ssize_t n = write(1, bytes + at, count * sizeof(std::uint32_t) - at);
        if (n <= 0) {
          Die("writing");
        }
        at += static_cast<std::size_t>(n);
      }
    } else if (std::strncmp(line, "pace", 4) == 0) {
      Pace(client, count);
    } else {
      for (std::uint32_t i = 0; i < count; ++i) {
        client.AllocSmall(kFirstObject + i);
      }
      Write("done\n", 5);
    }
  }
  return 0;
}

}  // namespace
}  // namespace cgpu

int main() {
  return cgpu::Main();
}
