#include "rm/control_table.h"

#include <algorithm>
#include <array>

namespace cgpu::rm {
namespace {

#define CGPU_CONTROL(name, number, source, params, size, embedded, access, asked_by) \
  {number, #name, source, params, size, size, embedded, access, asked_by, 0},
#define CGPU_CONTROL_NO_PARAMS(name, number, source, known, access, asked_by) \
  {number, #name, source, "", 0, known, false, access, asked_by, 0},
#define CGPU_CONTROL_FIRMWARE(name, number, size, asked_by) \
  {number, #name, "", "", size, 1, false, ControlAccess::kAny, asked_by, kMaxFirmwareBytes},

constexpr auto kControlRows = std::to_array<ControlRow>({
#include "rm/controls/ctrl0000.inc"
#include "rm/controls/ctrl0080.inc"
#include "rm/controls/ctrl2080.inc"
#include "rm/controls/ctrl_firmware.inc"
#include "rm/controls/ctrl_objects.inc"
#include "rm/controls/ctrl_tools.inc"
});

#undef CGPU_CONTROL
#undef CGPU_CONTROL_NO_PARAMS
#undef CGPU_CONTROL_FIRMWARE

// The order begins again where each file begins.
constexpr auto kSorted = [] {
  std::array<const ControlRow*, kControlRows.size()> order{};
  for (std::size_t i = 0; i < kControlRows.size(); ++i) {
    order[i] = &kControlRows[i];
  }
  std::ranges::sort(order, {}, &ControlRow::cmd);
  return order;
}();

constexpr bool kNoneTwice = std::ranges::adjacent_find(kSorted, [](const auto* x, const auto* y) {
                              return x->cmd == y->cmd;
                            }) == kSorted.end();
static_assert(kNoneTwice);

using enum PointerShape;
using enum PointerDirection;
using enum Branch;

// The pointers of a command are adjacent.
constexpr auto kPointers = std::to_array<EmbeddedPointer>({
    {NV0000_CTRL_CMD_SYSTEM_GET_BUILD_VERSION, 8, 0, 1, kList, kOut},   // pDriverVersionBuffer
    {NV0000_CTRL_CMD_SYSTEM_GET_BUILD_VERSION, 16, 0, 1, kList, kOut},  // pVersionBuffer
    {NV0000_CTRL_CMD_SYSTEM_GET_BUILD_VERSION, 24, 0, 1, kList, kOut},  // pTitleBuffer
    {NV0000_CTRL_CMD_SYSTEM_GET_P2P_CAPS, 160, 128, 4, kSquare, kOut},  // busPeerIds
    {NV0000_CTRL_CMD_SYSTEM_GET_P2P_CAPS, 168, 128, 4, kSquare, kOut, k550},  // busEgmPeerIds
    {NV0000_CTRL_CMD_GPU_GET_ID_INFO, 16, 0, 0, kIgnored, kOut},              // szName
    {NV0000_CTRL_CMD_NVD_GET_DUMP, 0, 12, 1, kList, kOut},                    // pBuffer
    {NV0041_CTRL_CMD_GET_SURFACE_INFO, 8, 0, 8, kList, kInOut},               // surfaceInfoList
    {NV0080_CTRL_CMD_GPU_GET_CLASSLIST, 8, 0, 4, kList, kInOut},              // classList
    {NV0080_CTRL_CMD_GR_GET_CAPS, 8, 0, 1, kList, kOut},                      // capsTbl
    {NV0080_CTRL_CMD_GR_GET_INFO, 8, 0, 8, kList, kInOut},                    // grInfoList
    {NV0080_CTRL_CMD_FB_GET_CAPS, 8, 0, 1, kList, kOut},                      // capsTbl
    {NV0080_CTRL_CMD_FIFO_GET_CAPS, 8, 0, 1, kList, kOut},                    // capsTbl
    {NV0080_CTRL_CMD_FIFO_GET_CHANNELLIST, 8, 0, 4, kList, kIn},              // pChannelHandleList
    {NV0080_CTRL_CMD_FIFO_GET_CHANNELLIST, 16, 0, 4, kList, kInOut},          // pChannelList
    {NV0080_CTRL_CMD_HOST_GET_CAPS, 8, 0, 1, kList, kOut},                    // capsTbl
    {NV0080_CTRL_CMD_MSENC_GET_CAPS, 8, 0, 1, kList, kInOut},                 // capsTbl
    {NV2080_CTRL_CMD_GPU_EXEC_REG_OPS, 24, 20, 32, kList, kInOut},            // regOps
    {NV2080_CTRL_CMD_GPU_GET_ENGINES, 8, 0, 4, kList, kInOut},                // engineList
    {NV2080_CTRL_CMD_GPU_GET_ENGINE_CLASSLIST, 8, 4, 4, kList, kInOut},       // classList
    {NV2080_CTRL_GPU_GET_NVENC_SW_SESSION_INFO, 8, 0, 32, kList, kOut},       // sessionInfoTbl
    {NV2080_CTRL_CMD_BIOS_GET_INFO, 8, 0, 8, kList, kInOut},                  // biosInfoList
    {NV2080_CTRL_CMD_BUS_GET_INFO, 8, 0, 8, kList, kInOut},                   // busInfoList
    {NV2080_CTRL_CMD_CE_GET_CAPS, 8, 4, 1, kList, kOut},                      // capsTbl
    {NV2080_CTRL_CMD_GR_GET_INFO, 8, 0, 8, kList, kInOut},                    // grInfoList
    {NV2080_CTRL_CMD_FB_GET_INFO, 8, 0, 8, kList, kInOut},                    // fbInfoList
    {NV2080_CTRL_CMD_NVD_GET_DUMP, 0, 12, 1, kList, kOut},                    // pBuffer
    {NV83DE_CTRL_CMD_DEBUG_READ_MEMORY, 16, 4, 1, kList, kOut},               // buffer
    {NV83DE_CTRL_CMD_DEBUG_WRITE_MEMORY, 16, 4, 1, kList, kIn},               // buffer
    {NV402C_CTRL_CMD_I2C_INDEXED, 24, 16, 1, kList, kInOut},                  // pMessage
});

}  // namespace

std::span<const ControlRow> ControlRows() {
  return kControlRows;
}

const ControlRow* FindControl(NvU32 cmd) {
  const auto* row = std::ranges::lower_bound(kSorted, cmd, {}, &ControlRow::cmd);
  return row != kSorted.end() && (*row)->cmd == cmd ? *row : nullptr;
}

bool ControlKnown(const Abi& abi, NvU32 cmd) {
  const ControlRow* row = FindControl(cmd);
  return row != nullptr && row->Known(abi.branch);
}

NvU32 ControlSize(const Abi& abi, NvU32 cmd) {
  const ControlRow* row = FindControl(cmd);
  return row == nullptr ? 0 : row->Size(abi.branch);
}

bool ControlTakes(const Abi& abi, NvU32 cmd, NvU32 bytes) {
  const ControlRow* row = FindControl(cmd);
  return row != nullptr && row->Takes(abi.branch, bytes);
}

std::optional<NvU32> EmbeddedPointer::Bytes(NvU32 count) const {
  if (shape == PointerShape::kIgnored) {
    return 0;
  }
  const NvU64 elements = shape == PointerShape::kSquare ? NvU64{count} * count : count;
  if (elements > kMaxEmbeddedBytes / stride) {
    return std::nullopt;
  }
  return static_cast<NvU32>(elements) * stride;
}

std::span<const EmbeddedPointer> EmbeddedPointers(NvU32 cmd) {
  const auto is_of = [cmd](const EmbeddedPointer& pointer) { return pointer.cmd == cmd; };
  const auto* first = std::ranges::find_if(kPointers, is_of);
  const auto* last = std::find_if_not(first, kPointers.end(), is_of);
  return {first, last};
}

}  // namespace cgpu::rm
