// Plays random histories of one container to the ledger and to a naive model of it. After every
// step both must answer every question alike, and invariants are checked.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/state.h"
#include "ledger/ledger.h"
#include "ledger/model_testing.h"

namespace cgpu::ledger {
namespace {

using Flight = Model::Flight;

constexpr std::array<std::uint64_t, 2> kLimits{1000, 300};
constexpr Quotas kQuotas{.clients = 3, .handles = 24, .channel_groups = 3, .channels = 3};

// Names come from small sets so that they collide.
struct Step {
  std::uint8_t what = 0;
  std::array<std::uint8_t, 4> pick{};
  std::uint16_t bytes = 0;
};

class Player {
 public:
  void Play(const Step& step) {
    using Move = void (Player::*)(const Step&);
    // More ways to grow than to shrink, so that histories reach large states.
    constexpr std::array<Move, 50> kMoves{
        &Player::BeginClient, &Player::BeginObject, &Player::BeginObject, &Player::BeginObject,
        &Player::BeginObject, &Player::BeginObject, &Player::BeginObject, &Player::BeginDup,
        &Player::BeginDup,    &Player::BeginDup,    &Player::BeginExport, &Player::BeginImport,
        &Player::Finish,      &Player::Finish,      &Player::Finish,      &Player::Finish,
        &Player::Finish,      &Player::Finish,      &Player::Finish,      &Player::Finish,
        &Player::Finish,      &Player::Finish,      &Player::Finish,      &Player::Finish,
        &Player::Finish,      &Player::Finish,      &Player::Finish,      &Player::Finish,
        &Player::Cancel,      &Player::Drop,        &Player::Free,        &Player::Free,
        &Player::Free,        &Player::Free,        &Player::Depend,      &Player::Depend,
        &Player::Depend,      &Player::Depend,      &Player::Depend,      &Player::Depend,
        &Player::Depend,      &Player::Depend,      &Player::Keep,        &Player::Keep,
        &Player::Keep,        &Player::Keep,        &Player::Close,       &Player::Remove,
        &Player::Limit,       &Player::HandOver};
    (this->*kMoves.at(step.what % kMoves.size()))(step);
    Compare();
  }

  // Checks the end: when all files are closed and no call is in flight, nothing is left.
  void End() {
    for (auto& [id, reservation] : tokens_) {
      ledger_->Cancel(reservation);
    }
    for (FileKey file = 1; file <= 4; ++file) {
      ledger_->CloseFile(file);
    }
    RC_ASSERT(ledger_->Count() == Counts{});
    for (Gpu gpu = 0; gpu < ledger_->Gpus(); ++gpu) {
      RC_ASSERT(ledger_->Used(gpu) == 0U);
      RC_ASSERT(ledger_->Reserved(gpu) == 0U);
    }
  }

 private:
  static Handle ClientName(const Step& step, std::size_t i) { return 1000U + step.pick.at(i) % 3; }
  static Handle ObjectName(const Step& step, std::size_t i) { return 1U + step.pick.at(i) / 4 % 8; }
  static FileKey FileName(const Step& step, std::size_t i) { return 1U + step.pick.at(i) % 4; }
  // An object's place: mostly another object, sometimes the client itself.
  static Handle ParentName(const Step& step, std::size_t i) {
    return step.pick.at(i) % 4 == 0 ? ClientName(step, 0) : ObjectName(step, i);
  }

  template <class T>
  static void Expect(const Result<T>& got, std::optional<Code> expected) {
    RC_ASSERT(got.ok() == !expected.has_value());
    if (expected) {
      RC_ASSERT(got.error().code == *expected);
    }
  }

  void Keep(Result<Reservation> got, std::optional<Code> expected, const Flight& flight) {
    Expect(got, expected);
    if (got.ok()) {
      model_.flights.emplace(next_id_, flight);
      tokens_.emplace(next_id_, std::move(*got));
      ++next_id_;
    }
  }

  std::optional<Code> QuotaReached(Kind kind) const {
    const Counts now = model_.Count();
    const Counts flying = model_.InFlight();
    const bool full =
        now.handles + flying.handles >= kQuotas.handles ||
        (kind == Kind::kChannelGroup &&
         now.channel_groups + flying.channel_groups >= kQuotas.channel_groups) ||
        (kind == Kind::kChannel && now.channels + flying.channels >= kQuotas.channels);
    return full ? std::optional(Code::kExhausted) : std::nullopt;
  }

  void BeginClient(const Step& /*step*/) {
    const bool full = model_.Count().clients + model_.InFlight().clients >= kQuotas.clients;
    Keep(ledger_->ReserveClient(), full ? std::optional(Code::kExhausted) : std::nullopt,
         {.what = Flight::What::kClient, .source = {}});
  }

  void BeginObject(const Step& step) {
    const Kind kind =
        std::array{Kind::kOther, Kind::kMemory, Kind::kMemory, Kind::kChannelGroup, Kind::kChannel}
            .at(step.pick[0] % 5);
    const Gpu gpu = step.pick[1] % 3;
    const std::uint64_t bytes = kind == Kind::kOther ? 0 : step.bytes % 400;
    std::optional<Code> expected = QuotaReached(kind);
    if (gpu >= kLimits.size()) {
      expected = Code::kNotFound;
    } else if (!expected && bytes != 0 &&
               model_.Used(gpu) + model_.Reserved(gpu) + bytes > model_.limits[gpu]) {
      expected = Code::kExhausted;
    }
    Keep(ledger_->Reserve(kind, gpu, bytes), expected,
         {.kind = kind, .gpu = gpu, .bytes = bytes, .source = {}});
  }

  std::pair<std::optional<Code>, Model::Copy> Source(Handle client, Handle object) const {
    const Model::Row* row = model_.Find(client, object);
    if (row == nullptr) {
      return {Code::kNotFound, {}};
    }
    if (row->handle == row->client) {
      return {Code::kInvalid, {}};
    }
    return {QuotaReached(Kind::kOther), {row->gpu, row->kind, row->block}};
  }

  void BeginDup(const Step& step) {
    const Handle client = ClientName(step, 0);
    const Handle object = ParentName(step, 1);
    const auto [expected, copy] = Source(client, object);
    Keep(ledger_->ReserveDup({client}, {object}), expected,
         {.what = Flight::What::kCopy, .source = copy});
  }

  void BeginExport(const Step& step) {
    const Handle client = ClientName(step, 0);
    const Handle object = ParentName(step, 1);
    const auto [expected, copy] = Source(client, object);
    Keep(ledger_->ReserveExport({client}, {object}), expected,
         {.what = Flight::What::kExport, .source = copy});
  }

  void BeginImport(const Step& step) {
    const FileKey file = FileName(step, 0);
    const std::uint32_t index = step.pick[1] % 2;
    std::optional<Code> expected = Code::kNotFound;
    Model::Copy copy;
    for (const Model::ExportRow& row : model_.exports) {
      if (row.file == file && row.index == index) {
        expected = QuotaReached(Kind::kOther);
        copy = row.what;
      }
    }
    Keep(ledger_->ReserveImport(file, index), expected,
         {.what = Flight::What::kCopy, .source = copy});
  }

  void Finish(const Step& step) {
    if (tokens_.empty()) {
      return;
    }
    auto token = tokens_.begin();
    std::advance(token, step.pick[3] % tokens_.size());
    const Flight flight = model_.flights.at(token->first);
    bool done = false;
    switch (flight.what) {
      case Flight::What::kClient:
        done = FinishClient(step, token->second);
        break;
      case Flight::What::kObject:
        done = FinishObject(step, token->second, flight);
        break;
      case Flight::What::kCopy:
        done = FinishCopy(step, token->second, flight);
        break;
      case Flight::What::kExport: {
        Expect(ledger_->Export(token->second, FileName(step, 0), step.pick[1] % 2), std::nullopt);
        model_.Unexport(FileName(step, 0), step.pick[1] % 2);
        model_.exports.push_back({FileName(step, 0), step.pick[1] % 2U, flight.source});
        done = true;
        break;
      }
    }
    RC_ASSERT(token->second.empty() == done);
    if (done) {
      model_.flights.erase(token->first);
      tokens_.erase(token);
    }
  }

  bool FinishClient(const Step& step, Reservation& token) {
    const Handle handle = ClientName(step, 0);
    const FileKey file = FileName(step, 1);
    const ProcessKey owner = 1U + step.pick[2] % 3;
    if (model_.clients.contains(handle)) {
      model_.Free(handle, handle);
    }
    const Result<ClientRef> added = ledger_->AddClient(token, handle, file, owner);
    Expect(added, std::nullopt);
    model_.clients[handle] = {file, owner, ++model_.clock};
    model_.rows.push_back({.client = handle,
                           .handle = handle,
                           .parent = handle,
                           .gpu = {},
                           .block = {},
                           .age = model_.clock});
    refs_[handle] = *added;
    return true;
  }

  std::optional<Code> NoPlace(Handle client, Handle parent, Handle handle) const {
    if (!model_.clients.contains(client) || model_.Find(client, parent) == nullptr) {
      return Code::kNotFound;
    }
    return model_.Find(client, handle) != nullptr ? std::optional(Code::kConflict) : std::nullopt;
  }

  bool FinishObject(const Step& step, Reservation& token, const Flight& flight) {
    const Handle client = ClientName(step, 0);
    const Handle parent = ParentName(step, 1);
    // Mostly the driver takes what was expected, sometimes less or more.
    const bool more = step.bytes % 8 == 1;
    const std::uint64_t actual =
        step.bytes % 8 == 0 ? flight.bytes / 2 : flight.bytes + (more ? step.bytes % 64 : 0);
    NewObject object{
        .parent = {parent}, .handle = ObjectName(step, 2), .gpu = {}, .actual_bytes = actual};
    if (step.pick[3] % 4 == 0) {
      object.gpu = step.pick[3] / 4 % 2;
    }
    std::optional<Code> expected = NoPlace(client, parent, object.handle);
    std::optional<Gpu> gpu;
    if (!expected) {
      gpu = object.gpu ? object.gpu : model_.Find(client, parent)->gpu;
      const bool charged = actual != 0 || flight.bytes != 0;
      const Gpu charge = gpu.value_or(flight.gpu);
      if (charged && charge != flight.gpu) {
        expected = Code::kInternal;
      } else if (actual > flight.bytes &&
                 model_.Used(charge) + model_.Reserved(charge) + actual - flight.bytes >
                     model_.limits[charge]) {
        expected = Code::kExhausted;
      }
    }
    Expect(ledger_->AddObject(token, {client}, object), expected);
    if (expected) {
      return false;
    }
    Model::Row row{.client = client,
                   .handle = object.handle,
                   .parent = parent,
                   .gpu = gpu,
                   .kind = flight.kind,
                   .block = {},
                   .age = ++model_.clock};
    if (flight.kind != Kind::kOther || actual != 0) {
      row.block = static_cast<int>(model_.blocks.size());
      model_.blocks.push_back({gpu.value_or(flight.gpu), actual, flight.kind});
    }
    model_.rows.push_back(row);
    return true;
  }

  bool FinishCopy(const Step& step, Reservation& token, const Flight& flight) {
    const Handle client = ClientName(step, 0);
    const Handle parent = ParentName(step, 1);
    const Handle handle = ObjectName(step, 2);
    const std::optional<Code> expected = NoPlace(client, parent, handle);
    Expect(ledger_->AddCopy(token, {client}, {parent}, handle), expected);
    if (expected) {
      return false;
    }
    const std::optional<Gpu> own = model_.Find(client, parent)->gpu;
    model_.rows.push_back({.client = client,
                           .handle = handle,
                           .parent = parent,
                           .gpu = own ? own : flight.source.gpu,
                           .kind = flight.source.kind,
                           .block = flight.source.block,
                           .age = ++model_.clock});
    return true;
  }

  void Cancel(const Step& step) {
    if (tokens_.empty()) {
      return;
    }
    auto token = tokens_.begin();
    std::advance(token, step.pick[0] % tokens_.size());
    ledger_->Cancel(token->second);
    model_.flights.erase(token->first);
    tokens_.erase(token);
  }

  // A token that is only destroyed comes back at the next Reserve.
  void Drop(const Step& step) {
    if (tokens_.empty()) {
      return;
    }
    auto token = tokens_.begin();
    std::advance(token, step.pick[0] % tokens_.size());
    model_.flights.erase(token->first);
    tokens_.erase(token);
    Result<Reservation> next = ledger_->Reserve(Kind::kOther);
    if (next.ok()) {
      ledger_->Cancel(*next);
    }
  }

  void Free(const Step& step) {
    const Handle client = ClientName(step, 0);
    const Handle object = step.pick[1] % 16 == 0 ? client : ObjectName(step, 2);
    const bool exists = model_.Find(client, object) != nullptr;
    Expect(ledger_->Free({client}, {object}),
           exists ? std::nullopt : std::optional(Code::kNotFound));
    if (exists) {
      model_.Free(client, object);
    }
  }

  void Close(const Step& step) {
    if (step.pick[1] % 3 == 0) {
      model_.Unexport(FileName(step, 0), step.pick[2] % 2);
      ledger_->Unexport(FileName(step, 0), step.pick[2] % 2);
      return;
    }
    model_.CloseFile(FileName(step, 0));
    ledger_->CloseFile(FileName(step, 0));
  }

  // Removes by a reference that may be stale.
  void Remove(const Step& step) {
    const Handle handle = ClientName(step, 0);
    const auto ref = refs_.find(handle);
    if (ref == refs_.end()) {
      return;
    }
    const ClientRef asked =
        step.pick[1] % 2 == 0 ? ref->second : ClientRef{handle, ref->second.serial + 1};
    const bool exists = model_.clients.contains(handle) && asked == ref->second;
    RC_ASSERT(ledger_->RemoveClient(asked) == exists);
    if (exists) {
      model_.Free(handle, handle);
    }
  }

  void Limit(const Step& step) {
    const Gpu gpu = step.pick[0] % 3;
    const Result<LimitResult> set = ledger_->SetLimit(gpu, step.bytes % 1200);
    Expect(set, gpu < kLimits.size() ? std::nullopt : std::optional(Code::kNotFound));
    if (set.ok()) {
      model_.limits[gpu] = step.bytes % 1200;
      const bool below = model_.Used(gpu) + model_.Reserved(gpu) > model_.limits[gpu];
      RC_ASSERT(*set == (below ? LimitResult::kBelowUse : LimitResult::kSet));
      lowered_.at(gpu) |= below;
    }
  }

  void Depend(const Step& step) {
    const Handle client = ClientName(step, 0);
    const Handle dependant = ParentName(step, 1);
    const Handle on = ParentName(step, 2);
    std::optional<Code> expected;
    if (model_.Find(client, dependant) == nullptr || model_.Find(client, on) == nullptr) {
      expected = Code::kNotFound;
    } else if (dependant == on || dependant == client) {
      expected = Code::kInvalid;
    }
    Expect(ledger_->AddDependency({client}, dependant, on), expected);
    if (!expected) {
      model_.edges.push_back({client, dependant, on});
    }
  }

  void Keep(const Step& step) {
    const Handle client = ClientName(step, 0);
    const Handle keeper = ParentName(step, 1);
    const Handle kept = ParentName(step, 2);
    const bool there = model_.Find(client, keeper) != nullptr;
    Expect(ledger_->AddKeeper({client}, keeper, kept),
           there ? std::nullopt : std::optional(Code::kNotFound));
    if (there) {
      model_.keepers.push_back({client, keeper, kept});
    }
  }

  static std::string Saved(const Ledger& ledger) {
    StateWriter writer;
    writer.Begin(1);
    ledger.Save(writer);
    writer.End();
    return writer.Take();
  }

  // Continues with a successor. Calls in flight have ended before: some failed, some died.
  void HandOver(const Step& step) {
    for (auto& [id, reservation] : tokens_) {
      if (step.pick[0] % 2 == 0) {
        ledger_->Cancel(reservation);
      }
    }
    tokens_.clear();
    model_.flights.clear();
    const std::string bytes = Saved(*ledger_);
    ledger_ = NewLedger();
    StateReader reader(bytes);
    RC_ASSERT(reader.Enter() == StateTag{1});
    RC_ASSERT(ledger_->Load(reader).ok());
    RC_ASSERT(Saved(*ledger_) == bytes);
  }

  void Compare() {
    RC_ASSERT(ledger_->Count() == model_.Count());
    for (Gpu gpu = 0; gpu < kLimits.size(); ++gpu) {
      const std::uint64_t used = model_.Used(gpu);
      model_.peak[gpu] = std::max(model_.peak[gpu], used);
      RC_ASSERT(ledger_->Used(gpu) == used);
      RC_ASSERT(ledger_->Reserved(gpu) == model_.Reserved(gpu));
      RC_ASSERT(ledger_->Peak(gpu) == model_.peak[gpu]);
      RC_ASSERT(ledger_->Limit(gpu) == model_.limits[gpu]);
      const bool within = used + model_.Reserved(gpu) <= model_.limits[gpu];
      lowered_.at(gpu) &= !within;
      RC_ASSERT(within || lowered_.at(gpu));
      const std::map<ProcessKey, Usage> usage = ledger_->UsageByProcess(gpu);
      RC_ASSERT(usage == model_.UsageByProcess(gpu));
      CompareClients(gpu, usage);
    }
    CompareObjects();
  }

  void CompareClients(Gpu gpu, const std::map<ProcessKey, Usage>& usage) {
    std::uint64_t by_process = 0;
    for (const auto& [process, row] : usage) {
      by_process += row.Paid();
    }
    std::uint64_t by_client = 0;
    for (const ClientInfo& client : ledger_->Clients()) {
      by_client += ledger_->UsageOfClient(client.ref, gpu).Paid();
    }
    RC_ASSERT(by_client == by_process);
    RC_ASSERT(by_process <= ledger_->Used(gpu));
  }

  void CompareObjects() {
    RC_ASSERT(ledger_->Clients().size() == model_.clients.size());
    std::size_t rows = 0;
    for (const ClientInfo& client : ledger_->Clients()) {
      const Model::ClientRow& expected = model_.clients.at(client.ref.handle);
      RC_ASSERT(client.file == expected.file);
      RC_ASSERT(client.owner == expected.owner);
      for (const ObjectInfo& object : ledger_->Objects(client.ref)) {
        ++rows;
        const Model::Row* row = model_.Find(client.ref.handle, object.ref.handle);
        RC_ASSERT(row != nullptr);
        RC_ASSERT(object.parent == row->parent);
        RC_ASSERT(object.kind == row->kind);
        RC_ASSERT(ledger_->IsKept(client.ref, object.ref.handle) ==
                  model_.IsKept(client.ref.handle, object.ref.handle));
        RC_ASSERT(object.gpu == row->gpu);
        RC_ASSERT(object.holders == (row->block ? model_.Holders(*row->block) : 0U));
      }
    }
    RC_ASSERT(rows == model_.rows.size());
  }

  static std::unique_ptr<Ledger> NewLedger() {
    return std::make_unique<Ledger>(std::vector(kLimits.begin(), kLimits.end()), kQuotas);
  }

  std::unique_ptr<Ledger> ledger_ = NewLedger();
  Model model_{{kLimits.begin(), kLimits.end()}, kQuotas};
  std::map<std::uint64_t, Reservation> tokens_;
  std::uint64_t next_id_ = 1;
  std::map<Handle, ClientRef> refs_;
  std::array<bool, 2> lowered_{};
};

}  // namespace
}  // namespace cgpu::ledger

namespace rc {

template <>
struct Arbitrary<cgpu::ledger::Step> {
  static Gen<cgpu::ledger::Step> arbitrary() {
    using cgpu::ledger::Step;
    // The full range at any size: small numbers here are no simpler than large ones.
    const auto byte = gen::inRange<std::uint8_t>(0, 255);
    return gen::build<Step>(
        gen::set(&Step::what, byte),
        gen::set(&Step::pick, gen::container<std::array<std::uint8_t, 4>>(byte)),
        gen::set(&Step::bytes, gen::inRange<std::uint16_t>(0, 4096)));
  }
};

}  // namespace rc

namespace cgpu::ledger {
namespace {

void PrintTo(const Step& step, std::ostream* out) {
  *out << static_cast<int>(step.what) % 46 << '/' << static_cast<int>(step.pick[0]) << ','
       << static_cast<int>(step.pick[1]) << ',' << static_cast<int>(step.pick[2]) << ','
       << static_cast<int>(step.pick[3]) << '/' << step.bytes;
}

[[maybe_unused]] void showValue(const Step& step, std::ostream& out) {
  PrintTo(step, &out);
}

TEST(LedgerPropertyTest, AgreesWithTheModelInEveryHistory) {
  const bool held = rc::check("ledger == model", [] {
    const auto histories = *rc::gen::container<std::array<std::vector<Step>, 20>>(
        rc::gen::scale(8.0, rc::gen::arbitrary<std::vector<Step>>()));
    for (const std::vector<Step>& history : histories) {
      Player player;
      for (const Step& step : history) {
        player.Play(step);
      }
      player.End();
    }
  });
  EXPECT_TRUE(held) << "the smallest history that breaks it is printed above";
}

}  // namespace
}  // namespace cgpu::ledger
