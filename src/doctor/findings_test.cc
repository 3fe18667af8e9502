// Provokes each finding on a host that is healthy otherwise.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "doctor/check.h"
#include "doctor/testing.h"

namespace cgpu::doctor {
namespace {

std::vector<Fault> AllFaults() {
  std::vector<Fault> all;
  for (const auto& faults : {KernelFaults(), DriverFaults(), EngineFaults(), InstallationFaults(),
                             KubernetesFaults(), WorkloadFaults()}) {
    all.insert(all.end(), faults.begin(), faults.end());
  }
  return all;
}

const Check* FindCheck(const std::string& id) {
  const auto checks = Checks();
  const auto found = std::ranges::find(checks, id, &Check::id);
  return found == checks.end() ? nullptr : &*found;
}

TEST(Findings, AHealthyHostIsRightInEverything) {
  const FakeHost host = HealthyHost();
  for (const Check& check : Checks()) {
    const Finding finding = check.look(host);
    EXPECT_EQ(finding.kind, Finding::Kind::kRight) << check.id << ": " << finding.text;
  }
}

TEST(Findings, EachFaultIsFound) {
  for (const Fault& fault : AllFaults()) {
    const Check* const check = FindCheck(fault.id);
    ASSERT_NE(check, nullptr) << fault.id;
    FakeHost host = HealthyHost();
    fault.make(host);
    const Finding finding = check->look(host);
    EXPECT_EQ(finding.kind, Finding::Kind::kWrong) << fault.id << ": " << finding.text;
    EXPECT_THAT(finding.text, testing::HasSubstr(fault.found)) << fault.id;
  }
}

TEST(Findings, EachCheckIsProvoked) {
  const std::vector<Fault> faults = AllFaults();
  for (const Check& check : Checks()) {
    EXPECT_NE(std::ranges::find(faults, check.id, &Fault::id), faults.end()) << check.id;
  }
}

// A host of which nothing can be read must not be called healthy or broken without a look.
TEST(Findings, AnEmptyHostEndsNoCheckBadly) {
  const FakeHost host;
  for (const Check& check : Checks()) {
    EXPECT_FALSE(check.look(host).text.empty()) << check.id;
  }
}

// Others write the files and outputs: no check may fall over what it finds in one.
TEST(Findings, GarbageEndsNoCheckBadly) {
  FakeHost host = HealthyHost();
  std::map<std::string, std::vector<const Check*>> readers;
  for (const Check& check : Checks()) {
    host.read.clear();
    (void)check.look(host);
    for (const std::string& name : host.read) {
      readers[name].push_back(&check);
    }
  }
  ASSERT_FALSE(readers.empty());
  const auto look_at = [&](const std::string& name) {
    for (const Check* const check : readers[name]) {
      EXPECT_FALSE(check->look(host).text.empty()) << check->id << " with " << name;
    }
  };
  for (const char* const text :
       {"", "\xff\x1b{[", "[]", "{}", "null", "[3]", "{\"items\": 3}", "99999999999999999999.1"}) {
    for (auto& [path, content] : host.files) {
      const std::string before = std::exchange(content, text);
      look_at(path);
      content = before;
    }
    for (auto& [command, output] : host.outputs) {
      const Output before = std::exchange(output, {text, 0});
      look_at(command);
      output = before;
    }
  }
}

}  // namespace
}  // namespace cgpu::doctor
