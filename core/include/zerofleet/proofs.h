// Certain results in a tree, and what follows from them for its edges.
//
// Winands et al. 2008, "Monte-Carlo Tree Search Solver", with draws: a node is won if a child is
// won for its player. If all children are proven, a node has its best child's result.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "zerofleet/lanes.h"
#include "zerofleet/puct.h"
#include "zerofleet/tree.h"

namespace zerofleet {

inline Proof proof_of(float value) {
  return value > 0.0f ? Proof::kWin : value < 0.0f ? Proof::kLoss : Proof::kDraw;
}

// A proven child's result, for the player to move at `node`.
inline Proof proof_from(const Tree& tree, NodeId node, NodeId child) {
  const float value = tree.proven_value(child);
  return proof_of(tree.to_play[node] == tree.to_play[child] ? value : -value);
}

inline bool is_proven_child(const Tree& tree, NodeId child) {
  return child != kUnexpanded && tree.is_proven(child);
}

// What a node's children prove about it.
inline Proof proof_by_children(const Tree& tree, NodeId node) {
  Proof best = Proof::kLoss;
  bool all = true;
  for (EdgeId i = 0; i < tree.edge_count[node]; ++i) {
    const NodeId child = tree.child[tree.first_edge[node] + i];
    if (is_proven_child(tree, child)) {
      best = std::max(best, proof_from(tree, node, child));
    } else {
      all = false;
    }
  }
  return all || best == Proof::kWin ? best : Proof::kOfChild;
}

// Whether a child is open: not certainly worse than another. At a proven node the open children are
// those proven to have the node's result; elsewhere, those not proven lost.
inline bool is_open(const Tree& tree, NodeId node, int index) {
  const NodeId child = tree.child[tree.first_edge[node] + static_cast<EdgeId>(index)];
  if (!is_proven_child(tree, child)) return !tree.is_proven(node);
  return proof_from(tree, node, child) >= (tree.is_proven(node) ? tree.proof[node] : Proof::kDraw);
}

// Like `best_edge`, but among the open edges of a node; -1 if there are none.
template <bool kVirtualLoss>
int best_open_edge(const Tree& tree, NodeId node, const EdgeWindow& edges, float exploration,
                   float unvisited_value, float virtual_loss) {
  int best = -1;
  float best_score = 0.0f;
  for (int start = 0; start < edges.count; start += kLanes) {
    const Floats scores =
        puct_scores<kVirtualLoss>(edges, start, exploration, unvisited_value, virtual_loss);
    for (int i = start; i < std::min(start + kLanes, edges.count); ++i) {
      if ((best < 0 || scores[i - start] > best_score) && is_open(tree, node, i)) {
        best = i;
        best_score = scores[i - start];
      }
    }
  }
  return best;
}

// Sets the weights of the root's children that are not open to 0. If no open child was visited, all
// open ones get the same weight.
inline void leave_out_worse(const Tree& tree, std::vector<std::int32_t>& weights) {
  if (tree.proof[kRoot] == Proof::kNone) return;
  const int count = static_cast<int>(weights.size());
  bool some = false;
  for (int i = 0; i < count; ++i) {
    if (!is_open(tree, kRoot, i)) weights[i] = 0;
    some |= weights[i] > 0;
  }
  for (int i = 0; i < count && !some; ++i) weights[i] = is_open(tree, kRoot, i);
}

}  // namespace zerofleet
