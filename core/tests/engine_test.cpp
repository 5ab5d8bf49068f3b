#include "zerofleet/engine.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "check.h"
#include "hash_predictor.h"
#include "zerofleet/games.h"
#include "zerofleet/tree.h"

namespace zerofleet {
namespace {

using test::check;
using test::check_near;
using test::check_throws;
using test::HashPredictor;

SearchConfig small_config() {
  SearchConfig config;
  config.num_simulations = 24;
  return config;
}

bool is_same_game(const GameColumns& a, const GameColumns& b) {
  return a.action == b.action && a.root_value == b.root_value && a.visit_counts == b.visit_counts &&
         a.priors == b.priors && a.simulations == b.simulations && a.offsets == b.offsets &&
         a.result == b.result;
}

// The first `wanted` games by id.
std::vector<GameColumns> play(SelfPlayEngine& engine, std::size_t wanted) {
  HashPredictor predictor(engine.row_shape());
  std::vector<GameColumns> games;
  std::size_t complete = 0;
  while (complete < wanted) {
    const auto rows = engine.select();
    check(!rows.empty());
    engine.backup(predictor.predict(rows, 1));
    for (GameColumns& game : engine.take_finished()) games.push_back(std::move(game));
    std::sort(games.begin(), games.end(),
              [](const auto& a, const auto& b) { return a.game_id < b.game_id; });
    complete = 0;
    while (complete < games.size() &&
           games[complete].game_id == static_cast<std::int64_t>(complete)) {
      ++complete;
    }
  }
  games.resize(wanted);
  return games;
}

void one_seed_gives_the_same_games() {
  for (const std::string& game : game_names()) {
    const auto config = small_config();
    const auto first = play(*make_self_play(game, 5, config, 11), 12);
    const auto second = play(*make_self_play(game, 5, config, 11), 12);
    const auto other = play(*make_self_play(game, 5, config, 12), 12);
    bool differs = false;
    for (std::size_t i = 0; i < first.size(); ++i) {
      check(is_same_game(first[i], second[i]));
      differs |= !is_same_game(first[i], other[i]);
    }
    check(differs);
  }
}

// Without the cache, which games share, a game does not depend on its neighbours in the batch.
void games_do_not_depend_on_batching() {
  SearchConfig config = small_config();
  config.cache_positions = 0;
  const auto alone = play(*make_self_play("connect_four", 1, config, 11), 6);
  const auto together = play(*make_self_play("connect_four", 4, config, 11), 6);
  for (std::size_t i = 0; i < alone.size(); ++i) check(is_same_game(alone[i], together[i]));
}

void records_are_complete() {
  for (const bool reuse : {false, true}) {
    SearchConfig config = small_config();
    config.reuse_tree = reuse;
    for (const GameColumns& game : play(*make_self_play("tic_tac_toe", 3, config, 1), 10)) {
      game.check_shape();
      check(reached_position(FixedRules<TicTacToe>(), game).is_terminal());
      check(reached_position(FixedRules<TicTacToe>(), game).result() == *game.result);
      for (std::size_t ply = 0; ply < game.action.size(); ++ply) {
        int visits = 0;
        float priors = 0.0f;
        for (int i = game.offsets[ply]; i < game.offsets[ply + 1]; ++i) {
          visits += game.visit_counts[i];
          priors += game.priors[i];
        }
        check(visits == game.simulations[ply] && visits >= config.num_simulations);
        if (!reuse) check(visits == config.num_simulations);
        check_near(priors, 1.0, 2e-3);
        check(std::abs(game.root_value[ply]) <= 1.0f && game.model_version[ply] == 1);
      }
    }
  }
}

void an_adopted_game_goes_on() {
  const auto config = small_config();
  const auto engine = make_self_play("connect_four", 3, config, 5);
  HashPredictor predictor(engine->row_shape());
  while (engine->unfinished().size() < 3) engine->backup(predictor.predict(engine->select(), 4));
  const auto left = engine->unfinished();
  const auto other = make_self_play("connect_four", 2, config, 6);
  for (const GameColumns& game : left) other->adopt(game);
  check(other->unfinished().size() == 3);
  std::size_t found = 0;
  while (found < 3) {
    other->backup(predictor.predict(other->select(), 9));
    for (const GameColumns& game : other->take_finished()) {
      if (game.game_id >= 3) continue;
      const GameColumns& start = left[game.game_id];
      ++found;
      check(std::equal(start.action.begin(), start.action.end(), game.action.begin()));
      check(std::equal(start.visit_counts.begin(), start.visit_counts.end(),
                       game.visit_counts.begin()));
      check(game.model_version.front() == 4 && game.model_version.back() == 9);
    }
  }
  GameColumns wrong = left[0];
  wrong.action[0] = 9;
  check_throws<std::invalid_argument>([&] { other->adopt(wrong); });
  wrong = left[0];
  wrong.priors.pop_back();
  check_throws<std::invalid_argument>([&] { other->adopt(wrong); });
}

void draining_ends_all_games() {
  const auto engine = make_self_play("tic_tac_toe", 4, small_config(), 5);
  HashPredictor predictor(engine->row_shape());
  for (int i = 0; i < 10; ++i) engine->backup(predictor.predict(engine->select(), 1));
  engine->set_accepting(false);
  for (auto rows = engine->select(); !rows.empty(); rows = engine->select()) {
    engine->backup(predictor.predict(rows, 1));
  }
  check(engine->unfinished().empty());
  check(engine->take_finished().size() >= 4);
  check(engine->statistics().nodes == 0);
  engine->backup(predictor.predict({}, 2));
  engine->set_accepting(true);
  check(!engine->select().empty());
}

// Even when every position of the game is known, a call ends with a question.
void a_full_cache_still_asks() {
  const auto engine = make_self_play("tic_tac_toe", 4, small_config(), 5);
  HashPredictor predictor(engine->row_shape());
  for (int i = 0; i < 3000; ++i) {
    const auto rows = engine->select();
    check(rows.size() == 4u * engine->row_shape().observation_bytes);
    engine->backup(predictor.predict(rows, 1));
  }
  const EngineStatistics statistics = engine->statistics();
  check(statistics.cache_hits > 10 * statistics.positions_evaluated);
}

void the_same_rows_come_until_they_are_answered() {
  const auto engine = make_self_play("connect_four", 4, small_config(), 5);
  HashPredictor predictor(engine->row_shape());
  const auto rows = engine->select();
  const std::vector<std::uint8_t> copy(rows.begin(), rows.end());
  check_throws<std::invalid_argument>([&] { engine->backup(predictor.predict({}, 1)); });
  const auto again = engine->select();
  check(std::equal(again.begin(), again.end(), copy.begin(), copy.end()));
}

void unsound_predictions_are_refused() {
  const auto engine = make_self_play("connect_four", 2, small_config(), 5);
  engine->select();
  std::vector<float> logits(14, 0.0f);
  std::vector<float> values(2, 0.0f);
  const auto answer = [&] { engine->backup({std::span<const float>(logits), values, 1}); };
  logits[13] = std::nanf("");
  check_throws<std::invalid_argument>(answer);
  logits[13] = 0.0f;
  values[1] = INFINITY;
  check_throws<std::invalid_argument>(answer);
  values[1] = 1.5f;
  check_throws<std::invalid_argument>(answer);
  const std::vector<std::uint16_t> half(14, 0x7c00);
  values[1] = 0.0f;
  check_throws<std::invalid_argument>(
      [&] { engine->backup({std::span<const std::uint16_t>(half), values, 1}); });
  check(engine->statistics().positions_evaluated == 0);
  answer();
  check(engine->statistics().positions_evaluated == 2);
}

void a_match_swaps_colours() {
  SearchConfig config = small_config();
  config.temperature = 0.0;
  const auto match = make_match("connect_four", {{3}, {2, 4}}, {config, config}, 1);
  std::array<HashPredictor, 2> predictors = {HashPredictor(match->row_shape(), 1),
                                             HashPredictor(match->row_shape(), 2)};
  std::vector<GameColumns> games;
  while (!match->is_done()) {
    for (int side = 0; side < 2; ++side) {
      const auto rows = match->select(side);
      if (!rows.empty()) match->backup(side, predictors[side].predict(rows, 10 + side));
    }
    for (GameColumns& game : match->take_finished()) games.push_back(std::move(game));
  }
  check(games.size() == 4);
  for (const GameColumns& game : games) {
    const std::size_t opening = game.game_id < 2 ? 1 : 2;
    check(game.action[0] == (game.game_id < 2 ? 3 : 2));
    check(reached_position(FixedRules<ConnectFour>(), game).result() == *game.result);
    for (std::size_t ply = 0; ply < game.action.size(); ++ply) {
      const int side = static_cast<int>((ply + game.game_id) % 2);
      check(game.model_version[ply] == 10 + side);
      check(game.simulations[ply] > 0 || ply < opening);
      check(game.full_search[ply] == (ply >= opening));
    }
    for (int entry = 0; entry < game.offsets[opening]; ++entry) {
      check(game.legal_actions[entry] == entry % 7 && game.visit_counts[entry] == 0);
      check(game.priors[entry] == 1.0f / 7);
    }
    check(game.offsets[opening] == 7 * static_cast<int>(opening));
  }
  check_throws<std::invalid_argument>([&] { match->select(2); });
}

void each_side_of_a_match_searches_in_its_own_way() {
  std::array<SearchConfig, 2> configs = {small_config(), small_config()};
  configs[0].num_simulations = 20;
  configs[1].num_simulations = 50;
  const auto match = make_match("connect_four", {{3}, {2, 4}}, configs, 1);
  HashPredictor predictor(match->row_shape());
  int plies = 0;
  while (!match->is_done()) {
    for (int side = 0; side < 2; ++side) {
      const auto rows = match->select(side);
      if (!rows.empty()) match->backup(side, predictor.predict(rows, 1));
    }
    for (const GameColumns& game : match->take_finished()) {
      for (std::size_t ply = game.game_id < 2 ? 1 : 2; ply < game.action.size(); ++ply) {
        const bool second = (ply + game.game_id) % 2 == 1;
        check(game.simulations[ply] == (second ? 50 : 20));
        ++plies;
      }
    }
  }
  check(plies > 4);
  configs[1].num_simulations = 0;
  check_throws<std::invalid_argument>([&] { make_match("connect_four", {{3}}, configs, 1); });
}

void a_position_search_returns_all_virtual_loss() {
  SearchConfig config = small_config();
  config.num_simulations = 200;
  const ActionLists positions = {{}, {3, 3, 2}, {0, 1, 0, 1, 0, 1}, {0, 1, 0, 1, 0, 1, 0}};
  const auto search = make_position_search("connect_four", positions, config, 1,
                                           {.leaves_per_position = 8, .noise = true});
  HashPredictor predictor(search->row_shape());
  while (!search->is_done()) {
    search->backup(predictor.predict(search->select(), 1));
  }
  check(search->select().empty());
  const auto results = search->results();
  check(results.size() == 4);
  for (std::size_t i = 0; i < 3; ++i) {
    int visits = 0;
    for (const int count : results[i].visit_counts) visits += count;
    check(visits == 200 && results[i].simulations == 200);
    for (const float q : results[i].q_values) check(std::isnan(q) || std::abs(q) <= 1.0f);
  }
  check(results[2].best_action == 0 && results[2].root_value > 0.5f);
  check(results[3].actions.empty() && results[3].best_action == -1);
  check(results[3].root_value == -1.0f);
}

void statistics_weigh_the_trees() {
  const auto sound = [](const EngineStatistics& now) {
    check(now.nodes > 4 && now.edges > now.nodes && now.edges <= 7 * now.nodes);
    check(now.node_bytes >= now.nodes * static_cast<std::int64_t>(Tree::kNodeBytes));
    check(now.edge_bytes >= now.edges * static_cast<std::int64_t>(Tree::kEdgeBytes));
  };
  const auto engine = make_self_play("connect_four", 4, small_config(), 5);
  const auto search = make_position_search("connect_four", {{}, {3}}, small_config(), 5, {});
  const auto match = make_match("connect_four", {{3}}, {small_config(), small_config()}, 5);
  HashPredictor predictor(engine->row_shape());
  for (int i = 0; i < 10; ++i) {
    engine->backup(predictor.predict(engine->select(), 1));
    search->backup(predictor.predict(search->select(), 1));
    for (const int side : {0, 1}) match->backup(side, predictor.predict(match->select(side), 1));
  }
  sound(engine->statistics());
  sound(search->statistics());
  sound(match->statistics());
}

void senseless_settings_are_refused() {
  SearchConfig config;
  config.num_simulations = 0;
  check_throws<std::invalid_argument>([&] { make_self_play("connect_four", 1, config, 1); });
  check_throws<std::invalid_argument>([&] { make_self_play("chess", 1, SearchConfig(), 1); });
  check_throws<std::invalid_argument>(
      [&] { make_self_play("connect_four", 0, SearchConfig(), 1); });
  check_throws<std::invalid_argument>([&] { make_match("connect_four", {{7}}, {}, 1); });
  for (const int leaves : {0, 65'536}) {
    check_throws<std::invalid_argument>([&] {
      make_position_search("connect_four", {{}}, SearchConfig(), 1,
                           {.leaves_per_position = leaves});
    });
  }
}

}  // namespace
}  // namespace zerofleet

int main() {
  using namespace zerofleet;
  return test::run({
      {"same seed", one_seed_gives_the_same_games},
      {"batching", games_do_not_depend_on_batching},
      {"records", records_are_complete},
      {"adopt", an_adopted_game_goes_on},
      {"draining", draining_ends_all_games},
      {"full cache", a_full_cache_still_asks},
      {"same rows", the_same_rows_come_until_they_are_answered},
      {"unsound predictions", unsound_predictions_are_refused},
      {"match", a_match_swaps_colours},
      {"match of two searches", each_side_of_a_match_searches_in_its_own_way},
      {"position search", a_position_search_returns_all_virtual_loss},
      {"statistics", statistics_weigh_the_trees},
      {"settings", senseless_settings_are_refused},
  });
}
