#include "zerofleet/engine.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
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

// All games, finished or not, after this many rounds: games of Go are long.
std::vector<GameColumns> after_rounds(SelfPlayEngine& engine, int rounds) {
  HashPredictor predictor(engine.row_shape());
  for (int i = 0; i < rounds; ++i) engine.backup(predictor.predict(engine.select(), 1));
  std::vector<GameColumns> games = engine.take_finished();
  for (GameColumns& game : engine.unfinished()) games.push_back(std::move(game));
  return games;
}

void one_seed_gives_the_same_games() {
  for (const std::string& game : game_names()) {
    const auto config = small_config();
    const auto first = after_rounds(*make_self_play(game, 5, config, 11), 300);
    const auto second = after_rounds(*make_self_play(game, 5, config, 11), 300);
    const auto other = after_rounds(*make_self_play(game, 5, config, 12), 300);
    check(std::equal(first.begin(), first.end(), second.begin(), second.end(), is_same_game));
    check(!std::equal(first.begin(), first.end(), other.begin(), other.end(), is_same_game));
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

SearchConfig random_config(Random& random) {
  SearchConfig config;
  config.num_simulations = 1 + static_cast<int>(random.below(30));
  config.fpu = random.below(2) == 0 ? Fpu::kZero : Fpu::kReduction;
  config.reuse_tree = random.below(2) == 0;
  config.cache_positions = std::array{0, 3, 5000}[random.below(3)];
  config.random_symmetry = random.below(2) == 0;
  config.temperature = std::array{0.0, 0.5, 1.0}[random.below(3)];
  return config;
}

// The record replays, and its columns agree with each other and with what the search promises.
template <Game G>
void check_record(const GameColumns& game, const SearchConfig& config) {
  game.check_shape();
  G position;
  for (std::size_t ply = 0; ply < game.action.size(); ++ply) {
    const auto legal = position.legal_actions();
    const auto first = game.legal_actions.begin() + game.offsets[ply];
    const auto last = game.legal_actions.begin() + game.offsets[ply + 1];
    check(std::equal(legal.begin(), legal.end(), first, last));
    int visits = 0;
    float priors = 0.0f;
    for (int i = game.offsets[ply]; i < game.offsets[ply + 1]; ++i) {
      visits += game.visit_counts[i];
      priors += game.priors[i];
      if (game.legal_actions[i] == game.action[ply]) check(game.visit_counts[i] > 0);
    }
    check(visits == game.simulations[ply] && visits >= config.num_simulations);
    if (!config.reuse_tree) check(visits == config.num_simulations);
    check_near(priors, 1.0, 2e-3);
    check(std::abs(game.root_value[ply]) <= 1.0f && std::abs(game.network_value[ply]) <= 1.0f);
    check(game.full_search[ply]);
    position.apply(game.action[ply]);
  }
  check(position.is_terminal() && position.result() == *game.result && game.reason == "rules");
}

template <Game G>
void records_are_complete() {
  Random random(3);
  for (int round = 0; round < 20; ++round) {
    const SearchConfig config = random_config(random);
    const int count = 1 + static_cast<int>(random.below(6));
    const auto engine = make_self_play(std::string(G::kName), count, config, random.below(1'000));
    for (const GameColumns& game : play(*engine, 2)) check_record<G>(game, config);
    const EngineStatistics now = engine->statistics();
    check(now.games_finished >= 2);
    check(now.positions_evaluated <= now.simulations + now.plies + count);
    check(now.nodes <= count * (config.num_simulations + 1));
    if (config.cache_positions == 0) check(now.cache_hits == 0);
  }
}

void kept_visits_count() {
  std::array<double, 2> simulations_per_ply{};
  for (const bool reuse : {false, true}) {
    SearchConfig config = small_config();
    config.num_simulations = 60;
    config.cache_positions = 0;
    config.reuse_tree = reuse;
    const auto engine = make_self_play("connect_four", 4, config, 1);
    play(*engine, 6);
    const EngineStatistics now = engine->statistics();
    simulations_per_ply[reuse] = static_cast<double>(now.simulations) / now.plies;
  }
  check(simulations_per_ply[false] >= 60);
  check(simulations_per_ply[true] < 0.9 * simulations_per_ply[false]);
}

void the_cache_answers_until_the_model_changes() {
  SearchConfig config = small_config();
  config.num_simulations = 8;
  config.random_symmetry = false;
  config.dirichlet_fraction = 0.0;
  const auto engine = make_self_play("tic_tac_toe", 1, config, 1);
  HashPredictor predictor(engine->row_shape());
  const auto rows = engine->select();
  const std::vector<std::uint8_t> start(rows.begin(), rows.end());
  const auto starts_asked = [&](int model_version) {
    int asked = 0;
    for (std::size_t finished = 0; finished < 5; finished += engine->take_finished().size()) {
      const auto asking = engine->select();
      asked += std::equal(asking.begin(), asking.end(), start.begin(), start.end());
      engine->backup(predictor.predict(asking, model_version));
    }
    return asked;
  };
  check(starts_asked(1) == 1);
  check(starts_asked(1) == 0);
  check(starts_asked(2) == 1);
  check(engine->statistics().cache_hits > 0);
}

void model_versions_are_of_the_latest_answer() {
  SearchConfig config = small_config();
  config.num_simulations = 6;
  config.cache_positions = 0;
  config.reuse_tree = false;
  const auto engine = make_self_play("connect_four", 2, config, 1);
  HashPredictor predictor(engine->row_shape());
  std::vector<GameColumns> finished;
  int version = 0;
  while (finished.empty()) {
    engine->backup(predictor.predict(engine->select(), ++version));
    finished = engine->take_finished();
  }
  for (const GameColumns& game : finished) {
    const auto& versions = game.model_version;
    check(versions.front() >= 6);
    check(std::adjacent_find(versions.begin(), versions.end(), std::greater_equal<>()) ==
          versions.end());
    // The last visits may need no network.
    check(version - 1 <= versions.back() && versions.back() <= version);
  }
}

// Between the question and the answer, too, when a worker that is told to go saves its games.
void saving_loses_no_ply() {
  SearchConfig config = small_config();
  config.num_simulations = 4;
  const auto engine = make_self_play("tic_tac_toe", 3, config, 1);
  HashPredictor predictor(engine->row_shape());
  std::size_t finished = 0;
  for (int i = 0; i < 60; ++i) {
    const auto rows = engine->select();
    for (const GameColumns& game : engine->take_finished()) finished += game.action.size();
    std::size_t in_play = 0;
    for (const GameColumns& game : engine->unfinished()) {
      check(!game.result);
      in_play += game.action.size();
    }
    check(static_cast<std::int64_t>(finished + in_play) == engine->statistics().plies);
    engine->backup(predictor.predict(rows, 1));
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
  const auto adopted = other->unfinished();
  check(adopted.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) check(is_same_game(adopted[i], left[i]));
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
      check_record<ConnectFour>(game, config);
      for (std::size_t ply = 0; ply < game.action.size(); ++ply) {
        check(game.model_version[ply] == (ply < start.action.size() ? 4 : 9));
      }
    }
  }
  GameColumns wrong = left[0];
  wrong.result = 1;
  check_throws<std::invalid_argument>([&] { other->adopt(wrong); });
  wrong = left[0];
  wrong.action[0] = 9;
  check_throws<std::invalid_argument>([&] { other->adopt(wrong); });
  wrong = left[0];
  wrong.priors.pop_back();
  check_throws<std::invalid_argument>([&] { other->adopt(wrong); });
}

// Each game that began here is told once, in order, before its record is; adopted ones are not.
void the_games_that_began_are_told() {
  const auto config = small_config();
  const auto engine = make_self_play("tic_tac_toe", 3, config, 5);
  HashPredictor predictor(engine->row_shape());
  check(engine->take_begun().empty());
  engine->backup(predictor.predict(engine->select(), 1));
  check(engine->take_begun() == std::vector<std::int64_t>{0, 1, 2});
  check(engine->take_begun().empty());
  while (engine->unfinished().empty()) engine->backup(predictor.predict(engine->select(), 1));
  const std::int64_t adopted = engine->adopt(engine->unfinished()[0]);
  check(adopted == 3);
  std::vector<std::int64_t> begun = {0, 1, 2};
  bool was_adopted_played = false;
  for (std::size_t finished = 0; finished < 200;) {
    engine->backup(predictor.predict(engine->select(), 1));  // later ones come from the cache
    for (const std::int64_t id : engine->take_begun()) begun.push_back(id);
    for (const GameColumns& game : engine->take_finished()) {
      ++finished;
      was_adopted_played |= game.game_id == adopted;
      check(game.game_id == adopted || std::ranges::count(begun, game.game_id) == 1);
    }
  }
  check(was_adopted_played && std::ranges::count(begun, adopted) == 0);
  check(std::ranges::is_sorted(begun));
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
  const auto finished = engine->take_finished();
  const EngineStatistics statistics = engine->statistics();
  check(finished.size() >= 4 && static_cast<int>(finished.size()) == statistics.games_finished);
  check(statistics.nodes == 0);
  engine->backup(predictor.predict({}, 2));
  engine->set_accepting(true);
  check(engine->select().size() == 4u * engine->row_shape().observation_bytes);
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
  check_throws<std::invalid_argument>([&] { make_self_play("checkers", 1, SearchConfig(), 1); });
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
      {"records, tic-tac-toe", records_are_complete<TicTacToe>},
      {"records, Connect Four", records_are_complete<ConnectFour>},
      {"kept visits", kept_visits_count},
      {"cache", the_cache_answers_until_the_model_changes},
      {"model versions", model_versions_are_of_the_latest_answer},
      {"saving", saving_loses_no_ply},
      {"adopt", an_adopted_game_goes_on},
      {"begun", the_games_that_began_are_told},
      {"draining", draining_ends_all_games},
      {"full cache", a_full_cache_still_asks},
      {"same rows", the_same_rows_come_until_they_are_answered},
      {"unsound predictions", unsound_predictions_are_refused},
      {"statistics", statistics_weigh_the_trees},
      {"settings", senseless_settings_are_refused},
  });
}
