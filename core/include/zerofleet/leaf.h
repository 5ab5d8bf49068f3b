// A leaf on its way from select to expand, and the path to it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "zerofleet/dynamic_game.h"
#include "zerofleet/game.h"
#include "zerofleet/tree.h"

namespace zerofleet {

// Storage for the longest path of a game.
template <Game G>
struct PathOf {
  using type = std::array<EdgeId, G::kMaxLength>;
};
template <>
struct PathOf<DynamicPosition> {
  using type = std::vector<EdgeId>;
};

// A leaf between select and expand.
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

}  // namespace zerofleet
