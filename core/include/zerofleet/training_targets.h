// Rows of a training batch, and how their targets follow from a game's values and its end.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory_resource>
#include <ranges>
#include <span>
#include <vector>

#include "zerofleet/rules.h"

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

}  // namespace zerofleet
