// Compares the decision for every class, control and escape that the tables know, on every branch,
// with testdata/decisions.tsv: a change of policy is a change of that file.
#include "boundary/policy.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>

#include "boundary/testing.h"
#include "rm/class_table.h"
#include "rm/control_table.h"
#include "rm/escape_table.h"
#include "rm/nv_classes.h"
#include "rm/nv_ctrl.h"
#include "rm/nv_status.h"
#include "rm/nv_structs.h"
#include "rm/uvm_table.h"

namespace cgpu::boundary {
namespace {

// The tenant of one branch, with a client, a device and a subdevice in the ledger.
class Tenant final : public TenantMemory {
 public:
  explicit Tenant(rm::Branch branch)
      : abi_(rm::GetAbi(branch)),
        ledger_({std::uint64_t{1} << 30}, {8, 1000, 8, 16}),
        boundary_(abi_, {{0, 0x100, 0, {}, 0, {1 << 20, 0, 0}}}, ledger_) {
    auto client = ledger_.ReserveClient();
    const auto ref = ledger_.AddClient(*client, kClient, 1, 1).value();
    auto device = ledger_.Reserve(ledger::Kind::kOther);
    (void)ledger_.AddObject(*device, ref, {{kClient, 0}, kDevice, rm::NV01_DEVICE_0, 0U, 0}).ok();
    auto subdevice = ledger_.Reserve(ledger::Kind::kOther);
    (void)ledger_.AddObject(*subdevice, ref, {{kDevice, 0}, kSubdevice, 0x2080, {}, 0}).ok();
  }

  // Reads zeros from all memory of the tenant's, except for the one call.
  bool Read(std::uint64_t address, void* into, std::size_t size) override {
    std::memset(into, 0, size);
    if (address == kCall && size <= call_.size()) {
      std::memcpy(into, call_.data(), size);
    }
    return true;
  }

  template <class T>
  std::string Outcome(std::uint8_t nr, const T& params) {
    Bytes bytes(sizeof(T));
    std::memcpy(bytes.data(), &params, sizeof(T));
    return Outcome(nr, bytes);
  }
  std::string Outcome(std::uint8_t nr, const Bytes& bytes) {
    call_ = bytes;
    Call call;
    const rm::EscapeRow* row = rm::FindEscape(nr);
    call.file = row->files == rm::EscapeFiles::kGpu ? File{FileKind::kGpu, 0, true}
                                                    : File{FileKind::kControl, 255, true};
    const auto size = static_cast<rm::NvU32>(bytes.size());
    if (const int error = Decode(abi_, rm::EscapeRequest(nr, size), kCall, *this, call)) {
      return std::strerror(error);
    }
    CopyInRest(*this, call);
    Decision decision = boundary_.Decide(call);
    switch (decision.action) {
      case Decision::Action::kExecute:
        return "run";
      case Decision::Action::kContinue:
        return "continue";
      case Decision::Action::kAsk:
        return "ask";
      case Decision::Action::kFail:
        return std::strerror(decision.error);
      case Decision::Action::kAnswer:
        break;
    }
    const char* name = rm::StatusName(StatusOf(call).value_or(0));
    return name == nullptr ? "?" : name;
  }
  [[nodiscard]] const rm::Abi& abi() const { return abi_; }

 private:
  static constexpr std::uint64_t kCall = 0x10000;

  const rm::Abi& abi_;
  ledger::Ledger ledger_;
  Boundary boundary_;
  Bytes call_;
};

constexpr std::uint64_t kSomewhere = 0x20000;

// Returns one byte where the size is not on record.
rm::NvU32 SizeOf(const rm::ControlRow& row, rm::Branch branch) {
  return row.Takes(branch, row.Size(branch)) ? row.Size(branch) : 1;
}

std::string OutcomeOfControl(Tenant& tenant, rm::NvU32 command, rm::NvU32 size) {
  rm::NVOS54_PARAMETERS control{};
  control.hClient = kClient;
  control.hObject = kSubdevice;
  control.cmd = command;
  control.paramsSize = size;
  control.params = control.paramsSize == 0 ? 0 : kSomewhere;
  return tenant.Outcome(rm::NV_ESC_RM_CONTROL, control);
}

std::string OutcomeOfClass(Tenant& tenant, rm::NvU32 number) {
  rm::NVOS21_PARAMETERS alloc{};
  alloc.hRoot = IsClientClass(number) ? 0 : kClient;
  alloc.hObjectParent = kSubdevice;
  alloc.hClass = number;
  alloc.pAllocParms = rm::ClassParamSize(tenant.abi(), number) == 0 ? 0 : kSomewhere;
  return tenant.Outcome(rm::NV_ESC_RM_ALLOC, alloc);
}

// Decides an escape whose parameters are zeros except for the client.
std::string OutcomeOfEscape(Tenant& tenant, const rm::EscapeRow& row) {
  const rm::SizeRule rule = row.Rule(tenant.abi().branch);
  if (rule.kind == rm::SizeRule::Kind::kNever) {
    return "-";
  }
  Bytes params(rule.kind == rm::SizeRule::Kind::kAny ? 72 : rule.a);
  Store(params, kClient);
  return tenant.Outcome(row.nr, params);
}

// A line of testdata/asked.tsv: a recorded request of a program.
struct Asked {
  std::string kind;
  std::uint32_t number = 0;
  std::string name;
  std::string size;
  std::string program;
  std::string source;
};

std::vector<Asked> ReadAsked() {
  std::ifstream in(CGPU_TESTDATA "/asked.tsv");
  std::vector<Asked> asked;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') {
      continue;
    }
    std::istringstream text(line);
    Asked one;
    std::string number;
    std::getline(text, one.kind, '\t');
    std::getline(text, number, '\t');
    std::getline(text, one.name, '\t');
    std::getline(text, one.size, '\t');
    std::getline(text, one.program, '\t');
    std::getline(text, one.source, '\t');
    one.number = static_cast<std::uint32_t>(std::stoul(number, nullptr, 0));
    asked.push_back(one);
  }
  return asked;
}

// Returns the evidence behind a row, strongest first: a measured refusal, a recording, a number
// that was seen, a log, a program's own source, another project's history; "none": only the
// vendor's sources name it.
std::string EvidenceOf(const std::vector<Asked>& asked, const std::string& kind,
                       std::uint32_t number) {
  constexpr std::pair<std::string_view, std::string_view> kSources[] = {
      {"reindertpelsma/kayfabe", "trace-580"},
      {"docs/hardware/h200-580", "trace-580"},
      {"pulak999/", "trace-555"},
      {"nestrilabs/", "seen-595"},
      {"NVIDIA/", "log"},
      {"tinygrad/tinygrad", "source"},
      {"google/gvisor", "history"},
      {"reindertpelsma/nvkvm-pv", "history"}};
  std::set<std::string> found;
  for (const Asked& one : asked) {
    if (one.kind != kind || one.number != number) {
      continue;
    }
    if (one.program.find("refusal") != std::string::npos) {
      found.insert("measured");
    }
    for (const auto& [prefix, name] : kSources) {
      if (one.source.starts_with(prefix)) {
        found.insert(std::string(name));
      }
    }
  }
  std::string text;
  for (const std::string name :
       {"measured", "trace-580", "trace-555", "seen-595", "log", "source", "history"}) {
    if (found.contains(name)) {
      text += (text.empty() ? "" : ",") + name;
    }
  }
  return text.empty() ? "none" : text;
}

// A line without its outcomes.
struct Row {
  std::string kind;
  std::string name;
  std::uint32_t number = 0;
  std::string effect;
  std::string why;
};

// Writes a line. Outcomes are one where all branches agree.
std::string Line(const std::vector<Asked>& asked, const Row& row,
                 const std::function<std::string(Tenant&)>& outcome) {
  std::vector<std::string> outcomes;
  for (const rm::Branch branch : rm::kBranches) {
    Tenant tenant(branch);
    outcomes.push_back(outcome(tenant));
  }
  if (std::all_of(outcomes.begin(), outcomes.end(),
                  [&](const std::string& one) { return one == outcomes[0]; })) {
    outcomes.resize(1);
  }
  char number[16];
  (void)std::snprintf(number, sizeof(number), "0x%x", row.number);
  std::string line = row.kind + "\t" + row.name + "\t" + number + "\t" + row.effect + "\t" +
                     EvidenceOf(asked, row.kind, row.number) + "\t" + row.why;
  for (const std::string& one : outcomes) {
    line += "\t" + one;
  }
  return line;
}

std::vector<std::string> Decisions() {
  const std::vector<Asked> asked = ReadAsked();
  std::vector<std::string> lines;
  for (const rm::EscapeRow& row : rm::EscapeRows()) {
    lines.push_back(
        Line(asked, {"escape", std::string(row.name), row.nr, "", std::string(WhyEscape(row.nr))},
             [&](Tenant& tenant) { return OutcomeOfEscape(tenant, row); }));
  }
  for (const rm::UvmRow& row : rm::UvmRows()) {
    const std::string effect(UvmEffectName(row.request));
    lines.push_back(
        Line(asked,
             {"uvm", std::string(row.name), row.request, effect, std::string(WhyUvm(row.request))},
             [&](Tenant&) { return effect == "check" ? "run" : effect; }));
  }
  const auto control = [&](std::uint32_t number, const std::string& name,
                           const rm::ControlRow* row) {
    const ControlRule* rule = FindControlRule(number);
    const std::string effect(rule == nullptr ? "-" : EffectName(rule->effect));
    lines.push_back(Line(asked, {"control", name, number, effect, std::string(WhyControl(number))},
                         [&](Tenant& tenant) {
                           return OutcomeOfControl(
                               tenant, number,
                               row == nullptr ? 0 : SizeOf(*row, tenant.abi().branch));
                         }));
  };
  const auto cls = [&](std::uint32_t number, const std::string& name) {
    const ClassRule* rule = FindClassRule(number);
    const std::string effect(rule == nullptr ? "-" : EffectName(rule->effect));
    lines.push_back(Line(asked, {"class", name, number, effect, std::string(WhyClass(number))},
                         [&](Tenant& tenant) { return OutcomeOfClass(tenant, number); }));
  };
  for (const rm::ClassRow& row : rm::ClassRows()) {
    cls(row.number, std::string(row.name));
  }
  for (const rm::ControlRow& row : rm::ControlRows()) {
    control(row.cmd, std::string(row.name), &row);
  }
  // Programs ask for it, and it is in no table of ours.
  std::set<std::pair<std::string, std::uint32_t>> listed;
  for (const Asked& one : asked) {
    if (!listed.emplace(one.kind, one.number).second) {
      continue;
    }
    if (one.kind == "control" && rm::FindControl(one.number) == nullptr) {
      control(one.number, one.name, nullptr);
    } else if (one.kind == "class" && rm::FindClass(one.number) == nullptr) {
      cls(one.number, one.name);
    }
  }
  return lines;
}

TEST(Policy, DecidesEveryRowAsWrittenDown) {
  const std::vector<std::string> lines = Decisions();
  if (std::getenv("CGPU_WRITE_TESTDATA") != nullptr) {
    std::ofstream out(CGPU_TESTDATA "/decisions.tsv");
    for (const std::string& line : lines) {
      out << line << "\n";
    }
    FAIL() << "written anew; run again";
  }
  std::ifstream in(CGPU_TESTDATA "/decisions.tsv");
  std::string expected;
  for (const std::string& line : lines) {
    ASSERT_TRUE(std::getline(in, expected)) << "missing: " << line;
    EXPECT_EQ(line, expected);
  }
  EXPECT_FALSE(std::getline(in, expected)) << "nothing decides: " << expected;
}

// A refusal of these ends a program (docs/reference/what-works.md names the programs that are
// refused on purpose: MPS servers, multicast, memory of a fabric, profilers, debuggers).
TEST(Policy, RefusesNothingWithoutWhichAProgramFails) {
  constexpr std::uint32_t kFatalControls[] = {0x20808159, 0x20808162, 0x83de0309, 0x00801909,
                                              0x20809001, 0x20809009, 0x20809064, 0x20802209,
                                              0x20800102, 0x2080a028, 0x20808163, 0x20808164};
  for (const std::uint32_t command : kFatalControls) {
    const ControlRule* rule = FindControlRule(command);
    ASSERT_NE(rule, nullptr) << std::hex << command;
    EXPECT_NE(rule->effect, ControlEffect::kRefuse) << std::hex << command;
  }
  for (const std::uint32_t cls :
       {rm::NV2081_BINAPI, rm::NV01_MEMORY_LOCAL_PRIVILEGED, rm::NV_MEMORY_MAPPER,
        rm::NVENC_SW_SESSION, rm::NV50_THIRD_PARTY_P2P}) {
    const ClassRule* rule = FindClassRule(cls);
    ASSERT_NE(rule, nullptr) << std::hex << cls;
    EXPECT_TRUE(rule->effect == ClassEffect::kPlain || rule->effect == ClassEffect::kHostMemory);
  }
}

// Sizes on record are those of the tables, in the branches whose releases they were recorded on.
TEST(Policy, TakesTheSizesOnRecord) {
  // Commands of 555.42.02 itself, which lies between 550 and 570.
  const std::set<std::uint32_t> only_555 = {rm::NV2080_CTRL_CMD_GPU_QUERY_ECC_STATUS,
                                            rm::NV2080_CTRL_CMD_NVLINK_GET_NVLINK_STATUS};
  unsigned compared = 0;
  for (const Asked& one : ReadAsked()) {
    if (one.kind != "control" || one.size.empty() || rm::FindControl(one.number) == nullptr) {
      continue;
    }
    const rm::ControlRow& row = *rm::FindControl(one.number);
    const auto size = static_cast<rm::NvU32>(std::stoul(one.size));
    if (one.source.starts_with("pulak999/") && !only_555.contains(one.number)) {
      EXPECT_TRUE(row.Takes(rm::Branch::k550, size) || row.Takes(rm::Branch::k570, size))
          << row.name << " " << size;
      ++compared;
    } else if (one.source.starts_with("reindertpelsma/kayfabe")) {
      EXPECT_TRUE(row.Takes(rm::Branch::k580, size)) << row.name << " " << size;
      ++compared;
    }
  }
  EXPECT_GT(compared, 60U);
}

// A call that runs in the driver never holds an address that is not translated. (In
// FIFO_DISABLE_CHANNELS it must be null.)
TEST(Policy, AllowsNoControlWithPointersThatNobodyDescribed) {
  for (const rm::ControlRow& row : rm::ControlRows()) {
    const ControlRule* rule = FindControlRule(row.cmd);
    if (rule != nullptr && rule->effect != ControlEffect::kRefuse && row.embedded_pointers &&
        rule->effect != ControlEffect::kDisableChannels) {
      EXPECT_FALSE(rm::EmbeddedPointers(row.cmd).empty()) << row.name;
    }
  }
}

TEST(Policy, NeverRunsWhatOnlyAdministratorsMay) {
  for (const rm::ControlRow& row : rm::ControlRows()) {
    const ControlRule* rule = FindControlRule(row.cmd);
    if (rule != nullptr && row.access != rm::ControlAccess::kAny) {
      EXPECT_TRUE(rule->effect == ControlEffect::kRefuse || rule->effect == ControlEffect::kSwallow)
          << row.name;
    }
  }
}

}  // namespace
}  // namespace cgpu::boundary
