#include "km/tree.h"

#include <algorithm>
#include <cerrno>

#include "governor/policy.h"
#include "launcher/admin.h"
#include "launcher/compute.h"

namespace cgpu::km {
namespace {

constexpr std::uint64_t kMib = std::uint64_t{1} << 20;
Error Missing() {
  return Error{Code::kNotFound, 0, "there is no such file", {}};
}

Error Invalid(std::string what) {
  return Error{Code::kInvalid, 0, std::move(what), {}};
}

bool IsSetting(Kind kind) {
  return kind == Kind::kPolicy || kind == Kind::kPrioRatio || kind == Kind::kMaxInst;
}

bool IsOfContainer(Kind kind) {
  return kind == Kind::kContainer || kind == Kind::kId || kind == Kind::kMemsize ||
         kind == Kind::kMeminfo;
}

std::string Line(const std::string& text) {
  return text + "\n";
}

}  // namespace

int ErrnoOf(const Error& error) {
  switch (error.code) {
    case Code::kInvalid:
      return EINVAL;
    case Code::kNotFound:
      return ENOENT;
    case Code::kPermission:
      return EACCES;
    case Code::kExhausted:
      return ENOSPC;
    case Code::kConflict:
      return EBUSY;
    case Code::kUnavailable:
      return ETIMEDOUT;
    case Code::kUnsupported:
      return EOPNOTSUPP;
    case Code::kInternal:
      break;
  }
  return EIO;
}

const Card* Tree::FindCard(unsigned minor) const {
  const auto card = std::find_if(cards_.begin(), cards_.end(),
                                 [&](const Card& one) { return one.minor == minor; });
  return card == cards_.end() ? nullptr : &*card;
}

Result<std::vector<std::pair<std::string, Tree::Slice>>> Tree::SlicesOn(const Card& card) const {
  const auto live = registry_.Live();
  if (!live.ok()) {
    return live.error();
  }
  const std::vector<std::string> names = FolderNames(*live);
  std::vector<std::pair<std::string, Slice>> slices;
  for (std::size_t i = 0; i < live->size(); ++i) {
    const std::vector<CardGrant>& cards = (*live)[i].cards;
    for (std::size_t place = 0; place < cards.size(); ++place) {
      if (cards[place].card.uuid == card.uuid) {
        slices.emplace_back(names[i], Slice{(*live)[i], place});
      }
    }
  }
  return slices;
}

Result<Tree::Slice> Tree::FindSlice(const Place& place) const {
  const Card* const card = FindCard(place.minor);
  if (card == nullptr) {
    return Missing();
  }
  const auto slices = SlicesOn(*card);
  if (!slices.ok()) {
    return slices.error();
  }
  for (const auto& [name, slice] : *slices) {
    if (name == place.container) {
      return slice;
    }
  }
  return Missing();
}

Result<Place> Tree::Look(const std::string& path, unsigned uid) const {
  const auto place = ParsePath(path);
  if (!place) {
    return Missing();
  }
  const bool of_card = place->kind != Kind::kRoot && place->kind != Kind::kVersion;
  if (of_card && FindCard(place->minor) == nullptr) {
    return Missing();
  }
  if (IsOfContainer(place->kind)) {
    if (uid != 0) {
      return Missing();
    }
    const auto slice = FindSlice(*place);
    if (!slice.ok()) {
      return slice.error();
    }
  }
  return *place;
}

Result<std::vector<Tree::Entry>> Tree::List(const Place& folder, unsigned uid) const {
  std::vector<Entry> entries;
  if (folder.kind == Kind::kRoot) {
    entries.push_back({"version", false});
    for (const Card& card : cards_) {
      entries.push_back({std::to_string(card.minor), true});
    }
    return entries;
  }
  for (std::string& name : folder.kind == Kind::kCard ? FilesOfCard() : FilesOfContainer()) {
    entries.push_back({std::move(name), false});
  }
  const Card* const card = FindCard(folder.minor);
  if (folder.kind != Kind::kCard || card == nullptr || uid != 0) {
    return entries;
  }
  const auto slices = SlicesOn(*card);
  if (!slices.ok()) {
    return slices.error();
  }
  for (const auto& [name, slice] : *slices) {
    entries.push_back({name, true});
  }
  return entries;
}

// As `cgpu ps` shows it: what the shim holds it to, or without its answer what was granted.
Result<std::uint64_t> Tree::LimitOf(const Slice& slice) const {
  const CardGrant& grant = slice.reservation.cards[slice.place];
  const auto answer = registry_.Ask(slice.reservation.id, AdminRequest{});
  const auto status = answer.ok() ? DecodeStatus(*answer) : Result<ContainerStatus>(answer.error());
  if (!status.ok()) {
    return status.error().code == Code::kNotFound ? Result<std::uint64_t>(status.error())
                                                  : grant.limit_bytes;
  }
  for (const CardStatus& card : status->cards) {
    if (card.uuid == grant.card.uuid) {
      return card.limit_bytes;
    }
  }
  return grant.limit_bytes;
}

// One of the settings of a card, as it is now.
Result<std::uint64_t> Tree::SettingOf(const Place& file) const {
  const Card* const card = FindCard(file.minor);
  if (card == nullptr) {
    return Missing();
  }
  const auto lock = registry_.Lock();
  if (!lock.ok()) {
    return lock.error();
  }
  const auto settings = registry_.SettingsOf(*lock, card->uuid);
  if (!settings.ok()) {
    return settings.error();
  }
  if (file.kind == Kind::kPolicy) {
    return static_cast<std::uint64_t>(settings->PolicyNow());
  }
  return file.kind == Kind::kPrioRatio ? settings->prio_ratio.value_or(governor::kDefaultPrioRatio)
                                       : settings->max_inst.value_or(max_inst_);
}

Result<std::string> Tree::Read(const Place& file) const {
  if (file.kind == Kind::kVersion) {
    return Line(version_);
  }
  if (IsSetting(file.kind)) {
    const auto value = SettingOf(file);
    return value.ok() ? Line(std::to_string(*value)) : Result<std::string>(value.error());
  }
  const auto slice = FindSlice(file);
  if (!slice.ok()) {
    return slice.error();
  }
  if (file.kind == Kind::kId) {
    return Line(slice->reservation.id);
  }
  if (file.kind == Kind::kMemsize) {
    const auto limit = LimitOf(*slice);
    return limit.ok() ? Line(std::to_string(*limit)) : Result<std::string>(limit.error());
  }
  const auto answer = registry_.Ask(
      slice->reservation.id,
      {AdminRequest::Kind::kMemory, slice->reservation.cards[slice->place].card.uuid, 0});
  const auto memory = answer.ok() ? DecodeCardMemory(*answer) : Result<CardMemory>(answer.error());
  return memory.ok() ? MeminfoText(*memory) : Result<std::string>(memory.error());
}

Result<> Tree::SetSetting(const Place& file, std::uint64_t value) const {
  const Card* const card = FindCard(file.minor);
  if (card == nullptr) {
    return Missing();
  }
  if (file.kind == Kind::kPolicy) {
    const auto policy = governor::ParsePolicy(std::to_string(value));
    return policy.ok() ? SetPolicy(registry_, *card, *policy) : policy.error();
  }
  const bool ratio = file.kind == Kind::kPrioRatio;
  const unsigned least = ratio ? governor::kLeastPrioRatio : 1;
  const unsigned most = ratio ? governor::kMostPrioRatio : kMostMaxInst;
  if (value < least || value > most) {
    return Invalid("that is a number from " + std::to_string(least) + " to " +
                   std::to_string(most));
  }
  const auto lock = registry_.Lock();
  if (!lock.ok()) {
    return lock.error();
  }
  auto settings = registry_.SettingsOf(*lock, card->uuid);
  if (!settings.ok()) {
    return settings.error();
  }
  (ratio ? settings->prio_ratio : settings->max_inst) = static_cast<unsigned>(value);
  return registry_.SetCard(*lock, card->uuid, *settings);
}

Result<> Tree::SetMemory(const Place& file, std::uint64_t bytes) const {
  const auto slice = FindSlice(file);
  if (!slice.ok()) {
    return slice.error();
  }
  if (bytes == 0 || bytes % kMib != 0) {
    return Invalid("memory is given out in whole MiB, and a slice has one at least");
  }
  MemoryChange change;
  change.container = slice->reservation.id;
  change.gpu = slice->reservation.cards[slice->place].card.uuid;
  change.memory = {MemoryRequest::Kind::kMib, bytes / kMib, 0};
  const auto changed = ChangeMemory(registry_, change);
  return changed.ok() ? Result<>() : changed.error();
}

Result<> Tree::Write(const Place& file, std::string_view text, unsigned uid) const {
  if (uid != 0 || !IsWritable(file.kind)) {
    return Error{Code::kPermission, 0, "only root may write, and not to every file", {}};
  }
  const auto value = ParseValue(text);
  if (!value) {
    return Invalid("what was written is no number");
  }
  return IsSetting(file.kind) ? SetSetting(file, *value) : SetMemory(file, *value);
}

}  // namespace cgpu::km
