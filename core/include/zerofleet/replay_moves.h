// Playing a list of actions from the start, for input that may be wrong.
#pragma once

#include <span>
#include <stdexcept>
#include <string>

#include "zerofleet/game.h"

namespace zerofleet {

// Applies one action to a position.
// Throws std::invalid_argument naming ply and action when it is illegal there.
template <Game G>
void apply_checked(G& position, int action) {
  if (!position.is_legal(action)) {
    throw std::invalid_argument("action " + std::to_string(action) + " at ply " +
                                std::to_string(position.ply()) + " is illegal in " +
                                std::string(G::kName));
  }
  position.apply(static_cast<Action>(action));
}

// The position after these actions from the start; `Number` is any integer type.
// Throws std::invalid_argument naming ply and action when one is illegal.
template <Game G, class Number>
G position_after(std::span<const Number> actions) {
  G position;
  for (const Number action : actions) apply_checked(position, static_cast<int>(action));
  return position;
}

}  // namespace zerofleet
