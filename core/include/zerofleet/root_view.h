// The root of a search, as the policy that chooses there sees it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "zerofleet/move_choice.h"
#include "zerofleet/proofs.h"
#include "zerofleet/puct.h"
#include "zerofleet/tree.h"

namespace zerofleet {

// Sum of the squared values that an edge's visits brought back: the counterpart of its `value_sum`.
// It is computed from the subtree, because `Tree::square_sum` is only kept if c_puct is scaled.
inline double sum_of_squares(const Tree& tree, EdgeId top) {
  double sum = 0.0;
  std::vector<EdgeId> edges = {top};
  while (!edges.empty()) {
    const EdgeId edge = edges.back();
    edges.pop_back();
    const NodeId node = tree.child[edge];
    if (node == kUnexpanded) continue;
    const bool is_certain = tree.is_proven(node);
    const double value =
        static_cast<double>(is_certain ? tree.proven_value(node) : tree.value[node]);
    if (is_certain || tree.edge_count[node] == 0) {
      sum += value * value * tree.visit_count[edge];
      continue;
    }
    sum += value * value;
    for (EdgeId i = 0; i < tree.edge_count[node]; ++i) edges.push_back(tree.first_edge[node] + i);
  }
  return sum;
}

// Lower confidence bound of the mean of `visits` values in [-1, 1]: the mean minus a number of
// standard errors. A prior of weight 1 / visits^2 adds the largest variance, so that a few visits
// with equal values do not count as certain (KataGo, cpp/search/searchhelpers.cpp,
// getSelfUtilityLCBAndRadius).
inline double lower_confidence_bound(int visits, double sum, double square_sum, double stdevs) {
  const double prior = 1.0 / (static_cast<double>(visits) * visits);
  const double mean = sum / visits;
  const double spread = std::max(square_sum / visits - mean * mean, 1e-8);
  const double total = visits + prior;
  const double variance = spread + prior / total;
  const double effective_visits = total * total / (visits + prior * prior);
  return mean - stdevs * std::sqrt(variance / effective_visits);
}

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

  // The child whose value has the highest lower confidence bound; ties go to the first. Children
  // with less than kLeastShare of the most visits are left out. So are children that are certain to
  // be worse than another.
  int highest_lcb_child(double stdevs) const {
    std::vector<std::int32_t> weights;
    open_visits(weights);
    int best = most_visited(weights, network_priors());
    const double least = kLeastShare * weights[best];
    double highest = -std::numeric_limits<double>::infinity();
    for (int i = 0; i < edges.count; ++i) {
      if (edges.visit_count[i] == 0 || weights[i] == 0 || weights[i] < least) continue;
      const double squares = sum_of_squares(tree, static_cast<EdgeId>(i));
      const double bound = lower_confidence_bound(
          edges.visit_count[i], static_cast<double>(edges.value_sum[i]), squares, stdevs);
      if (bound > highest) {
        best = i;
        highest = bound;
      }
    }
    return best;
  }

  static constexpr double kLeastShare = 0.15;  // KataGo's minVisitPropForLCB
};

}  // namespace zerofleet
