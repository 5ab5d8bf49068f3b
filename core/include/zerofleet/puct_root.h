// A root that follows PUCT: tempered priors, Dirichlet noise, forced visits and their pruning.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "zerofleet/lanes.h"
#include "zerofleet/move_choice.h"
#include "zerofleet/portable_math.h"
#include "zerofleet/puct.h"
#include "zerofleet/random.h"
#include "zerofleet/root_plan.h"
#include "zerofleet/root_view.h"

namespace zerofleet {

// Raises probabilities to the power of 1 / temperature. They are scaled to a maximum of 1 first,
// because all of them would underflow at low temperatures.
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

// Replaces the share `noise_fraction` of the priors with Dirichlet noise of concentration
// `noise_alpha` (Silver et al., Nature 2017, Methods, "Self-play").
inline void mix_noise(std::span<float> priors, const RootPlan& plan, Random& random) {
  std::vector<float> noise(priors.size());
  random.dirichlet(plan.noise_alpha, noise);
  const auto fraction = static_cast<float>(plan.noise_fraction);
  for (std::size_t i = 0; i < priors.size(); ++i) {
    priors[i] = (1.0f - fraction) * priors[i] + fraction * noise[i];
  }
}

// The largest number of visits, up to `most`, to which `budget` more can bring every child.
inline int affordable_child_visits(const EdgeWindow& edges, int most, int budget) {
  const std::span<const std::int32_t> visits(edges.visit_count,
                                             static_cast<std::size_t>(edges.count));
  if (visits.empty()) return 0;
  const int total = std::accumulate(visits.begin(), visits.end(), 0);
  for (int target = std::min(most, (total + budget) / edges.count); target > 0; --target) {
    int missing = 0;
    for (const int count : visits) missing += std::max(0, target - count);
    if (missing <= budget) return target;
  }
  return 0;
}

// The first child that may be visited and has fewer visits than are forced; -1 if there is none.
// Every child has `min_child_visits` forced visits. A child with visits has at least
// sqrt(k * P * sum N) (Wu 2019, arXiv 1902.10565, section 3.2).
template <std::predicate<int> MayBeVisited>
int forced_child(const EdgeWindow& edges, const RootPlan& plan, float total_visits,
                 const MayBeVisited& may_be_visited) {
  const Floats scale = broadcast(plan.forced_playouts * total_visits);
  const Floats least = broadcast(static_cast<float>(plan.min_child_visits));
  Ints index = {0, 1, 2, 3};
  const Ints count = {edges.count, edges.count, edges.count, edges.count};
  for (int start = 0; start < edges.count; start += kLanes) {
    const Floats visits = load_as_floats(edges.visit_count + start);
    const Ints is_short =
        (visits > broadcast(0.0f)) & (visits * visits < scale * load_floats(edges.prior + start));
    const Ints forced = (is_short | (visits < least)) & (index < count);
    for (int lane = 0; lane < kLanes; ++lane) {
      if (forced[lane] != 0 && may_be_visited(start + lane)) return start + lane;
    }
    index += kLanes;
  }
  return -1;
}

// Number of forced visits of a child, rounded up.
inline int forced_visits(const RootPlan& plan, float prior, float total_visits) {
  const float visits = std::ceil(std::sqrt(plan.forced_playouts * prior * total_visits));
  return std::max(static_cast<int>(visits), plan.min_child_visits);
}

// Removes forced visits from `weights`, [children], which begin as the visits (Wu 2019, section
// 3.2, "policy target pruning"). Every child but the most visited one loses at most its forced
// visits, as long as PUCT would not prefer it to that one. A child that is left with a single visit
// loses it too. Children of weight 0 are skipped.
inline void prune_forced(const EdgeWindow& edges, const RootPlan& plan, float exploration,
                         float total_visits, std::span<std::int32_t> weights) {
  const int best = most_visited(weights, {edges.prior, weights.size()});
  if (edges.visit_count[best] == 0) return;
  const auto mean = [&](int i) {
    return edges.value_sum[i] / static_cast<float>(edges.visit_count[i]);
  };
  const float best_score = mean(best) + exploration * edges.prior[best] /
                                            static_cast<float>(1 + edges.visit_count[best]);
  for (int i = 0; i < edges.count; ++i) {
    const int visits = edges.visit_count[i];
    if (i == best || weights[i] == 0) continue;
    const float lead = best_score - mean(i);
    if (lead <= 0.0f) continue;  // worth its visits
    // The fewest visits n with mean + exploration * prior / (1 + n) < best_score.
    const float fewest = std::floor(exploration * edges.prior[i] / lead);
    const int forced = forced_visits(plan, edges.prior[i], total_visits);
    const int kept = std::max(visits - forced, static_cast<int>(std::min(fewest, 1e9f)));
    if (kept < visits) weights[i] = kept > 1 ? kept : 0;
  }
}

// PUCT selects, after all forced visits. The visits give the target and the move. The root's value
// is the mean of the network's value and all simulations. `GumbelRoot` has the same functions.
class PuctRoot {
 public:
  // `priors` are the network's, [children]; they are tempered and mixed with noise in place.
  void start(std::span<float> priors, const EdgeWindow& edges, const RootPlan& plan, int budget,
             Random& random) {
    plan_ = plan;
    // Spend at most half of the budget on forced visits.
    plan_.min_child_visits = affordable_child_visits(edges, plan.min_child_visits, budget / 2);
    if (plan.policy_temperature != 1.0) temper(priors, plan.policy_temperature);
    if (plan.noise_fraction > 0.0) mix_noise(priors, plan, random);
  }

  // Whether the next choice depends on leaves in flight.
  bool is_waiting() const { return false; }

  // The child that the next simulation must visit; -1 leaves it to PUCT.
  int next(const RootView& root) const {
    if (!plan_.forces_visits()) return -1;
    return forced_child(root.edges, plan_, static_cast<float>(root.visits),
                        [&](int child) { return root.may_visit(child); });
  }

  // Notes that a simulation began.
  void advance() {}

  // The root's value, given the mean of all simulations. `GumbelRoot` needs the view.
  float value(const RootView&, float mean) const { return mean; }

  // Writes the training target, up to scale, [children]: the visits, without forced ones if the
  // plan prunes them.
  void target(const RootView& root, const Puct& puct, std::vector<std::int32_t>& weights) const {
    root.open_visits(weights);
    if (!plan_.prune_targets) return;
    const auto visits = static_cast<float>(root.visits);
    prune_forced(root.edges, plan_, puct.exploration(visits), visits, weights);
  }

  // The child to play, drawn from `weights` at a temperature. At temperature 0 a lower confidence
  // bound, if there is one, decides instead of the weights.
  int choose(const RootView& root, std::span<const std::int32_t> weights, double temperature,
             Random& random) const {
    if (temperature == 0.0 && plan_.lcb_stdevs > 0.0) return best(root);
    return choose_child(weights, root.network_priors(), temperature, random);
  }

  // The child to play without chance.
  int best(const RootView& root) const {
    if (plan_.lcb_stdevs > 0.0) return root.highest_lcb_child(plan_.lcb_stdevs);
    return root.most_visited_child();
  }

 private:
  RootPlan plan_;
};

}  // namespace zerofleet
