// Facts about a position, found without a network and without a search.
#pragma once

#include <algorithm>

#include "zerofleet/game.h"
#include "zerofleet/prediction.h"
#include "zerofleet/random.h"

namespace zerofleet::test {

// The result for the player to move if both play perfectly, found by trying everything.
template <Game G>
int perfect_result(const G& position) {
  if (position.is_terminal()) return static_cast<int>(terminal_value(position));
  int best = -1;
  for (const Action action : position.legal_actions()) {
    G next = position;
    next.apply(action);
    const int value = perfect_result(next);
    best = std::max(best, next.to_play() == position.to_play() ? value : -value);
    if (best == 1) break;
  }
  return best;
}

// A prediction that depends on the position's hash alone.
template <Game G>
LeafPrediction<G> prediction_of(const G& position) {
  LeafPrediction<G> prediction(position, 0.0f);
  Random random(position.hash());
  for (int i = 0; i < prediction.actions.size(); ++i) {
    prediction.priors[i] = static_cast<float>(2.0 * random.uniform());
  }
  softmax(prediction.priors.data(), prediction.actions.size());
  prediction.value = static_cast<float>(1.6 * random.uniform() - 0.8);
  return prediction;
}

}  // namespace zerofleet::test
