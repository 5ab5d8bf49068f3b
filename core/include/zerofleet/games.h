// The registry: every game of the core, by name.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "zerofleet/game_name.h"
#include "zerofleet/games/connect_four.h"
#include "zerofleet/games/go.h"
#include "zerofleet/games/mnk.h"
#include "zerofleet/games/othello.h"
#include "zerofleet/games/tic_tac_toe.h"
#include "zerofleet/wrapped_game.h"

namespace zerofleet {

// Names of the families: "go" stands for go(size=9,komi=7.5) and every other Go.
std::vector<std::string> game_names();

// Makes the rules of a game from outside the core. It gets a name that no family has, and returns
// null if it does not know the game either. Set it once, before the first game is made.
using RulesMaker = std::function<std::shared_ptr<const DynamicRules>(const std::string& name)>;
void set_outside_games(RulesMaker maker);

// Takes the settings of `go` out of a name. Throws std::invalid_argument, naming what is wrong.
GoSettings take_go_settings(GameName& name);

template <int kSize>
GoRules go_rules(const GoSettings& settings) {
  GoRules rules = Go<kSize>::default_rules();
  rules.komi = settings.komi.value_or(rules.komi);
  rules.suicide = settings.suicide;
  rules.max_length = settings.max_length.value_or(rules.max_length);
  return rules;
}

template <int kSize, GoObservation kObservation = GoObservation::kHistory>
auto fixed_go(const std::string& text, const GoSettings& settings) {
  using AnyGo = Go<kSize, kObservation>;
  return FixedRules<AnyGo>(text, AnyGo(go_rules<kSize>(settings)));
}

// Makes any other game, of the core or from outside. Throws std::invalid_argument if it is unknown.
DynamicGame make_dynamic_game(GameName name);

// Calls `visitor(rules)` with the Rules of the game of that name and returns its result. Games that
// are played much are compiled in; the others go through virtual calls. Throws
// std::invalid_argument for an unknown name.
template <class Visitor>
auto visit_game(const std::string& text, Visitor&& visitor) {
  GameName name(text);
  const std::string& family = name.family();
  if (family == "go") {
    GameName rest = name;
    const GoSettings settings = take_go_settings(rest);
    if (settings.observation == GoObservation::kHistory) {
      if (settings.size == 9) return visitor(fixed_go<9>(text, settings));
      if (settings.size == 13) return visitor(fixed_go<13>(text, settings));
      if (settings.size == 19) return visitor(fixed_go<19>(text, settings));
    } else if (settings.size == 9) {
      return visitor(fixed_go<9, GoObservation::kLiberties>(text, settings));
    }
  }
  const bool is_plain = text == family;  // the other games take no rules
  if (is_plain && family == ConnectFour::kName) return visitor(FixedRules<ConnectFour>());
  if (is_plain && family == Gomoku::kName) return visitor(FixedRules<Gomoku>());
  if (is_plain && family == Othello::kName) return visitor(FixedRules<Othello>());
  if (is_plain && family == TicTacToe::kName) return visitor(FixedRules<TicTacToe>());
  return visitor(make_dynamic_game(std::move(name)));
}

// The game of that name behind virtual calls, even if it is compiled in; made once.
const DynamicGame& dynamic_game(const std::string& name);

}  // namespace zerofleet
