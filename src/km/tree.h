// What the files of the tree (names.h) say and what writing to them does, whoever serves them.
//
// Nothing is kept but the cards: every question is answered by the registry and the shims as they
// are then. Containers are shown to root alone, as by `cgpu ps`: others see none.
//
// Thread-safe. A question about a container takes the registry's lock for a moment; a shim that
// gives no answer makes one about its own memory last seconds.
#ifndef CGPU_KM_TREE_H_
#define CGPU_KM_TREE_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "grant/grant.h"
#include "km/names.h"
#include "registry/registry.h"

namespace cgpu::km {

// The errno that stands for an error in a file system.
[[nodiscard]] int ErrnoOf(const Error& error);

class Tree {
 public:
  // `max_inst`: of cards for which nothing else was set.
  Tree(Registry registry, std::vector<Card> cards, std::string version, unsigned max_inst)
      : registry_(std::move(registry)),
        cards_(std::move(cards)),
        version_(std::move(version)),
        max_inst_(max_inst) {}

  struct Entry {
    std::string name;
    bool folder = false;
  };

  // `uid`: who asks. kNotFound for what is not there, or not for them.
  [[nodiscard]] Result<Place> Look(const std::string& path, unsigned uid) const;
  // What a folder holds.
  [[nodiscard]] Result<std::vector<Entry>> List(const Place& folder, unsigned uid) const;
  // What a file says now. kUnavailable: its container's shim gives no answer.
  [[nodiscard]] Result<std::string> Read(const Place& file) const;
  // A whole new value. kInvalid: it is none; kPermission: only root may; kExhausted: it does not
  // fit the card; and what ChangeMemory() and SetPolicy()
  // have. The sentence is for the log.
  [[nodiscard]] Result<> Write(const Place& file, std::string_view text, unsigned uid) const;

 private:
  // A container with a part of a card.
  struct Slice {
    Reservation reservation;
    std::size_t place = 0;  // of the card in its grant
  };

  [[nodiscard]] const Card* FindCard(unsigned minor) const;
  [[nodiscard]] Result<std::vector<std::pair<std::string, Slice>>> SlicesOn(const Card& card) const;
  [[nodiscard]] Result<Slice> FindSlice(const Place& place) const;
  [[nodiscard]] Result<std::uint64_t> LimitOf(const Slice& slice) const;
  [[nodiscard]] Result<std::uint64_t> SettingOf(const Place& file) const;
  [[nodiscard]] Result<> SetSetting(const Place& file, std::uint64_t value) const;
  [[nodiscard]] Result<> SetMemory(const Place& file, std::uint64_t bytes) const;

  const Registry registry_;
  const std::vector<Card> cards_;
  const std::string version_;
  const unsigned max_inst_;
};

}  // namespace cgpu::km

#endif  // CGPU_KM_TREE_H_
