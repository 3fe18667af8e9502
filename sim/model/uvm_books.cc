#include "sim/model/uvm_books.h"

#include "sim/model/uvm_model.h"

namespace cgpu::sim {
namespace {

UvmRangeBooks BooksOf(rm::NvU64 base, const UvmRange& range) {
  UvmRangeBooks books;
  books.kind = range.kind;
  books.base = base;
  books.length = range.length;
  for (const auto& [card, pieces] : range.pieces) {
    for (const auto& [at, piece] : pieces) {
      UvmPieceBooks& entry = books.pieces.emplace_back();
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
  return books;
}

}  // namespace

UvmBooks UvmModel::GetBooks() const {
  UvmBooks all;
  for (const auto& [file, space] : spaces_) {
    UvmFileBooks& books = all.files.emplace_back();
    books.file = file;
    books.flags = space.flags;
    books.pid = space.tgid;
    books.gpus = space.order;
    books.range_groups = space.groups.size();
    for (const auto& [card, gpu] : space.gpus) {
      if (gpu.vaspace == nullptr) {
        continue;
      }
      books.vaspaces.push_back(card);
      books.channels += gpu.vaspace->channels.size();
      UvmCardBooks& of_file = books.cards[card];
      of_file.table_bytes += gpu.vaspace->tree.CardBytes();
      of_file.system_table_bytes += gpu.vaspace->tree.SystemBytes();
    }
    if (space.resident.card >= 0) {
      books.cards[space.resident.card].managed_bytes += space.resident.bytes;
      books.cards[space.resident.card].managed_overcommit += space.resident.overcommit;
    }
    for (const auto& [base, range] : space.managed) {
      books.managed.push_back({base, range.length, range.owner.tgid, range.zombie});
    }
    for (const auto& [base, range] : space.ranges) {
      books.ranges.push_back(BooksOf(base, range));
    }
    for (const auto& [card, of_file] : books.cards) {
      UvmCardBooks& sum = all.cards[card];
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
