// Which object a class makes, below which parents, and who may allocate it.
//
// From NVIDIA/open-gpu-kernel-modules 550.163.01 src/nvidia/src/kernel/rmapi/resource_list.h. The
// sizes of the parameters are in src/rm/class_table.h; parameters without a row there are not
// looked at.
#ifndef CGPU_SIM_MODEL_CLASS_RULES_H_
#define CGPU_SIM_MODEL_CLASS_RULES_H_

#include "rm/nv_types.h"
#include "sim/model/object.h"

namespace cgpu::sim {

enum class ClassAccess {
  kAny,
  kAdmin,   // RS_FLAGS_ALLOC_PRIVILEGED: CAP_SYS_ADMIN
  kKernel,  // RS_FLAGS_ALLOC_KERNEL_PRIVILEGED: no process at all
};

struct ClassRule {
  rm::NvU32 cls;
  ObjectKind kind;
  unsigned parents;  // bit per ObjectKind; kAnyParent
  ClassAccess access;
  bool modelled;  // false: the driver has it, the simulation answers NOT_SUPPORTED
};

inline constexpr unsigned kAnyParent = ~0U;
constexpr unsigned ParentBit(ObjectKind kind) {
  return 1U << static_cast<unsigned>(kind);
}

// Returns nullptr for a class that the driver does not have.
[[nodiscard]] const ClassRule* FindClassRule(rm::NvU32 cls);

}  // namespace cgpu::sim

#endif  // CGPU_SIM_MODEL_CLASS_RULES_H_
