// Many games of self-play at once, with one leaf of each in a batch.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "zerofleet/engine.h"
#include "zerofleet/move_choice.h"
#include "zerofleet/prediction_queue.h"
#include "zerofleet/search.h"
#include "zerofleet/tree_counts.h"

namespace zerofleet {

// A move is played when the root's visits, including reused ones, reach the number of its search,
// full or fast. At least one simulation must be new. Each game draws from its own stream of the
// seed.
template <Game G>
class SelfPlay final : public SelfPlayEngine {
 public:
  // `config` must have been checked.
  SelfPlay(const Rules<G>& rules, std::size_t games, const SearchConfig& config, std::uint64_t seed)
      : rules_(rules),
        config_(config),
        puct_(config),
        full_plan_(exploring_plan(config, rules.points())),
        fast_plan_(plain_plan(config, config.simulations_of_fast_search())),
        seed_(seed),
        queue_(rules, config, games),
        slots_(games) {}

  RowShape row_shape() const override { return {rules_.observation_bytes(), rules_.num_actions()}; }

  // Runs every game to its next leaf that needs the network. Games that end make room for new ones.
  // Returns the same rows again until `backup` answers them. Returns none only if no game is in
  // play and none may start, or if every game has played its limit of plies.
  std::span<std::uint8_t> select() override {
    if (queue_.num_rows() == 0) {
      for (std::size_t i = 0; i < slots_.size(); ++i) run_to_question(static_cast<int>(i));
    }
    return queue_.observations();
  }

  void backup(const PredictionBatch& prediction) override {
    queue_.accept(prediction);
    for (int row = 0; row < queue_.num_rows(); ++row) {
      Slot& slot = slots_[queue_.owner(row)];
      expand(slot, queue_.read(prediction, row, slot.leaf));
      if (is_searched(slot)) play_ply(slot);
    }
    queue_.clear();
  }

  // Ids of the games that began here since the last call, in order. One that ended within the same
  // `select` is among them; an adopted one began elsewhere.
  std::vector<std::int64_t> take_begun() override { return std::exchange(begun_, {}); }

  std::vector<GameColumns> take_finished() override { return std::exchange(finished_, {}); }

  // Games with at least one ply, including adopted ones that still wait for a slot.
  std::vector<GameColumns> unfinished() const override {
    std::vector<GameColumns> games;
    for (const Slot& slot : slots_) {
      if (!slot.in_play || slot.game.action.empty()) continue;
      games.push_back(slot.game);
      games.back().next_full_search = slot.full_search;
    }
    games.insert(games.end(), adopted_.begin(), adopted_.end());
    return games;
  }

  // Id and number of plies of each game in a slot; cheaper than `unfinished`.
  std::vector<std::pair<std::int64_t, int>> plies_in_play() const override {
    std::vector<std::pair<std::int64_t, int>> plies;
    for (const Slot& slot : slots_) {
      if (!slot.in_play) continue;
      plies.emplace_back(slot.game.game_id, static_cast<int>(slot.game.action.size()));
    }
    return plies;
  }

  // Queues a game that began elsewhere. The next free slot continues it. Returns its new id.
  std::int64_t adopt(GameColumns game) override {
    if (game.result) throw std::invalid_argument("an adopted game must be unfinished");
    try {
      reached_position(rules_, game);
    } catch (const std::runtime_error& error) {  // rules from outside failed
      throw std::invalid_argument(error.what());
    }
    game.game_id = next_game_id_++;
    adopted_.push_back(std::move(game));
    return adopted_.back().game_id;
  }

  void set_accepting(bool accepting) override { accepting_ = accepting; }

  // Limits the plies that a slot plays in one `select`: the cache and proofs can answer for a whole
  // game at once.
  void set_plies_per_select(int plies) override {
    if (plies < 1) throw std::invalid_argument("plies must be at least 1");
    plies_per_select_ = plies;
  }

  // Applies to games that begin from now on. In a random share of them no player resigns.
  void set_resignation(std::optional<float> threshold, double play_on_share) override {
    if (threshold && !(*threshold >= -1.0f && *threshold <= 1.0f)) {
      throw std::invalid_argument("a resignation threshold must be in [-1, 1]");
    }
    if (!(play_on_share >= 0.0 && play_on_share <= 1.0)) {
      throw std::invalid_argument("play_on_share must be in [0, 1]");
    }
    resign_threshold_ = threshold;
    play_on_share_ = play_on_share;
  }

  // Applies to games that begin from now on. A random share of them begins with the actions of one
  // of these restarts, each as likely. Such games do not count for the resignation threshold.
  void set_restarts(const std::vector<std::vector<int>>& restarts, double share) override {
    if (!(share >= 0.0 && share <= 1.0)) {
      throw std::invalid_argument("the share of restarts must be in [0, 1]");
    }
    std::vector<std::vector<Action>> checked;
    for (const std::vector<int>& actions : restarts) {
      try {
        if (position_after(rules_, std::span<const int>(actions), "").is_terminal()) {
          throw std::invalid_argument("a game cannot begin at a position where it is over");
        }
      } catch (const std::runtime_error& error) {  // rules from outside failed
        throw std::invalid_argument(error.what());
      }
      checked.emplace_back(actions.begin(), actions.end());
    }
    restarts_ = std::move(checked);
    restart_share_ = share;
  }

  EngineStatistics statistics() const override {
    EngineStatistics now = counts_;
    now.positions_evaluated = queue_.positions_evaluated();
    now.cache_hits = queue_.cache_hits();
    add_memory(now, scratch_);
    for (const Slot& slot : slots_) add_tree(now, slot.search.tree());
    return now;
  }

 private:
  struct Slot {
    Search<G> search;
    Leaf<G> leaf;
    GameColumns game;
    Random random{0};
    std::uint64_t symmetry_seed = 0;
    std::vector<Action> opening;    // how the game begins, if it is a fork or a restart
    std::size_t opening_plies = 0;  // drawn, not searched
    double policy_share = 0.0;      // of those plies, drawn by the network's policy
    int new_simulations = 0;        // of the current ply
    int recalled = 0;               // leaves from the cache since the last request
    bool full_search = true;        // of the current ply
    bool in_play = false;
  };

  struct EndedGame {
    std::string start;
    std::vector<Action> actions;
  };

  // The cache answers at most num_simulations leaves of a slot in a row, and none in a call once
  // the slot has played its plies. The next leaf goes to the network, so that a new model is
  // noticed even when the cache knows every position.
  void run_to_question(int index) {
    Slot& slot = slots_[index];
    int plies = 0;
    while (slot.in_play || start_game(slot)) {
      if (!slot.in_play) continue;  // it had ended before it was adopted
      if (is_searched(slot)) {
        if (plies++ == plies_per_select_) return;  // no leaf of it needed the network
        play_ply(slot);
        continue;
      }
      if (slot.search.template select<false>(puct_, slot.leaf) == Selected::kTerminal) {
        count_simulation(slot);
        continue;
      }
      if (plies < plies_per_select_ && slot.recalled++ < config_.num_simulations) {
        if (const auto known = queue_.recall(slot.leaf)) {
          expand(slot, *known);
          continue;
        }
      }
      slot.recalled = 0;
      queue_.ask(slot.leaf, slot.symmetry_seed, index);
      return;
    }
  }

  // Returns false if there is nothing to play.
  bool start_game(Slot& slot) {
    if (!accepting_) return false;
    slot.game = GameColumns();
    if (adopted_.empty()) {
      slot.game.game_id = next_game_id_++;
      begun_.push_back(slot.game.game_id);
    } else {
      slot.game = std::move(adopted_.front());
      adopted_.pop_front();
    }
    slot.random = Random(seed_, static_cast<std::uint64_t>(slot.game.game_id));
    slot.symmetry_seed = slot.random.next();
    const bool plays_on = slot.random.uniform() < play_on_share_;
    if (slot.game.action.empty()) {
      slot.game.resign_threshold = resign_threshold_;
      slot.game.plays_on = plays_on;
    }
    draw_opening(slot);
    if (slot.game.restarted) slot.game.plays_on = false;
    slot.search.set_root(reached_position(rules_, slot.game));
    begin_ply(slot);
    slot.full_search = std::exchange(slot.game.next_full_search, {}).value_or(slot.full_search);
    slot.in_play = true;
    if (slot.search.root().is_terminal()) {
      finish_game(slot, slot.search.root().result(), "rules");
    }
    return true;
  }

  // Self-play that has found a line repeats it, and no longer sees other positions. Openings drawn
  // at random, of any length up to a limit, prevent that. So does a fork, which follows an earlier
  // game up to some ply and then plays one drawn action. A game that begins with neither a
  // restart nor a fork draws its start position, if the rules have several.
  void draw_opening(Slot& slot) const {
    slot.opening.clear();
    slot.opening_plies = 0;
    slot.policy_share = config_.opening_actions == OpeningActions::kPolicy ? 1.0 : 0.0;
    if (!slot.game.action.empty() || !slot.game.start.empty()) return;  // adopted
    slot.game.restarted = false;
    if (!restarts_.empty() && slot.random.uniform() < restart_share_) {
      slot.opening = restarts_[slot.random.below(restarts_.size())];
      slot.opening_plies = slot.opening.size();
      slot.game.restarted = true;
      return;
    }
    if (!recent_.empty() && slot.random.uniform() < config_.fork_share) {
      const auto& [start, earlier] = recent_[slot.random.below(recent_.size())];
      const std::size_t plies = slot.random.below(earlier.size());
      slot.game.start = start;
      slot.opening.assign(earlier.begin(), earlier.begin() + static_cast<std::ptrdiff_t>(plies));
      slot.opening_plies = plies + 1;
      return;
    }
    slot.game.start = rules_.random_start(slot.random);
    const auto most = static_cast<std::uint64_t>(config_.random_opening_plies);
    if (most == 0 || !happens(config_.random_opening_share, slot.random)) return;
    slot.opening_plies = static_cast<std::size_t>(slot.random.below(most + 1));
    if (config_.opening_actions == OpeningActions::kMixed) {
      slot.policy_share = slot.random.uniform();
    }
  }

  // A share of 1 or more takes no random number.
  static bool happens(double share, Random& random) {
    return share >= 1.0 || random.uniform() < share;
  }

  static bool is_in_opening(const Slot& slot) {
    return slot.game.action.size() < slot.opening_plies;
  }

  bool is_searched(const Slot& slot) const {
    if (slot.in_play && is_in_opening(slot)) return slot.search.is_expanded();
    return slot.in_play && slot.new_simulations > 0 &&
           (slot.search.root_visits() >= slot.search.plan().num_simulations ||
            slot.search.is_proven());
  }

  // Playout cap randomization (Wu 2019, arXiv 1902.10565, section 3.1): a full search now and then,
  // fast ones in between.
  void begin_ply(Slot& slot) {
    slot.new_simulations = 0;
    slot.full_search = happens(config_.full_search_share, slot.random) || is_at_restart(slot);
  }

  // The first search of a restart is full, and its player does not resign there: the game measures
  // the regret of the position again.
  static bool is_at_restart(const Slot& slot) {
    return slot.game.restarted && slot.game.action.size() == slot.opening_plies;
  }

  const RootPlan& plan_of(const Slot& slot) const {
    return slot.full_search ? full_plan_ : fast_plan_;
  }

  void expand(Slot& slot, const LeafPrediction<G>& prediction) {
    slot.search.expand(slot.leaf, prediction);
    if (slot.leaf.depth == 0) {
      start_root(slot);
    } else {
      count_simulation(slot);
    }
  }

  void count_simulation(Slot& slot) {
    ++slot.new_simulations;
    ++counts_.simulations;
  }

  void play_ply(Slot& slot) {
    slot.search.policy_weights(puct_, weights_);
    const bool drawn = is_in_opening(slot);
    const int chosen = drawn ? drawn_child(slot) : searched_child(slot);
    PlyResult ply = ply_result(slot.search, chosen, queue_.model_version(), weights_);
    ply.full_search = slot.full_search && !drawn;
    if (!drawn && !is_at_restart(slot) && resigns(slot.game, ply)) {
      finish_game(slot, slot.search.root().to_play() == kFirstPlayer ? -1 : 1, "resign");
      return;
    }
    slot.game.append(ply, ply.full_search);
    ++counts_.plies;
    counts_.full_searches += ply.full_search;
    begin_ply(slot);
    slot.search.play(ply.action, config_.reuse_tree, scratch_);
    if (slot.search.root().is_terminal()) {
      finish_game(slot, slot.search.root().result(), "rules");
    } else if (slot.search.is_expanded()) {
      start_root(slot);
    }
  }

  void start_root(Slot& slot) {
    RootPlan plan = plan_of(slot);
    if (slot.full_search) {
      plan.policy_temperature = config_.root_policy_temperature_at(slot.search.root().ply());
    }
    slot.search.start_root(plan, slot.random);
  }

  int searched_child(Slot& slot) {
    const double temperature = config_.temperature_at(slot.search.root().ply());
    if (config_.play_pruned || config_.root == RootChoice::kGumbel) {
      return slot.search.choose(weights_, temperature, slot.random);
    }
    slot.search.visit_weights(visits_);
    return slot.search.choose(visits_, temperature, slot.random);
  }

  // Draws a child of an opening's position.
  int drawn_child(Slot& slot) const {
    const Tree& tree = slot.search.tree();
    const std::size_t ply = slot.game.action.size();
    const auto children = static_cast<std::ptrdiff_t>(weights_.size());
    if (ply < slot.opening.size()) {
      const auto first = tree.action.begin();
      return static_cast<int>(std::find(first, first + children, slot.opening[ply]) - first);
    }
    if (slot.policy_share <= 0.0 || !happens(slot.policy_share, slot.random)) {
      return static_cast<int>(slot.random.below(weights_.size()));
    }
    double point = slot.random.uniform();
    int child = 0;
    while (child + 1 < children && point >= tree.prior[child]) point -= tree.prior[child++];
    return child;
  }

  // Both the root's value and its best child's must be below the threshold (Silver et al., Nature
  // 2017, Methods, "Self-play"). A game must have at least one ply.
  static bool resigns(const GameColumns& game, const PlyResult& ply) {
    return game.resign_threshold && !game.plays_on && !game.action.empty() &&
           std::max(ply.root_value, ply.best_child_value) < *game.resign_threshold;
  }

  void finish_game(Slot& slot, int result, const char* reason) {
    slot.game.result = result;
    slot.game.reason = reason;
    slot.in_play = false;
    slot.search.set_root(rules_.start());
    counts_.games_resigned += slot.game.reason == "resign";
    if (config_.fork_share > 0.0 && !slot.game.action.empty()) remember(slot.game);
    finished_.push_back(std::move(slot.game));
    ++counts_.games_finished;
  }

  // Keeps as many games as are played at once.
  void remember(const GameColumns& game) {
    if (recent_.size() < slots_.size()) recent_.emplace_back();
    recent_[next_recent_++ % slots_.size()] = {game.start, game.action};
  }

  Rules<G> rules_;
  SearchConfig config_;
  Puct puct_;
  RootPlan full_plan_;
  RootPlan fast_plan_;
  std::uint64_t seed_;
  PredictionQueue<G> queue_;
  std::vector<Slot> slots_;
  std::vector<std::int64_t> begun_;
  std::vector<GameColumns> finished_;
  std::deque<GameColumns> adopted_;
  std::vector<EndedGame> recent_;  // forks copy their first actions
  std::size_t next_recent_ = 0;
  std::vector<std::vector<Action>> restarts_;  // actions that games begin with
  double restart_share_ = 0.0;
  Tree scratch_;
  std::vector<std::int32_t> weights_;  // of the ply being played
  std::vector<std::int32_t> visits_;   // of the same ply
  EngineStatistics counts_;
  std::int64_t next_game_id_ = 0;
  bool accepting_ = true;
  int plies_per_select_ = std::numeric_limits<int>::max();
  std::optional<float> resign_threshold_;
  double play_on_share_ = 0.0;
};

}  // namespace zerofleet
