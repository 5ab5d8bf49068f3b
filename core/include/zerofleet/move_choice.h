// Choosing the action to play from visit counts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "zerofleet/portable_math.h"
#include "zerofleet/random.h"

namespace zerofleet {

// Index of the most visited child. Ties go to the higher prior, then to the first child.
inline int most_visited(std::span<const std::int32_t> visit_counts, std::span<const float> priors) {
  int best = 0;
  for (int i = 1; i < static_cast<int>(visit_counts.size()); ++i) {
    if (visit_counts[i] > visit_counts[best] ||
        (visit_counts[i] == visit_counts[best] && priors[i] > priors[best])) {
      best = i;
    }
  }
  return best;
}

// Index of a child, drawn with probability proportional to visit_count^(1 / temperature).
// Temperature 0 picks the most visited one. At least one child must have been visited.
inline int choose_child(std::span<const std::int32_t> visit_counts, std::span<const float> priors,
                        double temperature, Random& random) {
  const int best = most_visited(visit_counts, priors);
  if (temperature == 0.0) return best;
  std::vector<double> cumulative(visit_counts.size());
  double sum = 0.0;
  for (std::size_t i = 0; i < visit_counts.size(); ++i) {
    const double relative = static_cast<double>(visit_counts[i]) / visit_counts[best];
    if (relative > 0.0) {
      sum += temperature == 1.0 ? relative : portable_exp(portable_log(relative) / temperature);
    }
    cumulative[i] = sum;
  }
  const double point = random.uniform() * sum;
  const auto chosen = std::upper_bound(cumulative.begin(), cumulative.end(), point);
  return chosen == cumulative.end() ? best : static_cast<int>(chosen - cumulative.begin());
}

}  // namespace zerofleet
