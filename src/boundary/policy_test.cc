// Which decision every class, control and escape that the tables know gets on every branch, against
// testdata/decisions.tsv: a change of policy is a change of that file.
#include "boundary/policy.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "boundary/boundary.h"
#include "rm/class_table.h"
#include "rm/control_table.h"
#include "rm/escape_table.h"
#include "rm/nv_classes.h"
#include "rm/nv_ctrl.h"
#include "rm/nv_status.h"
#include "rm/nv_structs.h"

namespace cgpu::boundary {
namespace {

constexpr std::uint32_t kClient = 0xc1d00001;
constexpr std::uint32_t kDevice = 0x10;
constexpr std::uint32_t kSubdevice = 0x11;

// Of one branch, with a client, a device and a subdevice in the ledger.
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

  // All memory of the tenant's is zeros, except for the one call.
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
    call.file = row->files == rm::EscapeFiles::kCard ? File{FileKind::kCard, 0, true}
                                                     : File{FileKind::kControl, 255, true};
    const auto size = static_cast<rm::NvU32>(bytes.size());
    if (const int error = Decode(abi_, rm::EscapeRequest(nr, size), kCall, *this, call)) {
      return std::strerror(error);
    }
    Decision decision = boundary_.Decide(call);
    switch (decision.action) {
      case Decision::Action::kExecute:
        return "run";
      case Decision::Action::kContinue:
        return "continue";
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

std::string OutcomeOfControl(Tenant& tenant, const rm::ControlRow& row) {
  rm::NVOS54_PARAMETERS control{};
  control.hClient = kClient;
  control.hObject = kSubdevice;
  control.cmd = row.cmd;
  control.paramsSize = row.Size(tenant.abi().branch);
  control.params = control.paramsSize == 0 ? 0 : kSomewhere;
  return tenant.Outcome(rm::NV_ESC_RM_CONTROL, control);
}

std::string OutcomeOfClass(Tenant& tenant, const rm::ClassRow& row) {
  rm::NVOS21_PARAMETERS alloc{};
  alloc.hRoot = IsClientClass(row.number) ? 0 : kClient;
  alloc.hObjectParent = kSubdevice;
  alloc.hClass = row.number;
  alloc.pAllocParms = row.Size(tenant.abi().branch) == 0 ? 0 : kSomewhere;
  return tenant.Outcome(rm::NV_ESC_RM_ALLOC, alloc);
}

// The parameters are zeros but for the client.
std::string OutcomeOfEscape(Tenant& tenant, const rm::EscapeRow& row) {
  const rm::SizeRule rule = row.Rule(tenant.abi().branch);
  if (rule.kind == rm::SizeRule::Kind::kNever) {
    return "-";
  }
  Bytes params(rule.kind == rm::SizeRule::Kind::kAny ? 72 : rule.a);
  Store(params, kClient);
  return tenant.Outcome(row.nr, params);
}

// One column where all branches agree.
template <class Row>
std::string Line(const char* kind, std::string_view name, std::string_view effect, const Row& row,
                 std::string (*outcome)(Tenant&, const Row&)) {
  std::vector<std::string> outcomes;
  for (const rm::Branch branch : rm::kBranches) {
    Tenant tenant(branch);
    outcomes.push_back(outcome(tenant, row));
  }
  if (std::all_of(outcomes.begin(), outcomes.end(),
                  [&](const std::string& one) { return one == outcomes[0]; })) {
    outcomes.resize(1);
  }
  std::string line = std::string(kind) + "\t" + std::string(name) + "\t" + std::string(effect);
  for (const std::string& one : outcomes) {
    line += "\t" + one;
  }
  return line;
}

std::vector<std::string> Decisions() {
  std::vector<std::string> lines;
  for (const rm::EscapeRow& row : rm::EscapeRows()) {
    lines.push_back(Line("escape", row.name, "", row, &OutcomeOfEscape));
  }
  for (const rm::ClassRow& row : rm::ClassRows()) {
    const ClassRule* rule = FindClassRule(row.number);
    lines.push_back(Line("class", row.name, rule == nullptr ? "-" : EffectName(rule->effect), row,
                         &OutcomeOfClass));
  }
  for (const rm::ControlRow& row : rm::ControlRows()) {
    const ControlRule* rule = FindControlRule(row.cmd);
    lines.push_back(Line("control", row.name, rule == nullptr ? "-" : EffectName(rule->effect), row,
                         &OutcomeOfControl));
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

// What runs in the driver never holds an address that nobody translates.
TEST(Policy, AllowsNoControlWithPointersThatNobodyDescribed) {
  for (const rm::ControlRow& row : rm::ControlRows()) {
    const ControlRule* rule = FindControlRule(row.cmd);
    if (rule != nullptr && rule->effect != ControlEffect::kRefuse && row.embedded_pointers) {
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
