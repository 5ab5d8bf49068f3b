// Matches and searches of positions that are given.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "check.h"
#include "hash_predictor.h"
#include "zerofleet/engine.h"
#include "zerofleet/games.h"

namespace zerofleet {
namespace {

using test::check;
using test::check_throws;
using test::HashPredictor;

SearchConfig small_config() {
  SearchConfig config;
  config.num_simulations = 24;
  return config;
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
      check(game.model_version[ply] == (ply < opening ? 0 : 10 + side));
    }
    check(game.offsets[opening] == static_cast<int>(opening));  // one child for each given ply
    check(game.legal_actions[0] == game.action[0] && game.visit_counts[0] == 0);
  }
  check_throws<std::invalid_argument>([&] { match->select(2); });
}

// The actions of all games of a match, one after another.
std::vector<std::int16_t> match_actions(const SearchConfig& config) {
  const auto match = make_match("connect_four", {{3}, {2, 4}, {0, 6, 1}}, {config, config}, 1);
  HashPredictor predictor(match->row_shape());
  std::vector<std::int16_t> actions;
  while (!match->is_done()) {
    for (const int side : {0, 1}) {
      const auto rows = match->select(side);
      if (!rows.empty()) match->backup(side, predictor.predict(rows, 1));
    }
    for (const GameColumns& game : match->take_finished()) {
      actions.insert(actions.end(), game.action.begin(), game.action.end());
    }
  }
  return actions;
}

void only_moves_of_a_puct_root_are_chosen_by_lower_bounds() {
  SearchConfig by_visits = small_config();
  by_visits.temperature = 0.0;
  by_visits.gumbel_scale = 0.0;
  SearchConfig by_bounds = by_visits;
  by_bounds.lcb_stdevs = 5.0;
  check(match_actions(by_bounds) != match_actions(by_visits));
  by_visits.root = by_bounds.root = RootChoice::kGumbel;
  check(match_actions(by_bounds) == match_actions(by_visits));
}

void self_play_never_chooses_by_lower_bounds() {
  SearchConfig config = small_config();
  config.temperature = 0.0;
  config.full_search_share = 0.5;
  const auto played = [&](double stdevs) {
    config.lcb_stdevs = stdevs;
    const auto engine = make_self_play("connect_four", 4, config, 1);
    HashPredictor predictor(engine->row_shape());
    std::vector<std::vector<std::int16_t>> games;
    while (games.size() < 4) {
      engine->backup(predictor.predict(engine->select(), 1));
      for (const GameColumns& game : engine->take_finished()) games.push_back(game.action);
    }
    return games;
  };
  check(played(5.0) == played(0.0));
}

// With equal predictions, no noise and no chance both games of an opening are the same.
void one_model_against_itself_plays_one_game_twice() {
  SearchConfig config = small_config();
  config.temperature = 0.0;
  config.random_symmetry = false;
  const auto match = make_match("tic_tac_toe", {{4}}, {config, config}, 1);
  HashPredictor predictor(match->row_shape());
  std::vector<GameColumns> games;
  while (!match->is_done()) {
    for (const int side : {0, 1}) match->backup(side, predictor.predict(match->select(side), 1));
    for (GameColumns& game : match->take_finished()) games.push_back(std::move(game));
  }
  check(games.size() == 2 && games[0].action == games[1].action);
}

void a_side_of_a_match_may_be_played_from_outside() {
  SearchConfig config = small_config();
  config.temperature = 0.0;
  const auto match = make_match("connect_four", {{3}, {2, 4}}, {config, config}, 1);
  HashPredictor predictor(match->row_shape());
  check_throws<std::invalid_argument>([&] { match->games_to_move(2); });
  check_throws<std::invalid_argument>([&] { match->play(4, 0); });
  check_throws<std::invalid_argument>([&] { match->play(-1, 0); });
  std::vector<GameColumns> games;
  while (!match->is_done()) {
    const auto rows = match->select(0);
    if (!rows.empty()) {
      const auto waiting = match->games_to_move(0);
      check(!waiting.empty());
      check_throws<std::invalid_argument>([&] { match->play(waiting[0].game_id, 0); });
      match->backup(0, predictor.predict(rows, 7));
    }
    for (const GameToMove& game : match->games_to_move(1)) {
      check_throws<std::invalid_argument>([&] { match->play(game.game_id, 7); });
      if (game.game_id == 3 && game.actions.size() > 5) {
        match->resign(3);
        check_throws<std::invalid_argument>([&] { match->resign(3); });
        continue;
      }
      ConnectFour position;
      for (const std::int16_t action : game.actions) position.apply(action);
      int action = 0;
      while (!position.is_legal(action)) ++action;
      match->play(game.game_id, action);
    }
    for (GameColumns& game : match->take_finished()) games.push_back(std::move(game));
  }
  check(games.size() == 4);
  for (const GameColumns& game : games) {
    const auto reached = reached_position(FixedRules<ConnectFour>(), game);
    const bool resigned = game.game_id == 3;
    check(game.reason == (resigned ? "resign" : "rules"));
    check(*game.result ==
          (resigned ? (reached.to_play() == kFirstPlayer ? -1 : 1) : reached.result()));
    for (std::size_t ply = game.game_id < 2 ? 1 : 2; ply < game.action.size(); ++ply) {
      const bool searched = (ply + game.game_id) % 2 == 0;
      check(game.model_version[ply] == (searched ? 7 : 0));
      check((game.simulations[ply] > 0) == searched && game.full_search[ply] == searched);
      check(searched || game.offsets[ply + 1] - game.offsets[ply] == 1);
    }
  }
  check(match->statistics().games_resigned == 1);
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

void know_nothing(PositionSearchEngine& search) {
  const auto width = static_cast<std::size_t>(search.row_shape().observation_bytes);
  const auto actions = static_cast<std::size_t>(search.row_shape().num_actions);
  while (!search.is_done()) {
    const std::size_t rows = search.select().size() / width;
    const std::vector<float> logits(rows * actions);
    const std::vector<float> values(rows);
    search.backup({std::span<const float>(logits), values, 1});
  }
}

// Checks the promises of a result for a Connect Four position that is not over.
void check_result(const SearchResult& result, const std::vector<int>& actions, int simulations) {
  const ConnectFour position =
      position_after(FixedRules<ConnectFour>(), std::span<const int>(actions));
  const auto legal = position.legal_actions();
  check(std::equal(legal.begin(), legal.end(), result.actions.begin(), result.actions.end()));
  int visits = 0;
  int most = 0;
  int visits_of_best = -1;
  for (std::size_t i = 0; i < result.actions.size(); ++i) {
    const int count = result.visit_counts[i];
    visits += count;
    most = std::max(most, count);
    if (result.actions[i] == result.best_action) visits_of_best = count;
    check(count > 0 ? std::abs(result.q_values[i]) <= 1.0f + 1e-6f
                    : std::isnan(result.q_values[i]));
    const std::vector<int>& line = result.principal_variations[i];
    check(line.at(0) == result.actions[i]);
    std::vector<int> whole = actions;
    whole.insert(whole.end(), line.begin(), line.end());
    position_after(FixedRules<ConnectFour>(), std::span<const int>(whole));  // or it throws
  }
  check(visits == simulations && result.simulations == simulations);
  check(visits_of_best == most);
  check(std::abs(result.root_value) <= 1.0f);
}

void a_position_search_returns_all_virtual_loss() {
  const ActionLists positions = {{}, {3, 3, 2}, {0, 1, 0, 1, 0, 1}, {0, 1, 0, 1, 0, 1, 0}};
  Random random(1);
  for (int round = 0; round < 20; ++round) {
    SearchConfig config;
    config.num_simulations = round == 0 ? 200 : 1 + static_cast<int>(random.below(150));
    const int leaves = round == 0 ? 8 : 1 + static_cast<int>(random.below(12));
    const auto search =
        make_position_search("connect_four", positions, config, 1,
                             {.leaves_per_position = leaves, .noise = random.below(2) == 0});
    HashPredictor predictor(search->row_shape());
    while (!search->is_done()) {
      const auto rows = search->select();
      check(rows.size() <= 3u * leaves * search->row_shape().observation_bytes);
      search->backup(predictor.predict(rows, 1));
    }
    check(search->select().empty());
    const auto results = search->results();
    check(results.size() == 4);
    for (std::size_t i = 0; i < 3; ++i) {
      check_result(results[i], positions[i], config.num_simulations);
    }
    if (round == 0) check(results[2].best_action == 0 && results[2].root_value > 0.5f);
    check(results[3].actions.empty() && results[3].best_action == -1);
    check(results[3].root_value == -1.0f && results[3].simulations == 0);
  }
}

void the_win_and_the_block_are_found() {
  SearchConfig config;
  config.num_simulations = 300;
  const auto search = make_position_search("tic_tac_toe", {{0, 3, 1, 4}, {0, 3, 1}}, config, 1, {});
  know_nothing(*search);
  const auto results = search->results();
  check(results[0].best_action == 2 && results[0].root_value > 0.8f);
  check(results[1].best_action == 2);
  const auto& actions = results[1].actions;
  const auto elsewhere = std::find(actions.begin(), actions.end(), 5) - actions.begin();
  check(results[1].principal_variations.at(static_cast<std::size_t>(elsewhere)).at(1) == 2);
}

void results_may_be_read_at_any_time() {
  const auto search =
      make_position_search("tic_tac_toe", {{}}, small_config(), 1, {.leaves_per_position = 3});
  HashPredictor predictor(search->row_shape());
  const auto before = search->results();
  check(before[0].actions.empty() && before[0].best_action == -1 && before[0].simulations == 0);
  int simulations = 0;
  while (!search->is_done()) {
    const auto rows = search->select();
    const SearchResult now = search->results()[0];
    int visits = 0;
    for (const int count : now.visit_counts) visits += count;
    check(visits == now.simulations && visits >= simulations);
    simulations = visits;
    search->backup(predictor.predict(rows, 1));
  }
}

// A search in steps makes the same visits as one in a single go.
void a_search_may_go_on() {
  SearchConfig config = small_config();
  const auto searched = [&](const std::vector<int>& steps, bool proves) {
    config.prove_results = proves;
    config.num_simulations = 120;
    const auto search = make_position_search("connect_four", {{}, {3, 3}}, config, 1, {});
    HashPredictor predictor(search->row_shape());
    for (const int simulations : steps) {
      search->set_simulations(simulations);
      while (!search->is_done()) search->backup(predictor.predict(search->select(), 1));
      check(search->results()[0].simulations == simulations);
    }
    return search->results()[1].visit_counts;
  };
  check(searched({120}, false) == searched({50, 120}, false));
  check(searched({500}, true) == searched({1, 120, 121, 500}, true));
  const auto search = make_position_search("connect_four", {{}}, config, 1, {});
  check_throws<std::invalid_argument>([&] { search->set_simulations(0); });
  config.root = RootChoice::kGumbel;
  const auto gumbel = make_position_search("connect_four", {{}}, config, 1, {});
  check_throws<std::invalid_argument>([&] { gumbel->set_simulations(200); });
}

}  // namespace
}  // namespace zerofleet

int main() {
  using namespace zerofleet;
  return test::run({
      {"match", a_match_swaps_colours},
      {"one model twice", one_model_against_itself_plays_one_game_twice},
      {"lower bounds in matches", only_moves_of_a_puct_root_are_chosen_by_lower_bounds},
      {"no lower bounds in self-play", self_play_never_chooses_by_lower_bounds},
      {"match from outside", a_side_of_a_match_may_be_played_from_outside},
      {"match of two searches", each_side_of_a_match_searches_in_its_own_way},
      {"position search", a_position_search_returns_all_virtual_loss},
      {"win and block", the_win_and_the_block_are_found},
      {"results at any time", results_may_be_read_at_any_time},
      {"a search goes on", a_search_may_go_on},
  });
}
