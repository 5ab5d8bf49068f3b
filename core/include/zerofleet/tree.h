// The search tree as columns with 32-bit ids.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "zerofleet/game.h"
#include "zerofleet/lanes.h"
#include "zerofleet/puct.h"

namespace zerofleet {

using NodeId = std::uint32_t;
using EdgeId = std::uint32_t;

inline constexpr NodeId kRoot = 0;
inline constexpr NodeId kUnexpanded = UINT32_MAX;

// What is certain about a node, for the player to move there. The results are in ascending order.
enum class Proof : std::uint8_t {
  kNone,     // nothing about the node or a child
  kOfChild,  // something about a child, nothing about the node
  kLoss,
  kDraw,
  kWin,
};

// A node is a position whose prediction is known, or one whose value the rules know: a terminal
// one, or one that the next action decides. It owns a run of edges, one per legal action in
// ascending order. A node whose value the rules know has none. Node 0 is the root.
//
//   node    first_edge  edge_count            edge   action  visit_count  child
//   0       0           3            ------>  0      2       5            1
//   1       3           2            --.      1      4       0            kUnexpanded
//                                      |      2      7       1            2
//                                      '--->  3      0       ...
//
// The visits of a node's edges sum to the visits of the edge that leads to it, minus the one that
// created the node. Every visit adds at most one node, so a search that stops at n visits of its
// root needs at most n + 1 nodes.
class Tree {
 public:
  // Columns by node: [num_nodes].
  std::vector<EdgeId> first_edge;
  std::vector<std::uint16_t> edge_count;  // 0: the rules know the value
  std::vector<float> value;  // from the network or the rules, for the player to move here
  std::vector<Player> to_play;
  std::vector<float> visited_prior;  // prior mass of the edges visited so far
  std::vector<Proof> proof;
  std::vector<float> square_sum;  // of the squared values; only if c_puct is scaled

  // Columns by edge: [num_edges], with kLanes more readable entries.
  std::vector<Action> action;
  std::vector<float> prior;  // from the network, without noise
  std::vector<std::int32_t> visit_count;
  std::vector<float> value_sum;  // for the player to move at the parent
  std::vector<NodeId> child;
  std::vector<std::uint16_t> leaves_out;  // in flight: selected, not backed up yet

  // Bytes of one node and of one edge in the columns above.
  static constexpr std::size_t kNodeBytes =
      sizeof(EdgeId) + sizeof(std::uint16_t) + sizeof(Player) + 3 * sizeof(float) + sizeof(Proof);
  static constexpr std::size_t kEdgeBytes = sizeof(Action) + 2 * sizeof(float) +
                                            sizeof(std::int32_t) + sizeof(NodeId) +
                                            sizeof(std::uint16_t);
  static_assert(kNodeBytes == 20 && kEdgeBytes == 20);

  std::uint32_t num_nodes() const { return num_nodes_; }
  std::uint32_t num_edges() const { return num_edges_; }
  bool is_empty() const { return num_nodes_ == 0; }

  // Allocated memory, used or not.
  std::size_t node_bytes() const { return first_edge.capacity() * kNodeBytes; }
  std::size_t edge_bytes() const { return action.capacity() * kEdgeBytes; }

  void clear() { num_nodes_ = num_edges_ = 0; }

  // Appends a node with unvisited edges; `actions` and `priors` are parallel.
  NodeId add_node(std::span<const Action> actions, const float* priors, float node_value,
                  Player player) {
    const auto edges = static_cast<std::uint32_t>(actions.size());
    const NodeId node = append_node(edges, node_value, player);
    const EdgeId first = first_edge[node];
    std::copy(actions.begin(), actions.end(), action.begin() + first);
    std::copy_n(priors, actions.size(), prior.begin() + first);
    std::fill_n(visit_count.begin() + first, actions.size(), 0);
    std::fill_n(value_sum.begin() + first, actions.size(), 0.0f);
    std::fill_n(child.begin() + first, actions.size(), kUnexpanded);
    std::fill_n(leaves_out.begin() + first, actions.size(), std::uint16_t{0});
    return node;
  }

  // Appends a node whose value the rules know.
  NodeId add_known(float node_value, Player player) { return append_node(0, node_value, player); }

  // Replaces `target` with the subtree under `node`, which becomes its root. Nodes are laid out
  // breadth first, so that the most visited ones lie together.
  void copy_subtree(NodeId node, Tree& target) const {
    target.clear();
    target.copy_node(*this, node);
    for (EdgeId edge = 0; edge < target.num_edges_; ++edge) {
      const NodeId old_child = target.child[edge];
      if (old_child != kUnexpanded) target.child[edge] = target.copy_node(*this, old_child);
    }
  }

  // Whether the node's result is certain.
  bool is_proven(NodeId node) const { return proof[node] >= Proof::kLoss; }

  // A proven node's result, for the player to move there.
  float proven_value(NodeId node) const {
    return static_cast<float>(static_cast<int>(proof[node]) - static_cast<int>(Proof::kDraw));
  }

  // The edges of a node as the selection formula reads them.
  EdgeWindow edges_of(NodeId node) const {
    const EdgeId first = first_edge[node];
    return {prior.data() + first, visit_count.data() + first, value_sum.data() + first,
            leaves_out.data() + first, edge_count[node]};
  }

 private:
  NodeId append_node(std::uint32_t edges, float node_value, Player player) {
    if (num_nodes_ == first_edge.size()) grow_nodes();
    if (num_edges_ + edges + kLanes > action.size()) grow_edges(edges);
    const NodeId node = num_nodes_++;
    first_edge[node] = num_edges_;
    edge_count[node] = static_cast<std::uint16_t>(edges);
    value[node] = node_value;
    to_play[node] = player;
    visited_prior[node] = 0.0f;
    proof[node] = Proof::kNone;
    square_sum[node] = 0.0f;
    num_edges_ += edges;
    return node;
  }

  // Children keep their ids in `source` until copy_subtree reaches them.
  NodeId copy_node(const Tree& source, NodeId old_node) {
    const std::uint32_t edges = source.edge_count[old_node];
    const NodeId node = append_node(edges, source.value[old_node], source.to_play[old_node]);
    const EdgeId from = source.first_edge[old_node];
    const EdgeId to = first_edge[node];
    visited_prior[node] = source.visited_prior[old_node];
    proof[node] = source.proof[old_node];
    square_sum[node] = source.square_sum[old_node];
    std::copy_n(source.action.begin() + from, edges, action.begin() + to);
    std::copy_n(source.prior.begin() + from, edges, prior.begin() + to);
    std::copy_n(source.visit_count.begin() + from, edges, visit_count.begin() + to);
    std::copy_n(source.value_sum.begin() + from, edges, value_sum.begin() + to);
    std::copy_n(source.child.begin() + from, edges, child.begin() + to);
    std::fill_n(leaves_out.begin() + to, edges, std::uint16_t{0});
    return node;
  }

  void grow_nodes() {
    const std::size_t more = std::max<std::size_t>(64, first_edge.size() / kGrowth);
    grow(more, first_edge, edge_count, value, to_play, visited_prior, proof, square_sum);
  }

  void grow_edges(std::uint32_t needed) {
    const std::size_t more = std::max<std::size_t>(256, action.size() / kGrowth) + needed + kLanes;
    grow(more, action, prior, visit_count, value_sum, child, leaves_out);
  }

  // Lengthens columns. A tree grows once and serves many searches, so unneeded room costs more than
  // copying. `reserve` keeps `resize` from doubling the memory.
  template <class... Columns>
  static void grow(std::size_t more, Columns&... columns) {
    const auto lengthen = [more](auto& column) {
      column.reserve(column.size() + more);
      column.resize(column.size() + more);
    };
    (lengthen(columns), ...);
  }

  static constexpr std::size_t kGrowth = 8;  // grow by an eighth at a time

  std::uint32_t num_nodes_ = 0;
  std::uint32_t num_edges_ = 0;
};

}  // namespace zerofleet
