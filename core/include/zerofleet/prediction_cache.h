// A cache of predictions by position: the network sees transpositions and repeated openings once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "zerofleet/half.h"
#include "zerofleet/prediction.h"

namespace zerofleet {

// A set-associative table: a hash belongs to one set of kWays entries, and a full set evicts its
// oldest entry. Priors are rounded to half precision. Two positions with equal 64-bit hashes would
// share an entry unnoticed. That happens anywhere in a run of a billion positions with probability
// below 3%.
//
// `capacity`, rounded up to whole sets, bounds the memory; 0 disables the cache.
template <Game G>
class PredictionCache {
 public:
  explicit PredictionCache(std::size_t capacity)
      : num_sets_((capacity + kWays - 1) / kWays),
        keys_(num_sets_),
        next_way_(num_sets_),
        entries_(std::make_unique_for_overwrite<Entry[]>(num_sets_ * kWays)) {}

  // The cached prediction of `position`, whose hash is `hash`.
  std::optional<LeafPrediction<G>> find(const G& position, std::uint64_t hash) const {
    if (num_sets_ == 0) return std::nullopt;
    const std::size_t set = set_of(hash);
    for (int way = 0; way < kWays; ++way) {
      if (keys_[set][way] != key_of(hash)) continue;
      const Entry& entry = entries_[set * kWays + way];
      LeafPrediction<G> prediction(position, entry.value);
      for (int i = 0; i < prediction.num_actions(); ++i) {
        prediction.priors[i] = half_to_float(entry.priors[i]);
      }
      return prediction;
    }
    return std::nullopt;
  }

  void store(std::uint64_t hash, const LeafPrediction<G>& prediction) {
    if (num_sets_ == 0) return;
    const std::size_t set = set_of(hash);
    const std::uint64_t key = key_of(hash);
    for (const std::uint64_t known : keys_[set]) {
      if (known == key) return;
    }
    const int way = next_way_[set];
    next_way_[set] = static_cast<std::uint8_t>((way + 1) % kWays);
    keys_[set][way] = key;
    Entry& entry = entries_[set * kWays + way];
    entry.value = prediction.value;
    if constexpr (!FixedGame<G>) entry.priors.resize(prediction.actions.size());
    for (int i = 0; i < prediction.num_actions(); ++i) {
      entry.priors[i] = unit_float_to_half(prediction.priors[i]);
    }
  }

  // Empties the cache.
  void clear() {
    keys_.assign(num_sets_, {});
    next_way_.assign(num_sets_, 0);
  }

 private:
  static constexpr int kWays = 4;

  template <Game>
  struct HalvesOf {
    using type = std::vector<std::uint16_t>;  // [legal actions]
  };
  template <FixedGame F>
  struct HalvesOf<F> {
    using type = std::array<std::uint16_t, kMostLegalActions<F>>;
  };

  struct Entry {
    float value;
    typename HalvesOf<G>::type priors;
  };

  // 0 marks an empty way.
  static std::uint64_t key_of(std::uint64_t hash) { return hash == 0 ? 1 : hash; }

  // The upper half of the hash chooses the set, without a division.
  std::size_t set_of(std::uint64_t hash) const { return ((hash >> 32) * num_sets_) >> 32; }

  std::size_t num_sets_;
  std::vector<std::array<std::uint64_t, kWays>> keys_;
  std::vector<std::uint8_t> next_way_;
  std::unique_ptr<Entry[]> entries_;  // [num_sets * kWays]; pages are touched when first used
};

}  // namespace zerofleet
