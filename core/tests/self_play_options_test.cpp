// Options of self-play: fast searches, resignation, forced visits, Gumbel.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "check.h"
#include "hash_predictor.h"
#include "played_games.h"
#include "zerofleet/engine.h"
#include "zerofleet/games.h"
#include "zerofleet/self_play.h"

namespace zerofleet {
namespace {

using test::check;
using test::check_near;
using test::check_throws;
using test::HashPredictor;
using test::play;
using test::small_config;

std::vector<std::int32_t> visits_at(const GameColumns& game, std::size_t ply) {
  return {game.visit_counts.begin() + game.offsets[ply],
          game.visit_counts.begin() + game.offsets[ply + 1]};
}
std::vector<std::int32_t> weights_at(const GameColumns& game, std::size_t ply) {
  return {game.policy_weights.begin() + game.offsets[ply],
          game.policy_weights.begin() + game.offsets[ply + 1]};
}

void a_share_of_moves_is_searched_in_full() {
  SearchConfig config = small_config();
  config.full_search_share = 0.25;
  int plies = 0;
  int full = 0;
  for (const GameColumns& game : play(config, 150)) {
    for (std::size_t ply = 0; ply < game.action.size(); ++ply) {
      check(game.simulations[ply] == (game.full_search[ply] ? 40 : 4));
      ++plies;
      full += game.full_search[ply];
    }
  }
  check_near(static_cast<double>(full) / plies, 0.25, 4 * std::sqrt(0.25 * 0.75 / plies));
  config.fast_simulations = 7;
  for (const GameColumns& game : play(config, 5)) {
    for (std::size_t ply = 0; ply < game.action.size(); ++ply) {
      check(game.simulations[ply] == (game.full_search[ply] ? 40 : 7));
    }
  }
  config.fast_simulations.reset();
  config.num_simulations = 9;
  check(config.simulations_of_fast_search() == 1);
}

// With so small a share nearly every search is fast: noise, forcing and pruning then change
// nothing.
void fast_searches_do_not_explore() {
  SearchConfig plain = small_config();
  plain.full_search_share = 1e-9;
  plain.dirichlet_fraction = 0.0;
  SearchConfig rich = plain;
  rich.dirichlet_fraction = 0.25;
  rich.forced_playouts = 2.0;
  rich.min_child_visits = 2;
  rich.prune_targets = true;
  rich.root_policy_temperature = 3.0;
  const auto a = play(plain, 10);
  const auto b = play(rich, 10);
  for (std::size_t i = 0; i < a.size(); ++i) {
    check(a[i].action == b[i].action && a[i].visit_counts == b[i].visit_counts);
    check(b[i].policy_weights == b[i].visit_counts);
  }
}

void forced_visits_are_made_and_pruned() {
  SearchConfig config = small_config();
  config.num_simulations = 100;
  config.forced_playouts = 2.0;
  config.min_child_visits = 3;
  config.prune_targets = true;
  bool some_pruned = false;
  for (const GameColumns& game : play(config, 20)) {
    for (std::size_t ply = 0; ply < game.action.size(); ++ply) {
      const auto visits = visits_at(game, ply);
      const auto weights = weights_at(game, ply);
      check(std::accumulate(visits.begin(), visits.end(), 0) == 100);
      check(*std::min_element(visits.begin(), visits.end()) >= 3);
      check(*std::max_element(weights.begin(), weights.end()) ==
            *std::max_element(visits.begin(), visits.end()));
      for (std::size_t i = 0; i < visits.size(); ++i) {
        check(weights[i] >= 0 && weights[i] <= visits[i]);
        some_pruned |= weights[i] < visits[i];
        const bool played =
            game.legal_actions[game.offsets[ply] + static_cast<int>(i)] == game.action[ply];
        check(!played || weights[i] > 0);  // what only forcing tried is not played
      }
    }
  }
  check(some_pruned);
}

void moves_may_be_drawn_from_what_is_pruned() {
  SearchConfig config = small_config();
  config.num_simulations = 100;
  config.forced_playouts = 2.0;
  config.prune_targets = true;
  config.play_pruned = false;
  bool played_pruned = false;
  for (const GameColumns& game : play(config, 50)) {
    for (std::size_t ply = 0; ply < game.action.size(); ++ply) {
      for (std::int32_t i = game.offsets[ply]; i < game.offsets[ply + 1]; ++i) {
        const auto entry = static_cast<std::size_t>(i);
        if (game.legal_actions[entry] != game.action[ply]) continue;
        check(game.visit_counts[entry] > 0);
        played_pruned |= game.policy_weights[entry] == 0;
      }
    }
  }
  check(played_pruned);
}

// More visits than there are would turn the search into counting.
void least_visits_leave_half_of_the_search() {
  SearchConfig config = small_config();
  config.num_simulations = 100;
  config.min_child_visits = 50;
  for (const GameColumns& game : play(config, 5)) {
    for (std::size_t ply = 0; ply < game.action.size(); ++ply) {
      const auto visits = visits_at(game, ply);
      const int least = *std::min_element(visits.begin(), visits.end());
      check(least >= std::min(50, 50 / static_cast<int>(visits.size())));
      if (visits.size() == 7) {
        check(*std::max_element(visits.begin(), visits.end()) > 100 / 7 + 1);
      }
    }
  }
}

void gumbel_plays_whole_games() {
  for (const bool reuse : {false, true}) {
    SearchConfig config = small_config();
    config.root = RootChoice::kGumbel;
    config.num_simulations = 16;
    config.gumbel_actions = 4;
    config.reuse_tree = reuse;
    for (const GameColumns& game : play(config, 20)) {
      for (std::size_t ply = 0; ply < game.action.size(); ++ply) {
        const auto visits = visits_at(game, ply);
        const auto weights = weights_at(game, ply);
        check(std::accumulate(visits.begin(), visits.end(), 0) == game.simulations[ply]);
        if (!reuse) {
          check(game.simulations[ply] == 16);
          check(std::count_if(visits.begin(), visits.end(), [](int n) { return n > 0; }) <= 4);
        }
        check_near(std::accumulate(weights.begin(), weights.end(), 0), 10'000, 10);
      }
    }
  }
}

// With 8 simulations each child in play has a visit or two, whatever its value. The improved policy
// is better, so moves are drawn from it.
void fast_gumbel_searches_play_by_the_improved_policy() {
  SearchConfig config = small_config();
  config.root = RootChoice::kGumbel;
  config.full_search_share = 1e-9;
  config.fast_simulations = 8;
  config.temperature_moves = 42;
  double drawn = 0.0;
  double expected = 0.0;
  int plies = 0;
  for (const GameColumns& game : play(config, 40)) {
    for (std::size_t ply = 0; ply < game.action.size(); ++ply, ++plies) {
      const auto weights = weights_at(game, ply);
      for (std::size_t i = 0; i < weights.size(); ++i) {
        const double share = weights[i] / 10'000.0;
        expected += share * share;
        const int action = game.legal_actions[game.offsets[ply] + static_cast<int>(i)];
        if (action == game.action[ply]) drawn += share;
      }
    }
  }
  check_near(drawn / plies, expected / plies, 0.05);
  check(expected / plies > 0.6);
}

// The hash predictor's values are random: a threshold of 0.2 is soon undercut.
void the_loser_resigns() {
  const auto engine = make_self_play("connect_four", 16, small_config(), 3);
  engine->set_resignation(0.05f, 0.25);
  const auto games = play(*engine, 400);
  int plays_on = 0;
  int resigned = 0;
  for (const GameColumns& game : games) {
    check(game.resign_threshold == 0.05f);
    plays_on += game.plays_on;
    bool would_have = false;
    for (std::size_t ply = 1; ply < game.action.size(); ++ply) {
      would_have |= std::max(game.root_value[ply], game.best_child_value[ply]) < 0.05f;
    }
    const auto position = reached_position(FixedRules<ConnectFour>(), game);
    if (game.reason == "resign") {
      ++resigned;
      check(!game.plays_on && !would_have && !position.is_terminal() && !game.action.empty());
      check(*game.result == (position.to_play() == kFirstPlayer ? -1 : 1));
    } else {
      check(position.is_terminal() && *game.result == position.result());
      check(game.plays_on || !would_have);
    }
  }
  check_near(plays_on / 400.0, 0.25, 4 * std::sqrt(0.25 * 0.75 / 400));
  check(resigned > 100);
  const EngineStatistics statistics = engine->statistics();
  check(statistics.games_resigned >= resigned);
  check(statistics.full_searches == statistics.plies);  // a resignation is no ply
  check_throws<std::invalid_argument>([&] { engine->set_resignation(-1.5f, 0.1); });
  check_throws<std::invalid_argument>([&] { engine->set_resignation(0.0f, 1.5); });
}

void nobody_resigns_without_a_threshold() {
  const auto engine = make_self_play("connect_four", 16, small_config(), 3);
  engine->set_resignation(std::nullopt, 0.5);
  int plays_on = 0;
  for (const GameColumns& game : play(*engine, 100)) {
    check(game.reason == "rules" && !game.resign_threshold);
    plays_on += game.plays_on;
  }
  check(plays_on > 25 && plays_on < 75);
}

// Interruptions hit full searches, which last longer: were the draw repeated, few would be left.
void interruptions_do_not_change_the_share() {
  SearchConfig config = small_config();
  config.full_search_share = 0.25;
  std::vector<GameColumns> left;
  int plies = 0;
  int full = 0;
  for (std::uint64_t worker = 0; plies < 6'000; ++worker) {
    const auto engine = make_self_play("connect_four", 32, config, worker);
    HashPredictor predictor(engine->row_shape());
    for (const GameColumns& game : left) engine->adopt(game);
    for (int batch = 0; batch < 60; ++batch) {
      engine->backup(predictor.predict(engine->select(), 1));
      for (const GameColumns& game : engine->take_finished()) {
        plies += static_cast<int>(game.full_search.size());
        full += std::accumulate(game.full_search.begin(), game.full_search.end(), 0);
        check(!game.next_full_search);
      }
    }
    left = engine->unfinished();
  }
  check_near(static_cast<double>(full) / plies, 0.25, 5 * std::sqrt(0.25 * 0.75 / plies));
}

// A game that goes on elsewhere keeps its own threshold.
void an_adopted_game_keeps_its_threshold() {
  const auto first = make_self_play("connect_four", 1, small_config(), 3);
  first->set_resignation(-0.75f, 0.0);
  HashPredictor predictor(first->row_shape());
  while (first->unfinished().empty()) first->backup(predictor.predict(first->select(), 1));
  const auto second = make_self_play("connect_four", 1, small_config(), 4);
  second->set_resignation(0.5f, 1.0);
  second->adopt(first->unfinished().front());
  const auto games = play(*second, 1);
  check(games[0].resign_threshold == -0.75f && !games[0].plays_on);
}

// Whether a game is a restart stays as it was when it began.
void an_adopted_game_stays_a_restart() {
  for (const double share : {0.0, 1.0}) {
    const auto first = make_self_play("connect_four", 1, small_config(), 3);
    first->set_restarts({{3, 3, 2}}, share);
    HashPredictor predictor(first->row_shape());
    const auto plies = [&] {
      const auto unfinished = first->unfinished();
      return unfinished.empty() ? 0 : unfinished.front().plies();
    };
    while (plies() < 4) first->backup(predictor.predict(first->select(), 1));
    const auto second = make_self_play("connect_four", 1, small_config(), 4);
    second->set_restarts({{0, 1}}, 1.0 - share);
    second->adopt(first->unfinished().front());
    check(play(*second, 1)[0].restarted == (share == 1.0));
  }
}

// A game behind virtual calls is the game itself.
void virtual_calls_change_nothing() {
  SearchConfig config = small_config();
  config.full_search_share = 0.5;
  config.forced_playouts = 2.0;
  config.reuse_tree = true;
  config.prove_results = config.decisive_moves = true;
  const FixedRules<Go<5>> rules("go", Go<5>({.komi = 0.5f, .suicide = false, .max_length = 40}));
  SelfPlay<Go<5>> fixed_engine(rules, 8, config, 3);
  SelfPlay<DynamicPosition> dynamic_engine(to_dynamic(rules), 8, config, 3);
  const auto fixed = play(fixed_engine, 20);
  const auto dynamic = play(dynamic_engine, 20);
  for (std::size_t i = 0; i < fixed.size(); ++i) {
    check(fixed[i].game_id == dynamic[i].game_id && fixed[i].action == dynamic[i].action);
    check(fixed[i].visit_counts == dynamic[i].visit_counts);
    check(fixed[i].root_value == dynamic[i].root_value && fixed[i].result == dynamic[i].result);
  }
}

// However much the cache and proofs know; and a call in which nobody asks is no end.
void no_slot_plays_more_plies_than_it_may() {
  SearchConfig config = small_config();
  config.num_simulations = 40;
  config.random_symmetry = false;
  config.dirichlet_fraction = 0.0;
  std::array<std::int64_t, 2> most{};
  for (const bool limited : {false, true}) {
    const auto engine = make_self_play("tic_tac_toe", 1, config, 1);
    if (limited) engine->set_plies_per_select(2);
    HashPredictor predictor(engine->row_shape());
    for (std::size_t finished = 0; finished < 50; finished += engine->take_finished().size()) {
      const std::int64_t before = engine->statistics().plies;
      const auto rows = engine->select();
      most[limited] = std::max(most[limited], engine->statistics().plies - before);
      if (!rows.empty()) engine->backup(predictor.predict(rows, 1));
      for (const auto& [id, plies] : engine->plies_in_play()) {
        const std::vector<GameColumns> games = engine->unfinished();
        check(plies == 0 ? games.empty() : games.at(0).game_id == id);
        check(plies == 0 || games.at(0).action.size() == static_cast<std::size_t>(plies));
      }
    }
  }
  check(most[0] > 2);
  check(most[1] == 2);
}

}  // namespace
}  // namespace zerofleet

int main() {
  using namespace zerofleet;
  return test::run({
      {"share of full searches", a_share_of_moves_is_searched_in_full},
      {"fast searches", fast_searches_do_not_explore},
      {"forced visits", forced_visits_are_made_and_pruned},
      {"moves from all visits", moves_may_be_drawn_from_what_is_pruned},
      {"least visits", least_visits_leave_half_of_the_search},
      {"Gumbel", gumbel_plays_whole_games},
      {"fast Gumbel searches", fast_gumbel_searches_play_by_the_improved_policy},
      {"resignation", the_loser_resigns},
      {"no threshold", nobody_resigns_without_a_threshold},
      {"interruptions", interruptions_do_not_change_the_share},
      {"adopted threshold", an_adopted_game_keeps_its_threshold},
      {"adopted restart", an_adopted_game_stays_a_restart},
      {"plies a call", no_slot_plays_more_plies_than_it_may},
      {"virtual calls", virtual_calls_change_nothing},
  });
}
