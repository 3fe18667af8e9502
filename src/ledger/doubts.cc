// Doubts: the ledger enters objects of calls that a tenant executes itself before they exist.
#include <utility>
#include <vector>

#include "ledger/helpers.h"
#include "ledger/ledger.h"

namespace cgpu::ledger {

void Ledger::MakeDoubtful(ClientRef client, ObjectRef object) {
  Client* owner = Get(client);
  Object* found = owner != nullptr ? Get(*owner, object) : nullptr;
  if (found != nullptr && found->parent != nullptr && !std::exchange(found->doubtful, true)) {
    ++doubts_;
  }
}

std::vector<Doubt> Ledger::TakeDoubts() {
  std::vector<Doubt> doubts;
  for (const auto& [client, handle] : std::exchange(met_, {})) {
    const auto owner = clients_.find(client);
    const Object* object = owner != clients_.end() ? Get(owner->second, {handle, 0}) : nullptr;
    if (object != nullptr && object->doubtful) {
      doubts.push_back({{client, owner->second.serial},
                        {handle, object->serial},
                        object->parent->handle,
                        object->cls});
    }
  }
  return doubts;
}

void Ledger::Settle(const Doubt& doubt, bool there) {
  Client* owner = Get(doubt.client);
  Object* object = owner != nullptr ? Get(*owner, doubt.object) : nullptr;
  if (object == nullptr || !object->doubtful) {
    return;
  }
  if (!there) {
    return Forget(*owner, *object);
  }
  object->doubtful = false;
  --doubts_;
}

void Ledger::AddStray(Reservation& reservation) {
  if (Get(reservation, Pending::What::kObject) != nullptr) {
    Cancel(reservation);
    CountStrays(clients_.empty() ? 0 : 1);
  }
}

void Ledger::CountStrays(std::uint32_t strays) {
  strays_ += strays;
  counts_.handles += strays;
}

Ledger::Object& Ledger::RootOf(Object& object) {
  Object* root = &object;
  while (root->parent != nullptr) {
    root = root->parent;
  }
  return *root;
}

// Cuts off what lies below a doubtful object or depends on it: the driver may have that elsewhere,
// so it stays until it is freed itself, or with the client. There is such a thing only where an
// earlier version took the object as certain.
void Ledger::Detach(Client& client, Object& root, Object& object) {
  while (Object* child = object.first_child) {
    UnlinkFromParent(*child);
    child->parent = &root;
    child->next_sibling = root.first_child;
    if (child->next_sibling != nullptr) {
      child->next_sibling->previous_sibling = child;
    }
    root.first_child = child;
  }
  auto edge = client.dependants.lower_bound({object.handle, 0});
  while (edge != client.dependants.end() && edge->first == object.handle) {
    client.dependencies.erase({edge->second, edge->first});
    edge = client.dependants.erase(edge);
  }
}

void Ledger::Forget(Client& client, Object& object) {
  Detach(client, RootOf(object), object);
  Erase(client, object);
  CountStrays(1);
}

}  // namespace cgpu::ledger
