// Blocks and their holders, frees, closes.
#include <algorithm>
#include <utility>
#include <vector>

#include "ledger/helpers.h"
#include "ledger/ledger.h"

namespace cgpu::ledger {

// --- Blocks

Ledger::Block& Ledger::NewBlock(Kind kind, Gpu gpu, std::uint64_t bytes) {
  const std::uint64_t id = next_serial_++;
  Block& block = blocks_[id];
  block.id = id;
  block.bytes = bytes;
  block.gpu = static_cast<std::uint16_t>(gpu);
  block.kind = static_cast<std::uint8_t>(kind);
  GpuState& state = gpus_[gpu];
  state.used += bytes;
  state.peak = std::max(state.peak, state.used);
  CountKind(counts_, kind, 1);
  CountKind(state.counts, kind, 1);
  return block;
}

void Ledger::NoteChannels(const Block& block) {
  const Kind kind = KindOf(block.kind);
  channel_changes_ += kind == Kind::kOther || kind == Kind::kMemory ? 0 : 1;
}

// Adds the new holder at the end of the ring, just before the owner.
void Ledger::JoinBlock(Object& object, Block& block) {
  object.block = &block;
  ++block.objects;
  NoteChannels(block);
  if (block.owner == nullptr) {
    block.owner = &object;
    object.previous_holder = object.next_holder = &object;
    return;
  }
  object.next_holder = block.owner;
  object.previous_holder = block.owner->previous_holder;
  object.previous_holder->next_holder = &object;
  block.owner->previous_holder = &object;
}

void Ledger::LeaveBlock(Object& object) {
  Block* block = std::exchange(object.block, nullptr);
  if (block == nullptr) {
    return;
  }
  --block->objects;
  NoteChannels(*block);
  if (block->owner == &object) {
    block->owner = object.next_holder == &object ? nullptr : object.next_holder;
  }
  object.previous_holder->next_holder = object.next_holder;
  object.next_holder->previous_holder = object.previous_holder;
  DropIfUnheld(*block);
}

void Ledger::DropIfUnheld(Block& block) {
  if (block.objects != 0 || block.exports != 0 || block.pins != 0) {
    return;
  }
  gpus_[block.gpu].used -= block.bytes;
  CountKind(counts_, KindOf(block.kind), ~std::uint32_t{0});
  CountKind(gpus_[block.gpu].counts, KindOf(block.kind), ~std::uint32_t{0});
  blocks_.erase(block.id);
}

// --- Freeing

Result<> Ledger::Free(ClientRef client, ObjectRef object) {
  const auto owner = clients_.find(client.handle);
  if (owner == clients_.end() || Get(client) == nullptr) {
    return Gone("client", client.handle);
  }
  Object* found = Get(owner->second, object);
  if (found == nullptr) {
    return Gone("object", object.handle);
  }
  if (found->parent == nullptr) {
    FreeClient(owner);
  } else {
    FreeTree(owner->second, *found);
  }
  return {};
}

// Visits children and dependants without recursion. Only where a doubtful object was freed by its
// own handle are its children and dependants sure to be gone. Each link is cut before it is
// followed, so rings of dependants end. An object goes when it has no link left. (The reverse link
// of a dependant goes with the dependant, in Erase.)
void Ledger::FreeTree(Client& client, Object& object) {
  Object& root = RootOf(object);
  std::vector<Object*> doomed;
  const auto doom = [&doomed](Object& next) {
    if (!std::exchange(next.dying, true)) {
      doomed.push_back(&next);
    }
  };
  doom(object);
  while (!doomed.empty()) {
    Object& current = *doomed.back();
    if (current.doubtful && &current != &object) {
      Detach(client, root, current);
    }
    if (Object* child = current.first_child; child != nullptr) {
      UnlinkFromParent(*child);
      doom(*child);
      continue;
    }
    const auto edge = client.dependants.lower_bound({current.handle, 0});
    if (edge != client.dependants.end() && edge->first == current.handle) {
      const Handle dependant = edge->second;
      client.dependants.erase(edge);
      doom(client.objects.at(dependant));
      continue;
    }
    doomed.pop_back();
    const bool stray = current.doubtful && &current != &object;
    Erase(client, current);
    CountStrays(stray ? 1 : 0);
  }
}

void Ledger::UnlinkFromParent(Object& object) {
  if (object.parent == nullptr) {
    return;
  }
  if (object.previous_sibling != nullptr) {
    object.previous_sibling->next_sibling = object.next_sibling;
  } else {
    object.parent->first_child = object.next_sibling;
  }
  if (object.next_sibling != nullptr) {
    object.next_sibling->previous_sibling = object.previous_sibling;
  }
  object.parent = object.previous_sibling = object.next_sibling = nullptr;
}

void Ledger::LeaveClass(const Object& object) {
  const auto found = of_class_.find(object.cls);
  if (found != of_class_.end() && --found->second == 0) {
    of_class_.erase(found);
  }
}

void Ledger::Erase(Client& client, Object& object) {
  UnlinkFromParent(object);
  const Handle handle = object.handle;
  auto edge = client.dependencies.lower_bound({handle, 0});
  while (edge != client.dependencies.end() && edge->first == handle) {
    client.dependants.erase({edge->second, handle});
    edge = client.dependencies.erase(edge);
  }
  auto kept = client.kept.lower_bound({handle, 0});
  while (kept != client.kept.end() && kept->first == handle) {
    client.keepers.erase({kept->second, handle});
    kept = client.kept.erase(kept);
  }
  LeaveBlock(object);
  auto mapping = client.mappings.lower_bound(handle);
  while (mapping != client.mappings.end() && mapping->first == handle) {
    mapping = DropMapping(client, mapping);
  }
  doubts_ -= object.doubtful ? 1 : 0;
  LeaveClass(object);
  client.objects.erase(handle);
  --counts_.handles;
}

void Ledger::FreeClient(std::map<Handle, Client>::iterator client) {
  for (auto& [handle, object] : client->second.objects) {
    LeaveBlock(object);
    LeaveClass(object);
    if (object.doubtful) {
      --doubts_;
      CountStrays(1);
    }
  }
  auto& mappings = client->second.mappings;
  while (!mappings.empty()) {
    DropMapping(client->second, mappings.begin());
  }
  counts_.handles -= static_cast<std::uint32_t>(client->second.objects.size()) - 1;
  --counts_.clients;
  clients_by_file_.erase({client->second.file, client->first});
  clients_.erase(client);
  if (clients_.empty()) {
    counts_.handles -= std::exchange(strays_, 0);
  }
}

bool Ledger::RemoveClient(ClientRef client) {
  if (Get(client) == nullptr) {
    return false;
  }
  FreeClient(clients_.find(client.handle));
  return true;
}

void Ledger::CloseFile(FileKey file) {
  auto client = clients_by_file_.lower_bound({file, 0});
  while (client != clients_by_file_.end() && client->first == file) {
    const Handle handle = client->second;
    FreeClient(clients_.find(handle));
    client = clients_by_file_.lower_bound({file, handle});
  }
  auto entry = exports_.lower_bound({file, 0});
  while (entry != exports_.end() && entry->first.first == file) {
    entry = DropExport(entry);
  }
}

Result<LimitResult> Ledger::SetLimit(Gpu gpu, std::uint64_t bytes) {
  if (gpu >= gpus_.size()) {
    return Error{Code::kNotFound, 0, "there is no GPU " + std::to_string(gpu) + " in the grant",
                 ""};
  }
  gpus_[gpu].limit = bytes;
  return bytes < gpus_[gpu].used + gpus_[gpu].reserved ? LimitResult::kBelowUse : LimitResult::kSet;
}

void Ledger::SetGpuQuotas(Gpu gpu, const GpuQuotas& quotas) {
  if (gpu < gpus_.size()) {
    gpus_[gpu].quotas = quotas;
  }
}

}  // namespace cgpu::ledger
