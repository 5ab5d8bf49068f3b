// The newest games, from which training positions are drawn.
//
// Games are kept as moves and policy weights, a few hundred bytes each; a position is rebuilt by
// playing its game again up to its ply. That is cheap next to training, and the same memory holds
// far more games than packed observations would.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "zerofleet/games.h"
#include "zerofleet/random.h"
#include "zerofleet/recorded_game.h"
#include "zerofleet/symmetry.h"

namespace zerofleet {

// Oldest games leave when either limit is passed; the newest game always stays.
struct ReplayLimits {
  std::int64_t max_positions;
  std::int64_t max_games;
};

// Rows of a training batch, one for each sampled position.
struct TrainingBatch {
  std::span<std::uint8_t> observations;  // [batch, observation_bytes]
  std::span<float> policy_targets;       // [batch, num_actions] zeros on entry
  std::span<float> value_targets;        // [batch] for the player to move
};

// A replay buffer whose game is known only at run time. Safe to use from several threads.
class ReplayBuffer {
 public:
  virtual ~ReplayBuffer() = default;
  virtual int observation_bytes() const = 0;
  virtual int num_actions() const = 0;

  // Another bound on positions; oldest games leave at once when it is passed.
  // Throws std::invalid_argument below 1.
  virtual void set_max_positions(std::int64_t max_positions) = 0;

  // Stores a game; returns its number of training positions, the plies with a full search.
  // Throws std::invalid_argument, naming ply and reason, when the game does not replay.
  virtual int add(const RecordedGame& game) = 0;

  virtual std::int64_t positions() const = 0;
  virtual std::int64_t games() const = 0;
  virtual std::int64_t total_positions() const = 0;  // ever added

  // Fills a batch with positions drawn uniformly, with replacement, each under a random symmetry
  // of the board if asked for. The same content and seed give the same batch.
  // Throws std::invalid_argument when the buffer is empty.
  virtual void sample(std::uint64_t seed, bool symmetry, const TrainingBatch& batch) const = 0;
};

template <Game G>
class ReplayBufferOf final : public ReplayBuffer {
 public:
  explicit ReplayBufferOf(ReplayLimits limits) : limits_(limits) {
    if (limits.max_positions < 1) throw std::invalid_argument("max_positions must be at least 1");
    if (limits.max_games < 1) throw std::invalid_argument("max_games must be at least 1");
  }

  int observation_bytes() const override { return kObservationBytes<G>; }
  int num_actions() const override { return G::kNumActions; }

  void set_max_positions(std::int64_t max_positions) override {
    if (max_positions < 1) throw std::invalid_argument("max_positions must be at least 1");
    const std::unique_lock lock(mutex_);
    limits_.max_positions = max_positions;
    drop_oldest();
  }

  int add(const RecordedGame& game) override {
    check_game<G>(game);
    const std::unique_lock lock(mutex_);
    const std::size_t positions_before = positions_.size();
    StoredGame stored{.actions = {game.actions.begin(), game.actions.end()},
                      .policy_weights = {},
                      .result = static_cast<std::int8_t>(game.result)};
    for (std::size_t ply = 0; ply < game.actions.size(); ++ply) {
      if (!game.full_search[ply]) continue;
      positions_.push_back({.game = static_cast<std::uint32_t>(games_dropped_ + games_.size()),
                            .first_count = static_cast<std::uint32_t>(stored.policy_weights.size()),
                            .ply = static_cast<std::uint16_t>(ply)});
      append_scaled(game.policy_weights_at(ply), stored.policy_weights);
    }
    const std::size_t added = positions_.size() - positions_before;
    if (added == 0) return 0;
    stored.positions = static_cast<std::int32_t>(added);
    games_.push_back(std::move(stored));
    total_positions_ += static_cast<std::int64_t>(added);
    drop_oldest();
    return static_cast<int>(added);
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

  void sample(std::uint64_t seed, bool symmetry, const TrainingBatch& batch) const override {
    const std::shared_lock lock(mutex_);
    if (positions_.empty()) throw std::invalid_argument("the replay buffer is empty");
    Random random(seed);
    for (std::size_t row = 0; row < batch.value_targets.size(); ++row) {
      const StoredPosition& position = positions_[random.below(positions_.size())];
      const int moved = symmetry ? static_cast<int>(random.below(G::kNumSymmetries)) : 0;
      write_row(position, moved, row, batch);
    }
  }

 private:
  using StoredAction = std::conditional_t<(G::kNumActions <= 256), std::uint8_t, std::uint16_t>;

  struct StoredGame {
    std::vector<StoredAction> actions;
    std::vector<std::uint16_t>
        policy_weights;  // of the plies with a full search, one after another
    std::int32_t positions = 0;
    std::int8_t result = 0;
  };

  struct StoredPosition {
    std::uint32_t game;         // counted from the first ever added, modulo 2^32
    std::uint32_t first_count;  // in the game's visit counts
    std::uint16_t ply;
  };

  // Only ratios matter for a policy: counts beyond 16 bits are halved until they fit.
  static void append_scaled(std::span<const std::int32_t> counts,
                            std::vector<std::uint16_t>& scaled) {
    std::int32_t largest = std::ranges::max(counts);
    int shift = 0;
    while (largest >> shift > std::numeric_limits<std::uint16_t>::max()) ++shift;
    for (const std::int32_t count : counts) {
      scaled.push_back(static_cast<std::uint16_t>(count >> shift));
    }
  }

  void drop_oldest() {
    while (games_.size() > 1 &&
           (static_cast<std::int64_t>(positions_.size()) > limits_.max_positions ||
            static_cast<std::int64_t>(games_.size()) > limits_.max_games)) {
      const auto leaving = static_cast<std::ptrdiff_t>(games_.front().positions);
      positions_.erase(positions_.begin(), positions_.begin() + leaving);
      games_.pop_front();
      ++games_dropped_;
    }
  }

  void write_row(const StoredPosition& stored, int symmetry, std::size_t row,
                 const TrainingBatch& batch) const {
    constexpr std::size_t kBytes = kObservationBytes<G>;
    const StoredGame& game = games_[stored.game - static_cast<std::uint32_t>(games_dropped_)];
    G position;
    for (std::uint16_t ply = 0; ply < stored.ply; ++ply) {
      position.apply(static_cast<Action>(game.actions[ply]));
    }
    write_observation(position, symmetry, batch.observations.subspan(row * kBytes, kBytes));

    const auto actions = position.legal_actions();
    const std::uint16_t* counts = game.policy_weights.data() + stored.first_count;
    std::int64_t total = 0;
    for (int i = 0; i < actions.size(); ++i) total += counts[i];
    float* policy = batch.policy_targets.data() + row * G::kNumActions;
    for (int i = 0; i < actions.size(); ++i) {
      policy[Symmetries<G>::action[symmetry][actions[i]]] =
          static_cast<float>(counts[i]) / static_cast<float>(total);
    }
    const int sign = position.to_play() == kFirstPlayer ? 1 : -1;
    batch.value_targets[row] = static_cast<float>(sign * game.result);
  }

  ReplayLimits limits_;
  mutable std::shared_mutex mutex_;
  std::deque<StoredGame> games_;          // oldest first
  std::deque<StoredPosition> positions_;  // oldest first
  std::uint64_t games_dropped_ = 0;
  std::int64_t total_positions_ = 0;
};

// Throws std::invalid_argument for an unknown game or a limit below 1.
inline std::unique_ptr<ReplayBuffer> make_replay_buffer(std::string_view game,
                                                        ReplayLimits limits) {
  return visit_game(game, [limits](auto type) -> std::unique_ptr<ReplayBuffer> {
    return std::make_unique<ReplayBufferOf<typename decltype(type)::type>>(limits);
  });
}

}  // namespace zerofleet
