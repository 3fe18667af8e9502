// Calls that a tenant may make, each with real handles, for attacks that change one of their words.
#ifndef CGPU_TESTS_ADVERSARY_FLIP_CALLS_H_
#define CGPU_TESTS_ADVERSARY_FLIP_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "common.h"
#include "stage.h"
#include "uvm_client.h"

namespace cgpu::adversary {

inline constexpr std::uint32_t kFirstFresh = 0xcb000000;  // handle of a world's own objects
inline constexpr std::uint64_t kWorldSize = 2 * kMiB;     // of memory and of ranges

using Draws = std::mt19937_64;
inline std::uint32_t Draw(Draws& draws, std::size_t below) {
  return static_cast<std::uint32_t>(draws() % below);
}

// Clients, and objects and files of theirs that calls may name.
struct World {
  UvmClient uvm;
  Client twin;  // another client on the same files
  int spare_gpu = -1;
  int exported = -1;  // a control file that holds memory
  int many = -1;      // one that holds two places
  int empty = -1;
  int null = -1;
  void* lent = nullptr;     // two pages
  std::uint32_t decoy = 0;  // a second device, of both clients
  std::uint32_t range = 0;  // of addresses
  std::uint32_t space = 0;
  std::uint32_t group = 0;
  std::uint32_t channel = 0;
  std::uint64_t placed = 0;   // places in the range, far from each other
  std::uint64_t mapped = 0;   // near each other
  std::uint64_t address = 0;  // the next range of UVM's
  std::uint64_t managed = 0;  // likewise, for mmap

  Client& client() { return uvm.client; }
  // A handle of which the next one is new, too.
  std::uint32_t Fresh() {
    const std::uint32_t fresh = (uvm.client.next + 1) & ~1U;
    uvm.client.next = fresh + 2;
    return fresh;
  }
  // Memory of some size, kWorldSize at least.
  std::uint32_t Memory();

  // Handles by kind: each may stand where another one of its kind stands.
  std::vector<std::vector<std::uint32_t>> handles;
  static constexpr std::size_t kMemory = 0;
  std::vector<std::int32_t> files;
};

// `number`: worlds that exist at once have different ones.
World MakeWorld(std::uint32_t number);
void CloseWorld(World& world);

// A call that is ready to be made.
struct Ready {
  int file = -1;
  std::uint64_t request = 0;
  std::uint32_t nr = 0;  // of an escape
  std::vector<Block> blocks;
  ByteString other;                 // other parameters than those of the second block
  std::optional<std::size_t> made;  // where the handle of what it makes lies in the first block
  std::optional<std::size_t> made_inside;  // ... in the second block
  std::optional<std::size_t> status;       // where the in-band one lies in the first block
  bool closes = false;                     // the file is the call's own
};

struct Maker {
  const char* name;
  Ready (*make)(World& world, Draws& draws);
  bool always_ok;  // where nothing is changed
};

std::span<const Maker> FlipMakers();
// Puts an escape into an XFER.
void Wrap(Ready& ready);

template <class T>
ByteString BytesOf(const T& value) {
  const auto* const from = reinterpret_cast<const std::byte*>(&value);
  return {from, from + sizeof(value)};
}

}  // namespace cgpu::adversary

#endif  // CGPU_TESTS_ADVERSARY_FLIP_CALLS_H_
