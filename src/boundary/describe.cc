#include "boundary/describe.h"

#include <cstdio>

#include "boundary/boundary.h"
#include "rm/class_table.h"
#include "rm/control_table.h"
#include "rm/escape_table.h"
#include "rm/nv_escape.h"
#include "rm/nv_structs.h"
#include "rm/uvm_table.h"

namespace cgpu::boundary {
namespace {

std::string Hex(std::uint32_t value) {
  char text[16];
  (void)std::snprintf(text, sizeof(text), "0x%x", value);
  return text;
}

template <class Row>
std::string NameOr(const Row* row, std::uint32_t number) {
  return row != nullptr ? std::string(row->name) : Hex(number);
}

// What a call selects beside its own number, with the bytes behind it.
std::string Selected(const Call& call) {
  switch (call.nr) {
    case rm::NV_ESC_RM_ALLOC: {
      const Bytes* params = AllocParameters(call);
      return NameOr(rm::FindClass(call.command), call.command) + " " +
             std::to_string(params == nullptr ? 0 : params->size());
    }
    case rm::NV_ESC_RM_CONTROL:
      return NameOr(rm::FindControl(call.command), call.command) + " " +
             std::to_string(Load<rm::NVOS54_PARAMETERS>(call.image).paramsSize);
    case rm::NV_ESC_RM_VID_HEAP_CONTROL:
      return "function-" + std::to_string(call.command) + " " + std::to_string(call.image.size());
    default:
      return std::to_string(call.image.size());
  }
}

}  // namespace

std::string Describe(const Call& call) {
  if (call.uvm_request != 0) {
    return NameOr(rm::FindUvm(call.uvm_request), call.uvm_request) + " " +
           std::to_string(call.image.size());
  }
  return NameOr(rm::FindEscape(static_cast<rm::NvU8>(call.nr)), call.nr) + " " + Selected(call);
}

std::string DescribeStatus(const Call& call) {
  const auto status = StatusOf(call);
  return status ? Hex(*status) : "-";
}

}  // namespace cgpu::boundary
