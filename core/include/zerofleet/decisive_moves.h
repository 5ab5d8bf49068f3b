// What one more action tells of a position: who can win at once has won (Teytaud & Teytaud 2010,
// "On the Huge Benefit of Decisive Moves in Monte-Carlo Tree Search Algorithms").
#pragma once

#include <iterator>
#include <optional>

#include "zerofleet/game.h"
#include "zerofleet/tree.h"

namespace zerofleet {

// The result for the player to move if an action ends the game; nothing if the game goes on.
template <Game G>
std::optional<float> value_of_ending(const G& position, Action action) {
  G next = position;
  next.apply(action);
  if (!next.is_terminal()) return std::nullopt;
  const float value = terminal_value(next);
  return next.to_play() == position.to_play() ? value : -value;
}

// As `decided_value`, of a position with these actions alone, or with others that do not end it.
template <Game G, class Actions>
std::optional<float> decided_value_by(const G& position, const Actions& actions, bool are_all) {
  std::optional<float> best;
  for (const Action action : actions) {
    const auto value = value_of_ending(position, action);
    if (value == 1.0f) return value;
    if (!value) {
      are_all = false;
    } else if (!best || *value > *best) {
      best = value;
    }
  }
  return are_all ? best : std::nullopt;
}

// The result of a position that is not terminal, for the player to move, if one action tells it:
// some action wins at once, or every action ends the game.
template <Game G>
std::optional<float> decided_value(const G& position) {
  if constexpr (TellsEndingActions<G>) {
    const auto actions = position.ending_actions();
    if (actions.empty()) return std::nullopt;
    return decided_value_by(position, actions,
                            std::size(actions) == std::size(position.legal_actions()));
  } else {
    return decided_value_by(position, position.legal_actions(), true);
  }
}

// The root's edge that leads to the result that is decided there: of several the likeliest.
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
