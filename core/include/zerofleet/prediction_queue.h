// How leaves get their prediction: from the cache first, then from the batch for the network.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "zerofleet/leaf.h"
#include "zerofleet/leaf_batch.h"
#include "zerofleet/prediction.h"
#include "zerofleet/prediction_cache.h"
#include "zerofleet/search_config.h"

namespace zerofleet {

template <Game G>
class PredictionQueue {
 public:
  // At most `max_rows` leaves wait at once. `max_positions` also bounds the cache.
  PredictionQueue(const Rules<G>& rules, const SearchConfig& config, std::size_t max_rows,
                  std::size_t max_positions = SIZE_MAX)
      : rules_(rules),
        batch_(rules, max_rows),
        cache_(std::min(static_cast<std::size_t>(config.cache_positions), max_positions)),
        symmetric_(config.random_symmetry),
        sees_alike_(config.root == RootChoice::kGumbel) {}

  // Returns a leaf's prediction if it is cached.
  std::optional<LeafPrediction<G>> recall(const Leaf<G>& leaf) {
    auto known = cache_.find(leaf.position, leaf.hash);
    cache_hits_ += known.has_value();
    return known;
  }

  // Adds a leaf to the batch, under the symmetry that the seed gives its position. A Gumbel root
  // judges actions after a visit or two, and a network's answers under several symmetries differ as
  // much as the actions do. So with a Gumbel root, all leaves of a game have one symmetry. A cached
  // prediction keeps the symmetry of the leaf that first asked for it.
  void ask(const Leaf<G>& leaf, std::uint64_t symmetry_seed, int owner) {
    const int symmetries = symmetric_ ? rules_.num_symmetries() : 1;
    const std::uint64_t seen = sees_alike_ ? 0 : leaf.hash;
    batch_.add(leaf.position, symmetry_of(seen, symmetry_seed, symmetries), owner);
  }

  // Accepts the answer to the whole batch, whose rows may be read until `clear`. A new model
  // empties the cache. Throws std::invalid_argument and changes nothing if the answer is invalid.
  void accept(const PredictionBatch& answer) {
    answer.check(batch_.num_rows(), rules_.num_actions());
    if (answer.model_version != model_version_) cache_.clear();
    model_version_ = answer.model_version;
    positions_evaluated_ += batch_.num_rows();
  }

  // Reads the accepted answer for the leaf of a row and caches it.
  LeafPrediction<G> read(const PredictionBatch& answer, int row, const Leaf<G>& leaf) {
    auto prediction = read_prediction(rules_, answer, row, batch_.symmetry(row), leaf.position);
    cache_.store(leaf.hash, prediction);
    return prediction;
  }

  void clear() { batch_.clear(); }

  int num_rows() const { return batch_.num_rows(); }
  int owner(int row) const { return batch_.owner(row); }
  std::span<std::uint8_t> observations() { return batch_.observations(); }

  // Version of the model that gave the latest answer; 0 before the first.
  int model_version() const { return model_version_; }
  std::int64_t positions_evaluated() const { return positions_evaluated_; }
  std::int64_t cache_hits() const { return cache_hits_; }

 private:
  Rules<G> rules_;
  LeafBatch<G> batch_;
  PredictionCache<G> cache_;
  bool symmetric_;
  bool sees_alike_;
  int model_version_ = 0;
  std::int64_t positions_evaluated_ = 0;
  std::int64_t cache_hits_ = 0;
};

}  // namespace zerofleet
