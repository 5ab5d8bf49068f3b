// How often each position of a replay buffer is drawn: weights for surprise, repetition and age.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory_resource>
#include <span>
#include <stdexcept>
#include <unordered_map>
#include <vector>

#include "zerofleet/portable_math.h"
#include "zerofleet/random.h"
#include "zerofleet/stored_game.h"

namespace zerofleet {

// Which positions are drawn more often than others. By default all are equally likely.
struct PositionWeights {
  double policy_surprise_share = 0.0;  // of a game's weight; the rest is dealt out evenly
  bool repeated_once = false;          // as if each position occurred once
  double age_halflife = 0.0;  // newer positions that halve a position's chance; 0: no decay

  // Throws std::invalid_argument naming the first invalid setting.
  void check() const {
    if (!(policy_surprise_share >= 0.0 && policy_surprise_share <= 1.0)) {
      throw std::invalid_argument("policy_surprise_share must be in [0, 1]");
    }
    if (!(std::isfinite(age_halflife) && age_halflife >= 0.0)) {
      throw std::invalid_argument("age_halflife must be at least 0");
    }
  }
};

// KL(target || prior) in nats: how far the search moved the policy away from the network's.
// `weights` are the target up to scale.
inline double policy_surprise(std::span<const std::int32_t> weights,
                              std::span<const float> priors) {
  constexpr double kLeastPrior = 0x1p-24;  // the smallest above 0 that the prediction cache keeps
  double total = 0.0;
  for (const std::int32_t weight : weights) total += weight;
  double surprise = 0.0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] == 0) continue;
    const double share = weights[i] / total;
    const double prior = std::max(static_cast<double>(priors[i]), kLeastPrior);
    surprise += share * portable_log(share / prior);
  }
  return std::max(0.0, surprise);  // rounded priors may sum to more than 1
}

// Weights of a game's positions, 1 on average. A `share` of their sum is dealt out in proportion to
// surprise, the rest evenly (KataGo, docs/KataGoMethods.md, "Policy Surprise Weighting").
inline std::vector<double> surprise_weights(std::span<const double> surprises, double share) {
  double total = 0.0;
  for (const double surprise : surprises) total += surprise;
  std::vector<double> weights;
  for (const double surprise : surprises) {
    const double dealt = static_cast<double>(surprises.size()) * surprise;
    weights.push_back(total > 0.0 ? 1.0 - share + share * dealt / total : 1.0);
  }
  return weights;
}

// Rounds each weight up or down to a whole number of copies. The weights' mean is 1, and there are
// as many copies as weights. On average over `offset`, uniform in [0, 1), the copies equal the
// weight (systematic resampling, Kitagawa 1996).
inline std::vector<int> rounded_copies(std::span<const double> weights, double offset) {
  std::vector<int> copies;
  double sum = offset;
  int before = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    sum += weights[i];
    const auto most = static_cast<int>(weights.size());
    const int now = i + 1 == weights.size() ? most : std::min(static_cast<int>(sum), most);
    copies.push_back(now - before);
    before = now;
  }
  return copies;
}

// Copies of each training position of a game if `share` of the game's weight is dealt out by
// surprise; empty if each has one. The game's columns must fit together. The copies depend only on
// the game's content, so that a window that is read again is the same. Throws std::invalid_argument
// if priors are missing.
inline std::vector<int> copies_of(const StoredGame& game, double share) {
  if (share == 0.0 || game.action.empty()) return {};
  if (game.priors.empty()) {
    throw std::invalid_argument("priors are missing: policy_surprise_share above 0 needs them");
  }
  std::uint64_t content = 0;
  for (const Action action : game.action) {
    content = mix_bits(content + static_cast<std::uint64_t>(action) + 1);
  }
  std::vector<double> surprises;
  for (std::size_t ply = 0; ply < game.action.size(); ++ply) {
    if (!game.full_search[ply]) continue;
    const auto target = game.policy_weights_at(ply);
    for (const std::int32_t weight : target) {
      content = mix_bits(content + static_cast<std::uint64_t>(weight) + 1);
    }
    surprises.push_back(policy_surprise(target, game.priors_at(ply)));
  }
  return rounded_copies(surprise_weights(surprises, share), Random(content).uniform());
}

// Draws a position among `count` by age, 0 the newest. Age a has probability proportional to 2^(-a
// / halflife): a geometric distribution cut off at `count`.
inline std::size_t drawn_age(Random& random, double halflife, std::size_t count) {
  const double rate = kLn2 / halflife;
  const double reach = rate * static_cast<double>(count);
  if (reach < 1e-6) return random.below(count);  // all are equally likely, to six digits
  const double older = 1.0 - random.uniform() * (1.0 - portable_exp(-reach));
  return std::min(static_cast<std::size_t>(-portable_log(older) / rate), count - 1);
}

// Number of times that each position occurs in a window, by hash.
class PositionCounts {
 public:
  explicit PositionCounts(std::pmr::memory_resource* memory) : games_(memory), counts_(memory) {}

  // Adds a game. `hashes` are those of its positions, in order.
  void add_game(std::span<const std::uint64_t> hashes) {
    for (const std::uint64_t hash : hashes) ++counts_[hash];
    games_.emplace_back(hashes.begin(), hashes.end());
  }

  void drop_oldest_game() {
    for (const std::uint64_t hash : games_.front()) {
      const auto found = counts_.find(hash);
      if (--found->second == 0) counts_.erase(found);
    }
    games_.pop_front();
  }

  // Occurrences of a position. `place` is the game's index, 0 for the oldest; `number` is the
  // position's index in the game.
  std::uint32_t times(std::size_t place, std::size_t number) const {
    return counts_.find(games_[place][number])->second;
  }

 private:
  std::pmr::deque<std::pmr::vector<std::uint64_t>> games_;  // oldest first
  std::pmr::unordered_map<std::uint64_t, std::uint32_t> counts_;
};

}  // namespace zerofleet
