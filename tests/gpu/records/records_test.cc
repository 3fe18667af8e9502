// Every record of tests/gpu/records against the tables, the boundary and the simulated driver.
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

// Of a line of shim/recorder.h; false: nothing that a table could have.
struct Recorded {
  std::string call;
  std::string selected;  // of RM_CONTROL, RM_ALLOC and VID_HEAP_CONTROL
  std::string size;      // "-": not known
  bool done = false;     // by the driver, with success
};

bool Parse(const std::string& line, Recorded& recorded) {
  std::istringstream stream(line);
  Words words;
  for (std::string word; stream >> word;) {
    words.push_back(word);
  }
  if (words.size() < 7 || words[2] == "mmap" || words[1] == "other") {
    return false;
  }
  const std::size_t n = words.size();
  recorded = {words[2], n == 8 ? words[3] : "", words[n - 4],
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

bool Is(const std::string& size, rm::NvU32 expected) {
  return size == "-" || size == std::to_string(expected);
}

void CheckControl(rm::Branch branch, const Recorded& call) {
  const auto* const row = ByName(rm::ControlRows(), call.selected);
  ASSERT_NE(row, nullptr) << "the tables have no such control";
  EXPECT_TRUE(row->Known(branch));
  EXPECT_TRUE(Is(call.size, row->Size(branch))) << "the tables say " << row->Size(branch);
  const auto* const rule = boundary::FindControlRule(row->cmd);
  EXPECT_TRUE(rule != nullptr && rule->effect != boundary::ControlEffect::kRefuse) << "refused";
  EXPECT_NE(sim::FindControlEntry(row->cmd), nullptr) << "the simulated driver has none";
}

void CheckClass(rm::Branch branch, const Recorded& call) {
  const auto* const row = ByName(rm::ClassRows(), call.selected);
  ASSERT_NE(row, nullptr) << "the tables have no such class";
  EXPECT_TRUE(row->Known(branch));
  EXPECT_TRUE(Is(call.size, row->Size(branch)) || call.size == "0")
      << "the tables say " << row->Size(branch);
  const auto* const rule = boundary::FindClassRule(row->number);
  EXPECT_TRUE(boundary::IsClientClass(row->number) ||
              (rule != nullptr && rule->effect != boundary::ClassEffect::kUnsupported))
      << "refused";
}

void CheckCall(const rm::Abi& abi, const Recorded& call) {
  if (call.call.starts_with("UVM_")) {
    const auto* const row = ByName(rm::UvmRows(), call.call);
    ASSERT_NE(row, nullptr) << "the tables have no such request";
    EXPECT_TRUE(Is(call.size, row->size.At(abi.branch)));
    return;
  }
  const auto* const row = ByName(rm::EscapeRows(), call.call);
  ASSERT_NE(row, nullptr) << "the tables have no such call";
  if (call.call == "NV_ESC_RM_CONTROL") {
    CheckControl(abi.branch, call);
  } else if (call.call == "NV_ESC_RM_ALLOC") {
    CheckClass(abi.branch, call);
  } else if (call.selected.empty() && call.size != "-") {
    const auto size = static_cast<rm::NvU32>(std::stoul(call.size));
    EXPECT_TRUE(rm::EscapeAcceptsSize(abi, row->nr, size));
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

TEST(Records, WhatADriverDidIsKnownAndLetThrough) {
  std::size_t calls = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(CGPU_RECORDS)) {
    if (entry.path().extension() != ".txt" || entry.path().filename() == "CMakeLists.txt") {
      continue;
    }
    const auto* const abi = AbiOf(entry.path().parent_path().filename().string());
    ASSERT_NE(abi, nullptr) << entry.path() << " lies in no branch's folder";
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);) {
      Recorded call;
      if (line.starts_with("#") || !Parse(line, call) || !call.done) {
        continue;
      }
      SCOPED_TRACE(entry.path().filename().string() + ": " + line);
      CheckCall(*abi, call);
      ++calls;
    }
  }
  EXPECT_GT(calls, 20U) << "there is nothing to compare with";
}

}  // namespace
}  // namespace cgpu
