// A network for tests: numbers drawn from the bits it is shown, the same for the same bits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "zerofleet/engine.h"
#include "zerofleet/game.h"
#include "zerofleet/random.h"

namespace zerofleet::test {

class HashPredictor {
 public:
  explicit HashPredictor(RowShape shape, std::uint64_t seed = 0) : shape_(shape), seed_(seed) {}

  // The answer to packed rows; its memory belongs to this object until the next call.
  PredictionBatch predict(std::span<const std::uint8_t> rows, int model_version) {
    const std::size_t width = static_cast<std::size_t>(shape_.observation_bytes);
    const std::size_t count = rows.size() / width;
    logits_.clear();
    values_.clear();
    for (std::size_t row = 0; row < count; ++row) {
      std::uint64_t hash = seed_;
      for (const std::uint8_t byte : rows.subspan(row * width, width)) {
        hash = mix_bits(hash * 257 + byte + 1);
      }
      Random random(hash);
      for (int action = 0; action < shape_.num_actions; ++action) {
        logits_.push_back(static_cast<float>(random.normal()));
      }
      values_.push_back(static_cast<float>(1.6 * random.uniform() - 0.8));
    }
    return {std::span<const float>(logits_), values_, model_version};
  }

 private:
  RowShape shape_;
  std::uint64_t seed_;
  std::vector<float> logits_;
  std::vector<float> values_;
};

}  // namespace zerofleet::test
