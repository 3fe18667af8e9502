#include "boundary/names.h"

#include <cstdio>

#include "rm/class_table.h"
#include "rm/control_table.h"
#include "rm/escape_table.h"
#include "rm/nv_escape.h"
#include "rm/nv_status.h"

namespace cgpu::boundary {

std::uint32_t NoSuchClient(std::uint32_t nr) {
  switch (nr) {
    case rm::NV_ESC_RM_ALLOC:
    case rm::NV_ESC_RM_DUP_OBJECT:
    case rm::NV_ESC_RM_SHARE:
    case rm::NV_ESC_RM_FREE:
    case rm::NV_ESC_RM_MAP_MEMORY:
    case rm::NV_ESC_RM_UNMAP_MEMORY:
    case rm::NV_ESC_RM_VID_HEAP_CONTROL:
      return rm::NV_ERR_INVALID_OBJECT_HANDLE;
    default:
      return rm::NV_ERR_INVALID_CLIENT;
  }
}

std::string Hex(const char* what, std::uint32_t value) {
  char text[64];
  (void)std::snprintf(text, sizeof(text), "%s 0x%x", what, value);
  return text;
}

std::string EscapeName(std::uint32_t nr) {
  const rm::EscapeRow* row = rm::FindEscape(static_cast<std::uint8_t>(nr));
  return row != nullptr ? std::string(row->name) : Hex("escape", nr);
}

std::string ControlName(std::uint32_t command) {
  const rm::ControlRow* row = rm::FindControl(command);
  return row != nullptr ? std::string(row->name) : Hex("control", command);
}

std::string ClassName(std::uint32_t cls) {
  const rm::ClassRow* row = rm::FindClass(cls);
  return row != nullptr ? std::string(row->name) : Hex("class", cls);
}

}  // namespace cgpu::boundary
