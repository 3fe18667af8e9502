#include "sim/model/uvm_accounting.h"

#include "sim/model/uvm_model.h"

namespace cgpu::sim {
namespace {

UvmRangeAccounting AccountingOf(rm::NvU64 base, const UvmRange& range) {
  UvmRangeAccounting accounting;
  accounting.kind = range.kind;
  accounting.base = base;
  accounting.length = range.length;
  for (const auto& [card, pieces] : range.pieces) {
    for (const auto& [at, piece] : pieces) {
      UvmPieceAccounting& entry = accounting.pieces.emplace_back();
      entry.base = at;
      entry.length = piece.length;
      entry.card = card;
      entry.page_size = piece.page_size;
      entry.sparse = piece.block == nullptr;
      if (piece.block != nullptr) {
        entry.memory_card = piece.block->card;
        entry.memory_bytes = piece.block->charge.Bytes();
      }
    }
  }
  return accounting;
}

}  // namespace

UvmAccounting UvmModel::GetAccounting() const {
  UvmAccounting all;
  for (const auto& [file, space] : spaces_) {
    UvmFileAccounting& accounting = all.files.emplace_back();
    accounting.file = file;
    accounting.flags = space.flags;
    accounting.pid = space.tgid;
    accounting.gpus = space.order;
    accounting.range_groups = space.groups.size();
    for (const auto& [card, gpu] : space.gpus) {
      if (gpu.vaspace == nullptr) {
        continue;
      }
      accounting.vaspaces.push_back(card);
      accounting.channels += gpu.vaspace->channels.size();
      UvmCardAccounting& of_file = accounting.cards[card];
      of_file.table_bytes += gpu.vaspace->tree.CardBytes();
      of_file.system_table_bytes += gpu.vaspace->tree.SystemBytes();
    }
    if (space.resident.card >= 0) {
      accounting.cards[space.resident.card].managed_bytes += space.resident.bytes;
      accounting.cards[space.resident.card].managed_overcommit += space.resident.overcommit;
    }
    for (const auto& [base, range] : space.managed) {
      accounting.managed.push_back({base, range.length, range.owner.tgid, range.zombie});
    }
    for (const auto& [base, range] : space.ranges) {
      accounting.ranges.push_back(AccountingOf(base, range));
    }
    for (const auto& [card, of_file] : accounting.cards) {
      UvmCardAccounting& sum = all.cards[card];
      sum.managed_bytes += of_file.managed_bytes;
      sum.managed_overcommit += of_file.managed_overcommit;
      sum.table_bytes += of_file.table_bytes;
      sum.system_table_bytes += of_file.system_table_bytes;
    }
  }
  for (const auto& [mapping, why] : refused_) {
    all.refused.push_back({mapping, why});
  }
  return all;
}

}  // namespace cgpu::sim
