#include "zerofleet/puct.h"

#include <cmath>
#include <vector>

#include "check.h"

namespace zerofleet {
namespace {

using test::check;
using test::check_near;

// Columns of one node, padded as best_edge reads them.
struct Edges {
  Edges(std::vector<float> priors, std::vector<std::int32_t> visits, std::vector<float> values)
      : prior(std::move(priors)), visit_count(std::move(visits)), value_sum(std::move(values)) {
    count = static_cast<int>(prior.size());
    prior.resize(round_up_to_lanes(count));
    visit_count.resize(round_up_to_lanes(count));
    value_sum.resize(round_up_to_lanes(count));
    leaves_out.resize(round_up_to_lanes(count));
  }

  EdgeWindow window() const {
    return {prior.data(), visit_count.data(), value_sum.data(), leaves_out.data(), count};
  }

  std::vector<float> prior;
  std::vector<std::int32_t> visit_count;
  std::vector<float> value_sum;
  std::vector<std::uint16_t> leaves_out;
  int count;
};

void scores_by_hand() {
  // N = 9 in all, c = 1.5: exploration is 1.5 * 3 = 4.5.
  const Edges edges({0.5f, 0.3f, 0.2f}, {6, 3, 0}, {1.5f, -0.6f, 0.0f});
  const Puct puct{SearchConfig()};
  check_near(puct.exploration(9), 4.5);
  const auto score = [&](int i) {
    return puct_scores<false>(edges.window(), 0, 4.5f, -0.25f, 1.0f)[i];
  };
  check_near(score(0), 0.25 + 4.5 * 0.5 / 7);
  check_near(score(1), -0.2 + 4.5 * 0.3 / 4);
  check_near(score(2), -0.25 + 4.5 * 0.2);  // 0.65: the largest
  check(best_edge<false>(edges.window(), 4.5f, -0.25f, 1.0f) == 2);
  check(best_edge<false>(edges.window(), 4.5f, -1.0f, 1.0f) == 0);
}

void virtual_loss_by_hand() {
  Edges edges({0.5f, 0.5f}, {3, 0}, {1.5f, 0.0f});
  edges.leaves_out[0] = 2;
  // N = 3 + 2 and W = 1.5 - 2 with a loss of 1 for each leaf out.
  check_near(puct_scores<true>(edges.window(), 0, 2.0f, 0.0f, 1.0f)[0], -0.5 / 5 + 2.0 * 0.5 / 6);
  check_near(puct_scores<true>(edges.window(), 0, 2.0f, 0.0f, 3.0f)[0], -4.5 / 9 + 2.0 * 0.5 / 10);
  check_near(puct_scores<false>(edges.window(), 0, 2.0f, 0.0f, 1.0f)[0], 0.5 + 2.0 * 0.5 / 4);
  edges.leaves_out[1] = 1;
  check_near(puct_scores<true>(edges.window(), 0, 2.0f, 0.7f, 1.0f)[1], -1.0 + 2.0 * 0.5 / 2);
}

void first_play_values() {
  SearchConfig config;
  check_near(Puct(config).unvisited_value(0.5f, 0.25f, 0.2f), 0.5 - 0.2 * 0.5);
  config.fpu = Fpu::kZero;
  check_near(Puct(config).unvisited_value(0.5f, 0.25f, 0.2f), 0.0);
  // Nothing visited yet: the sum counts as 1, so that the prior decides.
  check_near(Puct(config).exploration(0), 1.5);
}

void exploration_follows_the_spread_of_values() {
  SearchConfig config;
  config.c_puct_stdev_scale = 0.5;
  const Puct puct(config);
  check_near(puct.stdev_factor(0.3f, 0.09f, 1.0f), 1.0);  // one value tells nothing
  // Nine times 0.5: variance (2 * (0.25 + 0.16) + 2.25) / 10 - 0.25 = 0.057.
  check_near(puct.stdev_factor(0.5f, 2.25f, 9.0f), 1 + 0.5 * (std::sqrt(0.057) / 0.4 - 1), 1e-5);
  // Five wins and four losses: variance (2 * (1 / 81 + 0.16) + 9) / 10 - 1 / 81.
  const double variance = (2 * (1.0 / 81 + 0.16) + 9) / 10 - 1.0 / 81;
  check_near(puct.stdev_factor(1.0f / 9, 9.0f, 9.0f), 1 + 0.5 * (std::sqrt(variance) / 0.4 - 1),
             1e-5);
  // Rounded sums may say that the variance is negative.
  check(puct.stdev_factor(0.5f, 249.9f, 1000.0f) > 0.5f);
}

void ties_take_the_first() {
  const Edges equal(std::vector<float>(19, 1.0f / 19), std::vector<std::int32_t>(19, 0),
                    std::vector<float>(19, 0.0f));
  check(best_edge<false>(equal.window(), 1.0f, -0.9f, 1.0f) == 0);
  Edges later = equal;
  later.prior[17] += 0.01f;
  check(best_edge<false>(later.window(), 1.0f, -0.9f, 1.0f) == 17);
}

void what_lies_behind_the_last_edge_does_not_matter() {
  Edges edges({0.5f, 0.5f}, {1, 1}, {0.0f, 0.1f});
  edges.prior[2] = 100.0f;
  check(best_edge<false>(edges.window(), 1.0f, 0.0f, 1.0f) == 1);
}

}  // namespace
}  // namespace zerofleet

int main() {
  using namespace zerofleet;
  return test::run({
      {"scores by hand", scores_by_hand},
      {"virtual loss by hand", virtual_loss_by_hand},
      {"first play values", first_play_values},
      {"spread of values", exploration_follows_the_spread_of_values},
      {"ties take the first", ties_take_the_first},
      {"padding does not matter", what_lies_behind_the_last_edge_does_not_matter},
  });
}
