// Priors at the root of a search: tempered, then mixed with noise, so that self-play explores.
// Gumbel sampling, which takes the noise's place, is in gumbel_root.h.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "zerofleet/portable_math.h"
#include "zerofleet/random.h"
#include "zerofleet/root_plan.h"

namespace zerofleet {

// Raises probabilities to the power of 1 / temperature. The highest one counts as 1 meanwhile: at
// low temperatures all of them would underflow.
inline void temper(std::span<float> priors, double temperature) {
  const float highest = *std::ranges::max_element(priors);
  double sum = 0.0;
  for (float& prior : priors) {
    const double share = static_cast<double>(prior) / highest;
    if (share > 0.0) prior = static_cast<float>(portable_exp(portable_log(share) / temperature));
    sum += prior;
  }
  for (float& prior : priors) prior = static_cast<float>(prior / sum);
}

// Replaces a share of the priors, `noise_fraction`, by Dirichlet noise of concentration
// `noise_alpha` (Silver et al., Nature 2017, Methods, "Self-play").
inline void mix_noise(std::span<float> priors, const RootPlan& plan, Random& random) {
  std::vector<float> noise(priors.size());
  random.dirichlet(plan.noise_alpha, noise);
  const auto fraction = static_cast<float>(plan.noise_fraction);
  for (std::size_t i = 0; i < priors.size(); ++i) {
    priors[i] = (1.0f - fraction) * priors[i] + fraction * noise[i];
  }
}

}  // namespace zerofleet
