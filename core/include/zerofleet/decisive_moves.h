// Decisive moves: a player who can win at once has won (Teytaud & Teytaud 2010, "On the Huge
// Benefit of Decisive Moves in Monte-Carlo Tree Search Algorithms").
#pragma once

#include <iterator>
#include <optional>

#include "zerofleet/game.h"
#include "zerofleet/tree.h"

namespace zerofleet {

// Result for the player to move if an action ends the game; nullopt if the game goes on.
template <Game G>
std::optional<float> value_of_ending(const G& position, Action action) {
  G next = position;
  next.apply(action);
  if (!next.is_terminal()) return std::nullopt;
  const float value = terminal_value(next);
  return next.to_play() == position.to_play() ? value : -value;
}

// Result of a non-terminal position for the player to move, if one action decides it: some action
// wins at once, or every action ends the game. Otherwise nullopt.
template <Game G>
std::optional<float> decided_value(const G& position) {
  const auto actions = ending_actions_of(position);
  std::optional<float> best;
  bool all_end = true;
  for (const Action action : actions) {
    const auto value = value_of_ending(position, action);
    if (value == 1.0f) return value;
    if (!value) {
      all_end = false;
    } else if (!best || *value > *best) {
      best = value;
    }
  }
  if (!best || !all_end || std::size(actions) < std::size(position.legal_actions())) {
    return std::nullopt;
  }
  return best;
}

// The root's edge that leads to the decided result. Among several, the one with the highest prior.
template <Game G>
EdgeId decisive_edge(const Tree& tree, const G& root, float decided) {
  EdgeId best = tree.edge_count[kRoot];
  for (EdgeId edge = 0; edge < tree.edge_count[kRoot]; ++edge) {
    if (best < edge && tree.prior[edge] <= tree.prior[best]) continue;
    if (value_of_ending(root, tree.action[edge]) == decided) best = edge;
  }
  return best;
}

}  // namespace zerofleet
