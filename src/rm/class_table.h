// The RM classes this project knows: one row per class. A class that is not here is unknown and
// gets NV_ERR_INVALID_CLASS from whoever decides.
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

struct ClassRow {
  NvU32 number;
  std::string_view name;
  std::string_view source;  // file that defines the parameters, under src/common/sdk/nvidia/inc/
  ClassParams params;  // src/nvidia/src/kernel/rmapi/resource_list.h: RS_NONE, RS_OPTIONAL, ...
  // What the driver copies from pAllocParms. It takes no notice of paramsSize
  // (src/nvidia/src/kernel/rmapi/param_copy.c).
  ByBranch size;
  ByBranch listed;  // 1: the open driver's own class list has it

  [[nodiscard]] constexpr NvU32 Size(Branch branch) const { return size.At(branch); }
};

// In ascending order of number.
[[nodiscard]] std::span<const ClassRow> ClassRows();
[[nodiscard]] const ClassRow* FindClass(NvU32 number);
// 0 when the class is unknown or takes no parameters.
[[nodiscard]] NvU32 ClassParamSize(const Abi& abi, NvU32 number);
// The classes whose object is a channel (parent: a channel group or a device).
[[nodiscard]] bool IsChannelClass(NvU32 number);

}  // namespace cgpu::rm

#endif  // CGPU_RM_CLASS_TABLE_H_
