#include "boundary/spaces.h"

#include <algorithm>

#include "boundary/page_tables.h"
#include "boundary/quotas.h"

namespace cgpu::boundary {

std::uint64_t PoolBytes(const Container& container) {
  std::uint64_t bytes = 0;
  for (const auto& [key, space] : container.spaces) {
    bytes += space.PoolBytes();
  }
  return std::min(bytes, kMaxPoolBytes);
}

std::uint64_t RangeGroups(const Container& container) {
  std::uint64_t groups = 0;
  for (const auto& [key, space] : container.spaces) {
    groups += space.groups();
  }
  return groups;
}

Decision ReserveTables(Container& container, Call& call, Decision decision, UvmSpace& space) {
  const AddressRange& range = decision.uvm_range;
  const ledger::ExtraKey key{space.owner(), call.uvm_space};
  for (const ledger::Gpu gpu : decision.uvm_planned) {
    space.PlanPiece(gpu, range.start, range.end);
  }
  const std::uint64_t root =
      decision.gpu && !space.va_spaces().contains(*decision.gpu) ? PageTables::kTableBytes : 0;
  for (ledger::Gpu gpu = 0; gpu < container.gpus.size(); ++gpu) {
    const bool own = decision.gpu == gpu;
    if (!container.ledger.SetExtra(key, gpu, space.Bytes(gpu) + (own ? root : 0)).ok()) {
      DropPlan(container, call, decision, space);
      container.ledger.Cancel(decision.reservation);
      return container.NoMemory(call, gpu);
    }
  }
  return decision;
}

void DropPlan(Container& container, const Call& call, const Decision& decision, UvmSpace& space) {
  for (const ledger::Gpu gpu : decision.uvm_planned) {
    space.DropPlan(gpu, decision.uvm_range.start, decision.uvm_range.end);
  }
  SettleSpace(container, call.uvm_space, space);
}

void SettleSpace(Container& container, ledger::FileKey key, UvmSpace& space) {
  for (const UvmSpace::Hold hold : space.TakeReleased()) {
    container.ledger.Unexport(key, hold);
  }
  for (ledger::Gpu gpu = 0; gpu < container.gpus.size(); ++gpu) {
    container.ledger.ForceExtra({space.owner(), key}, gpu, space.Bytes(gpu));
  }
}

}  // namespace cgpu::boundary
