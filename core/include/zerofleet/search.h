// Monte Carlo tree search over one tree: select, expand, backup. No network, no clock, no threads.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "zerofleet/game.h"
#include "zerofleet/prediction.h"
#include "zerofleet/puct.h"
#include "zerofleet/random.h"
#include "zerofleet/tree.h"

namespace zerofleet {

// Room for the longest path of a game.
template <Game G>
struct PathOf {
  using type = std::array<EdgeId, G::kMaxLength>;
};
template <>
struct PathOf<DynamicPosition> {
  using type = std::vector<EdgeId>;
};

// A leaf on its way from select to expand.
template <Game G>
struct Leaf {
  G position;
  std::uint64_t hash = 0;
  int depth = 0;                    // 0: the leaf is the root itself
  NodeId parent = kRoot;            // owner of the last edge
  typename PathOf<G>::type path{};  // [depth], from the root down

  void step_down(EdgeId edge) {
    if constexpr (!FixedGame<G>) path.resize(static_cast<std::size_t>(depth) + 1);
    path[depth++] = edge;
  }
};

enum class Selected {
  kLeaf,      // its prediction is needed: expand, then backup follows
  kTerminal,  // the rules knew the value; it is backed up already
  kTaken,     // this leaf is out already; nothing happened
};

// Noise in the root's priors; a fraction of 0 means none.
struct RootNoise {
  double fraction = 0.0;
  double alpha = 1.0;
};

// The search of one position.
//
// A value belongs to the player to move at its position; it is negated once per ply, in `backup`
// alone. A simulation is one visit of a child of the root: expanding the root itself is none, so
// the visits of the root's children sum to `root_visits()`.
template <Game G>
class Search {
 public:
  const G& root() const { return root_; }
  const Tree& tree() const { return tree_; }
  bool is_expanded() const { return !tree_.is_empty(); }
  int root_visits() const { return root_visits_; }

  // Mean value at the root: its own prediction and all simulations. 0 before the root's expansion.
  float root_value() const {
    return is_expanded() ? static_cast<float>(root_value_sum_ / (1 + root_visits_)) : 0.0f;
  }

  // Starts over at a position.
  void set_root(const G& position) {
    root_ = position;
    tree_.clear();
    root_visits_ = 0;
    root_value_sum_ = 0.0;
  }

  // Plays an action at the root and keeps what was found beneath it; `scratch` lends memory.
  // No leaf may be out. `start_root` is due when the new root is expanded.
  void advance_root(Action action, Tree& scratch) {
    G next = root_;
    next.apply(action);
    const EdgeId edge = is_expanded() ? edge_of(action) : 0;
    if (!is_expanded() || tree_.child[edge] == kUnexpanded || next.is_terminal()) {
      set_root(next);
      return;
    }
    root_visits_ = tree_.visit_count[edge] - 1;
    const bool same_player = next.to_play() == root_.to_play();
    root_value_sum_ =
        static_cast<double>(same_player ? tree_.value_sum[edge] : -tree_.value_sum[edge]);
    root_ = next;
    tree_.copy_subtree(tree_.child[edge], scratch);
    std::swap(tree_, scratch);
  }

  // Plays an action at the root, keeping the tree beneath it or not.
  void play(Action action, bool keep_tree, Tree& scratch) {
    if (keep_tree) {
      advance_root(action, scratch);
    } else {
      G next = root_;
      next.apply(action);
      set_root(next);
    }
  }

  // Prepares an expanded root for play: mixes fresh noise into the priors that select uses there.
  // The tree keeps the network's.
  void start_root(const RootNoise& noise, Random& random) {
    const EdgeWindow edges = tree_.edges_of(kRoot);
    root_prior_.resize(round_up_to_lanes(edges.count));
    if (noise.fraction > 0.0) {
      random.dirichlet(noise.alpha, {root_prior_.data(), static_cast<std::size_t>(edges.count)});
    }
    const auto fraction = static_cast<float>(noise.fraction);
    float visited_prior = 0.0f;
    for (int i = 0; i < edges.count; ++i) {
      root_prior_[i] = (1.0f - fraction) * edges.prior[i] + fraction * root_prior_[i];
      if (edges.visit_count[i] > 0) visited_prior += root_prior_[i];
    }
    tree_.visited_prior[kRoot] = visited_prior;
  }

  // Follows the formula down to a position without a prediction. With kVirtualLoss, paths of the
  // leaves that are out (`hold`) count as losses.
  template <bool kVirtualLoss>
  Selected select(const Puct& puct, Leaf<G>& leaf) {
    leaf.depth = 0;
    if (is_expanded()) {
      const NodeId found = descend<kVirtualLoss>(puct, leaf);
      if (found != kUnexpanded) {
        backup(leaf, tree_.value[found]);
        return Selected::kTerminal;
      }
      if (kVirtualLoss && tree_.leaves_out[leaf.path[leaf.depth - 1]] > 0) return Selected::kTaken;
    }
    leaf.position = root_;
    for (int i = 0; i < leaf.depth; ++i) leaf.position.apply(tree_.action[leaf.path[i]]);
    if (leaf.depth > 0 && leaf.position.is_terminal()) {
      const float value = terminal_value(leaf.position);
      tree_.child[leaf.path[leaf.depth - 1]] = tree_.add_terminal(value, leaf.position.to_play());
      backup(leaf, value);
      return Selected::kTerminal;
    }
    leaf.hash = leaf.position.hash();
    return Selected::kLeaf;
  }

  // Gives a leaf its node and its value to all nodes above. `start_root` is due when the leaf was
  // the root.
  void expand(const Leaf<G>& leaf, const LeafPrediction<G>& prediction) {
    const NodeId node =
        tree_.add_node({prediction.actions.begin(), prediction.actions.end()},
                       prediction.priors.data(), prediction.value, leaf.position.to_play());
    if (leaf.depth == 0) {
      root_value_sum_ = prediction.value;
      return;
    }
    tree_.child[leaf.path[leaf.depth - 1]] = node;
    backup(leaf, prediction.value);
  }

  // Marks the path of a leaf that leaves for the network; `release` takes the mark off again.
  void hold(const Leaf<G>& leaf) {
    ++root_leaves_out_;
    for (int i = 0; i < leaf.depth; ++i) ++tree_.leaves_out[leaf.path[i]];
  }
  void release(const Leaf<G>& leaf) {
    --root_leaves_out_;
    for (int i = 0; i < leaf.depth; ++i) --tree_.leaves_out[leaf.path[i]];
  }

  // Number of leaves held.
  int leaves_out() const { return root_leaves_out_; }

 private:
  // Ends at a terminal node, or at an edge without a node (kUnexpanded).
  template <bool kVirtualLoss>
  NodeId descend(const Puct& puct, Leaf<G>& leaf) const {
    NodeId node = kRoot;
    float visits = static_cast<float>(root_visits_);  // of the node's edges
    float value = root_value();
    if constexpr (kVirtualLoss) visits += puct.virtual_loss * static_cast<float>(root_leaves_out_);
    for (;;) {
      EdgeWindow edges = tree_.edges_of(node);
      if (node == kRoot) edges.prior = root_prior_.data();
      const int index = best_edge<kVirtualLoss>(
          edges, puct.exploration(visits), puct.unvisited_value(value, tree_.visited_prior[node]),
          puct.virtual_loss);
      const EdgeId edge = tree_.first_edge[node] + static_cast<EdgeId>(index);
      leaf.step_down(edge);
      leaf.parent = node;
      node = tree_.child[edge];
      if (node == kUnexpanded || tree_.edge_count[node] == 0) return node;
      const auto edge_visits = static_cast<float>(tree_.visit_count[edge]);
      value = seen_from(node, leaf.parent, tree_.value_sum[edge]) / edge_visits;
      visits = edge_visits - 1.0f;
      if constexpr (kVirtualLoss) {
        visits += puct.virtual_loss * static_cast<float>(tree_.leaves_out[edge]);
      }
    }
  }

  // `value` is for the player to move at the end of the path.
  void backup(const Leaf<G>& leaf, float value) {
    const EdgeId last = leaf.path[leaf.depth - 1];
    if (tree_.visit_count[last] == 0) {
      const EdgeId index = last - tree_.first_edge[leaf.parent];
      tree_.visited_prior[leaf.parent] +=
          leaf.parent == kRoot ? root_prior_[index] : tree_.prior[last];
    }
    for (int i = leaf.depth - 1; i >= 0; --i) {
      const EdgeId edge = leaf.path[i];
      value = seen_from(i == 0 ? kRoot : tree_.child[leaf.path[i - 1]], tree_.child[edge], value);
      ++tree_.visit_count[leaf.path[i]];
      tree_.value_sum[leaf.path[i]] += value;
    }
    ++root_visits_;
    root_value_sum_ += value;
  }

  // A value for the player to move at `other`, for the one to move at `node` beside it.
  float seen_from(NodeId node, NodeId other, float value) const {
    if constexpr (FixedGame<G>) {
      return -value;  // they take turns
    } else {
      return tree_.to_play[node] == tree_.to_play[other] ? value : -value;
    }
  }

  EdgeId edge_of(Action action) const {
    const auto first = tree_.action.begin() + tree_.first_edge[kRoot];
    const auto found = std::find(first, first + tree_.edge_count[kRoot], action);
    return static_cast<EdgeId>(found - tree_.action.begin());
  }

  G root_{};
  Tree tree_;
  std::vector<float> root_prior_;  // [edges of the root, rounded up to kLanes] with noise
  double root_value_sum_ = 0.0;    // for the player to move at the root
  int root_visits_ = 0;
  int root_leaves_out_ = 0;
};

}  // namespace zerofleet
