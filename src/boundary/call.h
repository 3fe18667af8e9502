// A tenant's ioctl as the shim holds it: everything that the driver will read, copied once into our
// memory. From then on the tenant cannot change what the shim decides about.
//
// Plain data, no I/O. Addresses are the tenant's, and serve only to copy results back.
#ifndef CGPU_BOUNDARY_CALL_H_
#define CGPU_BOUNDARY_CALL_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "rm/abi.h"
#include "rm/escape_table.h"

namespace cgpu::boundary {

using Bytes = std::vector<std::byte>;

// Load and store a vendor structure at `offset` of a byte string. The string may be shorter where a
// driver branch lacks the structure's tail: then the tail loads as zero and is not stored.
template <class T>
[[nodiscard]] T Load(const Bytes& bytes, std::size_t offset = 0) {
  T value{};
  if (offset < bytes.size()) {
    std::memcpy(&value, bytes.data() + offset, std::min(sizeof(T), bytes.size() - offset));
  }
  return value;
}
template <class T>
void Store(Bytes& bytes, const T& value, std::size_t offset = 0) {
  if (offset < bytes.size()) {
    std::memcpy(bytes.data() + offset, &value, std::min(sizeof(T), bytes.size() - offset));
  }
}

// Reads the tenant's memory. Returns false if any byte cannot be read.
class TenantMemory {
 public:
  virtual ~TenantMemory() = default;
  [[nodiscard]] virtual bool Read(std::uint64_t address, void* into, std::size_t size) = 0;
};

enum class FileKind { kControl, kUvm, kGpu };

// A GPU file as the shim recognised it.
struct File {
  FileKind kind = FileKind::kControl;
  std::uint32_t minor = 0;
  bool granted = false;  // the container may use it
};

// A block of memory that a pointer inside the parameters leads to.
struct Nested {
  std::uint64_t address = 0;  // in the tenant
  Bytes bytes;
  bool copy_out = true;
  bool copy_in = true;  // false: the driver begins with zeros
  std::size_t due = 0;  // bytes that CopyInRest() has yet to copy in
};

// A pointer inside the parameters. While the driver executes the call in the shim, the pointer must
// lead to our copy or be null: the driver would read and write the shim's own memory at a tenant's
// address.
struct Pointer {
  int holder = -1;           // the pointer lies in the image (-1) or in nested[holder] ...
  std::size_t at = 0;        // ... at this offset
  std::uint64_t tenant = 0;  // the tenant's value
  int target = -1;           // nested[target], or -1: null for the driver
};

// The shim's step for the tag of the file behind a descriptor number (shim/export_tags.h), before
// the boundary decides.
enum class TagStep {
  kNone,
  kNew,    // tags the file for an export; the tag goes if the export fails
  kTable,  // tags the file for an export of several objects, and sets up its table
  kFind,   // finds the tag that the file has
};

// A descriptor number inside the parameters.
struct FdArgument {
  int holder = -1;
  std::size_t at = 0;
  std::int32_t number = -1;
  TagStep tag_step = TagStep::kNone;
  // The shim fills in:
  std::optional<File> file;  // empty: not open, or no GPU file of ours
  std::uint64_t tag = 0;     // the ledger's key of the exports to this open file; 0: none
};

// Kinds of trapped calls, for counters. protocol/counters.h has their names, in this order.
enum class CallKind {
  kAlloc,    // makes an object, or takes memory
  kFree,     // gives one back
  kControl,  // RM_CONTROL
  kDup,      // RM_DUP_OBJECT
  kMap,      // maps memory into the caller or for the GPU, or takes a mapping away
  kUvm,      // a request to nvidia-uvm
  kMmap,     // mmap or mremap
  kOther,    // any other, and a call that is answered before it is decoded
};

struct Call {
  std::uint32_t nr = 0;       // the escape number; of an XFER, the wrapped one
  bool wrapped = false;       // in an XFER
  std::uint64_t address = 0;  // of the parameters, in the tenant
  Bytes image;
  std::vector<Nested> nested;
  std::vector<Pointer> pointers;
  std::optional<FdArgument> fd;
  File file;  // the file the call is made on

  // Fields of the typed request, where the escape has them (0 otherwise).
  std::uint32_t client = 0;
  std::uint32_t object = 0;         // the object acted on; for allocations the parent
  std::uint32_t source_client = 0;  // DUP_OBJECT
  std::uint32_t command = 0;        // RM_CONTROL command, RM_ALLOC class, VID_HEAP function

  // The driver's in-band status (rmapi/param_copy.c) when a pointer inside the parameters leads to
  // more than the driver copies, or to memory that cannot be read; then `nested` is incomplete.
  // NV_OK: neither.
  std::uint32_t copy_in = 0;

  // Fields of nvidia-uvm, whose requests are whole numbers: the request (0: this is an RM escape),
  // the offset of its status, and the ledger's key of the open file's address space (0: it has none
  // that we know).
  std::uint32_t uvm_request = 0;
  std::optional<std::size_t> uvm_status;
  std::uint64_t uvm_space = 0;

  // Key of the caller's process, for the ledger.
  std::uint64_t process = 0;

  // Returns true for calls that change what exists: they are ordered per client and never executed
  // twice.
  [[nodiscard]] bool ChangesState() const;
  // Returns true for calls that only give back: they get a thread even when all others are taken.
  [[nodiscard]] bool Releases() const;
  // Returns the kind of a decoded call.
  [[nodiscard]] CallKind Kind() const;
};

// Returns what RM_ALLOC's pAllocParms leads to, in the class's size; null where the tenant gave
// none.
[[nodiscard]] const Bytes* AllocParameters(const Call& call);

// Copies a call out of the tenant. `request` and `address` are the ioctl's arguments. Returns 0 or
// the errno that the driver itself would give (EFAULT; EINVAL: no such command on the call's file,
// or of another size).
[[nodiscard]] int Decode(const rm::Abi& abi, std::uint32_t request, std::uint64_t address,
                         TenantMemory& memory, Call& call);

// Copies a call on nvidia-uvm's file, likewise.
[[nodiscard]] int DecodeUvm(const rm::Abi& abi, std::uint32_t request, std::uint64_t address,
                            TenantMemory& memory, Call& call);

// Decode() copies the parameters only. What parameters lead to may be much larger: a call of a few
// bytes can ask for 3 MiB. CopyInRest() copies that, once the call has its turn. Call it before
// Boundary::Decide(). BytesDue() returns how many bytes it will take, at most kMaxRest.
[[nodiscard]] std::size_t BytesDue(const Call& call);
void CopyInRest(TenantMemory& memory, Call& call);

// Puts room behind each of our copies, for a driver whose release was not compared
// (rm::NotCompared()). Such a driver goes by its own sizes, and may have a structure that is longer
// than the one we know. It then reads zeros there, and its writes there hit nothing else. The
// driver does not compare the size of some structures with the caller's; from one known branch to
// the next, none of these grew by half of the room. Call it before PointInside().
inline constexpr std::size_t kRoomBehind = 16384;
void MakeRoom(Call& call);

// PointInside() makes every pointer lead into our copies (or nowhere) and sets the descriptor
// number to `local_fd`, for execution. PointBack() restores the tenant's values, for copying out.
void PointInside(Call& call, int local_fd);
void PointBack(Call& call);

// Returns the in-band status of a call's image, whatever its escape; nothing for escapes without
// one.
[[nodiscard]] std::optional<std::uint32_t> StatusOf(const Call& call);
void SetStatus(Call& call, std::uint32_t status);

// Limits on what one call may make us copy.
inline constexpr std::size_t kMaxImage = 16 * 1024;          // NV_ABSOLUTE_MAX_IOCTL_SIZE
inline constexpr std::size_t kMaxParameters = 1024 * 1024;   // RMAPI_PARAM_COPY_MAX_PARAMS_SIZE
inline constexpr std::size_t kMaxRest = 3 * kMaxParameters;  // no call has more than three lists

}  // namespace cgpu::boundary

#endif  // CGPU_BOUNDARY_CALL_H_
