// A finished game from outside, checked against the rules before it is learnt from.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "zerofleet/prediction.h"
#include "zerofleet/replay_moves.h"

namespace zerofleet {

// Columns of a game record. The search table of ply i is [offsets[i], offsets[i + 1]) of the
// columns of legal actions.
struct StoredGame {
  std::span<const Action> action;         // [plies]
  int result = 0;                         // +1 the first player won, -1 the second, 0 a draw
  std::span<const bool> full_search;      // [plies]
  std::span<const std::int32_t> offsets;  // [plies + 1]
  std::span<const Action> legal_actions;
  std::span<const std::int32_t> policy_weights;  // the training target, up to scale
  std::span<const float> root_value = {};        // [plies] for the player to move; empty: unknown
  std::span<const float> priors = {};            // the network's policy; empty: unknown
  bool resigned = false;                         // the player to move at the end resigned
  bool adjudicated = false;                      // the result was given, whatever the end shows
  std::string_view start = {};                   // start position; empty: the usual one

  std::span<const Action> actions_at(std::size_t ply) const {
    return legal_actions.subspan(first_child(ply), children(ply));
  }
  std::span<const std::int32_t> policy_weights_at(std::size_t ply) const {
    return policy_weights.subspan(first_child(ply), children(ply));
  }
  std::span<const float> priors_at(std::size_t ply) const {
    return priors.subspan(first_child(ply), children(ply));
  }

 private:
  std::size_t first_child(std::size_t ply) const { return static_cast<std::size_t>(offsets[ply]); }
  std::size_t children(std::size_t ply) const {
    return static_cast<std::size_t>(offsets[ply + 1] - offsets[ply]);
  }
};

// Throws std::invalid_argument unless the columns have lengths that fit together.
inline void check_columns(const StoredGame& game) {
  const auto require = [](bool holds, const std::string& message) {
    if (!holds) throw std::invalid_argument(message);
  };
  const std::size_t plies = game.action.size();
  require(game.full_search.size() == plies, "full_search has " +
                                                std::to_string(game.full_search.size()) +
                                                " entries for " + std::to_string(plies) + " plies");
  require(game.offsets.size() == plies + 1,
          "offsets has " + std::to_string(game.offsets.size()) +
              " entries, expected plies + 1 = " + std::to_string(plies + 1));
  require(game.offsets.front() == 0,
          "offsets starts with " + std::to_string(game.offsets.front()) + ", expected 0");
  for (std::size_t ply = 0; ply < plies; ++ply) {
    require(game.offsets[ply] <= game.offsets[ply + 1],
            "ply " + std::to_string(ply) + ": offsets decrease");
  }
  require(game.root_value.empty() || game.root_value.size() == plies,
          "root_value has " + std::to_string(game.root_value.size()) + " entries for " +
              std::to_string(plies) + " plies");
  for (std::size_t ply = 0; ply < game.root_value.size(); ++ply) {
    require(is_value(game.root_value[ply]),
            "ply " + std::to_string(ply) + ": root_value is not in [-1, 1]");
  }
  const auto children = static_cast<std::size_t>(game.offsets.back());
  require(game.legal_actions.size() == children,
          "legal_actions has " + std::to_string(game.legal_actions.size()) +
              " entries, the last offset is " + std::to_string(children));
  require(game.policy_weights.size() == children,
          "policy_weights has " + std::to_string(game.policy_weights.size()) +
              " entries, the last offset is " + std::to_string(children));
  require(game.priors.empty() || game.priors.size() == children,
          "priors has " + std::to_string(game.priors.size()) + " entries, the last offset is " +
              std::to_string(children));
}

// Throws std::invalid_argument unless this ply's table lists every legal action in ascending order,
// with weights that make a policy. A ply that is not a training target may list only some of them.
template <Game G>
void check_search_table(const StoredGame& game, std::size_t ply, const G& position) {
  const auto fail = [ply](const std::string& reason) {
    throw std::invalid_argument("ply " + std::to_string(ply) + ": " + reason);
  };
  const auto actions = game.actions_at(ply);
  const auto legal = position.legal_actions();
  if (game.full_search[ply] && !std::ranges::equal(actions, legal)) {
    fail("legal_actions must list every legal action in ascending order");
  }
  if (!game.full_search[ply] && !std::ranges::includes(legal, actions)) {
    fail("legal_actions must be legal actions in ascending order");
  }
  std::int64_t total = 0;
  for (const std::int32_t weight : game.policy_weights_at(ply)) {
    if (weight < 0) fail("policy weight " + std::to_string(weight) + " is negative");
    total += weight;
  }
  if (total == 0 && game.full_search[ply]) fail("no policy weight in a full search");
}

// Throws std::invalid_argument, naming ply and reason, unless the game is complete, keeps to the
// rules and has the search tables that its plies need. Calls `see(ply, position)` at each ply.
// Returns the final position.
template <class AnyRules, class See>
typename AnyRules::Position check_game(const AnyRules& rules, const StoredGame& game, See&& see) {
  check_columns(game);
  typename AnyRules::Position position = rules.start_from(game.start);
  for (std::size_t ply = 0; ply < game.action.size(); ++ply) {
    if (position.is_terminal()) {
      throw std::invalid_argument("ply " + std::to_string(ply) + ": the game is over already");
    }
    check_search_table(game, ply, position);
    see(ply, position);
    apply_checked(rules, position, game.action[ply]);
  }
  const std::string end = "ply " + std::to_string(game.action.size()) + ": ";
  if (game.adjudicated) {
    if (game.resigned) throw std::invalid_argument(end + "adjudicated and resigned");
    if (game.result < -1 || game.result > 1) {
      throw std::invalid_argument(end + "the record says " + std::to_string(game.result));
    }
    return position;
  }
  if (position.is_terminal() == game.resigned) {
    throw std::invalid_argument(
        end + (game.resigned ? "resigned, but the game is over" : "the game is not over"));
  }
  const int winner = position.to_play() == kFirstPlayer ? -1 : 1;
  const int result = game.resigned ? winner : position.result();
  if (result != game.result) {
    throw std::invalid_argument(end + "the result is " + std::to_string(result) +
                                ", the record says " + std::to_string(game.result));
  }
  return position;
}

}  // namespace zerofleet
