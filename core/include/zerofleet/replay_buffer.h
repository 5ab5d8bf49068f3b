// The newest games, from which training positions are drawn.
//
// A game is kept as moves and policy weights, a few hundred bytes. A position is rebuilt by
// replaying its game up to its ply. That is cheap next to training, and the same memory holds far
// more games than packed observations would. Only games with slow rules (behind virtual calls) keep
// observations instead.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "zerofleet/games.h"
#include "zerofleet/random.h"
#include "zerofleet/stored_game.h"
#include "zerofleet/training_targets.h"

namespace zerofleet {

// The oldest games leave when either limit is exceeded; the newest game always stays.
struct ReplayLimits {
  std::int64_t max_positions;
  std::int64_t max_games;
};

// A replay buffer whose game is known only at run time. Safe to use from several threads.
class ReplayBuffer {
 public:
  virtual ~ReplayBuffer() = default;
  virtual int observation_bytes() const = 0;
  virtual int num_actions() const = 0;
  virtual int auxiliary_width() const = 0;  // numbers of a row's auxiliary targets

  // Sets another limit on positions. The oldest games leave at once if it is exceeded. Throws
  // std::invalid_argument for a limit below 1.
  virtual void set_max_positions(std::int64_t max_positions) = 0;

  // Stores a game and returns its number of training positions: the plies with a full search.
  // Throws std::invalid_argument, naming ply and reason, if the game does not replay. Also throws
  // it if targets need root values or priors and the game has none.
  virtual int add(const StoredGame& game) = 0;

  virtual std::int64_t positions() const = 0;
  virtual std::int64_t games() const = 0;
  virtual std::int64_t total_positions() const = 0;  // ever added
  virtual std::int64_t total_games() const = 0;      // ever added, with a training position

  // Fills a batch with positions drawn uniformly, with replacement. With `symmetry`, each one gets
  // a random symmetry of the board. The same content and seed give the same batch. Throws
  // std::invalid_argument if the buffer is empty.
  virtual void sample(std::uint64_t seed, bool symmetry, const TrainingBatch& batch) const = 0;

  // Fills a batch with every position, oldest first, as it was played. Throws std::invalid_argument
  // if the batch has another number of rows.
  virtual void read(const TrainingBatch& batch) const = 0;
};

template <Game G>
class ReplayBufferOf final : public ReplayBuffer {
 public:
  ReplayBufferOf(const Rules<G>& rules, ReplayLimits limits, double value_lambda = 1.0,
                 AuxiliaryTargets auxiliary = {})
      : rules_(rules),
        limits_(limits),
        value_lambda_(value_lambda),
        learns_replies_(auxiliary.opponent_policy),
        ending_targets_(rules, auxiliary.final_planes, auxiliary.final_score),
        search_targets_(auxiliary) {
    if (!(value_lambda >= 0.0 && value_lambda <= 1.0)) {
      throw std::invalid_argument("value_lambda must be in [0, 1]");
    }
    if (limits.max_positions < 1) throw std::invalid_argument("max_positions must be at least 1");
    if (limits.max_games < 1) throw std::invalid_argument("max_games must be at least 1");
  }

  int observation_bytes() const override { return rules_.observation_bytes(); }
  int num_actions() const override { return rules_.num_actions(); }
  int auxiliary_width() const override {
    return (learns_replies_ ? num_actions() : 0) + ending_targets_.width() +
           search_targets_.width();
  }

  void set_max_positions(std::int64_t max_positions) override {
    if (max_positions < 1) throw std::invalid_argument("max_positions must be at least 1");
    const std::unique_lock lock(mutex_);
    limits_.max_positions = max_positions;
    drop_oldest();
  }

  int add(const StoredGame& game) override {
    // Check before taking the lock: the rules may be a user's code, which may wait for other
    // threads.
    std::vector<float> returns;  // for each ply; empty if the targets are the result
    if (value_lambda_ < 1.0) {
      if (game.root_value.empty() && !game.action.empty()) {
        throw std::invalid_argument("root_value is missing: value_lambda below 1 needs it");
      }
      returns.assign(game.root_value.begin(), game.root_value.end());
    }
    Ending ending;
    PackedGame stored = checked(game, returns, ending);
    const Searches searches = search_targets_.read(game);
    lambda_returns(returns, value_lambda_, game.result);
    const std::unique_lock lock(mutex_);
    for (std::size_t ply = 0; ply < game.action.size(); ++ply) {
      if (!game.full_search[ply]) continue;
      const float target = returns.empty() ? static_cast<float>(game.result) : returns[ply];
      const auto number = static_cast<std::uint16_t>(stored.positions++);
      positions_.push_back({.value_target = target,
                            .game = static_cast<std::uint32_t>(games_dropped_ + games_.size()),
                            .first_weight = static_cast<std::uint32_t>(stored.weights.size()),
                            .ply = static_cast<std::uint16_t>(ply),
                            .is_answered = is_answered(game, ply, stored, number),
                            .number = number});
      append_scaled(game.policy_weights_at(ply), stored.weights);
      if constexpr (!FixedGame<G>) {
        const auto legal = game.actions_at(ply);
        stored.rows.legal.insert(stored.rows.legal.end(), legal.begin(), legal.end());
        stored.rows.first_legal.push_back(static_cast<std::uint32_t>(stored.rows.legal.size()));
      }
    }
    const int added = stored.positions;
    if (added == 0) return 0;
    if (!game.start.empty()) starts_.emplace(games_dropped_ + games_.size(), game.start);
    games_.push_back(stored.copy(&memory_));
    if (ending_targets_.width() > 0) {
      endings_.push_back({.planes = {ending.planes, &memory_}, .score = ending.score});
    }
    if (search_targets_.needs_searches()) {
      searches_.push_back({.root_values = {searches.root_values, &memory_},
                           .surprises = {searches.surprises, &memory_}});
    }
    total_positions_ += added;
    drop_oldest();
    return added;
  }

  std::int64_t positions() const override {
    const std::shared_lock lock(mutex_);
    return static_cast<std::int64_t>(positions_.size());
  }
  std::int64_t games() const override {
    const std::shared_lock lock(mutex_);
    return static_cast<std::int64_t>(games_.size());
  }
  std::int64_t total_positions() const override {
    const std::shared_lock lock(mutex_);
    return total_positions_;
  }
  std::int64_t total_games() const override {
    const std::shared_lock lock(mutex_);
    return static_cast<std::int64_t>(games_dropped_ + games_.size());
  }

  void sample(std::uint64_t seed, bool symmetry, const TrainingBatch& batch) const override {
    const std::shared_lock lock(mutex_);
    if (positions_.empty()) throw std::invalid_argument("the replay buffer is empty");
    Random random(seed);
    const auto symmetries = static_cast<std::uint64_t>(rules_.num_symmetries());
    for (std::size_t row = 0; row < batch.value_targets.size(); ++row) {
      const PackedPosition& position = positions_[random.below(positions_.size())];
      const int moved = symmetry ? static_cast<int>(random.below(symmetries)) : 0;
      write_row(position, moved, row, batch);
      if (!batch.plies.empty()) write_origin(position, row, batch);
    }
  }

  void read(const TrainingBatch& batch) const override {
    const std::shared_lock lock(mutex_);
    if (batch.value_targets.size() != positions_.size()) {
      throw std::invalid_argument("the batch has another number of rows than the buffer");
    }
    for (std::size_t row = 0; row < positions_.size(); ++row) {
      write_row(positions_[row], 0, row, batch);
      if (!batch.plies.empty()) write_origin(positions_[row], row, batch);
    }
  }

 private:
  // What would have to be replayed; kept for games with slow rules.
  struct Rows {
    std::pmr::vector<std::uint8_t> observations;        // [positions, observation_bytes]
    std::pmr::vector<Player> to_play;                   // [positions]
    std::pmr::vector<Action> legal;                     // of all positions, concatenated
    std::pmr::vector<std::uint32_t> first_legal = {0};  // [positions + 1]

    std::span<const Action> legal_at(std::size_t number) const {
      return std::span(legal).subspan(first_legal[number],
                                      first_legal[number + 1] - first_legal[number]);
    }

    Rows copy(std::pmr::memory_resource* memory) const {
      return {.observations = {observations, memory},
              .to_play = {to_play, memory},
              .legal = {legal, memory},
              .first_legal = {first_legal, memory}};
    }
  };
  struct NoRows {
    NoRows copy(std::pmr::memory_resource*) const { return {}; }
  };

  struct PackedGame {
    std::pmr::vector<std::uint16_t> actions;
    std::pmr::vector<std::uint16_t> weights;  // of the plies with a full search, concatenated
    std::int32_t positions = 0;
    std::int8_t result = 0;  // for the first player
    [[no_unique_address]] std::conditional_t<FixedGame<G>, NoRows, Rows> rows;

    // Drops the vectors' spare capacity, which would be up to half of the buffer's memory.
    PackedGame copy(std::pmr::memory_resource* memory) const {
      return {.actions = {actions, memory},
              .weights = {weights, memory},
              .positions = positions,
              .result = result,
              .rows = rows.copy(memory)};
    }
  };

  struct PackedPosition {
    float value_target;          // for the first player
    std::uint32_t game;          // counted from the first game ever added, modulo 2^32
    std::uint32_t first_weight;  // index in the game's weights
    std::uint16_t ply : 15;      // a record holds no more plies
    std::uint16_t is_answered : 1;
    std::uint16_t number;  // index among the game's positions
  };

  // Checks a game and packs it without its weights. Turns `values` (one per ply, or none) into
  // values for the first player. Fills `ending` with the targets of the game's end. Throws
  // std::invalid_argument if the game does not replay.
  PackedGame checked(const StoredGame& game, std::span<float> values, Ending& ending) const {
    PackedGame stored{.actions = {game.action.begin(), game.action.end()},
                      .weights = {},
                      .result = static_cast<std::int8_t>(game.result),
                      .rows = {}};
    const G end = check_game(rules_, game, [&](std::size_t ply, const G& position) {
      if (!values.empty() && position.to_play() != kFirstPlayer) values[ply] = -values[ply];
      if constexpr (!FixedGame<G>) {
        if (!game.full_search[ply]) return;
        auto& observations = stored.rows.observations;
        const auto bytes = static_cast<std::size_t>(rules_.observation_bytes());
        observations.resize(observations.size() + bytes);
        rules_.write_observation(position, 0, std::span(observations).last(bytes));
        stored.rows.to_play.push_back(position.to_play());
      }
    });
    if (!game.resigned && !game.adjudicated) ending = ending_targets_.read(end);
    return stored;
  }

  // Whether the opponent moves next after the position of this number, with a full search.
  static bool is_answered(const StoredGame& game, std::size_t ply, const PackedGame& stored,
                          std::size_t number) {
    if (ply + 1 == game.action.size() || !game.full_search[ply + 1]) return false;
    if constexpr (FixedGame<G>) {
      return true;
    } else {
      return stored.rows.to_play[number] != stored.rows.to_play[number + 1];
    }
  }

  void drop_oldest() {
    while (games_.size() > 1 &&
           (static_cast<std::int64_t>(positions_.size()) > limits_.max_positions ||
            static_cast<std::int64_t>(games_.size()) > limits_.max_games)) {
      const auto leaving = static_cast<std::ptrdiff_t>(games_.front().positions);
      positions_.erase(positions_.begin(), positions_.begin() + leaving);
      games_.pop_front();
      starts_.erase(games_dropped_);
      if (!endings_.empty()) endings_.pop_front();
      if (!searches_.empty()) searches_.pop_front();
      ++games_dropped_;
    }
  }

  std::size_t place_of(const PackedPosition& stored) const {
    return stored.game - static_cast<std::uint32_t>(games_dropped_);
  }

  // The game's start position; empty: the usual one.
  std::string_view start_of(const PackedPosition& stored) const {
    if (starts_.empty()) return {};
    const auto found = starts_.find(games_dropped_ + place_of(stored));
    return found == starts_.end() ? std::string_view() : std::string_view(found->second);
  }

  void write_row(const PackedPosition& stored, int symmetry, std::size_t row,
                 const TrainingBatch& batch) const {
    const PackedGame& game = games_[place_of(stored)];
    const auto bytes = static_cast<std::size_t>(rules_.observation_bytes());
    const auto observation = batch.observations.subspan(row * bytes, bytes);
    if constexpr (FixedGame<G>) {
      G position = rules_.start_from(start_of(stored));
      for (std::uint16_t ply = 0; ply < stored.ply; ++ply) {
        position.apply(static_cast<Action>(game.actions[ply]));
      }
      rules_.write_observation(position, symmetry, observation);
      const auto actions = position.legal_actions();
      const Player to_play = position.to_play();
      write_targets(stored, {actions.begin(), actions.end()}, to_play, symmetry, row, batch);
      if (batch.auxiliary_targets.empty()) return;
      const auto first_weight = stored.first_weight + static_cast<std::uint32_t>(actions.size());
      position.apply(static_cast<Action>(game.actions[stored.ply]));
      const auto replies = learns_replies_ ? position.legal_actions() : decltype(actions){};
      write_auxiliary(stored, first_weight, {replies.begin(), replies.end()}, to_play, symmetry,
                      row, batch);
    } else {
      const Rows& rows = game.rows;
      rules_.transform_observation(
          std::span(rows.observations).subspan(stored.number * bytes, bytes), symmetry,
          observation);
      // A position's legal actions and its weights begin at the same index.
      const Player to_play = rows.to_play[stored.number];
      write_targets(stored, rows.legal_at(stored.number), to_play, symmetry, row, batch);
      if (batch.auxiliary_targets.empty()) return;
      const std::size_t next = stored.number + std::size_t{stored.is_answered};
      write_auxiliary(stored, rows.first_legal[next], rows.legal_at(next), to_play, symmetry, row,
                      batch);
    }
  }

  void write_targets(const PackedPosition& stored, std::span<const Action> actions, Player to_play,
                     int symmetry, std::size_t row, const TrainingBatch& batch) const {
    write_policy(stored, stored.first_weight, actions, symmetry,
                 batch.policy_targets.data() + row * rules_.num_actions());
    const float sign = to_play == kFirstPlayer ? 1.0f : -1.0f;
    batch.value_targets[row] = sign * stored.value_target;
    const auto result = static_cast<float>(games_[place_of(stored)].result);
    if (!batch.results.empty()) batch.results[row] = sign * result;
  }

  // `policy` has num_actions entries, zeros on entry.
  void write_policy(const PackedPosition& stored, std::size_t first_weight,
                    std::span<const Action> actions, int symmetry, float* policy) const {
    const std::uint16_t* weights = games_[place_of(stored)].weights.data() + first_weight;
    std::int64_t total = 0;
    for (std::size_t i = 0; i < actions.size(); ++i) total += weights[i];
    for (std::size_t i = 0; i < actions.size(); ++i) {
      policy[rules_.symmetric_action(actions[i], symmetry)] =
          static_cast<float>(weights[i]) / static_cast<float>(total);
    }
  }

  // `replies` are the legal actions of the next ply if the position is answered by a full search.
  void write_auxiliary(const PackedPosition& stored, std::size_t first_weight,
                       std::span<const Action> replies, Player to_play, int symmetry,
                       std::size_t row, const TrainingBatch& batch) const {
    const auto width = static_cast<std::size_t>(auxiliary_width());
    const auto targets = batch.auxiliary_targets.subspan(row * width, width);
    const auto ended = static_cast<std::size_t>(ending_targets_.width());
    const auto searched = static_cast<std::size_t>(search_targets_.width());
    const auto policy = targets.first(width - ended - searched);
    std::ranges::fill(policy, stored.is_answered ? 0.0f : kNoTarget);
    if (!policy.empty() && stored.is_answered) {
      write_policy(stored, first_weight, replies, symmetry, policy.data());
    }
    const std::size_t place = place_of(stored);
    if (ended > 0) {
      ending_targets_.write(endings_[place], to_play, symmetry,
                            targets.subspan(policy.size(), ended));
    }
    if (searched == 0) return;
    search_targets_.write(searches_.empty() ? nullptr : &searches_[place], stored.number,
                          games_[place].actions.size() - stored.ply, targets.last(searched));
  }

  void write_origin(const PackedPosition& stored, std::size_t row,
                    const TrainingBatch& batch) const {
    const std::size_t place = place_of(stored);
    batch.plies[row] = stored.ply;
    batch.game_lengths[row] = static_cast<std::int32_t>(games_[place].actions.size());
    batch.game_indices[row] = static_cast<std::int64_t>(games_dropped_ + place);
  }

  Rules<G> rules_;
  ReplayLimits limits_;
  double value_lambda_;
  bool learns_replies_;
  EndingTargets<G> ending_targets_;
  SearchTargets search_targets_;
  mutable std::shared_mutex mutex_;
  // Long-lived data gets large memory blocks of its own. Scattered over the heap among the tensors
  // of the training steps, it would leave holes that no tensor fits in. A process of 400 MB would
  // take 2 GB after an hour.
  std::pmr::unsynchronized_pool_resource memory_;
  std::pmr::deque<PackedGame> games_{&memory_};          // oldest first
  std::pmr::deque<PackedPosition> positions_{&memory_};  // oldest first
  std::pmr::deque<Ending> endings_{&memory_};     // of the games; empty if no target needs them
  std::pmr::deque<Searches> searches_{&memory_};  // of the games; empty if no target needs them
  // Start positions by the number of their game; a game without one began at the usual start.
  std::pmr::unordered_map<std::uint64_t, std::pmr::string> starts_{&memory_};
  std::uint64_t games_dropped_ = 0;
  std::int64_t total_positions_ = 0;
};

// Throws std::invalid_argument for an unknown game, a limit below 1, or a value_lambda (see
// lambda_returns) outside [0, 1].
std::unique_ptr<ReplayBuffer> make_replay_buffer(const std::string& game, ReplayLimits limits,
                                                 double value_lambda = 1.0,
                                                 AuxiliaryTargets auxiliary = {});

}  // namespace zerofleet
