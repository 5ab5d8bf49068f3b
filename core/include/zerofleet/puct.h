// The selection formula of AlphaGo Zero: Q + c_puct * P * sqrt(sum N) / (1 + N).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "zerofleet/lanes.h"
#include "zerofleet/search_config.h"

namespace zerofleet {

// The edges of one node: pointers into the columns, at its first edge. They must be readable up to
// the next multiple of kLanes after the last edge; the values there do not matter.
struct EdgeWindow {
  const float* prior;
  const std::int32_t* visit_count;
  const float* value_sum;           // for the player to move at this node
  const std::uint16_t* leaves_out;  // read only under virtual loss
  int count;
};

// The constants of the formula, in the precision of its computation.
struct Puct {
  explicit Puct(const SearchConfig& config)
      : c_puct(static_cast<float>(config.c_puct)),
        stdev_scale(static_cast<float>(config.c_puct_stdev_scale)),
        fpu_reduction(static_cast<float>(config.fpu_reduction)),
        virtual_loss(static_cast<float>(config.virtual_loss)),
        fpu(config.fpu),
        proves_results(config.prove_results),
        decisive_moves(config.prove_results && config.decisive_moves) {}

  // c_puct * sqrt(sum N). Before the first visit the sum counts as 1, so that the prior alone
  // decides.
  float exploration(float total_visits) const {
    return c_puct * std::sqrt(std::max(total_visits, 1.0f));
  }

  // Factor of c_puct at a node, at least 1 - stdev_scale, given the mean, the sum of squares and
  // the number of the values that came back. It is 1 where their standard deviation is kPriorStdev.
  // kPriorCount values with this deviation are counted in addition (KataGo, docs/KataGoMethods.md,
  // "Dynamic Variance-Scaled cPUCT").
  float stdev_factor(float mean, float square_sum, float count) const {
    constexpr float kPriorStdev = 0.4f;
    constexpr float kPriorCount = 2.0f;
    if (count <= 1.0f) return 1.0f;
    const float square = mean * mean;
    const float squares = std::max(square_sum, square * count);
    const float variance = (kPriorCount * (square + kPriorStdev * kPriorStdev) + squares) /
                               (kPriorCount + count - 1.0f) -
                           square;
    return 1.0f + stdev_scale * (std::sqrt(variance) / kPriorStdev - 1.0f);
  }

  // Q of an unvisited action at a node, given the node's value and the prior mass of the visited
  // actions. The root has a reduction of its own.
  float unvisited_value(float node_value, float visited_prior, float reduction) const {
    if (fpu == Fpu::kZero) return 0.0f;
    return node_value - reduction * std::sqrt(std::max(visited_prior, 0.0f));
  }

  float c_puct;
  float stdev_scale;
  float fpu_reduction;
  float virtual_loss;
  Fpu fpu;
  bool proves_results;
  bool decisive_moves;
};

// Scores of the kLanes edges from `start` on. A leaf in flight counts as `virtual_loss` visits, all
// lost.
template <bool kVirtualLoss>
inline Floats puct_scores(const EdgeWindow& edges, int start, float exploration,
                          float unvisited_value, float virtual_loss) {
  Floats visits = load_as_floats(edges.visit_count + start);
  Floats value_sum = load_floats(edges.value_sum + start);
  if constexpr (kVirtualLoss) {
    const Floats losses = broadcast(virtual_loss) * load_as_floats(edges.leaves_out + start);
    visits += losses;
    value_sum -= losses;
  }
  const Ints visited = visits > broadcast(0.0f);
  const Floats mean = value_sum / choose(visited, visits, broadcast(1.0f));
  const Floats q_value = choose(visited, mean, broadcast(unvisited_value));
  const Floats prior = load_floats(edges.prior + start);
  return q_value + broadcast(exploration) * prior / (broadcast(1.0f) + visits);
}

// Index of the edge with the highest score; ties go to the first.
//
// The code has no branches on scores, because a processor cannot predict which action is best.
template <bool kVirtualLoss>
inline int best_edge(const EdgeWindow& edges, float exploration, float unvisited_value,
                     float virtual_loss) {
  Floats best_score = broadcast(-std::numeric_limits<float>::infinity());
  Ints best_index = {0, 0, 0, 0};
  Ints index = {0, 1, 2, 3};
  const Ints count = {edges.count, edges.count, edges.count, edges.count};
  for (int start = 0; start < edges.count; start += kLanes) {
    const Floats scores =
        puct_scores<kVirtualLoss>(edges, start, exploration, unvisited_value, virtual_loss);
    const Ints better = (scores > best_score) & (index < count);
    best_score = choose(better, scores, best_score);
    best_index = choose(better, index, best_index);
    index += kLanes;
  }
  // Take the lowest index among the lanes with the highest score.
  const Ints is_best = best_score == broadcast(largest_of(best_score));
  const Ints candidate = choose(is_best, best_index, Ints{} + INT32_MAX);
  return std::min(std::min(candidate[0], candidate[1]), std::min(candidate[2], candidate[3]));
}

}  // namespace zerofleet
