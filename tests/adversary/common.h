// Parts of every attack: raw calls into the driver, without any library in between, and a way to
// talk with the test that runs it.
//
// An attack is a program that a tenant might run. It prints one fact per line on stdout; the last
// one before it holds still is "holding", and it holds until its stdin is closed, so that the test
// can read the driver's accounting meanwhile. What an attack believes to have got proves nothing:
// the accounting does.
#ifndef CGPU_TESTS_ADVERSARY_COMMON_H_
#define CGPU_TESTS_ADVERSARY_COMMON_H_

#include <sys/mman.h>

#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <new>
#include <string>
#include <vector>

#include "rm/abi.h"
#include "rm/nv_alloc.h"
#include "rm/nv_classes.h"
#include "rm/nv_escape.h"
#include "rm/nv_status.h"
#include "rm/nv_structs.h"

namespace cgpu::adversary {

inline constexpr rm::Branch kBranch = rm::Branch::k550;  // of the tests' nodes
inline constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

// Prints one line and flushes. Async-signal-safe enough for the children of threads: one write().
void Say(const char* format, ...) __attribute__((format(printf, 1, 2)));
// Ends the attack: something that has nothing to do with the boundary failed.
[[noreturn]] void Die(const char* format, ...) __attribute__((format(printf, 1, 2)));
// Says "holding" and waits until stdin is closed.
void Hold();
// Reads one line of stdin; false at its end.
bool Line(std::string* line);
// Argument `index` as a number, or `otherwise`.
std::uint64_t Number(const std::vector<std::string>& args, std::size_t index,
                     std::uint64_t otherwise);

// One that the children of this process have, too.
template <class T>
T* Shared() {
  void* const place =
      mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return new (place) T();
}

// ioctl(2) with all 64 bits of each argument as given. Returns 0 or the errno.
int RawIoctl(int fd, std::uint64_t request, const void* argument);

// How to issue an escape. The attacks vary this.
using Issue = std::function<int(int fd, std::uint8_t nr, void* params, std::uint32_t size)>;
// As the vendor's libraries do.
int Plainly(int fd, std::uint8_t nr, void* params, std::uint32_t size);
// Wrapped in NV_ESC_IOCTL_XFER_CMD.
int Wrapped(int fd, std::uint8_t nr, void* params, std::uint32_t size);

// Returns whether an escape of this size passes in containers without a slice, too, where other
// devices have such numbers and it does nothing to what RM keeps: a list of GPUs without room, one
// GPU held open, a register read, what administrators may do alone.
bool PassesInOthers(std::uint32_t nr, std::uint32_t size);

int OpenControl();
// The first GPU that exists, or `minor`. -1 if there is none.
int OpenGpu(int minor = -1);

// The in-band status of an allocation where ioctl itself failed: no driver knows it.
inline constexpr std::uint32_t kNoAnswer = 0xffffffff;

// A client with one device and subdevice, made by raw calls.
struct Client {
  int ctl = -1;
  int gpu = -1;
  std::uint32_t root = 0;
  std::uint32_t next = 0xcaf10000;
  Issue issue = Plainly;
  std::uint32_t used_device = kDevice;  // what memory is made below, copied to, exported from
  static constexpr std::uint32_t kDevice = 0xcaf00001;
  static constexpr std::uint32_t kSubdevice = 0xcaf00002;

  // Returns the driver's status.
  std::uint32_t Alloc(std::uint32_t parent, std::uint32_t handle, std::uint32_t cls, void* params,
                      std::uint32_t size = 0) const;
  std::uint32_t AllocDevice(std::uint32_t device_instance = 0) const;
  // GPU memory of `mib` MiB under a new handle.
  std::uint32_t AllocMemory(std::uint64_t mib, std::uint32_t* handle = nullptr);
  // A view of the first `bytes` through BAR1. It stays when the file it is made for is closed.
  std::uint32_t Map(std::uint32_t memory, std::uint64_t bytes,
                    std::uint64_t* address = nullptr) const;
  std::uint32_t Free(std::uint32_t handle) const;
  // The same by VID_HEAP_CONTROL. `flags`: NVOS32_FREE_FLAGS_MEMORY_HANDLE_PROVIDED or none.
  std::uint32_t HeapFree(std::uint32_t parent, std::uint32_t handle, std::uint32_t flags = 1) const;
  std::uint32_t Control(std::uint32_t object, std::uint32_t command, void* params,
                        std::uint32_t size) const;
  // Returns what the GPU has free, by FB_GET_INFO_V2. Dies when the driver refuses.
  std::uint32_t FreeKib() const;
  std::uint32_t Dup(std::uint32_t source_client, std::uint32_t source, std::uint32_t handle) const;
  std::uint32_t Export(std::uint32_t object, int file) const;
  std::uint32_t Import(int file, std::uint32_t handle) const;
};

// Opens the files and makes the client. `quiet`: returns a client with root 0 when refused.
Client MakeRoot(const Issue& issue = Plainly, bool quiet = false);
// With device and subdevice. Dies when the driver refuses.
Client MakeClient(const Issue& issue = Plainly);
rm::NV_MEMORY_ALLOCATION_PARAMS MemoryParams(std::uint64_t bytes);

// Address spaces, channel groups and channels (of a V100) on them, under new handles, which are
// returned whatever the driver's `status`.
std::uint32_t Space(Client& client, std::uint32_t* status);
std::uint32_t Group(Client& client, std::uint32_t space, std::uint32_t* status);
std::uint32_t Channel(Client& client, std::uint32_t parent, std::uint32_t space,
                      std::uint32_t share, std::uint32_t* status);

// Maps 4 KiB of memory in a range of addresses, at that one.
std::uint32_t MapAt(const Client& client, std::uint32_t range, std::uint32_t memory,
                    std::uint64_t address);
// Makes a channel that has its error notifiers in `memory`, frees the memory under it, has the
// driver write there, and frees the channel. Returns whether there was one.
bool WriteToFreed(const Client& client, std::uint32_t memory, std::uint32_t channel);

// Lets `target` copy an object of `owner`'s; that need not be `client`, on whose file it is asked.
std::uint32_t Share(const Client& client, std::uint32_t owner, std::uint32_t object,
                    std::uint32_t target);
// Lets everybody copy an object of one's own.
std::uint32_t ShareWithAll(const Client& client, std::uint32_t object);

// Allocates in steps until refused or `mib` are held; returns the MiB held.
std::uint64_t Grab(Client& client, std::uint64_t mib, std::uint64_t step = 64);

// Sends and receives one descriptor over a stream socket, with one byte of data.
void SendFd(int socket, int fd);
int ReceiveFd(int socket);
// An abstract socket's name is the same in all mount namespaces of one network namespace.
int ListenAt(const std::string& name);
int ConnectTo(const std::string& name);
// Says "listening", sends the descriptor to the first who connects, and says "sent".
void HandOut(const std::string& name, int fd);

using Attack = int (*)(const std::vector<std::string>& args);
struct Entry {
  const char* name;
  Attack run;
  const char* usage;
};
// One table per file.
std::vector<Entry> CallAttacks();
std::vector<Entry> HeavyAttacks();
std::vector<Entry> RaceAttacks();
std::vector<Entry> HandleAttacks();
std::vector<Entry> ReferenceAttacks();
std::vector<Entry> ProcessAttacks();
std::vector<Entry> OutsideAttacks();
std::vector<Entry> FuseAttacks();
std::vector<Entry> ReachAttacks();
std::vector<Entry> ManagedAttacks();
std::vector<Entry> BombAttacks();
std::vector<Entry> PointerAttacks();
std::vector<Entry> PhysicalAttacks();
std::vector<Entry> MappingAttacks();
std::vector<Entry> ExportAttacks();
std::vector<Entry> QueryAttacks();
std::vector<Entry> FirmwareAttacks();
std::vector<Entry> TransferAttacks();
std::vector<Entry> SearchAttacks();
std::vector<Entry> SidecarAttacks();
std::vector<Entry> NumberAttacks();
std::vector<Entry> SpaceAttacks();
std::vector<Entry> EvasionAttacks();
std::vector<Entry> TrickAttacks();
std::vector<Entry> FaultAttacks();
std::vector<Entry> SwapAttacks();
std::vector<Entry> FlipAttacks();
std::vector<Entry> AcrossAttacks();
std::vector<Entry> TableAttacks();
std::vector<Entry> ReuseAttacks();

}  // namespace cgpu::adversary

#endif  // CGPU_TESTS_ADVERSARY_COMMON_H_
