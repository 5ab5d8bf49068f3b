// Games behind virtual calls: board sizes that are not compiled in, and games from outside the
// core.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "zerofleet/game.h"

namespace zerofleet {

// Sizes of a game.
struct GameShape {
  int num_actions;
  int planes;
  int rows;
  int columns;
  int max_length;      // plies of the longest game
  int num_symmetries;  // of the board, the identity included

  // What the game offers for terminal positions; see HasFinalPlanes and HasFinalScore.
  int num_final_planes = 0;
  bool has_final_score = false;

  bool sets_up_positions = false;  // whether a game may begin at a given position

  int points() const { return rows * columns; }
  int observation_bytes() const { return (planes * points() + 7) / 8; }
};

// A position of such a game. The contract of fixed games in game.h holds here too, except for the
// turns: a player may move twice in a row.
class DynamicState {
 public:
  virtual ~DynamicState() = default;
  virtual std::unique_ptr<DynamicState> clone() const = 0;
  virtual int ply() const = 0;
  virtual Player to_play() const = 0;
  virtual bool is_terminal() const = 0;
  virtual int result() const = 0;
  virtual std::uint64_t hash() const = 0;
  virtual bool is_legal(int action) const = 0;
  virtual std::vector<Action> legal_actions() const = 0;
  virtual void apply(Action action) = 0;

  // See TellsEndingActions in game.h.
  virtual std::vector<Action> ending_actions() const { return {}; }

  virtual void write_observation(std::span<std::uint8_t> packed) const = 0;
  virtual std::string to_string() const = 0;

  // Targets of a terminal position, where the shape says that the game offers them. `planes` has
  // num_final_planes * points entries.
  virtual void write_final_planes(std::span<std::int8_t>) const {}
  virtual float final_score() const { return 0.0f; }

  // The position in the game's notation; nullopt if the game has none. See SetsUpPositions in
  // game.h.
  virtual std::optional<std::string> setup_text() const { return std::nullopt; }

  // Notation of a legal action where it depends on the position, as in chess; nullopt where the
  // rules' notation holds.
  virtual std::optional<std::string> name_of(Action) const { return std::nullopt; }
  virtual std::optional<Action> action_named(std::string_view) const { return std::nullopt; }

  // See HasSan and NamesEnding in game.h; empty where the game has none.
  virtual std::optional<std::string> san_of(Action) const { return std::nullopt; }
  virtual std::string_view ending_name() const { return ""; }
};

// The rules of such a game.
class DynamicRules {
 public:
  virtual ~DynamicRules() = default;
  virtual GameShape shape() const = 0;
  virtual std::unique_ptr<DynamicState> start() const = 0;

  // The position of this text; null if the game has no notation for positions. Throws
  // std::invalid_argument, naming what is wrong with the text.
  virtual std::unique_ptr<DynamicState> set_up(std::string_view) const { return nullptr; }

  virtual int symmetric_point(int point, int symmetry) const = 0;
  virtual int symmetric_action(int action, int symmetry) const = 0;
  virtual std::string action_to_string(Action action) const = 0;
  virtual std::optional<Action> string_to_action(std::string_view text) const = 0;
};

// A state as a value, for search and replay. A default-constructed one holds no position.
class DynamicPosition {
 public:
  DynamicPosition() = default;
  explicit DynamicPosition(std::unique_ptr<DynamicState> state) : state_(std::move(state)) {}
  DynamicPosition(const DynamicPosition& other)
      : state_(other.state_ ? other.state_->clone() : nullptr) {}
  DynamicPosition(DynamicPosition&&) = default;
  DynamicPosition& operator=(const DynamicPosition& other) {
    state_ = other.state_ ? other.state_->clone() : nullptr;
    return *this;
  }
  DynamicPosition& operator=(DynamicPosition&&) = default;
  ~DynamicPosition() = default;

  int ply() const { return state_->ply(); }
  Player to_play() const { return state_->to_play(); }
  bool is_terminal() const { return state_->is_terminal(); }
  int result() const { return state_->result(); }
  std::uint64_t hash() const { return state_->hash(); }
  bool is_legal(int action) const { return state_->is_legal(action); }
  std::vector<Action> legal_actions() const { return state_->legal_actions(); }
  void apply(Action action) { state_->apply(action); }
  std::vector<Action> ending_actions() const { return state_->ending_actions(); }
  void write_observation(std::span<std::uint8_t> packed) const {
    state_->write_observation(packed);
  }
  std::string to_string() const { return state_->to_string(); }
  void write_final_planes(std::span<std::int8_t> planes) const {
    state_->write_final_planes(planes);
  }
  float final_score() const { return state_->final_score(); }
  std::optional<std::string> setup_text() const { return state_->setup_text(); }
  std::optional<std::string> name_of(Action action) const { return state_->name_of(action); }
  std::optional<Action> action_named(std::string_view text) const {
    return state_->action_named(text);
  }
  std::optional<std::string> san_of(Action action) const { return state_->san_of(action); }
  std::string_view ending_name() const { return state_->ending_name(); }

 private:
  std::unique_ptr<DynamicState> state_;
};

}  // namespace zerofleet
