// How self-play sees more than one line: openings, forks, temperatures, first play at the root.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <set>
#include <stdexcept>
#include <vector>

#include "check.h"
#include "played_games.h"

namespace zerofleet {
namespace {

using test::check;
using test::check_near;
using test::check_throws;
using test::play;
using test::small_config;

// From none to three plies, each length and each first action about as often as any other.
void openings_are_drawn_and_not_learnt() {
  SearchConfig config = small_config();
  config.random_opening_plies = 3;
  config.temperature = 0.0;
  config.dirichlet_fraction = 0.0;
  const auto games = play(config, 400);
  std::array<int, 4> lengths{};
  std::array<int, 7> first_actions{};
  for (const GameColumns& game : games) {
    std::size_t drawn = 0;
    while (game.simulations[drawn] == 0) ++drawn;
    ++lengths.at(drawn);
    if (drawn > 0) ++first_actions.at(static_cast<std::size_t>(game.action[0]));
    for (std::size_t ply = 0; ply < game.action.size(); ++ply) {
      check(game.full_search[ply] == (ply >= drawn));
      check(game.model_version[ply] > 0);
      check(game.simulations[ply] == (ply < drawn ? 0 : 40));
    }
  }
  const auto share = [](int count, double of) { return count / of; };
  const auto all = static_cast<double>(games.size());
  for (const int count : lengths) check_near(share(count, all), 0.25, 0.09);
  const double begun = all - lengths[0];
  for (const int count : first_actions) check_near(share(count, begun), 1.0 / 7, 0.09);
}

// How many plies of a game were drawn before the first search.
std::size_t drawn_plies(const GameColumns& game) {
  std::size_t drawn = 0;
  while (drawn < game.action.size() && game.simulations[drawn] == 0) ++drawn;
  return drawn;
}

void a_share_of_games_has_a_drawn_opening() {
  SearchConfig config = small_config();
  config.random_opening_plies = 4;
  config.random_opening_share = 0.5;
  int drawn = 0;
  for (const GameColumns& game : play(config, 400)) drawn += drawn_plies(game) > 0;
  check_near(drawn / 400.0, 0.5 * 0.8, 4 * std::sqrt(0.4 * 0.6 / 400));
}

// The first drawn actions are spread as the priors of the games are that begin with a search, or
// half-way between those and evenly.
void openings_are_drawn_from_the_policy(OpeningActions actions, double policy_share) {
  SearchConfig config = small_config();
  config.num_simulations = 2;
  config.random_opening_plies = 1;
  config.opening_actions = actions;
  std::array<double, 7> expected{};
  std::array<double, 7> drawn{};
  double drawn_games = 0.0;
  double others = 0.0;
  for (const GameColumns& game : play(config, 2000)) {
    if (drawn_plies(game) > 0) {
      ++drawn_games;
      ++drawn.at(static_cast<std::size_t>(game.action[0]));
    } else {
      ++others;
      for (std::size_t i = 0; i < 7; ++i) expected.at(i) += game.priors[i];
    }
  }
  for (std::size_t i = 0; i < 7; ++i) {
    const double share = policy_share * expected[i] / others + (1 - policy_share) / 7;
    check_near(drawn[i] / drawn_games, share, 0.06);
  }
}

// A fork takes an earlier game up to some ply, then one action that may be any.
void forks_begin_as_earlier_games_did() {
  SearchConfig config = small_config();
  config.num_simulations = 4;
  config.fork_share = 0.75;
  const auto games = play(config, 600);
  int forks = 0;
  std::size_t longest = 0;
  for (const GameColumns& game : games) {
    const std::size_t drawn = drawn_plies(game);
    if (drawn == 0) continue;
    ++forks;
    longest = std::max(longest, drawn);
    const auto begins_alike = [&](const GameColumns& earlier) {
      return earlier.game_id != game.game_id && earlier.action.size() >= drawn &&
             std::equal(game.action.begin(), game.action.begin() + static_cast<int>(drawn) - 1,
                        earlier.action.begin());
    };
    check(std::any_of(games.begin(), games.end(), begins_alike));
    for (std::size_t ply = 0; ply < game.action.size(); ++ply) {
      check(game.full_search[ply] == (ply >= drawn));
    }
  }
  check_near(forks / 600.0, 0.75, 0.1);  // the first games have none before them
  check(longest > 10);
}

// A game from a restart repeats its actions, and is searched from there.
void restarts_begin_where_they_are_told() {
  SearchConfig config = small_config();
  config.num_simulations = 4;
  const std::vector<std::vector<int>> restarts = {{3, 3, 2}, {0, 6, 1, 1, 5}};
  const auto engine = make_self_play("connect_four", 16, config, 7);
  engine->set_resignation(std::nullopt, 1.0);
  engine->set_restarts(restarts, 0.5);
  int restarted = 0;
  std::set<std::size_t> lengths;
  const auto games = play(*engine, 400);
  for (const GameColumns& game : games) {
    const std::size_t drawn = drawn_plies(game);
    check(game.plays_on == (drawn == 0) && game.restarted == (drawn > 0));
    if (drawn == 0) continue;
    ++restarted;
    lengths.insert(drawn);
    check(std::any_of(restarts.begin(), restarts.end(), [&](const auto& restart) {
      return restart.size() == drawn &&
             std::equal(restart.begin(), restart.end(), game.action.begin());
    }));
  }
  check_near(restarted / static_cast<double>(games.size()), 0.5, 0.1);
  check(lengths.size() == 2);
  check_throws<std::invalid_argument>([&] { engine->set_restarts({{7}}, 0.5); });
  check_throws<std::invalid_argument>([&] { engine->set_restarts({{3}}, 1.5); });
  check_throws<std::invalid_argument>([&] {
    engine->set_restarts({{0, 1, 0, 1, 0, 1, 0}}, 0.5);  // four in a column
  });
}

// Fast searches and resignation begin after the first search from a restart.
void the_position_of_a_restart_is_searched_in_full() {
  SearchConfig config = small_config();
  config.num_simulations = 4;
  config.fast_simulations = 2;
  config.full_search_share = 0.25;
  const auto engine = make_self_play("connect_four", 16, config, 7);
  engine->set_resignation(0.99f, 0.0);
  engine->set_restarts({{3, 3, 2}}, 1.0);
  for (const GameColumns& game : play(*engine, 100)) {
    check(game.reason == "resign" && game.action.size() == 4);
    check(game.full_search == std::vector<std::uint8_t>{0, 0, 0, 1});
  }
}

void temperatures_fall_by_half_lives() {
  SearchConfig config;
  config.temperature = 0.8;
  config.temperature_final = 0.2;
  check(config.temperature_at(29) == 0.8 && config.temperature_at(30) == 0.2);
  config.temperature_halflife = 5.0;
  check_near(config.temperature_at(0), 0.8);
  check_near(config.temperature_at(5), 0.5);
  check_near(config.temperature_at(10), 0.35);
  config.root_policy_temperature = 1.4;
  config.root_policy_temperature_final = 1.1;
  check(config.root_policy_temperature_at(7) == 1.4);
  config.root_policy_temperature_halflife = 7.0;
  check_near(config.root_policy_temperature_at(7), 1.25);
}

// Without a reduction under noise no child of the root is left out; what lies deeper is as before.
void root_children_may_be_tried_at_full_value() {
  SearchConfig config = small_config();
  config.fpu_reduction = 2.0;
  const auto visited = [](const GameColumns& game) {
    return std::count_if(game.visit_counts.begin(), game.visit_counts.end(),
                         [](int visits) { return visits > 0; });
  };
  std::int64_t reduced = 0;
  for (const GameColumns& game : play(config, 30)) reduced += visited(game);
  config.root_fpu_reduction = 2.0;
  std::int64_t the_same = 0;
  for (const GameColumns& game : play(config, 30)) the_same += visited(game);
  config.root_fpu_reduction = 0.0;
  std::int64_t at_full_value = 0;
  for (const GameColumns& game : play(config, 30)) at_full_value += visited(game);
  check(the_same == reduced);
  check(at_full_value > reduced);
  config.full_search_share = 1e-9;  // fast searches have no noise
  config.fast_simulations = 40;
  std::int64_t fast = 0;
  for (const GameColumns& game : play(config, 30)) fast += visited(game);
  check(fast < at_full_value);
}

}  // namespace
}  // namespace zerofleet

int main() {
  using namespace zerofleet;
  return test::run({
      {"random openings", openings_are_drawn_and_not_learnt},
      {"a share of openings", a_share_of_games_has_a_drawn_opening},
      {"openings from the policy",
       [] { openings_are_drawn_from_the_policy(OpeningActions::kPolicy, 1.0); }},
      {"mixed openings", [] { openings_are_drawn_from_the_policy(OpeningActions::kMixed, 0.5); }},
      {"forks", forks_begin_as_earlier_games_did},
      {"restarts", restarts_begin_where_they_are_told},
      {"first search of a restart", the_position_of_a_restart_is_searched_in_full},
      {"half-lives", temperatures_fall_by_half_lives},
      {"first play at the root", root_children_may_be_tried_at_full_value},
  });
}
