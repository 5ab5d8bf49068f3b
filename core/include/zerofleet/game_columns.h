// The record of one game as columns, a row for each ply.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "zerofleet/game.h"
#include "zerofleet/move_choice.h"
#include "zerofleet/replay_moves.h"
#include "zerofleet/tree.h"

namespace zerofleet {

// What the search found at one ply.
struct PlyResult {
  Action action = 0;
  Player to_play = kFirstPlayer;
  int model_version = 0;
  float root_value = 0.0f;
  float network_value = 0.0f;
  float best_child_value = 0.0f;
  int simulations = 0;
  bool full_search = false;
  std::span<const Action> child_actions = {};
  std::span<const std::int32_t> child_visit_counts = {};
  std::span<const float> child_priors = {};
  std::span<const std::int32_t> child_policy_weights = {};
};

// The search table of ply i is [offsets[i], offsets[i + 1]) of the child_* columns. Values are for
// the player to move at that ply. After a full search the table lists every legal action, after a
// fast one those that were visited, and where the action was drawn (self-play's opening) that one
// alone, with 0 simulations. A ply that was given (a match's opening, or by a player without a
// predictor) has the same table, and model version 0.
struct GameColumns {
  std::int64_t game_id = 0;
  std::vector<std::int16_t> actions;
  std::vector<Player> to_play;
  std::vector<std::int32_t> model_versions;
  std::vector<float> root_values;
  std::vector<float> network_values;
  std::vector<float> best_child_values;   // of the child that is best without a temperature
  std::vector<std::int32_t> simulations;  // visits of the root, kept ones included
  std::vector<std::uint8_t> full_search;
  std::vector<std::int32_t> offsets = {0};
  std::vector<std::int16_t> child_actions;
  std::vector<std::int32_t> child_visit_counts;
  std::vector<float> child_priors;                 // the network's, without noise
  std::vector<std::int32_t> child_policy_weights;  // the training target, up to scale
  std::optional<int> result;                       // nothing while the game goes on
  std::string reason = "rules";                    // or "resign"
  std::optional<float> resign_threshold;  // v_resign when the game began; nothing: none was known
  bool plays_on = false;                  // nobody resigns, so that v_resign can be checked

  // Whether the ply to come was drawn for a full search: a game that goes on elsewhere keeps the
  // draw, for full searches are the ones that an interruption hits.
  std::optional<bool> next_full_search;

  void append(const PlyResult& ply) {
    actions.push_back(ply.action);
    to_play.push_back(ply.to_play);
    model_versions.push_back(ply.model_version);
    root_values.push_back(ply.root_value);
    network_values.push_back(ply.network_value);
    best_child_values.push_back(ply.best_child_value);
    simulations.push_back(ply.simulations);
    full_search.push_back(ply.full_search);
    for (std::size_t i = 0; i < ply.child_actions.size(); ++i) {
      const bool counts = ply.child_visit_counts[i] > 0 || ply.child_actions[i] == ply.action;
      if (!ply.full_search && !counts) continue;
      child_actions.push_back(ply.child_actions[i]);
      child_visit_counts.push_back(ply.child_visit_counts[i]);
      child_priors.push_back(ply.child_priors[i]);
      child_policy_weights.push_back(ply.child_policy_weights[i]);
    }
    offsets.push_back(static_cast<std::int32_t>(child_actions.size()));
  }

  // Throws std::invalid_argument unless the columns fit together.
  void check_shape() const {
    const std::size_t plies = actions.size();
    require(to_play.size() == plies, "to_play");
    require(model_versions.size() == plies, "model_versions");
    require(root_values.size() == plies, "root_values");
    require(network_values.size() == plies, "network_values");
    require(best_child_values.size() == plies, "best_child_values");
    require(simulations.size() == plies, "simulations");
    require(full_search.size() == plies, "full_search");
    require(offsets.size() == plies + 1 && offsets.front() == 0, "offsets");
    for (std::size_t ply = 0; ply < plies; ++ply) {
      require(offsets[ply] <= offsets[ply + 1], "offsets");
    }
    const auto children = static_cast<std::size_t>(offsets.back());
    require(child_actions.size() == children, "child_actions");
    require(child_visit_counts.size() == children, "child_visit_counts");
    require(child_priors.size() == children, "child_priors");
    require(child_policy_weights.size() == children, "child_policy_weights");
  }

 private:
  static void require(bool holds, const char* column) {
    if (!holds) {
      throw std::invalid_argument(std::string("the column ") + column +
                                  " does not fit the other columns of the game");
    }
  }
};

// The position that a game has reached.
// Throws std::invalid_argument when its columns do not fit together or an action is illegal.
template <class AnyRules>
auto reached_position(const AnyRules& rules, const GameColumns& game) {
  game.check_shape();
  return position_after(rules, std::span<const std::int16_t>(game.actions));
}

// Mean value of a child of the root, for the player to move at the root; 0 without visits.
inline float child_value(const Tree& tree, int child) {
  const EdgeWindow children = tree.edges_of(kRoot);
  return children.value_sum[child] / static_cast<float>(std::max(children.visit_count[child], 1));
}

// Reads off the root what the record keeps of a search, for the action of child `chosen`.
template <class SearchType>
PlyResult ply_result(const SearchType& search, int chosen, int model_version,
                     std::span<const std::int32_t> policy_weights) {
  const auto& tree = search.tree();
  const auto children = static_cast<std::size_t>(tree.edge_count[0]);
  return {.action = tree.action[chosen],
          .to_play = tree.to_play[kRoot],
          .model_version = model_version,
          .root_value = search.root_value(),
          .network_value = tree.value[0],
          .best_child_value = child_value(tree, search.best_child()),
          .simulations = search.root_visits(),
          .full_search = true,
          .child_actions = {tree.action.data(), children},
          .child_visit_counts = {tree.visit_count.data(), children},
          .child_priors = {tree.prior.data(), children},
          .child_policy_weights = policy_weights};
}

}  // namespace zerofleet
