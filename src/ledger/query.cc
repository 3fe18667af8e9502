// Answers questions to the ledger.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "ledger/helpers.h"
#include "ledger/ledger.h"

namespace cgpu::ledger {

const Ledger::GpuState& Ledger::At(Gpu gpu) const {
  static constexpr GpuState kNone;
  return gpu < gpus_.size() ? gpus_[gpu] : kNone;
}

const Ledger::Client* Ledger::Get(ClientRef ref) const {
  const auto found = clients_.find(ref.handle);
  if (found == clients_.end() || (ref.serial != 0 && found->second.serial != ref.serial)) {
    return nullptr;
  }
  return &found->second;
}

const Ledger::Object* Ledger::Get(const Client& client, ObjectRef ref) {
  const auto found = client.objects.find(ref.handle);
  if (found == client.objects.end() || (ref.serial != 0 && found->second.serial != ref.serial)) {
    return nullptr;
  }
  return &found->second;
}

Ledger::Client* Ledger::Get(ClientRef ref) {
  return const_cast<Client*>(std::as_const(*this).Get(ref));
}

Ledger::Object* Ledger::Get(Client& client, ObjectRef ref) {
  return const_cast<Object*>(Get(std::as_const(client), ref));
}

std::optional<ClientInfo> Ledger::FindClient(Handle handle) const {
  const auto found = clients_.find(handle);
  if (found == clients_.end()) {
    return std::nullopt;
  }
  const Client& client = found->second;
  return ClientInfo{{handle, client.serial}, client.file, client.owner};
}

std::vector<ClientInfo> Ledger::Clients() const {
  std::vector<ClientInfo> all;
  all.reserve(clients_.size());
  for (const auto& [handle, client] : clients_) {
    all.push_back({{handle, client.serial}, client.file, client.owner});
  }
  return all;
}

ObjectInfo Ledger::Describe(const Object& object) {
  ObjectInfo info;
  info.ref = {object.handle, object.serial};
  info.parent = object.parent != nullptr ? object.parent->handle : object.handle;
  info.doubtful = object.doubtful;
  info.cls = object.cls;
  info.kind = KindOf(object.kind);
  if (object.gpu >= 0) {
    info.gpu = static_cast<Gpu>(object.gpu);
  }
  if (object.block != nullptr) {
    info.bytes = object.block->bytes;
    info.holders = object.block->objects + object.block->exports;
    info.page_bytes = object.block->page_bytes;
  }
  return info;
}

std::optional<ObjectInfo> Ledger::Look(ClientRef client, Handle object) const {
  const Client* owner = Get(client);
  const Object* found = owner != nullptr ? Get(*owner, {object, 0}) : nullptr;
  return found != nullptr ? std::optional(Describe(*found)) : std::nullopt;
}

std::optional<ObjectInfo> Ledger::Find(ClientRef client, Handle object) const {
  std::optional<ObjectInfo> info = Look(client, object);
  if (info && info->doubtful) {
    met_.emplace(client.handle, object);
  }
  return info;
}

std::optional<Gpu> Ledger::GpuOf(ClientRef client, Handle object) const {
  const std::optional<ObjectInfo> info = Look(client, object);
  return info ? info->gpu : std::nullopt;
}

std::optional<std::uint64_t> Ledger::ChannelOrGroup(ClientRef client, Handle object) const {
  const Client* owner = Get(client);
  const Object* found = owner != nullptr ? Get(*owner, {object, 0}) : nullptr;
  if (found == nullptr || found->block == nullptr) {
    return std::nullopt;
  }
  return found->block->id;
}

bool Ledger::FreesOthers(ClientRef client, Handle object) const {
  const Client* owner = Get(client);
  const Object* found = owner != nullptr ? Get(*owner, {object, 0}) : nullptr;
  if (found == nullptr) {
    return false;
  }
  const auto dependant = owner->dependants.lower_bound({object, 0});
  return found->first_child != nullptr ||
         (dependant != owner->dependants.end() && dependant->first == object);
}

// Looks from what is kept upwards, so the cost is that of the keepers and not of all that lies
// below the object: a tenant may ask again and again for a free that is refused.
bool Ledger::IsKept(ClientRef client, Handle object) const {
  const Client* owner = Get(client);
  const Object* found = owner != nullptr ? Get(*owner, {object, 0}) : nullptr;
  if (owner == nullptr || (found != nullptr && found->parent == nullptr)) {
    return false;
  }
  const auto goes = [&](const Object* other) {
    return found != nullptr && other != nullptr && GoesWith(*owner, *other, *found);
  };
  const bool alone = !FreesOthers(client, object);
  auto edge = alone ? owner->keepers.lower_bound({object, 0}) : owner->keepers.begin();
  for (; edge != owner->keepers.end() && (!alone || edge->first == object); ++edge) {
    const Object* kept = Get(*owner, {edge->first, 0});
    const Object& keeper = owner->objects.at(edge->second);
    if (goes(&keeper) || !Uses(keeper)) {
      continue;
    }
    if (kept != nullptr && kept->doubtful) {
      met_.emplace(client.handle, edge->first);
    }
    if (edge->first == object || goes(kept)) {
      return true;
    }
  }
  return false;
}

std::vector<Handle> Ledger::KeptBy(ClientRef client, Handle keeper) const {
  std::vector<Handle> all;
  const Client* owner = Get(client);
  if (owner == nullptr) {
    return all;
  }
  auto edge = owner->kept.lower_bound({keeper, 0});
  for (; edge != owner->kept.end() && edge->first == keeper; ++edge) {
    all.push_back(edge->second);
  }
  return all;
}

// Returns true if freeing `root` frees `object` too. Dependencies may form circles.
bool Ledger::GoesWith(const Client& client, const Object& object, const Object& root) {
  std::set<const Object*> seen;
  std::vector<const Object*> next{&object};
  while (!next.empty()) {
    const Object* current = next.back();
    next.pop_back();
    if (current == &root) {
      return true;
    }
    if (current == nullptr || !seen.insert(current).second) {
      continue;
    }
    next.push_back(current->parent);
    auto edge = client.dependencies.lower_bound({current->handle, 0});
    for (; edge != client.dependencies.end() && edge->first == current->handle; ++edge) {
      next.push_back(Get(client, {edge->second, 0}));
    }
  }
  return false;
}

// Returns true if a keeper uses what it keeps.
bool Ledger::Uses(const Object& keeper) {
  if (Describe(keeper).kind != Kind::kChannelGroup) {
    return true;
  }
  const Object* child = keeper.first_child;
  while (child != nullptr && Describe(*child).kind != Kind::kChannel) {
    child = child->next_sibling;
  }
  return child != nullptr;
}

std::vector<ObjectInfo> Ledger::Objects(ClientRef client) const {
  std::vector<ObjectInfo> all;
  if (const Client* owner = Get(client); owner != nullptr) {
    all.reserve(owner->objects.size());
    for (const auto& [handle, object] : owner->objects) {
      all.push_back(Describe(object));
    }
  }
  return all;
}

void Ledger::AddUsage(const Object& object, Gpu gpu, Usage& usage) {
  const Block* block = object.block;
  if (block == nullptr || block->gpu != gpu) {
    return;
  }
  const bool owned = block->owner == &object;
  if (KindOf(block->kind) != Kind::kMemory) {
    usage.context_bytes += owned ? block->bytes : 0;
  } else if (block->objects + block->exports == 1) {
    usage.private_bytes += block->bytes;
  } else if (owned) {
    usage.shared_owned_bytes += block->bytes;
  } else {
    usage.shared_duped_bytes += block->bytes;
  }
}

std::map<ProcessKey, Usage> Ledger::UsageByProcess(Gpu gpu) const {
  std::map<ProcessKey, Usage> usages;
  for (const auto& [handle, client] : clients_) {
    Usage& usage = usages[client.owner];
    for (const auto& [object_handle, object] : client.objects) {
      AddUsage(object, gpu, usage);
    }
  }
  for (const auto& [where, bytes] : extras_) {
    if (where.first == gpu) {
      usages[where.second.owner].extra_bytes += bytes;
    }
  }
  return usages;
}

std::uint64_t Ledger::Extra(ExtraKey key, Gpu gpu) const {
  const auto found = extras_.find({gpu, key});
  return found == extras_.end() ? 0 : found->second;
}

Usage Ledger::UsageOfClient(ClientRef client, Gpu gpu) const {
  Usage usage;
  if (const Client* owner = Get(client); owner != nullptr) {
    for (const auto& [handle, object] : owner->objects) {
      AddUsage(object, gpu, usage);
    }
  }
  return usage;
}

namespace {

Handle ClientOf(const internal::Object& object) {
  const internal::Object* root = &object;
  while (root->parent != nullptr) {
    root = root->parent;
  }
  return root->handle;
}

}  // namespace

std::vector<ChannelInfo> Ledger::Channels(Gpu gpu) const {
  std::vector<ChannelInfo> all;
  for (const auto& [id, block] : blocks_) {
    const Kind kind = KindOf(block.kind);
    const bool lone = kind == Kind::kLoneChannel;
    if (block.gpu != gpu || block.owner == nullptr || (!lone && kind != Kind::kChannel)) {
      continue;
    }
    const Object& channel = *block.owner;
    ChannelInfo info{id, ClientOf(channel), channel.handle, id, 0, 0, block.engine};
    const Block* group = lone ? nullptr : channel.parent->block;
    if (group != nullptr) {
      info.group = group->id;
      info.group_client = info.client;
      info.group_handle = channel.parent->handle;
      info.engine = group->engine;
    }
    all.push_back(info);
  }
  std::ranges::sort(all, [](const ChannelInfo& left, const ChannelInfo& right) {
    return std::tie(left.group, left.client, left.channel) <
           std::tie(right.group, right.client, right.channel);
  });
  return all;
}

}  // namespace cgpu::ledger
