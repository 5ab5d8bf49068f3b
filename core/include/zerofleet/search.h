// Monte Carlo tree search over one tree: select, expand, backup. No network, no clock, no threads.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "zerofleet/decisive_moves.h"
#include "zerofleet/game.h"
#include "zerofleet/gumbel_root.h"
#include "zerofleet/leaf.h"
#include "zerofleet/prediction.h"
#include "zerofleet/proofs.h"
#include "zerofleet/puct.h"
#include "zerofleet/puct_root.h"
#include "zerofleet/random.h"
#include "zerofleet/root_plan.h"
#include "zerofleet/root_view.h"
#include "zerofleet/tree.h"

namespace zerofleet {

enum class Selected {
  kLeaf,      // needs a prediction; `expand` takes it and backs it up
  kTerminal,  // the rules or a proof gave the value, and it is backed up already
  kTaken,     // nothing can be selected before leaves in flight return; nothing changed
};

// The search of one position.
//
// A value belongs to the player to move at its position. It changes its sign on the way to a
// position where the other player is to move. A simulation is one visit of a child of the root.
// Expanding the root itself is none, so the visits of the root's children sum to `root_visits()`.
template <Game G>
class Search {
 public:
  const G& root() const { return root_; }
  const Tree& tree() const { return tree_; }
  bool is_expanded() const { return !tree_.is_empty(); }
  int root_visits() const { return root_visits_; }
  const RootPlan& plan() const { return plan_; }  // set by `start_root`

  // The root's value: its result if it is certain, else the estimate that the root's policy makes
  // from its own prediction and all simulations. 0 before the root is expanded.
  float root_value() const {
    if (is_proven()) return tree_.proven_value(kRoot);
    if (!is_expanded()) return 0.0f;
    return with_policy([&](const auto& policy) { return policy.value(view(), mean_value()); });
  }

  // Whether the root's result is certain, so that more simulations would tell nothing.
  bool is_proven() const { return is_expanded() && tree_.is_proven(kRoot); }

  // Starts over at a position.
  void set_root(const G& position) {
    root_ = position;
    tree_.clear();
    root_visits_ = 0;
    root_value_sum_ = 0.0;
  }

  // Plays an action at the root and keeps the subtree beneath it; `scratch` lends memory. No leaf
  // may be in flight. Call `start_root` next if the new root is expanded.
  void advance_root(Action action, Tree& scratch) {
    G next = root_;
    next.apply(action);
    const EdgeId edge = is_expanded() ? edge_of(action) : 0;
    // A node whose value the rules know has no children to keep.
    if (!is_expanded() || tree_.child[edge] == kUnexpanded ||
        tree_.edge_count[tree_.child[edge]] == 0) {
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

  // Plays an action at the root; keeps the subtree beneath it if `keep_tree`.
  void play(Action action, bool keep_tree, Tree& scratch) {
    if (keep_tree) {
      advance_root(action, scratch);
    } else {
      G next = root_;
      next.apply(action);
      set_root(next);
    }
  }

  // Prepares an expanded root for its search. The root's policy may change the priors that `select`
  // uses there; the tree keeps the network's.
  void start_root(const RootPlan& plan, Random& random) {
    plan_ = plan;
    const EdgeWindow edges = tree_.edges_of(kRoot);
    const auto count = static_cast<std::size_t>(edges.count);
    root_prior_.assign(round_up_to_lanes(edges.count), 0.0f);
    std::copy_n(edges.prior, count, root_prior_.begin());
    const std::span<float> priors(root_prior_.data(), count);
    // Keep the policy, and so its memory, from one move to the next.
    if (plan.gumbel.has_value() != std::holds_alternative<GumbelRoot>(policy_)) {
      if (plan.gumbel) {
        policy_ = GumbelRoot();
      } else {
        policy_ = PuctRoot();
      }
    }
    const int budget = std::max(0, plan.num_simulations - root_visits_);
    with_policy([&](auto& policy) { policy.start(priors, edges, plan, budget, random); });
    float visited_prior = 0.0f;
    for (std::size_t i = 0; i < count; ++i) {
      if (edges.visit_count[i] > 0) visited_prior += priors[i];
    }
    tree_.visited_prior[kRoot] = visited_prior;
  }

  // Writes the training target: the weight of each child, up to scale. A child that is certainly
  // worse than another gets 0.
  void policy_weights(const Puct& puct, std::vector<std::int32_t>& weights) const {
    with_policy([&](const auto& policy) { policy.target(view(), puct, weights); });
  }

  // Writes the visits of the root's children. A child that is certainly worse than another gets 0.
  void visit_weights(std::vector<std::int32_t>& weights) const { view().open_visits(weights); }

  // Chooses the child to play from such weights.
  int choose(std::span<const std::int32_t> weights, double temperature, Random& random) const {
    return with_policy(
        [&](const auto& policy) { return policy.choose(view(), weights, temperature, random); });
  }

  // The child to play without randomness.
  int best_child() const {
    return with_policy([&](const auto& policy) { return policy.best(view()); });
  }

  // Follows the selection formula down to a position without a prediction. With kVirtualLoss, the
  // paths of leaves in flight (`hold`) count as losses.
  template <bool kVirtualLoss>
  Selected select(const Puct& puct, Leaf<G>& leaf) {
    leaf.depth = 0;
    keeps_squares_ = puct.stdev_scale > 0.0f;
    if (kVirtualLoss && root_leaves_out_ > 0 &&
        with_policy([](const auto& policy) { return policy.is_waiting(); })) {
      return Selected::kTaken;
    }
    if (is_expanded()) {
      if (puct.decisive_moves && decide_root(leaf)) return Selected::kTerminal;
      const NodeId found = descend<kVirtualLoss>(puct, leaf);
      if (kVirtualLoss && found == kUnexpanded && tree_.leaves_out[leaf.path[leaf.depth - 1]] > 0) {
        return Selected::kTaken;
      }
      with_policy([](auto& policy) { policy.advance(); });
      if (found != kUnexpanded) {
        backup(leaf, tree_.value[found]);
        return Selected::kTerminal;
      }
    }
    leaf.position = root_;
    for (int i = 0; i < leaf.depth; ++i) leaf.position.apply(tree_.action[leaf.path[i]]);
    if (const auto value = leaf.depth > 0 ? known_value(puct, leaf.position) : std::nullopt) {
      const NodeId node = end(leaf, *value);
      if (puct.proves_results) prove(leaf, node);
      return Selected::kTerminal;
    }
    leaf.hash = leaf.position.hash();
    return Selected::kLeaf;
  }

  // Adds the node of a leaf and backs up its value. Call `start_root` next if the leaf was the
  // root.
  void expand(const Leaf<G>& leaf, const LeafPrediction<G>& prediction) {
    const NodeId node =
        tree_.add_node({prediction.actions.begin(), prediction.actions.end()},
                       prediction.priors.data(), prediction.value, leaf.position.to_play());
    if (leaf.depth == 0) {
      root_value_sum_ = prediction.value;
      tree_.square_sum[kRoot] = prediction.value * prediction.value;
      return;
    }
    tree_.child[leaf.path[leaf.depth - 1]] = node;
    backup(leaf, prediction.value);
  }

  // Marks the path of a leaf that goes to the network; `release` removes the mark.
  void hold(const Leaf<G>& leaf) {
    ++root_leaves_out_;
    for (int i = 0; i < leaf.depth; ++i) ++tree_.leaves_out[leaf.path[i]];
  }
  void release(const Leaf<G>& leaf) {
    --root_leaves_out_;
    for (int i = 0; i < leaf.depth; ++i) --tree_.leaves_out[leaf.path[i]];
  }

  // Number of leaves in flight.
  int leaves_out() const { return root_leaves_out_; }

 private:
  // Applies a function to the root's policy.
  template <typename Function>
  decltype(auto) with_policy(const Function& function) {
    return std::visit(function, policy_);
  }
  template <typename Function>
  decltype(auto) with_policy(const Function& function) const {
    return std::visit(function, policy_);
  }

  RootView view() const { return {tree_, root_edges(), root_visits_}; }

  float mean_value() const { return static_cast<float>(root_value_sum_ / (1 + root_visits_)); }

  // Walks down to a proven node, to one without edges, or to an edge without a node (kUnexpanded).
  template <bool kVirtualLoss>
  NodeId descend(const Puct& puct, Leaf<G>& leaf) {
    NodeId node = kRoot;
    float visits = static_cast<float>(root_visits_);  // sum over the node's edges
    float value = mean_value();
    float count = visits + 1.0f;  // of the values in the mean
    if constexpr (kVirtualLoss) visits += puct.virtual_loss * static_cast<float>(root_leaves_out_);
    for (;;) {
      EdgeWindow edges = node == kRoot ? root_edges() : tree_.edges_of(node);
      int index = -1;
      if (node == kRoot) {
        index = with_policy([&](auto& policy) { return policy.next(view()); });
      }
      if (index < 0) {
        const bool is_open_to_all = tree_.proof[node] == Proof::kNone;
        const float reduction =
            node == kRoot ? plan_.fpu_reduction.value_or(puct.fpu_reduction) : puct.fpu_reduction;
        const float unvisited = puct.unvisited_value(value, tree_.visited_prior[node], reduction);
        float exploration = puct.exploration(visits);
        if (puct.stdev_scale > 0.0f) {
          exploration *= puct.stdev_factor(value, tree_.square_sum[node], count);
        }
        index = is_open_to_all
                    ? best_edge<kVirtualLoss>(edges, exploration, unvisited, puct.virtual_loss)
                    : best_open_edge<kVirtualLoss>(tree_, node, edges, exploration, unvisited,
                                                   puct.virtual_loss);
      }
      const EdgeId edge = tree_.first_edge[node] + static_cast<EdgeId>(index);
      leaf.step_down(edge);
      leaf.parent = node;
      node = tree_.child[edge];
      if (node == kUnexpanded || tree_.edge_count[node] == 0 || tree_.is_proven(node)) return node;
      const auto edge_visits = static_cast<float>(tree_.visit_count[edge]);
      value = seen_from(node, leaf.parent, tree_.value_sum[edge]) / edge_visits;
      visits = edge_visits - 1.0f;
      count = edge_visits;
      if constexpr (kVirtualLoss) {
        visits += puct.virtual_loss * static_cast<float>(tree_.leaves_out[edge]);
      }
    }
  }

  // Marks a leaf whose value the rules know as proven, and every node above that is then certain.
  // Those have a child that is won for the player to move, or only proven children. Edges to proven
  // nodes get exact values, and the edges above get the difference (Winands et al. 2008,
  // "Monte-Carlo Tree Search Solver", with draws).
  void prove(const Leaf<G>& leaf, NodeId known) {
    tree_.proof[known] = proof_of(tree_.value[known]);
    for (int i = leaf.depth - 1; i >= 0; --i) {
      make_exact(leaf, i);
      const NodeId node = owner(leaf, i);
      tree_.proof[node] = proof_by_children(tree_, node);
      if (!tree_.is_proven(node)) return;
    }
  }

  // The node that owns an edge of the path.
  NodeId owner(const Leaf<G>& leaf, int i) const {
    return i == 0 ? kRoot : tree_.child[leaf.path[i - 1]];
  }

  // Gives the i-th edge of the path, which leads to a proven node, its exact value.
  void make_exact(const Leaf<G>& leaf, int i) {
    const EdgeId edge = leaf.path[i];
    const NodeId child = tree_.child[edge];
    const auto visits = static_cast<float>(tree_.visit_count[edge]);
    const float value = seen_from(owner(leaf, i), child, tree_.proven_value(child));
    float difference = value * visits - tree_.value_sum[edge];
    if (keeps_squares_) {
      const float squares = value * value * visits - tree_.square_sum[child];
      for (int above = i; above >= 0; --above) {
        tree_.square_sum[tree_.child[leaf.path[above]]] += squares;
      }
      tree_.square_sum[kRoot] += squares;
    }
    for (int above = i; above >= 0; --above) {
      tree_.value_sum[leaf.path[above]] += difference;
      if (above > 0) difference = seen_from(owner(leaf, above - 1), owner(leaf, above), difference);
    }
    tree_.value_sum[edge] = value * visits;
    root_value_sum_ += difference;
  }

  // The root's edges with the priors of this search.
  EdgeWindow root_edges() const {
    EdgeWindow edges = tree_.edges_of(kRoot);
    edges.prior = root_prior_.data();
    return edges;
  }

  // The value of a position below the root if it is terminal or decided.
  static std::optional<float> known_value(const Puct& puct, const G& position) {
    if (position.is_terminal()) return terminal_value(position);
    return puct.decisive_moves ? decided_value(position) : std::nullopt;
  }

  // Visits the action that decides a new root, if there is one. A reused root with visits was
  // checked when it was a leaf.
  bool decide_root(Leaf<G>& leaf) {
    if (root_visits_ + root_leaves_out_ > 0) return false;
    // A search of some actions only may lack the one that decides.
    if (tree_.edge_count[kRoot] != static_cast<int>(root_.legal_actions().size())) return false;
    const auto decided = decided_value(root_);
    if (!decided) return false;
    const EdgeId edge = decisive_edge(tree_, root_, *decided);
    leaf.step_down(edge);
    leaf.parent = kRoot;
    leaf.position = root_;
    leaf.position.apply(tree_.action[edge]);
    prove(leaf, end(leaf, terminal_value(leaf.position)));
    tree_.proof[kRoot] = proof_of(*decided);
    return true;
  }

  // Adds the node of a leaf whose value the rules know, and backs up that value.
  NodeId end(const Leaf<G>& leaf, float value) {
    const NodeId node = tree_.add_known(value, leaf.position.to_play());
    tree_.child[leaf.path[leaf.depth - 1]] = node;
    backup(leaf, value);
    return node;
  }

  // `value` is for the player to move at the end of the path. From a proven node upwards, that
  // node's result replaces it.
  void backup(const Leaf<G>& leaf, float value) {
    const EdgeId last = leaf.path[leaf.depth - 1];
    if (tree_.visit_count[last] == 0) {
      const EdgeId index = last - tree_.first_edge[leaf.parent];
      tree_.visited_prior[leaf.parent] +=
          leaf.parent == kRoot ? root_prior_[index] : tree_.prior[last];
    }
    for (int i = leaf.depth - 1; i >= 0; --i) {
      const EdgeId edge = leaf.path[i];
      const NodeId child = tree_.child[edge];
      if (tree_.is_proven(child)) value = tree_.proven_value(child);
      value = seen_from(i == 0 ? kRoot : tree_.child[leaf.path[i - 1]], child, value);
      ++tree_.visit_count[leaf.path[i]];
      tree_.value_sum[leaf.path[i]] += value;
      if (keeps_squares_) tree_.square_sum[child] += value * value;
    }
    ++root_visits_;
    root_value_sum_ += value;
    tree_.square_sum[kRoot] += value * value;
  }

  // Turns a value for the player to move at `other` into one for the player to move at its
  // neighbour `node`.
  float seen_from(NodeId node, NodeId other, float value) const {
    const bool takes_turns = FixedGame<G> || tree_.to_play[node] != tree_.to_play[other];
    return takes_turns ? -value : value;
  }

  EdgeId edge_of(Action action) const {
    const auto first = tree_.action.begin() + tree_.first_edge[kRoot];
    const auto found = std::find(first, first + tree_.edge_count[kRoot], action);
    return static_cast<EdgeId>(found - tree_.action.begin());
  }

  G root_{};
  Tree tree_;
  RootPlan plan_;
  std::variant<PuctRoot, GumbelRoot> policy_;
  std::vector<float> root_prior_;  // [edges of the root, rounded up to kLanes] as used by select
  double root_value_sum_ = 0.0;    // for the player to move at the root
  int root_visits_ = 0;
  int root_leaves_out_ = 0;
  bool keeps_squares_ = false;
};

}  // namespace zerofleet
