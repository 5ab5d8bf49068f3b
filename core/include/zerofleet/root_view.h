// The root of a search, as the policy that chooses there sees it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "zerofleet/move_choice.h"
#include "zerofleet/proofs.h"
#include "zerofleet/puct.h"
#include "zerofleet/tree.h"

namespace zerofleet {

struct RootView {
  const Tree& tree;
  EdgeWindow edges;  // with the priors of this search
  int visits;        // number of simulations, including those reused from the previous move

  float network_value() const { return tree.value[kRoot]; }

  std::span<const float> network_priors() const {
    return {tree.prior.data(), static_cast<std::size_t>(edges.count)};
  }

  // Whether no proof shows that another child is better.
  bool may_visit(int child) const {
    return tree.proof[kRoot] == Proof::kNone || is_open(tree, kRoot, child);
  }

  // Writes the visits of each child. A child that is certain to be worse than another has none.
  void open_visits(std::vector<std::int32_t>& weights) const {
    weights.assign(edges.visit_count, edges.visit_count + edges.count);
    leave_out_worse(tree, weights);
  }

  // The most visited child of those that are not certain to be worse than another.
  int most_visited_child() const {
    std::vector<std::int32_t> weights;
    open_visits(weights);
    return most_visited(weights, network_priors());
  }
};

}  // namespace zerofleet
