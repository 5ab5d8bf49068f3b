// The leaves of one select that need the network, as rows of its input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "zerofleet/rules.h"

namespace zerofleet {

template <Game G>
class LeafBatch {
 public:
  LeafBatch(const Rules<G>& rules, std::size_t capacity)
      : rules_(rules),
        observations_(capacity * row_bytes()),
        owners_(capacity),
        symmetries_(capacity) {}

  // Adds a row: `position` under `symmetry`. `owner` is any number that the caller recognises.
  void add(const G& position, int symmetry, int owner) {
    const std::span<std::uint8_t> all(observations_);
    rules_.write_observation(position, symmetry, all.subspan(num_rows_ * row_bytes(), row_bytes()));
    owners_[num_rows_] = owner;
    symmetries_[num_rows_] = symmetry;
    ++num_rows_;
  }

  void clear() { num_rows_ = 0; }

  int num_rows() const { return static_cast<int>(num_rows_); }
  int owner(int row) const { return owners_[row]; }
  int symmetry(int row) const { return symmetries_[row]; }

  // [num_rows, observation_bytes]; valid until the next add after a clear. No code here reads them
  // back.
  std::span<std::uint8_t> observations() { return {observations_.data(), num_rows_ * row_bytes()}; }

 private:
  std::size_t row_bytes() const { return static_cast<std::size_t>(rules_.observation_bytes()); }

  Rules<G> rules_;
  std::vector<std::uint8_t> observations_;
  std::vector<int> owners_;
  std::vector<int> symmetries_;
  std::size_t num_rows_ = 0;
};

// The symmetry under which the network sees a position. It depends on the two numbers alone, not on
// how leaves are batched.
constexpr int symmetry_of(std::uint64_t hash, std::uint64_t seed, int num_symmetries) {
  const auto symmetries = static_cast<std::uint64_t>(num_symmetries);
  return static_cast<int>(((mix_bits(hash ^ seed) >> 32) * symmetries) >> 32);
}

}  // namespace zerofleet
