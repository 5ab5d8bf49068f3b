// Games of Go written as their moves.
#pragma once

#include <algorithm>
#include <source_location>
#include <sstream>
#include <string>

#include "check.h"
#include "zerofleet/games/go.h"

namespace zerofleet::test {

// Plays "D4 C3 pass ..." from here; every move must be legal.
template <int kSize>
Go<kSize> play(Go<kSize> game, const std::string& moves,
               const std::source_location& at = std::source_location::current()) {
  std::istringstream words(moves);
  for (std::string word; words >> word;) {
    const auto action = Go<kSize>::string_to_action(word);
    check(action && game.is_legal(*action), at);
    game.apply(*action);
  }
  return game;
}

template <int kSize>
Go<kSize> play(const std::string& moves,
               const std::source_location& at = std::source_location::current()) {
  return play(Go<kSize>{}, moves, at);
}

// Whether `is_legal` says so; `legal_actions` must agree.
template <int kSize>
bool allows(const Go<kSize>& game, const std::string& move) {
  const Action action = Go<kSize>::string_to_action(move).value();
  const auto actions = game.legal_actions();
  const bool listed = std::find(actions.begin(), actions.end(), action) != actions.end();
  check(game.is_legal(action) == listed);
  return listed;
}

}  // namespace zerofleet::test
