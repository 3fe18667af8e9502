#include "rm/class_table.h"

#include <algorithm>
#include <array>

#include "rm/control_table.h"

namespace cgpu::rm {
namespace {

#define CGPU_CLASS(name, number, source, params, structure, size, listed, access, asked_by) \
  {number, #name, source, params, structure, size, listed, access, asked_by},

constexpr auto kClassRows = std::to_array<ClassRow>({
#include "rm/classes.inc"
});

#undef CGPU_CLASS

constexpr bool kClassRowsAscend = std::ranges::is_sorted(kClassRows, {}, &ClassRow::number);
static_assert(kClassRowsAscend);

}  // namespace

std::span<const ClassRow> ClassRows() {
  return kClassRows;
}

const ClassRow* FindClass(NvU32 number) {
  const auto* row = std::ranges::lower_bound(kClassRows, number, {}, &ClassRow::number);
  return row != kClassRows.end() && row->number == number ? row : nullptr;
}

bool ClassKnown(const Abi& abi, NvU32 number) {
  const ClassRow* row = FindClass(number);
  return row != nullptr && row->Known(abi.branch);
}

NvU32 ClassParamSize(const Abi& abi, NvU32 number) {
  const ClassRow* row = FindClass(number);
  return row == nullptr ? 0 : row->Size(abi.branch);
}

bool IsChannelClass(NvU32 number) {
  constexpr std::array kClasses = {VOLTA_CHANNEL_GPFIFO_A,     TURING_CHANNEL_GPFIFO_A,
                                   AMPERE_CHANNEL_GPFIFO_A,    HOPPER_CHANNEL_GPFIFO_A,
                                   BLACKWELL_CHANNEL_GPFIFO_A, BLACKWELL_CHANNEL_GPFIFO_B};
  return std::ranges::find(kClasses, number) != kClasses.end();
}

}  // namespace cgpu::rm
