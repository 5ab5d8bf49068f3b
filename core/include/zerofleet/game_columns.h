// The record of one game as columns, with a row for each ply.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "zerofleet/game.h"
#include "zerofleet/move_choice.h"
#include "zerofleet/replay_moves.h"
#include "zerofleet/tree.h"

namespace zerofleet {

// The columns of a game record: element type, name and meaning. Columns with an entry for each ply
// come first, then columns with an entry for each legal action of a ply.
//
// All code that handles columns is made from this list: the two structs below, the checks and the
// binding. Through the binding it also defines the digest, the JSON and the trainer's page in
// Python (`zerofleet.records.COLUMNS`). The database has columns of the same names.
#define ZEROFLEET_PLY_COLUMNS(COLUMN)                                                \
  COLUMN(Action, action, "action played")                                            \
  COLUMN(Player, to_play, "player who moved: 0 first, 1 second; not always in turn") \
  COLUMN(std::int32_t, model_version, "latest model when the action was chosen")     \
  COLUMN(float, root_value, "value after search")                                    \
  COLUMN(float, network_value, "value before search")                                \
  COLUMN(float, best_child_value, "value of the best child at temperature 0")        \
  COLUMN(std::int32_t, simulations, "visits of the root, including reused ones")     \
  COLUMN(bool, full_search, "whether the ply may become a training target")

#define ZEROFLEET_ACTION_COLUMNS(COLUMN)                                            \
  COLUMN(Action, legal_actions, "ascending; after a fast search only visited ones") \
  COLUMN(std::int32_t, visit_counts, "visits in the search")                        \
  COLUMN(float, priors, "the network's policy, without noise")                      \
  COLUMN(std::int32_t, policy_weights, "the training target, up to scale")

// Result of the search at one ply.
struct PlyResult {
#define ZEROFLEET_MEMBER(Element, name, meaning) Element name{};
  ZEROFLEET_PLY_COLUMNS(ZEROFLEET_MEMBER)
#undef ZEROFLEET_MEMBER
#define ZEROFLEET_MEMBER(Element, name, meaning) std::span<const Element> name{};
  ZEROFLEET_ACTION_COLUMNS(ZEROFLEET_MEMBER)
#undef ZEROFLEET_MEMBER
};

// How an element of a column is stored: std::vector<bool> has no array of bools to expose.
template <class Element>
using Kept = std::conditional_t<std::is_same_v<Element, bool>, std::uint8_t, Element>;

// One game. The search table of ply i is [offsets[i], offsets[i + 1]) of the columns of legal
// actions. Values are for the player to move at that ply.
//
// After a full search the table lists every legal action, after a fast search only the visited
// ones. If the action was drawn (self-play's opening), the table lists that action alone, with 0
// simulations. A ply that was given (a match's opening, or by a player without a predictor) has the
// same table and model version 0.
struct GameColumns {
#define ZEROFLEET_MEMBER(Element, name, meaning) std::vector<Kept<Element>> name;
  ZEROFLEET_PLY_COLUMNS(ZEROFLEET_MEMBER)
  ZEROFLEET_ACTION_COLUMNS(ZEROFLEET_MEMBER)
#undef ZEROFLEET_MEMBER
  std::vector<std::int32_t> offsets = {0};
  std::int64_t game_id = 0;
  std::optional<int> result;              // nullopt: unfinished
  std::string reason = "rules";           // or "resign", "adjudicated"
  std::string start;                      // start position; empty: the usual one
  std::optional<float> resign_threshold;  // v_resign when the game began; nullopt: none was known
  bool plays_on = false;                  // no player resigns, so that v_resign can be checked
  bool restarted = false;                 // begins with the moves to a position of an earlier game

  // Whether the next ply was drawn for a full search. A game that continues elsewhere keeps the
  // draw, because interruptions hit full searches most.
  std::optional<bool> next_full_search;

  std::size_t plies() const { return action.size(); }

  // Appends a ply. Unless `lists_every_action`, its table keeps only visited and played actions.
  inline void append(const PlyResult& ply, bool lists_every_action);

  // Throws std::invalid_argument unless the columns fit together.
  inline void check_shape() const;
};

// One column: its member of a game and its member of a ply.
template <class ElementType, class OfPly>
struct Column {
  using Element = ElementType;
  const char* name;
  const char* meaning;
  std::vector<Kept<Element>> GameColumns::* values;
  OfPly PlyResult::* of_ply;
};

// Calls `see(column)` for each column with an entry for each ply.
template <class See>
void for_each_ply_column(See&& see) {
#define ZEROFLEET_SEE(Element, name, meaning) \
  see(Column<Element, Element>{#name, meaning, &GameColumns::name, &PlyResult::name});
  ZEROFLEET_PLY_COLUMNS(ZEROFLEET_SEE)
#undef ZEROFLEET_SEE
}

// Calls `see(column)` for each column with an entry for each legal action.
template <class See>
void for_each_action_column(See&& see) {
#define ZEROFLEET_SEE(Element, name, meaning)                                       \
  see(Column<Element, std::span<const Element>>{#name, meaning, &GameColumns::name, \
                                                &PlyResult::name});
  ZEROFLEET_ACTION_COLUMNS(ZEROFLEET_SEE)
#undef ZEROFLEET_SEE
}

void GameColumns::append(const PlyResult& ply, bool lists_every_action) {
  for_each_ply_column(
      [&](const auto& column) { (this->*column.values).push_back(ply.*column.of_ply); });
  for (std::size_t i = 0; i < ply.legal_actions.size(); ++i) {
    const bool counts = ply.visit_counts[i] > 0 || ply.legal_actions[i] == ply.action;
    if (!lists_every_action && !counts) continue;
    for_each_action_column(
        [&](const auto& column) { (this->*column.values).push_back((ply.*column.of_ply)[i]); });
  }
  offsets.push_back(static_cast<std::int32_t>(legal_actions.size()));
}

void GameColumns::check_shape() const {
  const auto require = [](bool holds, const char* column) {
    if (!holds) {
      throw std::invalid_argument(std::string("the column ") + column +
                                  " does not fit the other columns of the game");
    }
  };
  for_each_ply_column(
      [&](const auto& column) { require((this->*column.values).size() == plies(), column.name); });
  require(offsets.size() == plies() + 1 && offsets.front() == 0, "offsets");
  require(std::ranges::is_sorted(offsets), "offsets");
  const auto entries = static_cast<std::size_t>(offsets.back());
  for_each_action_column(
      [&](const auto& column) { require((this->*column.values).size() == entries, column.name); });
}

// The position that a game has reached. Throws std::invalid_argument if its columns do not fit
// together, its start position is wrong or an action is illegal.
template <class AnyRules>
auto reached_position(const AnyRules& rules, const GameColumns& game) {
  game.check_shape();
  return position_after(rules, std::span<const Action>(game.action), game.start);
}

// Mean value of a child of the root, for the player to move at the root; 0 without visits.
inline float child_value(const Tree& tree, int child) {
  const EdgeWindow children = tree.edges_of(kRoot);
  return children.value_sum[child] / static_cast<float>(std::max(children.visit_count[child], 1));
}

// Reads the record of a ply from the root of its search. `chosen` is the child that is played.
template <class SearchType>
PlyResult ply_result(const SearchType& search, int chosen, int model_version,
                     std::span<const std::int32_t> policy_weights) {
  const auto& tree = search.tree();
  const auto children = static_cast<std::size_t>(tree.edge_count[0]);
  return {.action = tree.action[chosen],
          .to_play = tree.to_play[kRoot],
          .model_version = model_version,
          .root_value = search.root_value(),
          .network_value = tree.value[0],
          .best_child_value = child_value(tree, search.best_child()),
          .simulations = search.root_visits(),
          .full_search = true,
          .legal_actions = {tree.action.data(), children},
          .visit_counts = {tree.visit_count.data(), children},
          .priors = {tree.prior.data(), children},
          .policy_weights = policy_weights};
}

}  // namespace zerofleet
