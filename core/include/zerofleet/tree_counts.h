// Sizes and memory of trees, for an engine's statistics.
#pragma once

#include <cstdint>

#include "zerofleet/engine.h"
#include "zerofleet/tree.h"

namespace zerofleet {

// Adds only the memory of a tree: one that lends its memory to others has no nodes that count.
inline void add_memory(EngineStatistics& counts, const Tree& tree) {
  counts.node_bytes += static_cast<std::int64_t>(tree.node_bytes());
  counts.edge_bytes += static_cast<std::int64_t>(tree.edge_bytes());
}

inline void add_tree(EngineStatistics& counts, const Tree& tree) {
  counts.nodes += tree.num_nodes();
  counts.edges += tree.num_edges();
  add_memory(counts, tree);
}

}  // namespace zerofleet
