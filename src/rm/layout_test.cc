// Compares every structure with the sizes and offsets that the vendor's own headers compile to
// (testdata/struct-sizes.tsv), in both directions: nothing unchecked here, nothing unknown there.
#include <gtest/gtest.h>

#include <cstddef>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "rm/class_table.h"
#include "rm/control_table.h"
#include "rm/escape_table.h"
#include "rm/nv_alloc.h"
#include "rm/nv_ctrl.h"
#include "rm/nv_structs.h"

namespace cgpu::rm {
namespace {

constexpr std::size_t kAbsent = ~std::size_t{0};

struct Layout {
  std::string name;
  std::size_t on_550;
  std::size_t on_580;
};

#define CGPU_SIZE(S) {#S, sizeof(S), sizeof(S)},
#define CGPU_SIZE_BY_BRANCH(S) {#S, sizeof(S##_V550), sizeof(S##_V580)},
#define CGPU_FIELD(S, field) {#S "." #field, offsetof(S, field), offsetof(S, field)},
#define CGPU_FIELD_BY_BRANCH(S, field) \
  {#S "." #field, offsetof(S##_V550, field), offsetof(S##_V580, field)},
#define CGPU_FIELD_ONLY_580(S, field) {#S "." #field, kAbsent, offsetof(S##_V580, field)},
// The 580 structure holds the 550 one as its member v550.
#define CGPU_FIELD_IN_V550(S, field) \
  {#S "." #field, offsetof(S##_V550, field), offsetof(S##_V580, v550.field)},

std::vector<Layout> Layouts() {
  return {
#include "rm/layout_list.inc"
  };
}

Layout OfEscape(const char* name, NvU8 nr) {
  const EscapeRow* row = FindEscape(nr);
  return {name, row->on_550.a, row->on_580.a};
}

Layout OfClass(const char* name, NvU32 number) {
  const ClassRow* row = FindClass(number);
  return {name, row->size_550, row->size_580};
}

// Structures the tables know by size alone.
std::vector<Layout> SizesInTables() {
  return {
      OfEscape("NVOS38_PARAMETERS", NV_ESC_RM_ACCESS_REGISTRY),
      OfEscape("NVOS_I2C_ACCESS_PARAMS", NV_ESC_RM_I2C_ACCESS),
      OfEscape("nv_ioctl_query_device_intr", NV_ESC_QUERY_DEVICE_INTR),
      OfEscape("nv_ioctl_numa_info_t", NV_ESC_NUMA_INFO),
      OfEscape("nv_ioctl_set_numa_status_t", NV_ESC_SET_NUMA_STATUS),
      OfEscape("nv_ioctl_export_to_dma_buf_fd_t", NV_ESC_EXPORT_TO_DMABUF_FD),
      // 550 takes any size for this one.
      {"NV_LOCKLESS_DIAGNOSTIC_PARAMS", FindEscape(NV_ESC_RM_LOCKLESS_DIAGNOSTIC)->on_580.a,
       FindEscape(NV_ESC_RM_LOCKLESS_DIAGNOSTIC)->on_580.a},
      OfClass("NV_SEMAPHORE_SURFACE_ALLOC_PARAMETERS", NV_SEMAPHORE_SURFACE),
      OfClass("NV00F8_ALLOCATION_PARAMETERS", NV_MEMORY_FABRIC),
      OfClass("NV00FD_ALLOCATION_PARAMETERS", NV_MEMORY_MULTICAST_FABRIC),
      OfClass("NV503B_ALLOC_PARAMETERS", NV50_P2P),
      OfClass("NV503C_ALLOC_PARAMETERS", NV50_THIRD_PARTY_P2P),
      OfClass("NV83DE_ALLOC_PARAMETERS", GT200_DEBUGGER),
      OfClass("NVB0B5_ALLOCATION_PARAMETERS", TURING_DMA_COPY_A),
      OfClass("NV_GR_ALLOCATION_PARAMETERS", TURING_COMPUTE_A),
      OfClass("NV_EVENT_BUFFER_ALLOC_PARAMETERS", NV_EVENT_BUFFER),
      OfClass("NV_MEMORY_LIST_ALLOCATION_PARAMS", NV01_MEMORY_LIST_FBMEM),
      OfClass("NV_PHYSICAL_MEMORY_ALLOCATION_PARAMS", NV01_MEMORY_LOCAL_PHYSICAL),
      OfClass("NV_MEMORY_HW_RESOURCES_ALLOCATION_PARAMS", NV01_MEMORY_HW_RESOURCES),
  };
}

struct Published {
  std::string on_550;
  std::string on_580;
};

std::map<std::string, Published> ReadPublished() {
  std::ifstream file(CGPU_RM_TESTDATA "/struct-sizes.tsv");
  std::map<std::string, Published> rows;
  std::string line;
  while (std::getline(file, line)) {
    if (line.empty() || line[0] == '#' || line.starts_with("struct_or_offset")) {
      continue;
    }
    std::istringstream fields(line);
    std::string name;
    Published row;
    fields >> name >> row.on_550 >> row.on_580;
    rows.emplace(name, row);
  }
  return rows;
}

std::string Text(const std::string& name, std::size_t value) {
  if (value == kAbsent) {
    return "-";
  }
  const bool is_offset = name.find('.') != std::string::npos;
  return (is_offset ? "@" : "") + std::to_string(value);
}

TEST(Layout, EqualsTheVendorsHeaders) {
  std::map<std::string, Published> published = ReadPublished();
  ASSERT_GT(published.size(), 600U);
  std::vector<Layout> ours = Layouts();
  const std::vector<Layout> sizes = SizesInTables();
  ours.insert(ours.end(), sizes.begin(), sizes.end());
  for (const Layout& layout : ours) {
    const auto row = published.find(layout.name);
    ASSERT_NE(row, published.end()) << layout.name << " is not published";
    EXPECT_EQ(Text(layout.name, layout.on_550), row->second.on_550) << layout.name << " on 550";
    EXPECT_EQ(Text(layout.name, layout.on_580), row->second.on_580) << layout.name << " on 580";
    published.erase(row);
  }
  for (const auto& [name, row] : published) {
    ADD_FAILURE() << name << " is published and checked by nothing";
  }
}

// The tables' sizes are those of the published structure of the same name.
TEST(Layout, ControlTableAgrees) {
  const std::map<std::string, Published> published = ReadPublished();
  unsigned compared = 0;
  for (const ControlRow& row : ControlRows()) {
    std::string params(row.name);
    const std::size_t at = params.find("_CTRL_CMD_");
    ASSERT_NE(at, std::string::npos);
    std::string with_cmd = params + "_PARAMS";
    params.replace(at, 10, "_CTRL_");
    params += "_PARAMS";
    auto found = published.find(params);
    if (found == published.end()) {
      found = published.find(with_cmd);
    }
    if (found == published.end()) {
      continue;  // SET_TIMESLICE and the like share a structure under another name
    }
    EXPECT_EQ(std::to_string(row.size_550), found->second.on_550) << row.name;
    EXPECT_EQ(std::to_string(row.size_580), found->second.on_580) << row.name;
    ++compared;
  }
  EXPECT_GE(compared, ControlRows().size() - 4);
}

}  // namespace
}  // namespace cgpu::rm
