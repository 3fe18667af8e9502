// The RM classes: one row per class of the driver's own list in any supported branch. A class that
// is not listed is unknown; cgpu answers it with NV_ERR_INVALID_CLASS. A row does not mean that a
// tenant may allocate the class.
//
// Pure data and look-ups; thread-safe.
#ifndef CGPU_RM_CLASS_TABLE_H_
#define CGPU_RM_CLASS_TABLE_H_

#include <span>
#include <string_view>

#include "rm/abi.h"
#include "rm/nv_classes.h"

namespace cgpu::rm {

enum class ClassParams : NvU8 {
  kNone,      // pAllocParms must be NULL
  kOptional,  // NULL or param size bytes
  kRequired,
};

// The callers that the driver lets allocate it, by the newest branch that lists it:
// RS_FLAGS_ALLOC_NON_PRIVILEGED, RS_FLAGS_ALLOC_PRIVILEGED, RS_FLAGS_ALLOC_KERNEL_PRIVILEGED.
enum class ClassAccess : NvU8 { kAny, kRoot, kKernel };

struct ClassRow {
  NvU32 number;
  std::string_view name;
  std::string_view source;  // file that defines the parameters, under src/common/sdk/nvidia/inc/
  ClassParams params;  // src/nvidia/src/kernel/rmapi/resource_list.h: RS_NONE, RS_OPTIONAL, ...
  std::string_view structure;  // of the parameters; empty: none
  // Bytes that the driver copies from pAllocParms. It ignores paramsSize
  // (src/nvidia/src/kernel/rmapi/param_copy.c).
  ByBranch size;
  ByBranch listed;  // 1: the open driver's own class list has it
  ClassAccess access;
  NvU8 asked_by;  // kAskedBy* of control_table.h, from the same source

  [[nodiscard]] constexpr NvU32 Size(Branch branch) const { return size.At(branch); }
  // Volta's classes count as known although the open driver does not list all of them.
  [[nodiscard]] constexpr bool Known(Branch branch) const {
    return listed.At(branch) != 0 || size.At(branch) != 0;
  }
};

// Returns the rows in ascending order of number.
[[nodiscard]] std::span<const ClassRow> ClassRows();
[[nodiscard]] const ClassRow* FindClass(NvU32 number);
[[nodiscard]] bool ClassKnown(const Abi& abi, NvU32 number);
// Returns 0 when the class is unknown, this branch has no such class, or it takes no parameters.
[[nodiscard]] NvU32 ClassParamSize(const Abi& abi, NvU32 number);
// Returns true for classes whose object is a channel (parent: a channel group or a device).
[[nodiscard]] bool IsChannelClass(NvU32 number);

}  // namespace cgpu::rm

#endif  // CGPU_RM_CLASS_TABLE_H_
