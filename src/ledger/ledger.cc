// Reserves and adds. free.cc frees, query.cc answers questions, state.cc hands over.
#include "ledger/ledger.h"

#include <algorithm>
#include <string>

#include "ledger/helpers.h"

namespace cgpu::ledger {
namespace {

ReserveResult QuotaReached(Full full, const char* what, std::uint32_t quota) {
  return {Error{Code::kExhausted, 0,
                "the grant's quota of " + std::to_string(quota) + " " + what + " is reached", ""},
          full};
}

Error Internal(std::string what) {
  return {Code::kInternal, 0, std::move(what), ""};
}

Error NoCard(Gpu gpu) {
  return {Code::kNotFound, 0, "there is no GPU " + std::to_string(gpu) + " in the grant", ""};
}

std::uint64_t Room(std::uint64_t limit, std::uint64_t taken) {
  return limit > taken ? limit - taken : 0;
}

}  // namespace

// --- Reservation

Reservation::Reservation(Reservation&& other) noexcept
    : dropped_(std::move(other.dropped_)), id_(std::exchange(other.id_, 0)) {}

Reservation& Reservation::operator=(Reservation&& other) noexcept {
  std::swap(dropped_, other.dropped_);
  std::swap(id_, other.id_);
  return *this;
}

Reservation::~Reservation() {
  if (id_ != 0) {
    const MutexLock lock(dropped_->mutex);
    dropped_->ids.push_back(id_);
  }
}

// --- Reserving

Ledger::Ledger(const std::vector<std::uint64_t>& limits, Quotas quotas)
    : quotas_(quotas), dropped_(std::make_shared<Reservation::Dropped>()) {
  gpus_.reserve(limits.size());
  for (const std::uint64_t limit : limits) {
    gpus_.emplace_back().limit = limit;
  }
}

Ledger::~Ledger() = default;

ReserveResult Ledger::ReserveClient() {
  CollectDropped();
  if (counts_.clients + pending_counts_.clients >= quotas_.clients) {
    return QuotaReached(Full::kClients, "clients", quotas_.clients);
  }
  return Hold({.what = Pending::What::kClient, .source = {}});
}

ReserveResult Ledger::Reserve(Kind kind, Gpu gpu, std::uint64_t bytes) {
  CollectDropped();
  if (gpu >= gpus_.size()) {
    return NoCard(gpu);
  }
  if (const auto room = CheckRoom(gpu, bytes); !room.ok()) {
    return {room.error(), Full::kLimit};
  }
  if (auto refusal = CheckQuotas(kind, &gpus_[gpu])) {
    return std::move(*refusal);
  }
  gpus_[gpu].reserved += bytes;
  return Hold({.what = Pending::What::kObject,
               .kind = static_cast<std::uint8_t>(kind),
               .gpu = static_cast<std::uint16_t>(gpu),
               .bytes = bytes,
               .source = {}});
}

Result<> Ledger::SetExtra(ExtraKey key, Gpu gpu, std::uint64_t bytes) {
  CollectDropped();
  if (gpu >= gpus_.size()) {
    return NoCard(gpu);
  }
  const std::uint64_t before = Extra(key, gpu);
  if (bytes > before) {
    CGPU_TRY(CheckRoom(gpu, bytes - before));
  }
  ForceExtra(key, gpu, bytes);
  return {};
}

void Ledger::ForceExtra(ExtraKey key, Gpu gpu, std::uint64_t bytes) {
  if (gpu >= gpus_.size()) {
    return;
  }
  GpuState& state = gpus_[gpu];
  const std::uint64_t others = state.used - Extra(key, gpu);
  bytes = std::min(bytes, std::numeric_limits<std::uint64_t>::max() - others);
  state.used = others + bytes;
  state.peak = std::max(state.peak, state.used);
  if (bytes == 0) {
    extras_.erase({gpu, key});
  } else {
    extras_[{gpu, key}] = bytes;
  }
}

void Ledger::CountDenial(Gpu gpu) {
  if (gpu < gpus_.size()) {
    ++gpus_[gpu].denied;
  }
}

Result<> Ledger::CheckRoom(Gpu gpu, std::uint64_t bytes) {
  GpuState& state = gpus_[gpu];
  const std::uint64_t room = Room(state.limit, state.used + state.reserved);
  if (bytes <= room) {
    return {};
  }
  return Error{Code::kExhausted, 0,
               "GPU " + std::to_string(gpu) + ": " + std::to_string(bytes) + " bytes asked for, " +
                   std::to_string(room) + " of " + std::to_string(state.limit) + " left",
               ""};
}

std::optional<ReserveResult> Ledger::CheckQuotas(Kind kind, const GpuState* gpu) const {
  if (counts_.handles + pending_counts_.handles >= quotas_.handles) {
    return QuotaReached(Full::kHandles, "objects", quotas_.handles);
  }
  Counts wanted;
  CountKind(wanted, kind, 1);
  if (wanted.channel_groups != 0) {
    const std::uint32_t live = counts_.channel_groups + pending_counts_.channel_groups;
    if (live >= quotas_.channel_groups) {
      return QuotaReached(Full::kChannelGroups, "channel groups", quotas_.channel_groups);
    }
    if (gpu != nullptr && gpu->counts.channel_groups >= gpu->quotas.channel_groups) {
      return QuotaReached(Full::kGpuChannelGroups, "channel groups of a GPU",
                          gpu->quotas.channel_groups);
    }
  }
  if (wanted.channels != 0) {
    if (counts_.channels + pending_counts_.channels >= quotas_.channels) {
      return QuotaReached(Full::kChannels, "channels", quotas_.channels);
    }
    if (gpu != nullptr && gpu->counts.channels >= gpu->quotas.channels) {
      return QuotaReached(Full::kGpuChannels, "channels of a GPU", gpu->quotas.channels);
    }
  }
  if (wanted.debuggers != 0 && counts_.debuggers + pending_counts_.debuggers >= quotas_.debuggers) {
    return QuotaReached(Full::kDebuggers, "debuggers", quotas_.debuggers);
  }
  return std::nullopt;
}

Result<Ledger::Shared> Ledger::SourceOf(ClientRef client, ObjectRef source) const {
  const Client* owner = Get(client);
  if (owner == nullptr) {
    return Gone("client", client.handle);
  }
  const Object* object = Get(*owner, source);
  if (object == nullptr) {
    return Gone("object", source.handle);
  }
  if (object->parent == nullptr) {
    return Error{Code::kInvalid, 0, "a client cannot be duplicated or exported", ""};
  }
  return Shared{object->block, object->cls, object->gpu, object->kind};
}

ReserveResult Ledger::ReserveShared(Pending::What what, const Shared& source) {
  CollectDropped();
  if (auto refusal = CheckQuotas(Kind::kOther, nullptr)) {
    return std::move(*refusal);
  }
  if (source.block != nullptr) {
    ++source.block->pins;
  }
  return Hold({.what = what, .source = source});
}

ReserveResult Ledger::ReserveDup(ClientRef client, ObjectRef source) {
  Result<Shared> shared = SourceOf(client, source);
  return shared.ok() ? ReserveShared(Pending::What::kCopy, *shared) : shared.error();
}

ReserveResult Ledger::ReserveExport(ClientRef client, ObjectRef source) {
  Result<Shared> shared = SourceOf(client, source);
  return shared.ok() ? ReserveShared(Pending::What::kExport, *shared) : shared.error();
}

ReserveResult Ledger::ReserveImport(FileKey file, std::uint32_t index) {
  const auto entry = exports_.find({file, index});
  if (entry == exports_.end()) {
    return Error{Code::kNotFound, 0, "the file holds no object that this container exported", ""};
  }
  return ReserveShared(Pending::What::kCopy, entry->second);
}

Reservation Ledger::Hold(const Pending& pending) {
  const std::uint64_t id = next_serial_++;
  pending_.emplace(id, pending);
  CountPending(pending, true);
  return {dropped_, id};
}

void Ledger::CountPending(const Pending& pending, bool add) {
  const std::uint32_t by = add ? 1 : ~std::uint32_t{0};
  if (pending.what == Pending::What::kClient) {
    pending_counts_.clients += by;
    return;
  }
  if (pending.what == Pending::What::kMapping) {
    pending_counts_.mappings += by;
    return;
  }
  pending_counts_.handles += by;
  CountKind(pending_counts_, KindOf(pending.kind), by);
  if (pending.what == Pending::What::kObject) {
    CountKind(gpus_[pending.gpu].counts, KindOf(pending.kind), by);
  }
}

void Ledger::Release(std::uint64_t id) {
  const auto found = pending_.find(id);
  if (found == pending_.end()) {
    return;
  }
  const Pending pending = found->second;
  pending_.erase(found);
  CountPending(pending, false);
  if (pending.what == Pending::What::kObject) {
    gpus_[pending.gpu].reserved -= pending.bytes;
  }
  if (pending.what == Pending::What::kMapping) {
    gpus_[pending.gpu].bar1 -= pending.bytes;
  }
  if (pending.source.block != nullptr) {
    --pending.source.block->pins;
    DropIfUnheld(*pending.source.block);
  }
}

void Ledger::Cancel(Reservation& reservation) {
  if (!reservation.empty() && reservation.dropped_ == dropped_) {
    Release(std::exchange(reservation.id_, 0));
  }
}

void Ledger::CollectDropped() {
  std::vector<std::uint64_t> ids;
  {
    const MutexLock lock(dropped_->mutex);
    ids.swap(dropped_->ids);
  }
  for (const std::uint64_t id : ids) {
    Release(id);
  }
}

// --- Adding

const Ledger::Pending* Ledger::Get(const Reservation& reservation, Pending::What what) const {
  if (reservation.dropped_ != dropped_) {
    return nullptr;
  }
  const auto found = pending_.find(reservation.id_);
  return found != pending_.end() && found->second.what == what ? &found->second : nullptr;
}

Result<ClientRef> Ledger::AddClient(Reservation& reservation, Handle handle, FileKey file,
                                    ProcessKey owner) {
  if (Get(reservation, Pending::What::kClient) == nullptr) {
    return Internal("a client was added without a reservation for it");
  }
  if (const auto older = clients_.find(handle); older != clients_.end()) {
    FreeClient(older);
  }
  Cancel(reservation);
  return ClientRef{handle, NewClient(handle, file, owner).serial};
}

Ledger::Client& Ledger::NewClient(Handle handle, FileKey file, ProcessKey owner) {
  Client& client = clients_[handle];
  client.serial = next_serial_++;
  client.file = file;
  client.owner = owner;
  Object& root = client.objects[handle];
  root.serial = client.serial;
  root.handle = handle;
  clients_by_file_.emplace(file, handle);
  ++counts_.clients;
  return client;
}

Result<Ledger::Place> Ledger::FindPlace(ClientRef client, ObjectRef parent, Handle handle) {
  Place place;
  place.client = Get(client);
  if (place.client == nullptr) {
    return Gone("client", client.handle);
  }
  place.parent = Get(*place.client, parent);
  if (place.parent == nullptr) {
    return Gone("parent", parent.handle);
  }
  const auto same = place.client->objects.find(handle);
  if (same != place.client->objects.end() &&
      (!same->second.doubtful || &same->second == place.parent)) {
    return Error{Code::kConflict, 0, "handle " + std::to_string(handle) + " is taken", ""};
  }
  place.gpu = place.parent->gpu;
  return place;
}

Ledger::Object& Ledger::Insert(const Place& place, Handle handle, std::uint32_t cls,
                               std::uint8_t kind) {
  if (const auto same = place.client->objects.find(handle); same != place.client->objects.end()) {
    Forget(*place.client, same->second);  // doubtful: see FindPlace()
  }
  Object& object = place.client->objects[handle];
  object.serial = next_serial_++;
  object.handle = handle;
  object.cls = cls;
  object.kind = kind;
  object.gpu = place.gpu;
  object.parent = place.parent;
  object.next_sibling = place.parent->first_child;
  if (object.next_sibling != nullptr) {
    object.next_sibling->previous_sibling = &object;
  }
  place.parent->first_child = &object;
  ++counts_.handles;
  ++of_class_[cls];
  return object;
}

Result<ObjectRef> Ledger::AddObject(Reservation& reservation, ClientRef client,
                                    const NewObject& object) {
  const Pending* pending = Get(reservation, Pending::What::kObject);
  if (pending == nullptr) {
    return Internal("an object was added without a reservation for it");
  }
  CGPU_ASSIGN_OR_RETURN(auto place, FindPlace(client, object.parent, object.handle));
  if (object.gpu) {
    if (*object.gpu >= gpus_.size()) {
      return Internal("an object was added on a GPU that is not in the grant");
    }
    place.gpu = static_cast<std::int16_t>(*object.gpu);
  }
  const std::uint64_t reserved = pending->bytes;
  const std::uint64_t actual = object.actual_bytes;
  const bool charged = reserved != 0 || actual != 0;
  if (charged && place.gpu >= 0 && place.gpu != static_cast<int>(pending->gpu)) {
    return Internal("an object was charged to a GPU that it does not lie on");
  }
  const Gpu gpu = place.gpu >= 0 ? static_cast<Gpu>(place.gpu) : pending->gpu;
  GpuState& state = gpus_[gpu];
  if (actual > reserved && actual - reserved > Room(state.limit, state.used + state.reserved)) {
    return Error{Code::kExhausted, 0,
                 "the driver took " + std::to_string(actual) + " bytes where " +
                     std::to_string(reserved) + " were expected, over the limit",
                 ""};
  }
  const Kind kind = KindOf(pending->kind);
  Cancel(reservation);
  Object& added = Insert(place, object.handle, object.cls, static_cast<std::uint8_t>(kind));
  if (charged || kind != Kind::kOther) {
    Block& block = NewBlock(kind, gpu, actual);
    block.page_bytes = object.page_bytes;
    block.engine = object.engine;
    JoinBlock(added, block);
  }
  added.doubtful = object.doubtful;
  doubts_ += object.doubtful ? 1 : 0;
  return ObjectRef{added.handle, added.serial};
}

Result<ObjectRef> Ledger::AddCopy(Reservation& reservation, ClientRef client, ObjectRef parent,
                                  Handle handle) {
  const Pending* pending = Get(reservation, Pending::What::kCopy);
  if (pending == nullptr) {
    return Internal("a copy was added without a reservation for it");
  }
  CGPU_ASSIGN_OR_RETURN(auto place, FindPlace(client, parent, handle));
  const Shared source = pending->source;
  if (place.gpu < 0) {
    place.gpu = source.gpu;
  }
  Object& added = Insert(place, handle, source.cls, source.kind);
  if (source.block != nullptr) {
    JoinBlock(added, *source.block);
  }
  Cancel(reservation);
  return ObjectRef{added.handle, added.serial};
}

Result<> Ledger::Export(Reservation& reservation, FileKey file, std::uint32_t index) {
  const Pending* pending = Get(reservation, Pending::What::kExport);
  if (pending == nullptr) {
    return Internal("an object was exported without a reservation for it");
  }
  const Shared source = pending->source;
  Unexport(file, index);
  exports_.emplace(std::pair(file, index), source);
  ++counts_.handles;
  if (source.block != nullptr) {
    ++source.block->exports;
  }
  Cancel(reservation);
  return {};
}

void Ledger::Unexport(FileKey file, std::uint32_t index) {
  if (const auto entry = exports_.find({file, index}); entry != exports_.end()) {
    DropExport(entry);
  }
}

Ledger::Exports::iterator Ledger::DropExport(Exports::iterator entry) {
  Block* block = entry->second.block;
  const auto next = exports_.erase(entry);
  --counts_.handles;
  if (block != nullptr) {
    --block->exports;
    DropIfUnheld(*block);
  }
  return next;
}

Result<> Ledger::AddDependency(ClientRef client, Handle dependant, Handle on) {
  Client* owner = Get(client);
  if (owner == nullptr) {
    return Gone("client", client.handle);
  }
  for (const Handle handle : {dependant, on}) {
    if (!owner->objects.contains(handle)) {
      return Gone("object", handle);
    }
  }
  if (dependant == on || dependant == client.handle) {
    return Error{Code::kInvalid, 0, "an object cannot depend on itself, nor a client on one", ""};
  }
  owner->dependants.emplace(on, dependant);
  owner->dependencies.emplace(dependant, on);
  return {};
}

Result<> Ledger::AddKeeper(ClientRef client, Handle keeper, Handle kept) {
  Client* owner = Get(client);
  if (owner == nullptr) {
    return Gone("client", client.handle);
  }
  if (!owner->objects.contains(keeper)) {
    return Gone("object", keeper);
  }
  owner->keepers.emplace(kept, keeper);
  owner->kept.emplace(keeper, kept);
  return {};
}

}  // namespace cgpu::ledger
