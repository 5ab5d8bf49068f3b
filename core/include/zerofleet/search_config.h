// The settings of the search, as one value.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <string>

#include "zerofleet/portable_math.h"

namespace zerofleet {

// The value assumed for an untried action (first-play urgency).
enum class Fpu {
  kZero,       // 0, as in AlphaGo Zero
  kReduction,  // the position's own value, minus fpu_reduction * sqrt(prior mass tried so far)
};

// How the root of a search chooses among its children.
enum class RootChoice {
  kPuct,    // by the formula used everywhere else, with noise in the priors
  kGumbel,  // by Gumbel sampling and sequential halving
};

// How the actions of a random opening are drawn.
enum class OpeningActions {
  kUniform,  // every legal action with the same probability
  kPolicy,   // by the network's policy
  kMixed,    // each by one of the two, with odds drawn once per game
};

// Value after `plies` of an exponential change from `first` to `last`, which is halfway after
// `halflife` plies.
inline double decayed(double first, double last, double halflife, int plies) {
  return last + (first - last) * portable_exp(-kLn2 * plies / halflife);
}

struct SearchConfig {
  int num_simulations = 100;       // root visits at which a move is chosen, including reused ones
  double full_search_share = 1.0;  // of self-play's moves; the others get a fast search
  std::optional<int> fast_simulations;  // nullopt: a tenth of num_simulations
  double c_puct = 1.5;
  double c_puct_stdev_scale = 0.0;  // share of c_puct that follows the values' standard deviation
  Fpu fpu = Fpu::kReduction;
  double fpu_reduction = 0.2;
  std::optional<double> root_fpu_reduction;  // with noise at the root; nullopt: fpu_reduction
  double root_policy_temperature = 1.0;
  double root_policy_temperature_final = 1.0;     // approached by half-lives
  double root_policy_temperature_halflife = 0.0;  // plies; 0: always root_policy_temperature
  double dirichlet_fraction = 0.25;               // share of noise in the root's priors
  std::optional<double> dirichlet_alpha;          // nullopt: 0.03 * 361 / points of the board
  double forced_playouts = 0.0;  // k of sqrt(k * P * sum N) for the root's children; 0: off
  int min_child_visits = 0;      // for every child of the root; 0: off
  bool prune_targets = false;    // leave out visits that only forcing caused
  bool play_pruned = true;       // draw moves from pruned targets too, not from all visits
  RootChoice root = RootChoice::kPuct;
  int gumbel_actions = 16;    // actions considered at the root
  double gumbel_scale = 1.0;  // of the noise, in self-play
  double temperature = 1.0;
  int temperature_moves = 30;  // plies played at `temperature`; then `temperature_final`
  double temperature_final = 0.0;
  double temperature_halflife = 0.0;  // plies from `temperature` halfway to the final one; 0: off
  int random_opening_plies = 0;       // most plies of a self-play game drawn without a search
  double random_opening_share = 1.0;  // share of the games with such an opening
  OpeningActions opening_actions = OpeningActions::kUniform;
  double fork_share = 0.0;      // share of the games that begin with part of an earlier one
  double lcb_stdevs = 0.0;      // standard errors of the LCB that chooses moves (PUCT); 0: visits
  double virtual_loss = 1.0;    // losses that a path counts per leaf in flight
  bool prove_results = false;   // back up certain wins, draws and losses as such
  bool decisive_moves = false;  // with prove_results: results decided by one action are certain too
  bool reuse_tree = true;
  int cache_positions = 200'000;  // 0: no cache
  bool random_symmetry = true;

  double temperature_at(int ply) const {
    if (temperature_halflife > 0) {
      return decayed(temperature, temperature_final, temperature_halflife, ply);
    }
    return ply < temperature_moves ? temperature : temperature_final;
  }

  double root_policy_temperature_at(int ply) const {
    if (root_policy_temperature_halflife <= 0) return root_policy_temperature;
    return decayed(root_policy_temperature, root_policy_temperature_final,
                   root_policy_temperature_halflife, ply);
  }

  int simulations_of_fast_search() const {
    return fast_simulations.value_or(std::max(1, num_simulations / 10));
  }

  double alpha(int board_points) const {
    return dirichlet_alpha.value_or(0.03 * 361 / board_points);
  }

  // Throws std::invalid_argument naming the first invalid setting.
  void check() const {
    require(num_simulations >= 1, "num_simulations", "at least 1");
    require(full_search_share > 0 && full_search_share <= 1, "full_search_share", "in (0, 1]");
    require(simulations_of_fast_search() >= 1, "fast_simulations", "at least 1");
    require(is_positive(c_puct), "c_puct", "positive");
    require(is_share(c_puct_stdev_scale), "c_puct_stdev_scale", "in [0, 1]");
    require(is_non_negative(fpu_reduction), "fpu_reduction", "at least 0");
    require(is_share(dirichlet_fraction), "dirichlet_fraction", "in [0, 1]");
    require(is_positive(dirichlet_alpha.value_or(1.0)), "dirichlet_alpha", "positive");
    require(is_non_negative(root_fpu_reduction.value_or(0.0)), "root_fpu_reduction", "at least 0");
    require(is_positive(root_policy_temperature), "root_policy_temperature", "positive");
    require(is_positive(root_policy_temperature_final), "root_policy_temperature_final",
            "positive");
    require(is_non_negative(root_policy_temperature_halflife), "root_policy_temperature_halflife",
            "at least 0");
    require(is_non_negative(forced_playouts), "forced_playouts", "at least 0");
    require(min_child_visits >= 0, "min_child_visits", "at least 0");
    require(gumbel_actions >= 1, "gumbel_actions", "at least 1");
    require(is_non_negative(gumbel_scale), "gumbel_scale", "at least 0");
    require(is_non_negative(temperature), "temperature", "at least 0");
    require(temperature_moves >= 0, "temperature_moves", "at least 0");
    require(is_non_negative(temperature_final), "temperature_final", "at least 0");
    require(is_non_negative(temperature_halflife), "temperature_halflife", "at least 0");
    require(random_opening_plies >= 0, "random_opening_plies", "at least 0");
    require(is_share(random_opening_share), "random_opening_share", "in [0, 1]");
    require(is_share(fork_share), "fork_share", "in [0, 1]");
    require(is_non_negative(lcb_stdevs), "lcb_stdevs", "at least 0");
    require(is_non_negative(virtual_loss), "virtual_loss", "at least 0");
    require(cache_positions >= 0, "cache_positions", "at least 0");
  }

 private:
  static bool is_positive(double number) { return std::isfinite(number) && number > 0; }
  static bool is_non_negative(double number) { return std::isfinite(number) && number >= 0; }
  static bool is_share(double number) { return number >= 0 && number <= 1; }

  static void require(bool holds, const std::string& name, const std::string& expected) {
    if (!holds) throw std::invalid_argument(name + " must be " + expected);
  }
};

}  // namespace zerofleet
