// Attacks with memory whose pages come when the tenant likes: whoever reads or writes a call's
// parameters there waits, or fails, and finds something else each time.
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <new>
#include <thread>
#include <vector>

#include "common.h"
#include "fuse.h"
#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"

namespace cgpu::adversary {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kModest = 1;       // MiB
constexpr std::uint64_t kImmodest = 2048;  // MiB

// --- Pages of a file whose server is the tenant's

// State that the server shares with those that use its file.
struct Desk {
  std::atomic<std::uint64_t> reads{0};    // that were asked for
  std::atomic<std::uint64_t> waiting{0};  // of them, not answered
  std::atomic<bool> hold{false};          // reads are not answered
  // A close by processes that the tenant does not see is not answered. It sees them as 0.
  std::atomic<bool> hang_others{false};
};

struct Pages {
  int file = -1;
  int wake = -1;
  pid_t server = -1;
  Desk* desk = nullptr;

  void Release() const {
    desk->hold = false;
    (void)eventfd_write(wake, 1);
  }
};

// Modest parameters and immodest ones by turns.
void AnswerRead(int dev, std::uint64_t unique, std::uint64_t turn) {
  std::vector<char> page(kPage);
  const auto params = MemoryParams((turn % 2 == 0 ? kModest : kImmodest) * kMiB);
  std::memcpy(page.data(), &params, sizeof(params));
  Reply(dev, unique, page.data(), page.size());
}

void AnswerAny(int dev, const fuse_in_header& in, const char* body, Desk& desk,
               std::vector<std::uint64_t>& waiting) {
  if (in.opcode == FUSE_READ && desk.hold) {
    waiting.push_back(in.unique);
    desk.waiting = waiting.size();
    ++desk.reads;
  } else if (in.opcode == FUSE_READ) {
    AnswerRead(dev, in.unique, desk.reads++);
  } else if (in.opcode != FUSE_FLUSH) {
    Answer(dev, in, body);
  } else if (in.pid != 0 || !desk.hang_others) {
    Reply(dev, in.unique, nullptr, 0);
  }
}

[[noreturn]] void ServePages(int dev, int wake, Desk& desk) {
  std::vector<char> buffer(64 * 1024);
  std::vector<std::uint64_t> waiting;
  while (true) {
    pollfd polled[] = {{dev, POLLIN, 0}, {wake, POLLIN, 0}};
    (void)poll(polled, 2, -1);
    if (polled[1].revents != 0) {
      eventfd_t count = 0;
      (void)eventfd_read(wake, &count);
      for (const std::uint64_t unique : waiting) {
        AnswerRead(dev, unique, 0);
      }
      waiting.clear();
      desk.waiting = 0;
    }
    if (polled[0].revents == 0) {
      continue;
    }
    const ssize_t size = read(dev, buffer.data(), buffer.size());
    if (size < 0 && errno == ENODEV) {
      _exit(0);
    }
    if (size >= static_cast<ssize_t>(sizeof(fuse_in_header))) {
      fuse_in_header in{};
      std::memcpy(&in, buffer.data(), sizeof(in));
      AnswerAny(dev, in, buffer.data() + sizeof(in), desk, waiting);
    }
  }
}

Pages OpenPages() {
  const auto [dev, name] = MountFuse(/*all_ids=*/true);
  Pages pages;
  pages.desk = Shared<Desk>();
  pages.wake = eventfd(0, EFD_CLOEXEC);
  pages.server = fork();
  if (pages.server == 0) {
    ServePages(dev, pages.wake, *pages.desk);
  }
  close(dev);
  pages.file = open(name.c_str(), O_RDWR | O_CLOEXEC);
  if (pages.file < 0) {
    Die("failed: cannot open the file: %s", std::strerror(errno));
  }
  (void)posix_fadvise(pages.file, 0, 0, POSIX_FADV_RANDOM);  // a page at a time
  return pages;
}

std::byte* MapPage(const Pages& pages, std::uint64_t index, void* at = nullptr) {
  void* const page =
      mmap(at, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | (at == nullptr ? 0 : MAP_FIXED),
           pages.file, static_cast<off_t>(index * kPage));
  if (page == MAP_FAILED) {
    Die("failed: no page: %s", std::strerror(errno));
  }
  return static_cast<std::byte*>(page);
}

std::uint32_t AllocFrom(Client& client, void* params) {
  return client.Alloc(Client::kDevice, client.next++, rm::NV01_MEMORY_LOCAL_USER, params,
                      sizeof(rm::NV_MEMORY_ALLOCATION_PARAMS));
}

// page-flip ROUNDS WANTED: parameters on a page that is other each time it is asked for, and is
// dropped without pause. Ends early when as many MiB were given.
int PageFlip(const std::vector<std::string>& args) {
  const std::uint64_t rounds = Number(args, 0, 300);
  const std::uint64_t wanted = Number(args, 1, 1 << 20);
  Client client = MakeClient();
  const Pages pages = OpenPages();
  std::byte* const page = MapPage(pages, 0);
  std::atomic<bool> over{false};
  const auto drop = [&] {
    (void)madvise(page, kPage, MADV_DONTNEED);
    (void)posix_fadvise(pages.file, 0, 0, POSIX_FADV_DONTNEED);
  };
  std::thread dropper([&] {
    while (!over.load(std::memory_order_relaxed)) {
      drop();
    }
  });
  std::uint64_t done = 0;
  std::uint64_t refused = 0;
  std::uint64_t turns = 0;
  // Nobody says what was decided on: whoever copies twice may write back what he did not.
  for (; turns < rounds && (done + refused) * kModest < wanted; ++turns) {
    drop();
    (AllocFrom(client, page) == rm::NV_OK ? done : refused) += 1;
  }
  over = true;
  dropper.join();
  Say("rounds %llu done %llu refused %llu reads %llu", static_cast<unsigned long long>(turns),
      static_cast<unsigned long long>(done), static_cast<unsigned long long>(refused),
      static_cast<unsigned long long>(pages.desk->reads.load()));
  Hold();
  kill(pages.server, SIGKILL);
  return 0;
}

// Another process of the container, which takes some memory when it is sent a signal.
pid_t Meanwhile(Client& client) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGUSR1);
  (void)sigprocmask(SIG_BLOCK, &signals, nullptr);
  const pid_t child = fork();
  if (child == 0) {
    int signal = 0;
    (void)sigwait(&signals, &signal);
    Say("meanwhile %llu MiB", static_cast<unsigned long long>(Grab(client, 64)));
    _exit(0);
  }
  return child;
}

// page-wait CALLS: as many calls whose parameters do not come until the test says so.
int PageWait(const std::vector<std::string>& args) {
  const std::uint64_t calls = Number(args, 0, 40);
  Client client = MakeClient();
  Client other = MakeClient();
  const Pages pages = OpenPages();
  pages.desk->hold = true;
  // All of them now: whoever waits for one keeps the others from being mapped.
  std::vector<std::byte*> places;
  for (std::uint64_t i = 0; i < calls; ++i) {
    places.push_back(MapPage(pages, i));
  }
  std::atomic<std::uint64_t> done{0};
  std::vector<std::thread> threads;
  std::atomic<bool> go{false};
  threads.reserve(calls);
  for (std::uint64_t i = 0; i < calls; ++i) {
    threads.emplace_back([&, i] {
      Client mine = client;
      mine.next = 0xce000000 + static_cast<std::uint32_t>(i);
      while (!go) {
        sched_yield();
      }
      done += AllocFrom(mine, places[i]) == rm::NV_OK ? 1 : 0;
    });
  }
  const pid_t sibling = Meanwhile(other);
  go = true;
  while (pages.desk->waiting < calls) {
    sched_yield();
  }
  Say("waiting %llu", static_cast<unsigned long long>(calls));
  std::string line;
  (void)Line(&line);
  (void)kill(sibling, SIGUSR1);
  (void)Line(&line);
  pages.Release();
  for (std::thread& thread : threads) {
    thread.join();
  }
  Say("back %llu", static_cast<unsigned long long>(done.load()));
  Hold();
  kill(pages.server, SIGKILL);
  return 0;
}

// page-late: a call that the test makes the driver hold; meanwhile the page of its parameters is
// replaced by one that does not come.
int PageLate(const std::vector<std::string>& /*args*/) {
  Client client = MakeClient();
  Client other = MakeClient();
  const Pages pages = OpenPages();
  void* const page =
      mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  new (page) rm::NV_MEMORY_ALLOCATION_PARAMS(MemoryParams(64 * kMiB));
  const pid_t sibling = Meanwhile(other);
  Say("ready");
  std::string line;
  (void)Line(&line);
  std::uint32_t status = kNoAnswer;
  std::thread caller([&] { status = AllocFrom(client, page); });
  (void)Line(&line);  // the driver has it
  pages.desk->hold = true;
  MapPage(pages, 0, page);
  Say("replaced");
  while (pages.desk->waiting == 0) {
    sched_yield();
  }
  Say("waiting");
  (void)Line(&line);
  (void)kill(sibling, SIGUSR1);
  (void)Line(&line);
  pages.Release();
  caller.join();
  Say("back 0x%x", status);
  Hold();
  kill(pages.server, SIGKILL);
  return 0;
}

// swap-hang: a file whose close by others is never answered, in the place of a GPU's and back
// without pause, while calls are made on that number. Until somebody ends it.
int SwapHang(const std::vector<std::string>& /*args*/) {
  Client client = MakeClient();
  (void)Grab(client, 64);
  const Pages pages = OpenPages();
  pages.desk->hang_others = true;
  const int number = fcntl(client.ctl, F_DUPFD_CLOEXEC, 0);
  Say("swapping");
  std::thread([&] {
    while (true) {
      (void)!dup2(pages.file, number);
      (void)!dup2(client.ctl, number);
    }
  }).detach();
  while (true) {
    rm::NV0000_CTRL_GPU_GET_ATTACHED_IDS_PARAMS ids{};
    Client mine = client;
    mine.ctl = number;
    (void)mine.Control(mine.root, rm::NV0000_CTRL_CMD_GPU_GET_ATTACHED_IDS, &ids, sizeof(ids));
  }
}

// --- Pages by userfaultfd

// By the system call, or by a device file.
int UserFault(const std::string& way) {
  const int flags = O_CLOEXEC | (way == "user" ? UFFD_USER_MODE_ONLY : 0);
  if (way == "user" || way == "plain") {
    return static_cast<int>(syscall(SYS_userfaultfd, flags));
  }
  const int device = open(way.c_str(), O_RDWR | O_CLOEXEC);
  return device < 0 ? device : ioctl(device, USERFAULTFD_IOC_NEW, flags);
}

void Register(int faults, void* page) {
  uffdio_api api{};
  api.api = UFFD_API;
  uffdio_register range{};
  range.range = {std::bit_cast<std::uint64_t>(page), kPage};
  range.mode = UFFDIO_REGISTER_MODE_MISSING;
  if (ioctl(faults, UFFDIO_API, &api) != 0 || ioctl(faults, UFFDIO_REGISTER, &range) != 0) {
    Die("failed: no userfaultfd: %s", std::strerror(errno));
  }
}

// Fills the page with what `next` says each time that it is missed.
template <class Next>
[[noreturn]] void Fill(int faults, void* page, const Next& next) {
  alignas(kPage) static std::byte content[kPage];
  while (true) {
    uffd_msg message{};
    if (read(faults, &message, sizeof(message)) != sizeof(message)) {
      continue;
    }
    next(content);
    uffdio_copy copy{};
    copy.dst = std::bit_cast<std::uint64_t>(page);
    copy.src = std::bit_cast<std::uint64_t>(&content);
    copy.len = kPage;
    (void)ioctl(faults, UFFDIO_COPY, &copy);
  }
}

// uffd plain|user|FILE ROUNDS: the call itself lies on such a page, and names modest parameters and
// immodest ones by turns.
int UserFaults(const std::vector<std::string>& args) {
  const std::uint64_t rounds = Number(args, 1, 20);
  Client client = MakeClient();
  const int faults = UserFault(args.at(0));
  if (faults < 0) {
    Say("refused %s", std::strerror(errno));
    Hold();
    return 0;
  }
  auto* const page = static_cast<rm::NVOS21_PARAMETERS*>(
      mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  Register(faults, page);
  static rm::NV_MEMORY_ALLOCATION_PARAMS params[2];
  static std::atomic<std::uint64_t> filled{0};
  std::thread([&client, faults, page] {
    Fill(faults, page, [&client](std::byte* content) {
      rm::NVOS21_PARAMETERS alloc{};
      alloc.hRoot = client.root;
      alloc.hObjectParent = Client::kDevice;
      alloc.hObjectNew = client.next + static_cast<std::uint32_t>(filled);
      alloc.hClass = rm::NV01_MEMORY_LOCAL_USER;
      alloc.pAllocParms = std::bit_cast<std::uint64_t>(&params[filled % 2]);
      std::memcpy(content, &alloc, sizeof(alloc));
      ++filled;
    });
  }).detach();
  std::uint64_t fault = 0;
  for (std::uint64_t i = 0; i < rounds; ++i) {
    params[0] = MemoryParams(kModest * kMiB);
    params[1] = MemoryParams(kImmodest * kMiB);
    (void)madvise(page, kPage, MADV_DONTNEED);
    fault += Plainly(client.ctl, rm::NV_ESC_RM_ALLOC, page, sizeof(*page)) == EFAULT ? 1 : 0;
  }
  Say("faults %llu of %llu filled %llu", static_cast<unsigned long long>(fault),
      static_cast<unsigned long long>(rounds), static_cast<unsigned long long>(filled.load()));
  client.next += 0x1000;
  Say("afterwards %llu MiB", static_cast<unsigned long long>(Grab(client, 64)));
  Hold();
  return 0;
}

}  // namespace

std::vector<Entry> FaultAttacks() {
  return {{"page-flip", PageFlip, "[ROUNDS [MIB]]: parameters that are other at each reading"},
          {"page-wait", PageWait, "[CALLS]: parameters that do not come"},
          {"page-late", PageLate, ": results that find no page"},
          {"swap-hang", SwapHang, ": files whose close by others is never answered"},
          {"uffd", UserFaults, "plain|user|FILE [ROUNDS]: a call on a page by userfaultfd"}};
}

}  // namespace cgpu::adversary
