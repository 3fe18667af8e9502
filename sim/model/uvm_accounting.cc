#include "sim/model/uvm_accounting.h"

#include "sim/model/uvm_model.h"

namespace cgpu::sim {
namespace {

UvmRangeAccounting AccountingOf(rm::NvU64 base, const UvmRange& range) {
  UvmRangeAccounting accounting;
  accounting.kind = range.kind;
  accounting.base = base;
  accounting.length = range.length;
  for (const auto& [gpu, pieces] : range.pieces) {
    for (const auto& [at, piece] : pieces) {
      UvmPieceAccounting& entry = accounting.pieces.emplace_back();
      entry.base = at;
      entry.length = piece.length;
      entry.gpu = gpu;
      entry.page_size = piece.page_size;
      entry.sparse = piece.block == nullptr;
      if (piece.block != nullptr) {
        entry.memory_gpu = piece.block->gpu;
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
    accounting.registered = space.order;
    accounting.range_groups = space.groups.size();
    for (const auto& [gpu, registered] : space.gpus) {
      if (registered.vaspace == nullptr) {
        continue;
      }
      accounting.vaspaces.push_back(gpu);
      accounting.channels += registered.vaspace->channels.size();
      UvmGpuAccounting& of_file = accounting.gpus[gpu];
      of_file.table_bytes += registered.vaspace->tree.GpuBytes();
      of_file.system_table_bytes += registered.vaspace->tree.SystemBytes();
    }
    if (space.resident.gpu >= 0) {
      accounting.gpus[space.resident.gpu].managed_bytes += space.resident.bytes;
      accounting.gpus[space.resident.gpu].managed_overcommit += space.resident.overcommit;
    }
    for (const auto& [base, range] : space.managed) {
      accounting.managed.push_back({base, range.length, range.owner.tgid, range.zombie});
    }
    for (const auto& [base, range] : space.ranges) {
      accounting.ranges.push_back(AccountingOf(base, range));
    }
    for (const auto& [gpu, of_file] : accounting.gpus) {
      UvmGpuAccounting& sum = all.gpus[gpu];
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
