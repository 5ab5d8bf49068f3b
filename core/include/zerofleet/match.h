// Games between two players: every opening is played twice, with colours swapped.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "zerofleet/engine.h"
#include "zerofleet/move_choice.h"
#include "zerofleet/prediction_queue.h"
#include "zerofleet/replay_moves.h"
#include "zerofleet/search.h"
#include "zerofleet/tree_counts.h"

namespace zerofleet {

// Opening k gives game 2k, where side 0 (the candidate) is the first player, and game 2k + 1, where
// it is the second. Each side searches its own tree with its own predictions and its own
// configuration, without noise. A side without a predictor, such as another program, never gets a
// `select`. Its actions come through `play`, for the games in `games_to_move`.
template <Game G>
class Match final : public MatchEngine {
 public:
  // `configs`, by side, and the number of `starts` must have been checked.
  Match(const Rules<G>& rules, const ActionLists& openings,
        const std::array<SearchConfig, 2>& configs, std::uint64_t seed, const Starts& starts = {})
      : rules_(rules),
        ways_{Way(rules, configs[0], 2 * openings.size()),
              Way(rules, configs[1], 2 * openings.size())} {
    games_.reserve(2 * openings.size());
    for (std::size_t i = 0; i < openings.size(); ++i) {
      for (int swap = 0; swap < 2; ++swap) start_game(openings[i], start_at(starts, i), seed);
    }
  }

  RowShape row_shape() const override { return {rules_.observation_bytes(), rules_.num_actions()}; }

  // Runs the games in which this side moves to their next leaf that needs its predictor. Returns
  // the same rows again until `backup` answers them, and none while the side needs no prediction.
  std::span<std::uint8_t> select(int side) override {
    PredictionQueue<G>& queue = way_of(side).queue;
    if (queue.num_rows() == 0) {
      for (std::size_t i = 0; i < games_.size(); ++i) run_to_question(side, static_cast<int>(i));
    }
    return queue.observations();
  }

  void backup(int side, const PredictionBatch& prediction) override {
    PredictionQueue<G>& queue = way_of(side).queue;
    queue.accept(prediction);
    for (int row = 0; row < queue.num_rows(); ++row) {
      MatchGame& game = games_[queue.owner(row)];
      expand(game, side, queue.read(prediction, row, game.leaf));
      if (is_searched(game, side)) play_ply(game, side);
    }
    queue.clear();
  }

  // The games in which this side moves.
  std::vector<GameToMove> games_to_move(int side) const override {
    check_side(side);
    std::vector<GameToMove> found;
    for (const MatchGame& game : games_) {
      if (game.in_play && side_to_move(game) == side) {
        found.push_back({game.columns.game_id, game.columns.action});
      }
    }
    return found;
  }

  // Plays an action that was not searched here, for the side to move.
  void play(std::int64_t game_id, int action) override {
    MatchGame& game = unasked_game(game_id);
    G position = game.searches[0].root();
    apply_checked(rules_, position, action);
    append_given(game, static_cast<Action>(action), game.searches[0].root().to_play());
    ++counts_.plies;
    move_on(game, static_cast<Action>(action));
  }

  // Resigns a game for the side to move, which loses it.
  void resign(std::int64_t game_id) override {
    MatchGame& game = unasked_game(game_id);
    game.columns.reason = "resign";
    finish_game(game, game.searches[0].root().to_play() == kFirstPlayer ? -1 : 1);
    ++counts_.games_resigned;
  }

  std::vector<GameColumns> take_finished() override { return std::exchange(finished_, {}); }

  bool is_done() const override {
    return counts_.games_finished == static_cast<std::int64_t>(games_.size());
  }

  EngineStatistics statistics() const override {
    EngineStatistics now = counts_;
    add_memory(now, scratch_);
    for (const Way& way : ways_) {
      now.positions_evaluated += way.queue.positions_evaluated();
      now.cache_hits += way.queue.cache_hits();
    }
    for (const MatchGame& game : games_) {
      for (const Search<G>& search : game.searches) add_tree(now, search.tree());
    }
    return now;
  }

 private:
  // How one side searches, and its pending predictions.
  struct Way {
    Way(const Rules<G>& rules, const SearchConfig& searched, std::size_t games)
        : config(searched),
          puct(searched),
          plan(playing_plan(searched)),
          queue(rules, searched, games) {}

    SearchConfig config;
    Puct puct;
    RootPlan plan;
    PredictionQueue<G> queue;
  };

  struct MatchGame {
    std::array<Search<G>, 2> searches;  // by side
    Leaf<G> leaf;                       // of the side to move
    GameColumns columns;
    Random random{0};
    std::uint64_t symmetry_seed = 0;
    int new_simulations = 0;  // at the current ply
    bool in_play = true;
  };

  static void check_side(int side) {
    if (side != 0 && side != 1) {
      throw std::invalid_argument("side must be 0 or 1, not " + std::to_string(side));
    }
  }

  Way& way_of(int side) {
    check_side(side);
    return ways_[side];
  }

  // Returns a game in play that waits for no prediction, so that it may be given a move.
  MatchGame& unasked_game(std::int64_t game_id) {
    const bool exists = game_id >= 0 && game_id < static_cast<std::int64_t>(games_.size());
    if (!exists || !games_[game_id].in_play) {
      throw std::invalid_argument("game " + std::to_string(game_id) + " is not in play");
    }
    MatchGame& game = games_[game_id];
    const PredictionQueue<G>& queue = ways_[side_to_move(game)].queue;
    for (int row = 0; row < queue.num_rows(); ++row) {
      if (queue.owner(row) == game_id) {
        throw std::invalid_argument("game " + std::to_string(game_id) +
                                    " is waiting for a prediction");
      }
    }
    return game;
  }

  // Appends a ply that was given. Its table lists its action alone, unvisited.
  static void append_given(MatchGame& game, Action action, Player to_play) {
    constexpr std::int32_t kUnvisited = 0;
    constexpr float kCertain = 1.0f;
    game.columns.append({.action = action,
                         .to_play = to_play,
                         .legal_actions = {&action, 1},
                         .visit_counts = {&kUnvisited, 1},
                         .priors = {&kCertain, 1},
                         .policy_weights = {&kUnvisited, 1}},
                        true);
  }

  void start_game(const std::vector<int>& opening, const std::string& start, std::uint64_t seed) {
    MatchGame& game = games_.emplace_back();
    game.columns.game_id = static_cast<std::int64_t>(games_.size()) - 1;
    game.random = Random(seed, static_cast<std::uint64_t>(game.columns.game_id));
    game.symmetry_seed = game.random.next();
    game.columns.start = start;
    const G position = position_after(rules_, std::span<const int>(opening), start);
    G shown = rules_.start_from(start);
    for (const int action : opening) {
      append_given(game, static_cast<Action>(action), shown.to_play());
      shown.apply(static_cast<Action>(action));
    }
    for (Search<G>& search : game.searches) search.set_root(position);
    if (position.is_terminal()) finish_game(game, position.result());
  }

  static int side_to_move(const MatchGame& game) {
    const bool swapped = game.columns.game_id % 2 == 1;
    return static_cast<int>(game.searches[0].root().to_play()) ^ static_cast<int>(swapped);
  }

  void run_to_question(int side, int index) {
    MatchGame& game = games_[index];
    while (game.in_play && side_to_move(game) == side) {
      if (is_searched(game, side)) {
        play_ply(game, side);
      } else if (game.searches[side].template select<false>(ways_[side].puct, game.leaf) ==
                 Selected::kTerminal) {
        count_simulation(game);
      } else if (const auto known = ways_[side].queue.recall(game.leaf)) {
        expand(game, side, *known);
      } else {
        ways_[side].queue.ask(game.leaf, game.symmetry_seed, index);
        return;
      }
    }
  }

  bool is_searched(const MatchGame& game, int side) const {
    const Search<G>& search = game.searches[side];
    return game.new_simulations > 0 &&
           (search.root_visits() >= ways_[side].config.num_simulations || search.is_proven());
  }

  void expand(MatchGame& game, int side, const LeafPrediction<G>& prediction) {
    game.searches[side].expand(game.leaf, prediction);
    if (game.leaf.depth == 0) {
      game.searches[side].start_root(ways_[side].plan, game.random);
    } else {
      count_simulation(game);
    }
  }

  void count_simulation(MatchGame& game) {
    ++game.new_simulations;
    ++counts_.simulations;
  }

  void play_ply(MatchGame& game, int side) {
    const Search<G>& mover = game.searches[side];
    const Way& way = ways_[side];
    mover.policy_weights(way.puct, weights_);
    const double temperature = way.config.temperature_at(mover.root().ply());
    const int chosen = mover.choose(weights_, temperature, game.random);
    const PlyResult ply = ply_result(mover, chosen, way.queue.model_version(), weights_);
    game.columns.append(ply, true);
    ++counts_.plies;
    move_on(game, ply.action);
  }

  void move_on(MatchGame& game, Action action) {
    game.new_simulations = 0;
    for (int each = 0; each < 2; ++each) {
      Search<G>& search = game.searches[each];
      search.play(action, ways_[each].config.reuse_tree, scratch_);
      if (search.is_expanded()) search.start_root(ways_[each].plan, game.random);
    }
    const G& position = game.searches[0].root();
    if (position.is_terminal()) finish_game(game, position.result());
  }

  void finish_game(MatchGame& game, int result) {
    game.columns.result = result;
    game.in_play = false;
    game.searches = {};  // frees their memory
    finished_.push_back(std::move(game.columns));
    ++counts_.games_finished;
  }

  Rules<G> rules_;
  std::array<Way, 2> ways_;            // by side
  std::vector<std::int32_t> weights_;  // of the ply being played
  std::vector<MatchGame> games_;
  std::vector<GameColumns> finished_;
  Tree scratch_;
  EngineStatistics counts_;
};

}  // namespace zerofleet
