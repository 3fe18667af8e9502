#include "boundary/describe.h"

#include <cstdio>

#include "boundary/names.h"
#include "rm/nv_escape.h"
#include "rm/nv_structs.h"

namespace cgpu::boundary {
namespace {

// Returns what a call selects beside its own number, and the bytes behind it.
std::string Selected(const Call& call) {
  switch (call.nr) {
    case rm::NV_ESC_RM_ALLOC: {
      const Bytes* params = AllocParameters(call);
      return ClassName(call.command) + " " + std::to_string(params == nullptr ? 0 : params->size());
    }
    case rm::NV_ESC_RM_CONTROL:
      return ControlName(call.command) + " " +
             std::to_string(Load<rm::NVOS54_PARAMETERS>(call.image).paramsSize);
    case rm::NV_ESC_RM_VID_HEAP_CONTROL:
      return Hex("function", call.command) + " " + std::to_string(call.image.size());
    default:
      return std::to_string(call.image.size());
  }
}

}  // namespace

std::string Describe(const Call& call) {
  if (call.uvm_request != 0) {
    return UvmName(call.uvm_request) + " " + std::to_string(call.image.size());
  }
  return EscapeName(call.nr) + " " + Selected(call);
}

std::string DescribeStatus(const Call& call) {
  const auto status = StatusOf(call);
  char text[16] = "-";
  if (status) {
    (void)std::snprintf(text, sizeof(text), "0x%x", *status);
  }
  return text;
}

}  // namespace cgpu::boundary
