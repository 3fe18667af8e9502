// Every record of tests/gpu/records against the tables, the boundary and the simulated driver. What
// is read beside the lines of shim/recorder.h stands in README.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "boundary/policy.h"
#include "rm/abi.h"
#include "rm/class_table.h"
#include "rm/control_table.h"
#include "rm/escape_table.h"
#include "rm/uvm_table.h"
#include "sim/driver/control.h"

namespace cgpu {
namespace {

using Words = std::vector<std::string>;

// The content of a line; false: nothing that a table could have.
struct Recorded {
  std::string call;
  std::string selected;  // of RM_CONTROL, RM_ALLOC, RM_ALLOC_MEMORY and VID_HEAP_CONTROL
  std::string size;      // "-": not known
  bool done = false;     // by the driver, with success
};

// The branches that a file is read against, one of which has the sizes of each line.
using Branches = std::vector<const rm::Abi*>;

bool Parse(const std::string& line, Recorded& recorded) {
  std::istringstream stream(line);
  Words words;
  bool own_size = false;  // no branch's here
  for (std::string word; stream >> word;) {
    if (word.find('=') == std::string::npos) {
      words.push_back(word);
    }
    own_size = own_size || word.starts_with("size=");
  }
  if (words.size() < 7 || words[2] == "mmap" || words[2] == "open" || words[1] == "other") {
    return false;
  }
  const std::size_t n = words.size();
  recorded = {words[2], n == 8 ? words[3] : "", own_size ? "-" : words[n - 4],
              words[n - 1] == "driver" && words[n - 2] == "0" &&
                  (words[n - 3] == "0x0" || words[n - 3] == "-")};
  return true;
}

template <class Rows>
auto ByName(const Rows& rows, const std::string& name) -> decltype(rows.data()) {
  const auto row =
      std::find_if(rows.begin(), rows.end(), [&](const auto& one) { return one.name == name; });
  return row == rows.end() ? nullptr : &*row;
}

// Which of the branches have the row and take this size; "-": any.
template <class Takes>
bool OneTakes(const Branches& branches, const std::string& size, const Takes& takes) {
  return size == "-" || std::any_of(branches.begin(), branches.end(), [&](const rm::Abi* abi) {
           return takes(*abi, static_cast<rm::NvU32>(std::stoul(size)));
         });
}

void CheckControl(const Branches& branches, const Recorded& call) {
  const auto* const row = ByName(rm::ControlRows(), call.selected);
  ASSERT_NE(row, nullptr) << "the tables have no such control";
  for (const rm::Abi* abi : branches) {
    EXPECT_TRUE(row->Known(abi->branch)) << abi->name;
  }
  EXPECT_TRUE(OneTakes(branches, call.size, [&](const rm::Abi& abi, rm::NvU32 size) {
    return row->Takes(abi.branch, size);
  })) << "the tables have another size";
  const auto* const rule = boundary::FindControlRule(row->cmd);
  EXPECT_TRUE(rule != nullptr && rule->effect != boundary::ControlEffect::kRefuse) << "refused";
  // Those of the firmware it answers without a table (sim/driver/firmware.h).
  EXPECT_TRUE(row->most_bytes != 0 || sim::FindControlEntry(row->cmd) != nullptr)
      << "the simulated driver has none";
}

// Those that are refused on purpose, and without which programs go on.
bool RefusedOnPurpose(std::string_view name) {
  return name == "GF100_DISP_SW";
}

void CheckClass(const Branches& branches, const Recorded& call) {
  const auto* const row = ByName(rm::ClassRows(), call.selected);
  ASSERT_NE(row, nullptr) << "the tables have no such class";
  for (const rm::Abi* abi : branches) {
    EXPECT_TRUE(row->Known(abi->branch)) << abi->name;
  }
  // The driver does not look at the size that RM_ALLOC gives.
  EXPECT_TRUE(call.size == "0" || OneTakes(branches, call.size,
                                           [&](const rm::Abi& abi, rm::NvU32 size) {
                                             return row->Size(abi.branch) == size;
                                           }))
      << "the tables have another size";
  const auto* const rule = boundary::FindClassRule(row->number);
  EXPECT_TRUE(boundary::IsClientClass(row->number) || RefusedOnPurpose(row->name) ||
              (rule != nullptr && rule->effect != boundary::ClassEffect::kUnsupported))
      << "refused";
}

void CheckCall(const Branches& branches, const Recorded& call) {
  if (call.call.starts_with("UVM_")) {
    const auto* const row = ByName(rm::UvmRows(), call.call);
    ASSERT_NE(row, nullptr) << "the tables have no such request";
    EXPECT_TRUE(OneTakes(branches, call.size, [&](const rm::Abi& abi, rm::NvU32 size) {
      return row->size.At(abi.branch) == size;
    }));
    return;
  }
  const auto* const row = ByName(rm::EscapeRows(), call.call);
  ASSERT_NE(row, nullptr) << "the tables have no such call";
  if (call.call == "NV_ESC_RM_CONTROL") {
    CheckControl(branches, call);
  } else if (call.call == "NV_ESC_RM_ALLOC") {
    CheckClass(branches, call);
  } else {
    EXPECT_TRUE(OneTakes(branches, call.size, [&](const rm::Abi& abi, rm::NvU32 size) {
      return rm::EscapeAcceptsSize(abi, row->nr, size);
    }));
  }
}

const rm::Abi* AbiOf(const std::string& branch) {
  for (const rm::Branch one : rm::kBranches) {
    if (rm::GetAbi(one).name == branch) {
      return &rm::GetAbi(one);
    }
  }
  return nullptr;
}

// The folder's, or those that the file names.
Branches BranchesOf(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string names = path.parent_path().filename().string();
  const std::string kHeader = "# branches: ";
  for (std::string line; std::getline(file, line) && line.starts_with("#");) {
    if (line.starts_with(kHeader)) {
      names = line.substr(kHeader.size());
    }
  }
  Branches branches;
  std::istringstream stream(names);
  for (std::string name; stream >> name;) {
    branches.push_back(AbiOf(name));
  }
  return branches;
}

TEST(Records, WhatADriverDidIsKnownAndLetThrough) {
  std::size_t calls = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(CGPU_RECORDS)) {
    if (entry.path().extension() != ".txt" || entry.path().filename() == "CMakeLists.txt") {
      continue;
    }
    const Branches branches = BranchesOf(entry.path());
    ASSERT_EQ(std::count(branches.begin(), branches.end(), nullptr), 0)
        << entry.path() << " is of no branch that there is";
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);) {
      Recorded call;
      if (line.starts_with("#") || !Parse(line, call) || !call.done) {
        continue;
      }
      SCOPED_TRACE(entry.path().string() + ": " + line);
      CheckCall(branches, call);
      ++calls;
    }
  }
  EXPECT_GT(calls, 900U) << "there is nothing to compare with";
}

}  // namespace
}  // namespace cgpu
