// Plays a list of actions from a start position, for untrusted input.
#pragma once

#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "zerofleet/rules.h"

namespace zerofleet {

// Applies one action to a position. Throws std::invalid_argument naming ply and action if it is
// illegal.
template <class AnyRules>
void apply_checked(const AnyRules& rules, typename AnyRules::Position& position, int action) {
  if (!position.is_legal(action)) {
    throw std::invalid_argument("action " + std::to_string(action) + " at ply " +
                                std::to_string(position.ply()) + " is illegal in " + rules.name());
  }
  position.apply(static_cast<Action>(action));
}

// The position of a game after these actions from a start position; `Number` is any integer type.
// An empty `start` is the usual start. Throws std::invalid_argument, naming ply and action if one
// is illegal, or what is wrong with the start position.
template <class AnyRules, class Number>
auto position_after(const AnyRules& rules, std::span<const Number> actions,
                    std::string_view start = {}) {
  typename AnyRules::Position position = rules.start_from(start);
  for (const Number action : actions) apply_checked(rules, position, static_cast<int>(action));
  return position;
}

}  // namespace zerofleet
