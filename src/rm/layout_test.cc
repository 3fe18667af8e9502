// Compares every structure with the sizes and offsets that the vendor's own headers compile to
// (testdata/struct-sizes.tsv), in both directions: nothing unchecked here, nothing unknown there.
// Compares the tables of controls, classes and nvidia-uvm's requests with the other files there.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "rm/class_table.h"
#include "rm/control_table.h"
#include "rm/escape_table.h"
#include "rm/nv_alloc.h"
#include "rm/nv_ctrl.h"
#include "rm/nv_ctrl_board.h"
#include "rm/nv_structs.h"
#include "rm/uvm_table.h"

namespace cgpu::rm {
namespace {

constexpr NvU32 kAbsent = ~NvU32{0};

constexpr NvU32 kUnchecked = kAbsent - 1;

std::size_t Index(Branch branch) {
  return static_cast<std::size_t>(branch);
}

// A size or an offset, by branch.
struct Layout {
  Layout(std::string of, ByBranch by_branch) : name(std::move(of)) {
    for (const Branch branch : kBranches) {
      value.at(Index(branch)) = by_branch.At(branch);
    }
  }

  std::string name;
  std::array<NvU32, kBranches.size()> value{};
};

#define CGPU_SIZE(S) {#S, sizeof(S)},
#define CGPU_FIELD(S, field) {#S "." #field, offsetof(S, field)},
// Rows of a structure that the branches before `since` lack, and of a field that they or the later
// ones lack.
#define CGPU_SIZE_SINCE(S, since) {#S, {kAbsent, {{Branch::k##since, sizeof(S)}}}},
#define CGPU_FIELD_SINCE(S, field, since) \
  {#S "." #field, {kAbsent, {{Branch::k##since, offsetof(S, field)}}}},
#define CGPU_FIELD_UNTIL(S, field, until) \
  {#S "." #field, {offsetof(S, field), {{Branch::k##until, kAbsent}}}},
// Rows of a structure of which a branch has the head: its first size, then the changes.
#define CGPU_SIZE_IS(S, first, ...) {#S, {first, {__VA_ARGS__}}},
#define CGPU_FIELD_IN(S, variant, field) {#S "." #field, offsetof(S##variant, field)},
// Rows of a structure whose layout changed in branch `since`.
#define CGPU_SIZE_FROM(S, since) \
  {#S, {sizeof(S##_V535), {{Branch::k##since, sizeof(S##_V##since)}}}},
#define CGPU_FIELD_FROM(S, field, since) \
  {#S "." #field, {offsetof(S##_V535, field), {{Branch::k##since, offsetof(S##_V##since, field)}}}},
#define CGPU_FIELD_NEW(S, field, since) \
  {#S "." #field, {kAbsent, {{Branch::k##since, offsetof(S##_V##since, field)}}}},
// The new structure holds the old one as its member v535.
#define CGPU_FIELD_IN_V535(S, field, since) \
  {#S "." #field,                           \
   {offsetof(S##_V535, field), {{Branch::k##since, offsetof(S##_V##since, v535.field)}}}},
#define CGPU_SIZE_GR_INFO(S)           \
  {#S,                                 \
   {sizeof(S##_V535),                  \
    {{Branch::k550, sizeof(S##_V550)}, \
     {Branch::k570, sizeof(S##_V570)}, \
     {Branch::k590, sizeof(S##_V590)}, \
     {Branch::k610, sizeof(S##_V610)}}}},
#define CGPU_FIELD_GR_INFO(S, field)            \
  {#S "." #field,                               \
   {offsetof(S##_V535, field),                  \
    {{Branch::k550, offsetof(S##_V550, field)}, \
     {Branch::k570, offsetof(S##_V570, field)}, \
     {Branch::k590, offsetof(S##_V590, field)}, \
     {Branch::k610, offsetof(S##_V610, field)}}}},
// Rows of a channel's parameters, whose layout changed in 610.
#define CGPU_SIZE_CHANNEL(S) \
  {#S, {sizeof(S##_V535), {{Branch::k570, sizeof(S##_V570)}, {Branch::k610, sizeof(S##_V610)}}}},
#define CGPU_FIELD_CHANNEL(S, field) \
  {#S "." #field,                    \
   {offsetof(S##_V535, field),       \
    {{Branch::k570, offsetof(S##_V570, v535.field)}, {Branch::k610, offsetof(S##_V610, field)}}}},
#define CGPU_FIELD_TPC_CONFIG(S, field) \
  {#S "." #field,                       \
   {kAbsent,                            \
    {{Branch::k570, offsetof(S##_V570, field)}, {Branch::k610, offsetof(S##_V610, field)}}}},

std::vector<Layout> Layouts() {
  return {
#include "rm/layout_list.inc"
  };
}

// Returns the sizes of an escape where its size matters.
Layout OfEscape(const char* name, NvU8 nr) {
  Layout layout{name, ByBranch(kUnchecked)};
  for (const Branch branch : kBranches) {
    const SizeRule rule = FindEscape(nr)->Rule(branch);
    if (rule.kind != SizeRule::Kind::kAny) {
      layout.value.at(Index(branch)) = rule.a;
    }
  }
  return layout;
}

Layout OfClass(const char* name, NvU32 number) {
  return {name, FindClass(number)->size};
}

// Returns structures that the tables know by size alone.
std::vector<Layout> SizesInTables() {
  return {
      OfEscape("NVOS38_PARAMETERS", NV_ESC_RM_ACCESS_REGISTRY),
      OfEscape("NVOS_I2C_ACCESS_PARAMS", NV_ESC_RM_I2C_ACCESS),
      OfEscape("struct nv_ioctl_query_device_intr", NV_ESC_QUERY_DEVICE_INTR),
      OfEscape("nv_ioctl_numa_info_t", NV_ESC_NUMA_INFO),
      OfEscape("nv_ioctl_set_numa_status_t", NV_ESC_SET_NUMA_STATUS),
      OfEscape("nv_ioctl_export_to_dma_buf_fd_t", NV_ESC_EXPORT_TO_DMABUF_FD),
      OfEscape("NV_LOCKLESS_DIAGNOSTIC_PARAMS", NV_ESC_RM_LOCKLESS_DIAGNOSTIC),
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

// The published numbers by name, one text per branch.
using Published = std::map<std::string, std::vector<std::string>>;

std::vector<std::string> Columns(const std::string& line) {
  std::vector<std::string> columns;
  std::istringstream text(line);
  for (std::string column; std::getline(text, column, '\t');) {
    columns.push_back(column);
  }
  return columns;
}

Published ReadPublished(const std::string& name) {
  std::ifstream file(CGPU_RM_TESTDATA "/" + name);
  Published rows;
  bool header = true;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') {
      continue;
    }
    std::vector<std::string> columns = Columns(line);
    const std::string of = columns.front();
    columns.erase(columns.begin());
    EXPECT_EQ(columns.size(), kBranches.size()) << of;
    columns.resize(kBranches.size());
    if (header) {
      for (const Branch branch : kBranches) {
        EXPECT_EQ(columns.at(Index(branch)), ToString(GetAbi(branch).reference));
      }
      header = false;
      continue;
    }
    EXPECT_TRUE(rows.emplace(of, columns).second) << of << " twice";
  }
  return rows;
}

std::string Text(const std::string& name, NvU32 value) {
  if (value == kAbsent) {
    return "-";
  }
  const bool is_offset = name.find('.') != std::string::npos;
  return (is_offset ? "@" : "") + std::to_string(value);
}

TEST(Layout, EqualsTheVendorsHeaders) {
  Published published = ReadPublished("struct-sizes.tsv");
  ASSERT_GT(published.size(), 600U);
  std::vector<Layout> ours = Layouts();
  const std::vector<Layout> sizes = SizesInTables();
  ours.insert(ours.end(), sizes.begin(), sizes.end());
  for (const Layout& layout : ours) {
    const auto row = published.find(layout.name);
    ASSERT_NE(row, published.end()) << layout.name << " is not published";
    for (const Branch branch : kBranches) {
      const NvU32 value = layout.value.at(Index(branch));
      if (value != kUnchecked) {
        EXPECT_EQ(Text(layout.name, value), row->second.at(Index(branch)))
            << layout.name << " on " << GetAbi(branch).name;
      }
    }
    published.erase(row);
  }
  for (const auto& [name, row] : published) {
    ADD_FAILURE() << name << " is published and checked by nothing";
  }
}

// A command that has another name on some branches: its 570 number went to its successor.
constexpr NvU32 kNumberTwice = NV2080_CTRL_CMD_FB_QUERY_DRAM_ENCRYPTION_STATUS;

std::string Hex(NvU32 value) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "=0x%x", value);
  return text.data();
}

// Numbers and sizes of the control table are those of the vendor's headers.
TEST(Layout, ControlTableAgrees) {
  Published published = ReadPublished("control-sizes.tsv");
  unsigned compared = 0;
  for (const ControlRow& row : ControlRows()) {
    if (row.source.empty()) {
      continue;
    }
    std::string name(row.name);
    if (name.ends_with("_V570")) {
      name.resize(name.size() - 5);
    }
    for (const Branch branch : kBranches) {
      const std::size_t column = Index(branch);
      const bool named = published[name].at(column) == Hex(row.cmd);
      if (row.cmd != kNumberTwice) {
        EXPECT_LE(row.Known(branch), named) << row.name << " on " << GetAbi(branch).name;
      }
      if (named && row.Known(branch) && !row.params.empty()) {
        EXPECT_EQ(std::to_string(row.Size(branch)), published[std::string(row.params)].at(column))
            << row.name << " on " << GetAbi(branch).name;
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 1500U);
}

TEST(Layout, ClassTableAgrees) {
  Published published = ReadPublished("class-sizes.tsv");
  unsigned compared = 0;
  for (const ClassRow& row : ClassRows()) {
    const auto number = published.find(std::string(row.name));
    for (const Branch branch : kBranches) {
      const std::size_t column = Index(branch);
      // A few numbers are in no public header, only in the driver's generated list.
      if (number != published.end() && number->second.at(column) != "-") {
        EXPECT_EQ(number->second.at(column), Hex(row.number)) << row.name;
        ++compared;
      }
      if (row.Known(branch) && !row.structure.empty()) {
        EXPECT_EQ(std::to_string(row.Size(branch)),
                  published[std::string(row.structure)].at(column))
            << row.name << " on " << GetAbi(branch).name;
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 1500U);
}

TEST(Layout, UvmTableAgrees) {
  Published published = ReadPublished("uvm-sizes.tsv");
  for (const UvmRow& row : UvmRows()) {
    const std::string name(row.name);
    const auto number = published.find(name);
    ASSERT_NE(number, published.end()) << name << " is not published";
    const auto size = published.find(name + "_PARAMS");
    const auto status = published.find(name + "_PARAMS.rmStatus");
    for (const Branch branch : kBranches) {
      const std::size_t column = Index(branch);
      const bool listed = number->second.at(column) != "-";
      if (listed) {
        EXPECT_EQ(number->second.at(column), Hex(row.request)) << name;
      }
      if (size == published.end()) {
        EXPECT_EQ(row.size.At(branch), 0U) << name << " has no published parameters";
        continue;
      }
      EXPECT_EQ(Text(name, listed ? row.size.At(branch) : kAbsent), size->second.at(column))
          << name << " on " << GetAbi(branch).name;
      EXPECT_EQ(row.size.At(branch) != 0, listed) << name << " on " << GetAbi(branch).name;
      EXPECT_EQ(Text(".", listed ? row.status.At(branch) : kAbsent), status->second.at(column))
          << name << " on " << GetAbi(branch).name;
    }
  }
}

}  // namespace
}  // namespace cgpu::rm
