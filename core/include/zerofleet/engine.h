// The engines without their game. Virtual calls happen here, once per batch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "zerofleet/game_columns.h"
#include "zerofleet/prediction.h"
#include "zerofleet/search_config.h"

namespace zerofleet {

// Counts since the engine was created. The sizes of trees are current ones.
struct EngineStatistics {
  std::int64_t simulations = 0;  // new ones; those kept from the previous move do not count again
  std::int64_t positions_evaluated = 0;  // rows that the network evaluated
  std::int64_t cache_hits = 0;
  std::int64_t plies = 0;
  std::int64_t full_searches = 0;  // among the plies of self-play
  std::int64_t games_finished = 0;
  std::int64_t games_resigned = 0;
  std::int64_t nodes = 0;       // in all trees
  std::int64_t edges = 0;       // in all trees
  std::int64_t node_bytes = 0;  // memory of all trees' nodes, used or not, including scratch
  std::int64_t edge_bytes = 0;  // memory of all trees' edges, in the same way
};

// Sizes of an engine's observations and predictions.
struct RowShape {
  int observation_bytes;
  int num_actions;
};

// Plays many games against itself, without end.
class SelfPlayEngine {
 public:
  virtual ~SelfPlayEngine() = default;
  virtual RowShape row_shape() const = 0;
  virtual std::span<std::uint8_t> select() = 0;
  virtual void backup(const PredictionBatch& prediction) = 0;
  virtual std::vector<std::int64_t> take_begun() = 0;
  virtual std::vector<GameColumns> take_finished() = 0;
  virtual std::vector<GameColumns> unfinished() const = 0;
  virtual std::vector<std::pair<std::int64_t, int>> plies_in_play() const = 0;
  virtual std::int64_t adopt(GameColumns game) = 0;
  virtual void set_accepting(bool accepting) = 0;
  virtual void set_plies_per_select(int plies) = 0;
  virtual void set_resignation(std::optional<float> threshold, double play_on_share) = 0;
  virtual void set_restarts(const std::vector<std::vector<int>>& restarts, double share) = 0;
  virtual EngineStatistics statistics() const = 0;
};

// A game of a match in which one side is to move.
struct GameToMove {
  std::int64_t game_id = 0;
  std::vector<std::int16_t> actions;  // played so far
};

// Plays a fixed list of games between two players: side 0, the candidate, and side 1, the best.
class MatchEngine {
 public:
  virtual ~MatchEngine() = default;
  virtual RowShape row_shape() const = 0;
  virtual std::span<std::uint8_t> select(int side) = 0;
  virtual void backup(int side, const PredictionBatch& prediction) = 0;
  virtual std::vector<GameToMove> games_to_move(int side) const = 0;
  virtual void play(std::int64_t game_id, int action) = 0;
  virtual void resign(std::int64_t game_id) = 0;
  virtual std::vector<GameColumns> take_finished() = 0;
  virtual bool is_done() const = 0;
  virtual EngineStatistics statistics() const = 0;
};

// Result of the search of one position. Values are for the player to move there.
struct SearchResult {
  std::vector<std::int16_t> actions;       // every legal one; empty before the first prediction
  std::vector<std::int32_t> visit_counts;  // parallel to actions, as all columns below
  std::vector<float> priors;               // the network's, without noise
  std::vector<float> q_values;             // NaN for an action without visits
  std::vector<std::vector<int>> principal_variations;  // each starts with its action
  float root_value = 0.0f;     // after the search; exact when the position is terminal
  float network_value = 0.0f;  // before the search
  int simulations = 0;
  int best_action = -1;  // at temperature 0; -1 while there are no actions
};

// Searches a fixed list of positions.
class PositionSearchEngine {
 public:
  virtual ~PositionSearchEngine() = default;
  virtual RowShape row_shape() const = 0;
  virtual std::span<std::uint8_t> select() = 0;
  virtual void backup(const PredictionBatch& prediction) = 0;
  virtual bool is_done() const = 0;
  virtual void set_simulations(int simulations) = 0;
  virtual std::vector<SearchResult> results() const = 0;
  virtual EngineStatistics statistics() const = 0;
};

using ActionLists = std::vector<std::vector<int>>;

struct PositionSearchOptions {
  int leaves_per_position = 1;  // in flight at once; more than 1 needs virtual loss
  bool noise = false;           // in the root's priors, as in self-play
  // For each position the actions to search at its root, as if no others were legal. An empty list,
  // or no list at all, is every legal action.
  ActionLists root_actions = {};
};

// Start positions, one for each action list; none at all: every game begins at the usual start.
using Starts = std::vector<std::string>;

inline std::string start_at(const Starts& starts, std::size_t index) {
  return starts.empty() ? std::string() : starts[index];
}

// Throws std::invalid_argument unless there are no starts or as many as action lists.
inline void check_starts(const Starts& starts, const ActionLists& lists) {
  if (starts.empty() || starts.size() == lists.size()) return;
  throw std::invalid_argument("there are " + std::to_string(starts.size()) + " starts for " +
                              std::to_string(lists.size()) + " positions");
}

// Each function throws std::invalid_argument for an unknown game, an invalid configuration, a wrong
// start position or an illegal action.
std::unique_ptr<SelfPlayEngine> make_self_play(const std::string& game, int games,
                                               const SearchConfig& config, std::uint64_t seed);
std::unique_ptr<MatchEngine> make_match(const std::string& game, const ActionLists& openings,
                                        const std::array<SearchConfig, 2>& configs,
                                        std::uint64_t seed, const Starts& starts = {});
std::unique_ptr<PositionSearchEngine> make_position_search(
    const std::string& game, const ActionLists& positions, const SearchConfig& config,
    std::uint64_t seed, const PositionSearchOptions& options, const Starts& starts = {});

}  // namespace zerofleet
