// Chooses the best node of a whole cluster for a request, fast: it keeps the scores of each shape
// of request that it has seen, and computes only those of the nodes that changed since.
//
// For one thread.
#ifndef CGPU_BENCH_PLACEMENT_PICKER_H_
#define CGPU_BENCH_PLACEMENT_PICKER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "placement/model.h"
#include "placement/policy.h"

namespace cgpu::bench {

class Picker {
 public:
  using Choose = std::function<placement::Choice(const placement::Node& node,
                                                 const placement::Request& request)>;

  // Sorts the nodes by name: of equal scores the first name wins. `choose`: a policy.
  Picker(std::vector<placement::Node> nodes, Choose choose);

  struct Place {
    std::size_t node = 0;  // index in nodes()
    std::vector<std::uint32_t> gpus;
  };
  // Returns the best place, without taking it. Nothing: the request fits nowhere.
  [[nodiscard]] std::optional<Place> Find(const placement::Request& request);
  void Take(const Place& place, const placement::Request& request);
  void GiveBack(const Place& place, const placement::Request& request);
  [[nodiscard]] const std::vector<placement::Node>& nodes() const { return nodes_; }

 private:
  using Shape = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t, bool,
                           std::uint64_t, std::uint64_t, std::vector<std::string>>;
  // The scores of one shape: a binary tree whose leaves are the nodes; each inner one has the
  // higher score below it. A score with its tie is one number; -1: it does not fit.
  struct Scores {
    std::vector<std::int16_t> tree;
    std::size_t seen = 0;  // of the changes
  };
  void Update(Scores& scores, std::size_t node, const placement::Request& request) const;

  std::vector<placement::Node> nodes_;
  Choose choose_;
  std::size_t leaves_ = 1;              // a power of two
  std::vector<std::uint32_t> changed_;  // nodes, in the order of their changes
  std::map<Shape, Scores> shapes_;
};

}  // namespace cgpu::bench

#endif  // CGPU_BENCH_PLACEMENT_PICKER_H_
