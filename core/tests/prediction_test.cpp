#include "zerofleet/prediction.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "check.h"
#include "zerofleet/games.h"
#include "zerofleet/leaf_batch.h"
#include "zerofleet/prediction_cache.h"
#include "zerofleet/prediction_queue.h"

namespace zerofleet {
namespace {

using test::check;
using test::check_near;

void softmax_by_hand() {
  for (const int count : {1, 2, 3, 4, 5, 8, 9}) {
    std::vector<float> entries(round_up_to_lanes(count));
    double sum = 0.0;
    for (int i = 0; i < count; ++i) {
      entries[i] = static_cast<float>(3 * i % 7) - 60.0f;
      sum += std::exp(entries[i]);
    }
    std::vector<float> probabilities = entries;
    softmax(probabilities.data(), count);
    for (int i = 0; i < count; ++i) {
      check_near(probabilities[i], std::exp(entries[i]) / sum, 1e-6);
    }
    for (std::size_t i = count; i < probabilities.size(); ++i) check(probabilities[i] < 1e-30f);
  }
  std::vector<float> far_apart = {-65504.0f, 65504.0f, 0.0f, 0.0f};
  softmax(far_apart.data(), 2);
  check_near(far_apart[0], 0.0);
  check_near(far_apart[1], 1.0);
}

void the_cache_is_bounded_and_forgets() {
  PredictionCache<ConnectFour> cache(8);
  const ConnectFour start;
  LeafPrediction<ConnectFour> prediction(start, 0.5f);
  prediction.priors = {0.25f, 0.5f};
  for (std::uint64_t hash = 0; hash < 1000; ++hash) cache.store(mix_bits(hash), prediction);
  int found = 0;
  for (std::uint64_t hash = 0; hash < 1000; ++hash) {
    const auto known = cache.find(start, mix_bits(hash));
    if (!known) continue;
    ++found;
    check(known->value == 0.5f && known->priors[0] == 0.25f && known->priors[1] == 0.5f);
  }
  check(found == 8);
  cache.clear();
  check(!cache.find(start, mix_bits(999)));
  PredictionCache<ConnectFour> off(0);
  off.store(1, prediction);
  check(!off.find(start, 1));
}

// A network that is fair to all symmetries gives the same search under every one of them.
void logits_are_mapped_back() {
  for (int symmetry = 0; symmetry < TicTacToe::kNumSymmetries; ++symmetry) {
    std::vector<float> logits(9);
    for (int action = 0; action < 9; ++action) {
      logits[TicTacToe::symmetric_action(action, symmetry)] = static_cast<float>(action);
    }
    const std::vector<float> value = {0.0f};
    TicTacToe position;
    position.apply(4);
    const auto prediction = read_prediction(
        FixedRules<TicTacToe>(), {std::span<const float>(logits), value, 1}, 0, symmetry, position);
    for (int i = 0; i + 1 < prediction.actions.size(); ++i) {
      const double distance = prediction.actions[i + 1] - prediction.actions[i];
      check_near(std::log(prediction.priors[i + 1] / prediction.priors[i]), distance, 1e-4);
    }
  }
}

// The symmetry that shows all positions after a first action, asked in one game; -1: none does.
int common_symmetry(RootChoice root, std::uint64_t symmetry_seed) {
  const FixedRules<TicTacToe> rules;
  SearchConfig config;
  config.root = root;
  PredictionQueue<TicTacToe> queue(rules, config, 9);
  std::vector<LeafBatch<TicTacToe>> seen(TicTacToe::kNumSymmetries, {rules, 9});
  for (int action = 0; action < 9; ++action) {
    Leaf<TicTacToe> leaf;
    leaf.position.apply(action);
    leaf.hash = leaf.position.hash();
    queue.ask(leaf, symmetry_seed, action);
    for (int symmetry = 0; symmetry < TicTacToe::kNumSymmetries; ++symmetry) {
      seen[symmetry].add(leaf.position, symmetry, action);
    }
  }
  for (int symmetry = 0; symmetry < TicTacToe::kNumSymmetries; ++symmetry) {
    if (std::ranges::equal(seen[symmetry].observations(), queue.observations())) return symmetry;
  }
  return -1;
}

void a_gumbel_root_compares_what_is_seen_alike() {
  std::set<int> found;
  for (std::uint64_t seed = 0; seed < 64; ++seed) {
    found.insert(common_symmetry(RootChoice::kGumbel, seed));
    check(common_symmetry(RootChoice::kPuct, seed) == -1);
  }
  check(found == std::set<int>{0, 1, 2, 3, 4, 5, 6, 7});
}

}  // namespace
}  // namespace zerofleet

int main() {
  using namespace zerofleet;
  return test::run({
      {"softmax", softmax_by_hand},
      {"cache", the_cache_is_bounded_and_forgets},
      {"symmetry", logits_are_mapped_back},
      {"one symmetry for a Gumbel root", a_gumbel_root_compares_what_is_seen_alike},
  });
}
