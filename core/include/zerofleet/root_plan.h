// Settings of a search's root. Only in these do self-play and matches differ.
#pragma once

#include <optional>

#include "zerofleet/search_config.h"

namespace zerofleet {

// Settings of Gumbel sampling at the root; see gumbel_root.h.
struct GumbelPlan {
  int actions = 16;
  double scale = 0.0;  // of the noise
};

struct RootPlan {
  int num_simulations = 0;  // visits of the root at which the search ends, including reused ones
  double noise_fraction = 0.0;
  double noise_alpha = 1.0;
  double policy_temperature = 1.0;
  std::optional<float> fpu_reduction = {};  // of the root's children; nullopt: as everywhere
  float forced_playouts = 0.0f;
  int min_child_visits = 0;
  bool prune_targets = false;
  // nullopt: PUCT. A Gumbel root ignores noise, policy temperature, forced visits and pruning.
  std::optional<GumbelPlan> gumbel = {};

  // At temperature 0 the child with the highest lower confidence bound is played: its mean value
  // minus this many standard errors. 0: the most visited child. A Gumbel root ignores it.
  double lcb_stdevs = 0.0;

  bool forces_visits() const { return forced_playouts > 0.0f || min_child_visits > 0; }
};

// A search whose result is only played, not learnt: fast moves of self-play.
inline RootPlan plain_plan(const SearchConfig& config, int num_simulations) {
  RootPlan plan{.num_simulations = num_simulations};
  if (config.root == RootChoice::kGumbel) {
    plan.gumbel = {.actions = config.gumbel_actions, .scale = 0.0};
  }
  return plan;
}

// A search that looks for the best move and does not explore: matches, exams, analysis.
inline RootPlan playing_plan(const SearchConfig& config) {
  RootPlan plan = plain_plan(config, config.num_simulations);
  plan.lcb_stdevs = config.lcb_stdevs;
  return plan;
}

// A full search of self-play, which explores and whose policy is learnt. Settings that change with
// the ply have their value at a game's first ply.
inline RootPlan exploring_plan(const SearchConfig& config, int board_points) {
  RootPlan plan = plain_plan(config, config.num_simulations);
  if (config.root_fpu_reduction) {
    plan.fpu_reduction = static_cast<float>(*config.root_fpu_reduction);
  }
  plan.noise_fraction = config.dirichlet_fraction;
  plan.noise_alpha = config.alpha(board_points);
  plan.policy_temperature = config.root_policy_temperature;
  plan.forced_playouts = static_cast<float>(config.forced_playouts);
  plan.min_child_visits = config.min_child_visits;
  plan.prune_targets = config.prune_targets;
  if (plan.gumbel) plan.gumbel->scale = config.gumbel_scale;
  return plan;
}

}  // namespace zerofleet
