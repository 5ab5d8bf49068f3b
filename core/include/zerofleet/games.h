// The registry: every game that the core knows, one line each.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "zerofleet/games/connect_four.h"
#include "zerofleet/games/tic_tac_toe.h"

namespace zerofleet {

template <Game... Gs>
struct GameList {
  static std::vector<std::string> names() { return {std::string(Gs::kName)...}; }

  // Calls `visitor(std::type_identity<G>{})` for the game of that name; returns what it returns.
  // Throws std::invalid_argument for a name that no game has.
  template <class Visitor>
  static auto visit(std::string_view name, Visitor&& visitor) {
    return visit_first<Visitor, Gs...>(name, visitor);
  }

 private:
  template <class Visitor, Game G, Game... Rest>
  static auto visit_first(std::string_view name, Visitor& visitor) {
    if (name == G::kName) return visitor(std::type_identity<G>{});
    if constexpr (sizeof...(Rest) > 0) {
      return visit_first<Visitor, Rest...>(name, visitor);
    } else {
      std::string known;
      for (const std::string& game : names()) known += (known.empty() ? "" : ", ") + game;
      throw std::invalid_argument("unknown game '" + std::string(name) + "'; known: " + known);
    }
  }
};

using AllGames = GameList<  //
    ConnectFour,            //
    TicTacToe               //
    >;

// `visit_game(name, [](auto game) { using G = typename decltype(game)::type; ... })`
template <class Visitor>
auto visit_game(std::string_view name, Visitor&& visitor) {
  return AllGames::visit(name, visitor);
}

}  // namespace zerofleet
