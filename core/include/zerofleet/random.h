// Seeded random numbers, the same with every compiler and standard library.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>

#include "zerofleet/portable_math.h"

namespace zerofleet {

// xoshiro256++ by Blackman and Vigna, with its state filled by SplitMix64. Streams of one seed are
// independent of each other.
class Random {
 public:
  explicit Random(std::uint64_t seed, std::uint64_t stream = 0) {
    std::uint64_t counter = seed ^ std::rotl(stream * 0xd1342543de82ef95ULL, 32);
    for (std::uint64_t& word : state_) {
      counter += 0x9e3779b97f4a7c15ULL;
      std::uint64_t bits = (counter ^ (counter >> 30)) * 0xbf58476d1ce4e5b9ULL;
      bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebULL;
      word = bits ^ (bits >> 31);
    }
  }

  std::uint64_t next() {
    const std::uint64_t result = std::rotl(state_[0] + state_[3], 23) + state_[0];
    const std::uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  // A number in the open interval (0, 1), so that its logarithm exists.
  double uniform() { return (static_cast<double>(next() >> 11) + 0.5) * 0x1p-53; }

  // An integer in [0, bound), for bounds far below 2^53.
  std::uint64_t below(std::uint64_t bound) {
    const auto number = static_cast<std::uint64_t>(uniform() * static_cast<double>(bound));
    return std::min(number, bound - 1);
  }

  // Standard normal, by Marsaglia's polar method (the second number is discarded).
  double normal() {
    for (;;) {
      const double x = 2.0 * uniform() - 1.0;
      const double y = 2.0 * uniform() - 1.0;
      const double square = x * x + y * y;
      if (square < 1.0 && square > 0.0) {
        return x * std::sqrt(-2.0 * portable_log(square) / square);
      }
    }
  }

  // Logarithm of a gamma variate with this shape (> 0) and scale 1 (Marsaglia and Tsang 2000). The
  // variate itself would often underflow at shape 0.03.
  double log_gamma_variate(double shape) {
    if (shape < 1.0) return log_gamma_variate(shape + 1.0) + portable_log(uniform()) / shape;
    const double d = shape - 1.0 / 3.0;
    const double c = 1.0 / std::sqrt(9.0 * d);
    for (;;) {
      const double x = normal();
      const double root = 1.0 + c * x;
      if (root <= 0.0) continue;
      const double v = root * root * root;
      if (portable_log(uniform()) < 0.5 * x * x + d - d * v + d * portable_log(v)) {
        return portable_log(d) + portable_log(v);
      }
    }
  }

  // Fills `sample` with a draw from the symmetric Dirichlet distribution; it sums to 1.
  void dirichlet(double concentration, std::span<float> sample) {
    double largest = -1e300;
    for (float& entry : sample) {
      entry = static_cast<float>(log_gamma_variate(concentration));
      largest = std::max(largest, static_cast<double>(entry));
    }
    double sum = 0.0;
    for (float& entry : sample) {
      entry = static_cast<float>(portable_exp(entry - largest));
      sum += entry;
    }
    for (float& entry : sample) entry = static_cast<float>(entry / sum);
  }

 private:
  std::array<std::uint64_t, 4> state_;
};

}  // namespace zerofleet
