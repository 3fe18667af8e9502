// The rows of the ledger. Private to src/ledger: only ledger.h includes it, for its members.
//
// A std::map per client holds the objects, one std::map the blocks. Their addresses are stable, so
// the links below are plain pointers. Ledger alone writes them.
#ifndef CGPU_LEDGER_ROWS_H_
#define CGPU_LEDGER_ROWS_H_

#include <cstdint>
#include <map>
#include <set>
#include <utility>

namespace cgpu::ledger::internal {

struct Object;

// A resource that the driver gives back only when its last holder is gone: a piece of GPU memory,
// or a channel group or channel (a hardware channel id) with the memory that the driver takes for
// it.
struct Block {
  std::uint64_t id = 0;
  std::uint64_t bytes = 0;
  Object* owner = nullptr;  // pays for it; nullptr while no object holds it
  std::uint32_t objects = 0;
  std::uint32_t exports = 0;
  std::uint32_t pins = 0;  // reservations of dups, imports and exports in flight
  std::uint16_t gpu = 0;
  std::uint8_t kind = 0;
  std::uint64_t page_bytes = 0;
  std::uint32_t engine = 0;  // of a channel group
};

struct Object {
  std::uint64_t serial = 0;
  Object* parent = nullptr;
  Object* first_child = nullptr;
  Object* previous_sibling = nullptr;
  Object* next_sibling = nullptr;
  Block* block = nullptr;
  // Ring of the objects that hold `block`: from its owner on, in the order of serial numbers.
  Object* previous_holder = nullptr;
  Object* next_holder = nullptr;
  std::uint32_t handle = 0;
  std::uint32_t cls = 0;
  std::int16_t gpu = -1;  // own or inherited; -1: on no GPU
  std::uint8_t kind = 0;
  bool doubtful = false;  // perhaps not there
  bool dying = false;
};

// A view of an object.
struct Mapping {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;  // of BAR1
  std::uint16_t gpu = 0;
};

struct Client {
  std::uint64_t serial = 0;
  std::uint64_t file = 0;
  std::uint64_t owner = 0;
  std::map<std::uint32_t, Object> objects;  // the client itself lies under its own handle
  // Pairs of "the second is freed with the first", in both directions.
  std::set<std::pair<std::uint32_t, std::uint32_t>> dependants;
  std::set<std::pair<std::uint32_t, std::uint32_t>> dependencies;
  // Pairs of "the second keeps what lies under the first", likewise.
  std::set<std::pair<std::uint32_t, std::uint32_t>> keepers;
  std::set<std::pair<std::uint32_t, std::uint32_t>> kept;
  std::multimap<std::uint32_t, Mapping> mappings;  // by the object's handle
};

// The part of an object that a copy of it shares.
struct Shared {
  Block* block = nullptr;
  std::uint32_t cls = 0;
  std::int16_t gpu = -1;
  std::uint8_t kind = 0;
};

// A reservation in flight.
struct Pending {
  enum class What : std::uint8_t { kClient, kObject, kCopy, kExport, kMapping };
  What what = What::kObject;
  std::uint8_t kind = 0;
  std::uint16_t gpu = 0;
  std::uint64_t bytes = 0;
  Shared source;  // kCopy and kExport
};

}  // namespace cgpu::ledger::internal

#endif  // CGPU_LEDGER_ROWS_H_
