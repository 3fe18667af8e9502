#include "boundary/names.h"

#include <cstdio>

#include "rm/class_table.h"
#include "rm/control_table.h"
#include "rm/escape_table.h"
#include "rm/uvm_table.h"

namespace cgpu::boundary {
namespace {

template <class Row>
std::string NameOr(const Row* row, const char* what, std::uint32_t number) {
  return row != nullptr ? std::string(row->name) : Hex(what, number);
}

}  // namespace

std::string Hex(const char* what, std::uint32_t value) {
  char text[64];
  (void)std::snprintf(text, sizeof(text), "%s-0x%x", what, value);
  return text;
}

std::string EscapeName(std::uint32_t nr) {
  return NameOr(rm::FindEscape(static_cast<std::uint8_t>(nr)), "escape", nr);
}

std::string ControlName(std::uint32_t command) {
  return NameOr(rm::FindControl(command), "control", command);
}

std::string ClassName(std::uint32_t cls) {
  return NameOr(rm::FindClass(cls), "class", cls);
}

std::string UvmName(std::uint32_t request) {
  return NameOr(rm::FindUvm(request), "uvm", request);
}

}  // namespace cgpu::boundary
