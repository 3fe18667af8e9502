#include "rm/nv_status.h"

namespace cgpu::rm {

const char* StatusName(NvStatus status) {
  switch (status) {
#define CGPU_STATUS(name, number) \
  case name:                      \
    return #name;
#include "rm/nv_status.inc"
#undef CGPU_STATUS
    default:
      return nullptr;
  }
}

}  // namespace cgpu::rm
