// Rows of a training batch, and how their targets follow from a game's values and its end.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory_resource>
#include <ranges>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "zerofleet/portable_math.h"
#include "zerofleet/rules.h"
#include "zerofleet/stored_game.h"

namespace zerofleet {

// The value target of each ply, for the first player: the lambda-return of the searches' values,
//
//   G(t) = (1 - lambda) v(t) + lambda G(t + 1),   G(plies) = the game's result
//
// (Sutton and Barto 2018, section 12.1, with the searched value in place of the predicted one).
// lambda = 1 gives the result alone, as in AlphaGo Zero. `values` are for the first player too.
inline void lambda_returns(std::span<float> values, double lambda, int result) {
  double next = result;
  for (float& value : values | std::views::reverse) {
    next = (1.0 - lambda) * value + lambda * next;
    value = static_cast<float>(next);
  }
}

// Targets of a row besides policy and value. Those that the game does not offer are left out.
struct AuxiliaryTargets {
  // The policy target of the next ply, if the opponent moved there after a full search (Wu 2019,
  // arXiv 1902.10565, section 3.4). If the same player moves again there is none. That would be
  // another thing to learn, and the network cannot see which of the two it should predict.
  bool opponent_policy = false;

  // Targets from the terminal position (Wu 2019, section 4.1), unless a player resigned or the
  // result was given.
  bool final_planes = false;
  bool final_score = false;

  bool root_value = false;       // the search's value of the position
  bool search_surprise = false;  // KL(policy target || prior); see the function of this name
  bool plies_to_end = false;     // plies until the game ended or a player resigned, at least 1
};

// Rows of a training batch, one for each sampled position.
struct TrainingBatch {
  std::span<std::uint8_t> observations;  // [batch, observation_bytes]
  std::span<float> policy_targets;       // [batch, num_actions] zeros on entry
  std::span<float> value_targets;        // [batch] for the player to move

  // Where each row comes from; empty unless requested.
  std::span<std::int32_t> plies = {};         // [batch]
  std::span<std::int32_t> game_lengths = {};  // [batch] plies
  std::span<std::int64_t> game_indices = {};  // [batch] counted from the first game ever added
  std::span<float> results = {};              // [batch] of the row's game, for the player to move

  // In the order of AuxiliaryTargets, for the player to move; kNoTarget where a row has none. Empty
  // unless requested.
  std::span<float> auxiliary_targets = {};  // [batch, auxiliary_width]
};

inline constexpr float kNoTarget = std::numeric_limits<float>::quiet_NaN();

// Halves weights beyond 16 bits until they fit: only ratios matter for a policy.
inline void append_scaled(std::span<const std::int32_t> weights,
                          std::pmr::vector<std::uint16_t>& scaled) {
  std::int32_t largest = std::ranges::max(weights);
  int shift = 0;
  while (largest >> shift > std::numeric_limits<std::uint16_t>::max()) ++shift;
  for (const std::int32_t weight : weights) {
    scaled.push_back(static_cast<std::uint16_t>(weight >> shift));
  }
}

// What a game's terminal position tells besides the result, for the first player. Empty if a player
// resigned or the result was given.
struct Ending {
  std::pmr::vector<std::int8_t> planes = {};  // [planes, points]
  float score = kNoTarget;
};

// Targets from a game's end: first the planes, then the score. Only requested ones that the game
// offers.
template <Game G>
class EndingTargets {
 public:
  EndingTargets(const Rules<G>& rules, bool planes, bool score)
      : rules_(rules),
        plane_points_(planes ? rules.shape().num_final_planes * rules.points() : 0),
        has_score_(score && rules.shape().has_final_score) {}

  // Number of targets in one row.
  int width() const { return plane_points_ + (has_score_ ? 1 : 0); }

  Ending read(const G& terminal) const {
    Ending ending;
    if (plane_points_ > 0) {
      ending.planes.resize(static_cast<std::size_t>(plane_points_));
      rules_.write_final_planes(terminal, ending.planes);
    }
    if (has_score_) ending.score = rules_.final_score(terminal);
    return ending;
  }

  // Writes the targets [width] for a player, under a symmetry; kNoTarget where the ending has none.
  void write(const Ending& ending, Player player, int symmetry, std::span<float> targets) const {
    std::ranges::fill(targets, kNoTarget);
    const float sign = player == kFirstPlayer ? 1.0f : -1.0f;
    for (int i = 0; i < static_cast<int>(ending.planes.size()); ++i) {
      const int point = i % rules_.points();
      const int moved = i - point + rules_.symmetric_point(point, symmetry);
      targets[static_cast<std::size_t>(moved)] =
          sign * static_cast<float>(ending.planes[static_cast<std::size_t>(i)]);
    }
    if (has_score_) targets.back() = sign * ending.score;
  }

 private:
  Rules<G> rules_;
  int plane_points_;
  bool has_score_;
};

// KL(policy target || prior) in nats: how far the search moved the policy away from the network's
// (KataGo, docs/KataGoMethods.md, "Policy Surprise Weighting"). `weights` are the target up to
// scale. 0 if every prior is 0: the move had no search. Throws std::invalid_argument, naming the
// ply, if a prior is not in [0, 1].
inline float search_surprise(std::span<const std::int32_t> weights, std::span<const float> priors,
                             std::size_t ply) {
  constexpr double kLeastPrior = 0x1p-24;  // the smallest above 0 that the prediction cache keeps
  double total = 0.0;
  double expected = 0.0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (!(priors[i] >= 0.0f && priors[i] <= 1.001f)) {  // rounding may exceed 1
      throw std::invalid_argument("ply " + std::to_string(ply) + ": a prior is not in [0, 1]");
    }
    total += weights[i];
    expected += static_cast<double>(priors[i]);
  }
  if (expected == 0.0) return 0.0f;
  double surprise = 0.0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] == 0) continue;
    const double share = weights[i] / total;
    const double prior = std::max(static_cast<double>(priors[i]), kLeastPrior);
    surprise += share * portable_log(share / prior);
  }
  return static_cast<float>(std::max(0.0, surprise));  // rounded priors may sum to more than 1
}

// Figures of the searches at a game's training positions. Empty unless a target needs them.
struct Searches {
  std::pmr::vector<float> root_values = {};  // [positions] for the player to move
  std::pmr::vector<float> surprises = {};    // [positions]
};

// Targets from the search of a position and from the length of its game, in the order of
// AuxiliaryTargets.
class SearchTargets {
 public:
  explicit SearchTargets(const AuxiliaryTargets& targets)
      : root_value_(targets.root_value),
        surprise_(targets.search_surprise),
        plies_to_end_(targets.plies_to_end) {}

  // Number of targets in one row.
  int width() const { return int{root_value_} + int{surprise_} + int{plies_to_end_}; }

  bool needs_searches() const { return root_value_ || surprise_; }

  // Returns the figures of a game that has been checked. Throws std::invalid_argument if a column
  // that they need is missing, or if a prior is not in [0, 1].
  Searches read(const StoredGame& game) const {
    require(root_value_, game.root_value, game, "root_value");
    require(surprise_, game.priors, game, "priors");
    Searches searches;
    for (std::size_t ply = 0; ply < game.action.size(); ++ply) {
      if (!game.full_search[ply]) continue;
      if (root_value_) searches.root_values.push_back(game.root_value[ply]);
      if (!surprise_) continue;
      searches.surprises.push_back(
          search_surprise(game.policy_weights_at(ply), game.priors_at(ply), ply));
    }
    return searches;
  }

  // Writes the targets [width] of a game's position `number`, `plies_to_end` before its end.
  void write(const Searches* searches, std::size_t number, std::size_t plies_to_end,
             std::span<float> targets) const {
    auto target = targets.begin();
    if (root_value_) *target++ = searches->root_values[number];
    if (surprise_) *target++ = searches->surprises[number];
    if (plies_to_end_) *target = static_cast<float>(plies_to_end);
  }

 private:
  static void require(bool is_target, std::span<const float> column, const StoredGame& game,
                      const std::string& name) {
    if (!is_target || !column.empty() || game.action.empty()) return;
    throw std::invalid_argument(name + " is missing: a target needs it");
  }

  bool root_value_;
  bool surprise_;
  bool plies_to_end_;
};

}  // namespace zerofleet
