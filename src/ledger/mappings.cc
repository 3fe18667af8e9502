// The processor's views of memory.
#include <algorithm>

#include "ledger/helpers.h"
#include "ledger/ledger.h"

namespace cgpu::ledger {

ReserveResult Ledger::ReserveMapping(ClientRef client, ObjectRef object, std::uint64_t bytes) {
  CollectDropped();
  CGPU_ASSIGN_OR_RETURN(const auto source, SourceOf(client, object));
  Pending pending{.what = Pending::What::kMapping, .source = {}};
  if (counts_.mappings + pending_counts_.mappings >= quotas_.mappings) {
    return {Error{Code::kExhausted, 0, "the quota of views of memory is reached", ""},
            Full::kMappings};
  }
  if (bytes != 0) {
    if (source.block == nullptr) {
      return Error{Code::kInvalid, 0, "a view of GPU memory that is none", ""};
    }
    pending.gpu = source.block->gpu;
    pending.bytes = bytes;
    GpuState& state = gpus_[pending.gpu];
    if (state.bar1 > state.quotas.bar1_bytes || bytes > state.quotas.bar1_bytes - state.bar1) {
      return {Error{Code::kExhausted, 0,
                    "GPU " + std::to_string(pending.gpu) + ": " + std::to_string(bytes) +
                        " bytes of BAR1 asked for, " + std::to_string(state.bar1) + " of " +
                        std::to_string(state.quotas.bar1_bytes) + " in use",
                    ""},
              Full::kGpuBar1};
    }
    state.bar1 += bytes;
  }
  return Hold(pending);
}

Result<> Ledger::AddMapping(Reservation& reservation, ClientRef client, ObjectRef object,
                            std::uint64_t address) {
  const Pending* pending = Get(reservation, Pending::What::kMapping);
  if (pending == nullptr) {
    return Error{Code::kInternal, 0, "a view was added without a reservation for it", ""};
  }
  Client* owner = Get(client);
  if (owner == nullptr || Get(*owner, object) == nullptr) {
    return Gone("object", object.handle);
  }
  const internal::Mapping mapping{address, pending->bytes, pending->gpu};
  Cancel(reservation);
  gpus_[mapping.gpu].bar1 += mapping.bytes;
  ++counts_.mappings;
  owner->mappings.emplace(object.handle, mapping);
  return {};
}

Ledger::Mappings::iterator Ledger::FindMapping(Client& client, Handle object,
                                               std::uint64_t address) {
  auto found = client.mappings.end();
  std::uint64_t largest = 0;
  bool alike = true;
  const auto [first, last] = client.mappings.equal_range(object);
  for (auto mapping = first; mapping != last; ++mapping) {
    if (mapping->second.address == address) {
      alike = alike && (found == client.mappings.end() || mapping->second.bytes == largest);
      largest = std::max(largest, mapping->second.bytes);
      found = mapping;
    }
  }
  for (auto mapping = first; mapping != last && !alike; ++mapping) {
    if (mapping->second.address == address) {
      gpus_[mapping->second.gpu].bar1 += largest - mapping->second.bytes;
      mapping->second.bytes = largest;
    }
  }
  return found;
}

Ledger::Mappings::iterator Ledger::DropMapping(Client& client, Mappings::iterator mapping) {
  gpus_[mapping->second.gpu].bar1 -= mapping->second.bytes;
  --counts_.mappings;
  return client.mappings.erase(mapping);
}

void Ledger::RemoveMapping(ClientRef client, ObjectRef object, std::uint64_t address) {
  Client* owner = Get(client);
  if (owner == nullptr || Get(*owner, object) == nullptr) {
    return;
  }
  if (const auto found = FindMapping(*owner, object.handle, address);
      found != owner->mappings.end()) {
    DropMapping(*owner, found);
  }
}

void Ledger::MoveMapping(ClientRef client, ObjectRef object, std::uint64_t from, std::uint64_t to) {
  Client* owner = Get(client);
  if (owner == nullptr || Get(*owner, object) == nullptr) {
    return;
  }
  if (const auto found = FindMapping(*owner, object.handle, from); found != owner->mappings.end()) {
    found->second.address = to;
  }
}

}  // namespace cgpu::ledger
