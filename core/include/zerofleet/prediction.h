// A network's predictions for a batch of leaves, and how a leaf reads its row.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "zerofleet/game.h"
#include "zerofleet/half.h"
#include "zerofleet/lanes.h"
#include "zerofleet/portable_math.h"
#include "zerofleet/rules.h"

namespace zerofleet {

// Whether a number can be a value. Rounding may take it slightly past 1.
inline bool is_value(float number) {
  return std::abs(number) <= 1.001f;  // false for NaN
}

// A batch of predictions; row i answers observation i. The memory belongs to the caller.
struct PredictionBatch {
  // policy_logits [rows, num_actions], half precision (as bits) or single.
  std::variant<std::span<const std::uint16_t>, std::span<const float>> policy_logits;
  std::span<const float> value;  // [rows], in [-1, 1], for the player to move
  int model_version;

  // Throws std::invalid_argument unless there are exactly `rows` rows and all numbers are valid.
  void check(int rows, int num_actions) const {
    const std::size_t given = value.size();
    if (given != static_cast<std::size_t>(rows) || logit_count() != given * num_actions) {
      throw std::invalid_argument("the prediction has " + std::to_string(given) + " rows and " +
                                  std::to_string(logit_count()) + " logits, expected " +
                                  std::to_string(rows) + " rows of " + std::to_string(num_actions) +
                                  " actions");
    }
    for (const float number : value) {
      if (!is_value(number)) throw std::invalid_argument("a predicted value is not in [-1, 1]");
    }
    if (!has_finite_logits()) throw std::invalid_argument("a policy logit is not finite");
  }

 private:
  std::size_t logit_count() const {
    return std::visit([](const auto& logits) { return logits.size(); }, policy_logits);
  }

  // A number is finite unless all bits of its exponent are set. Comparing bits keeps these loops in
  // vector registers: they read every logit, and most are of illegal actions.
  bool has_finite_logits() const {
    if (const auto* half = std::get_if<0>(&policy_logits)) {
      std::array<std::int16_t, 32> largest{};  // the largest magnitudes, in four registers
      const std::size_t blocks = half->size() / largest.size();
      for (std::size_t block = 0; block < blocks; ++block) {
        const std::uint16_t* logits = half->data() + block * largest.size();
        for (std::size_t i = 0; i < largest.size(); ++i) {
          largest[i] = std::max(largest[i], static_cast<std::int16_t>(logits[i] & 0x7fff));
        }
      }
      bool finite = is_half_finite(static_cast<std::uint16_t>(std::ranges::max(largest)));
      for (const std::uint16_t logit : half->subspan(blocks * largest.size())) {
        finite &= is_half_finite(logit);
      }
      return finite;
    }
    std::uint32_t infinite = 0;
    for (const float logit : std::get<1>(policy_logits)) {
      infinite |= (std::bit_cast<std::uint32_t>(logit) & 0x7f800000) == 0x7f800000 ? 1 : 0;
    }
    return infinite == 0;
  }
};

// Probabilities of the legal actions, with room up to a multiple of kLanes.
template <Game G>
struct PriorsOf {
  using type = std::array<float, round_up_to_lanes(kMostLegalActions<G>)>;
};
template <>
struct PriorsOf<DynamicPosition> {
  using type = std::vector<float>;
};

// The prediction of one leaf.
template <Game G>
struct LeafPrediction {
  // Sets actions and value; the caller fills in the priors.
  LeafPrediction(const G& position, float value_there)
      : actions(position.legal_actions()), value(value_there) {
    if constexpr (!FixedGame<G>) priors.resize(round_up_to_lanes(num_actions()));
  }

  int num_actions() const { return static_cast<int>(actions.size()); }

  decltype(std::declval<const G&>().legal_actions()) actions;
  typename PriorsOf<G>::type priors{};  // parallel to `actions`; [0, 1], summing to 1
  float value;                          // for the player to move
};

// Turns logits into probabilities in place. Entries from `count` to the next multiple of kLanes
// become practically 0.
inline void softmax(float* entries, int count) {
  const int padded = round_up_to_lanes(count);
  for (int i = count; i < padded; ++i) entries[i] = std::numeric_limits<float>::lowest();
  Floats largest = load_floats(entries);
  for (int i = kLanes; i < padded; i += kLanes) largest = larger(largest, load_floats(entries + i));
  const Floats highest = broadcast(largest_of(largest));
  Floats sum = broadcast(0.0f);
  for (int i = 0; i < padded; i += kLanes) {
    const Floats weights = exp_of_negative(load_floats(entries + i) - highest);
    store_floats(weights, entries + i);
    sum += weights;
  }
  const Floats scale = broadcast(1.0f / sum_of(sum));
  for (int i = 0; i < padded; i += kLanes)
    store_floats(load_floats(entries + i) * scale, entries + i);
}

// Reads one row. The network saw the leaf under `symmetry`, so an action's logit stands where the
// symmetry moves that action.
template <class AnyRules, Game G = typename AnyRules::Position>
LeafPrediction<G> read_prediction(const AnyRules& rules, const PredictionBatch& batch, int row,
                                  int symmetry, const std::type_identity_t<G>& position) {
  LeafPrediction<G> leaf(position, std::clamp(batch.value[row], -1.0f, 1.0f));
  const int count = leaf.num_actions();
  const std::size_t start = static_cast<std::size_t>(row) * rules.num_actions();
  if (const auto* half = std::get_if<0>(&batch.policy_logits)) {
    for (int i = 0; i < count; ++i) {
      leaf.priors[i] =
          half_to_float((*half)[start + rules.symmetric_action(leaf.actions[i], symmetry)]);
    }
  } else {
    const std::span<const float> logits = std::get<1>(batch.policy_logits);
    for (int i = 0; i < count; ++i) {
      leaf.priors[i] = logits[start + rules.symmetric_action(leaf.actions[i], symmetry)];
    }
  }
  softmax(leaf.priors.data(), count);
  return leaf;
}

}  // namespace zerofleet
