// The knobs of the search, as one value.
#pragma once

#include <cmath>
#include <optional>
#include <stdexcept>
#include <string>

namespace zerofleet {

// The value assumed for an action that was never tried (first-play urgency).
enum class Fpu {
  kZero,       // 0, as in AlphaGo Zero
  kReduction,  // the position's own value, minus fpu_reduction * sqrt(prior mass tried so far)
};

struct SearchConfig {
  int num_simulations = 100;  // a move is chosen when the root has this many, kept ones included
  double c_puct = 1.5;
  Fpu fpu = Fpu::kReduction;
  double fpu_reduction = 0.2;
  double dirichlet_fraction = 0.25;       // share of noise in the root's priors
  std::optional<double> dirichlet_alpha;  // nothing: 0.03 * 361 / points of the board
  double temperature = 1.0;
  int temperature_moves = 30;  // plies played at `temperature`; then `temperature_final`
  double temperature_final = 0.0;
  double virtual_loss = 1.0;  // losses that a path counts while its leaf is out
  bool reuse_tree = true;
  int cache_positions = 200'000;  // 0: no cache
  bool random_symmetry = true;

  double temperature_at(int ply) const {
    return ply < temperature_moves ? temperature : temperature_final;
  }

  double alpha(int board_points) const {
    return dirichlet_alpha.value_or(0.03 * 361 / board_points);
  }

  // Throws std::invalid_argument naming the first setting that makes no sense.
  void check() const {
    require(num_simulations >= 1, "num_simulations", "at least 1");
    require(std::isfinite(c_puct) && c_puct > 0, "c_puct", "positive");
    require(is_non_negative(fpu_reduction), "fpu_reduction", "at least 0");
    require(dirichlet_fraction >= 0 && dirichlet_fraction <= 1, "dirichlet_fraction", "in [0, 1]");
    const double concentration = dirichlet_alpha.value_or(1.0);
    require(std::isfinite(concentration) && concentration > 0, "dirichlet_alpha", "positive");
    require(is_non_negative(temperature), "temperature", "at least 0");
    require(temperature_moves >= 0, "temperature_moves", "at least 0");
    require(is_non_negative(temperature_final), "temperature_final", "at least 0");
    require(is_non_negative(virtual_loss), "virtual_loss", "at least 0");
    require(cache_positions >= 0, "cache_positions", "at least 0");
  }

 private:
  static bool is_non_negative(double number) { return std::isfinite(number) && number >= 0; }

  static void require(bool holds, const std::string& name, const std::string& expected) {
    if (!holds) throw std::invalid_argument(name + " must be " + expected);
  }
};

}  // namespace zerofleet
