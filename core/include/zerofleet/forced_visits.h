// Visits that the root's children get whatever the formula says, and how they leave the target.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <numeric>
#include <span>

#include "zerofleet/lanes.h"
#include "zerofleet/move_choice.h"
#include "zerofleet/puct.h"
#include "zerofleet/root_plan.h"

namespace zerofleet {

// The most visits, up to `wished`, that every child can be brought to with `budget` more.
inline int affordable_child_visits(const EdgeWindow& edges, int wished, int budget) {
  const std::span<const std::int32_t> visits(edges.visit_count,
                                             static_cast<std::size_t>(edges.count));
  if (visits.empty()) return 0;
  const int total = std::accumulate(visits.begin(), visits.end(), 0);
  for (int due = std::min(wished, (total + budget) / edges.count); due > 0; --due) {
    int lacking = 0;
    for (const int count : visits) lacking += std::max(0, due - count);
    if (lacking <= budget) return due;
  }
  return 0;
}

// The first child that may be visited and has fewer visits than it is due, -1 when there is none. A
// child that was visited at all is due sqrt(k * P * sum N) visits (Wu 2019, arXiv 1902.10565,
// section 3.2); every child is due `min_child_visits`.
template <std::predicate<int> MayBeVisited>
int forced_child(const EdgeWindow& edges, const RootPlan& plan, float total_visits,
                 const MayBeVisited& may_be_visited) {
  const Floats scale = broadcast(plan.forced_playouts * total_visits);
  const Floats least = broadcast(static_cast<float>(plan.min_child_visits));
  Ints index = {0, 1, 2, 3};
  const Ints count = {edges.count, edges.count, edges.count, edges.count};
  for (int start = 0; start < edges.count; start += kLanes) {
    const Floats visits = load_as_floats(edges.visit_count + start);
    const Ints lacks =
        (visits > broadcast(0.0f)) & (visits * visits < scale * load_floats(edges.prior + start));
    const Ints forced = (lacks | (visits < least)) & (index < count);
    for (int lane = 0; lane < kLanes; ++lane) {
      if (forced[lane] != 0 && may_be_visited(start + lane)) return start + lane;
    }
    index += kLanes;
  }
  return -1;
}

// Visits that a child was due, in whole ones.
inline int forced_visits(const RootPlan& plan, float prior, float total_visits) {
  const float due = std::ceil(std::sqrt(plan.forced_playouts * prior * total_visits));
  return std::max(static_cast<int>(due), plan.min_child_visits);
}

// Takes out of `weights`, which start as the visits of the children that count, those that only
// forcing caused: from every child but the most visited one up to as many as it was due, so long as
// the formula still would not prefer it to the most visited one; what is then down to a single
// visit goes altogether (Wu 2019, section 3.2, "policy target pruning"). A child that counts for
// nothing, for its weight is 0, measures nothing.
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

}  // namespace zerofleet
